"""Look ahead before releasing: which setting is the cheapest that passes, and what coming releases will hold."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.cli._command import DONE, REFUSED, CommandResult, add_snapshot, add_store, local_store
from tasks.config import load, snapshot_date
from tasks.errors import UsageError

if TYPE_CHECKING:
    from tasks.series.outlook import Cohort

HELP = "look ahead: the cheapest setting that passes the gate; with --releases, what the coming releases will hold"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration, what is asked, the snapshot and the store."""
    parser.add_argument("config", metavar="CONFIG", help="release file (TOML)")
    add_snapshot(parser, required=False)
    add_store(parser)
    search = parser.add_argument_group("the cheapest setting that passes (needs --snapshot)")
    text = "values to try of one key, the weakest protection first: privacy.k=3,5,10; may be repeated"
    search.add_argument("--vary", action="append", default=[], metavar="KEY=V1,V2", help=text)
    text = "CPU minutes after which no further trial begins (default: 15)"
    search.add_argument("--minutes", type=float, default=15.0, metavar="N", help=text)
    search.add_argument("--html", default=None, metavar="FILE", help="write the result as a page, too")
    text = "write: put the setting that was found into CONFIG; comments stay"
    search.add_argument("--then", choices=["write"], default=None, metavar="write", help=text)
    text = "try only settings of the release file's method, no other methods"
    search.add_argument("--settings-only", action="store_true", help=text)
    ahead = parser.add_argument_group("the coming releases of a series")
    ahead.add_argument("--releases", type=int, default=None, metavar="N", help="how many coming releases")
    text = "age of the ratings, in months, from which a new population is considered (default: 24)"
    ahead.add_argument("--max-age", type=float, default=None, metavar="MONTHS", help=text)


def run(options: argparse.Namespace) -> CommandResult:
    """Search for a setting, or extrapolate the series; nothing is published."""
    return _cheapest(options) if options.releases is None else _outlook(options)


def _cheapest(options: argparse.Namespace) -> CommandResult:
    """Try settings on the ratings of a snapshot; write the page and the release file where that is asked for."""
    from tasks.cli._display import progress_bars
    from tasks.cli._kernels import compile_once
    from tasks.studies.html_pages import require_writable
    from tasks.studies.plan.page import write_page
    from tasks.studies.plan.release_file import write_values
    from tasks.studies.plan.trials import find_cheapest

    config = load(options.config)
    if options.snapshot is None:
        raise UsageError(
            "which ratings to try the settings on is not said",
            where="--snapshot",
            remedy="add --snapshot YYYY-MM-DD; or --releases N to look ahead over a series",
        )
    if config.privacy.budget is not None:
        raise UsageError(
            "settings of synthetic rows are not searched on the ratings that they are released of: epsilon does not "
            "cover a choice by them",
            where="privacy.method",
            remedy="choose epsilon and [synthesis] on other data, such as public ratings: `murmur compare` with a "
            "release file of theirs and --methods dp-synthetic:epsilon=1,dp-synthetic:epsilon=3",
        )
    if options.minutes <= 0:
        raise UsageError("there is no time for a trial", where="--minutes", remedy="give a positive number")
    snapshot = snapshot_date(options.snapshot)
    page = None if options.html is None else require_writable(Path(options.html))
    compile_once()
    with progress_bars() as progress:
        found = find_cheapest(
            config,
            snapshot,
            local_store(options.store),
            progress,
            tuple(options.vary),
            60 * options.minutes,
            others=not options.settings_only,
        )
    answer = {"snapshot": snapshot.isoformat(), **found, "page": None, "written": None}
    if page is not None:
        write_page(found, f"{config.release.name}, snapshot {snapshot}", page)
        answer["page"] = str(page)
    if options.then == "write" and found["cheapest"] is not None:
        changed = write_values(Path(options.config), found["cheapest"]["values"])
        answer["written"] = options.config if changed else None
    return CommandResult(answer, DONE if found["cheapest"] else REFUSED)


def _outlook(options: argparse.Namespace) -> CommandResult:
    """Extrapolate the series; nothing is changed, and no ledger is made where there is none."""
    from tasks.series import outlook
    from tasks.series.standing import find_basis
    from tasks.store import Store

    config, store = load(options.config), Store(options.store)
    snapshot = snapshot_date(options.snapshot) if options.snapshot else None
    if options.releases < 1:
        raise UsageError("at least one release is needed", where="--releases", remedy="ask for one or more")
    if (budget := config.privacy.budget) is not None:
        pays = f"{budget.releases} release(s) per {budget.per}"
        raise UsageError(
            "a release of synthetic rows carries nobody over from earlier ones, so there is nothing to extrapolate; "
            f"[privacy.budget] pays for {pays}",
            where="privacy.method",
            remedy="`murmur ledger` shows what is spent and what is left",
        )
    if config.series_mode != "sticky":
        raise UsageError(
            "an independent release has no successor, so there is nothing to look ahead to",
            where="series.mode",
            remedy='use series.mode = "sticky"',
        )
    basis = find_basis(config, store, snapshot)
    standing, newcomers = basis.standing, basis.newcomers
    min_cohort = config.series.fewest_newcomers(config.privacy.k)
    since = max(snapshot or standing.measured, standing.measured)
    days = outlook.coming_snapshots(config.release.schedule, since, options.releases, after=basis.newest)
    coming = outlook.extrapolate(standing, newcomers, days, min_cohort)
    max_age = outlook.MAX_AGE_MONTHS if options.max_age is None else options.max_age
    advice = outlook.advise(coming, newcomers, min_cohort, max_age)
    answer = {
        "status": "planned",
        "population": config.population,
        "released_so_far": round(standing.released),
        "newcomers_per_month": round(newcomers.per_month, 1),
        "rate_from": basis.words,
        "min_cohort": min_cohort,
        "loss_from": _loss_in_words(standing.cohorts),
        "new_population": {"start": advice.snapshot and advice.snapshot.isoformat(), "why": advice.why},
        "outlook": [one.to_json() for one in coming],
    }
    return CommandResult(answer)


def _loss_in_words(cohorts: "tuple[Cohort, ...]") -> str:
    measured = sum(cohort.loss is not None for cohort in cohorts)
    if not measured:
        return "no release so far has a loss that was measured well enough"
    return (
        f"measured by the gate at the release of {measured} of {len(cohorts)} cohorts, well enough to be used"
    )
