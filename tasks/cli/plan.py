"""Look ahead before releasing: what the coming releases of a series will hold."""

import argparse
from typing import TYPE_CHECKING

from tasks.cli._command import CommandResult, add_snapshot, add_store
from tasks.config import load, snapshot_date
from tasks.errors import UsageError

if TYPE_CHECKING:
    from tasks.series.outlook import Cohort

HELP = "look ahead: whom the coming releases of a series will hold, who waits, and how old their ratings are"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration, how many releases to look ahead, the snapshot and the store."""
    parser.add_argument("config", metavar="CONFIG", help="release file (TOML)")
    parser.add_argument("--releases", type=int, required=True, metavar="N", help="how many coming releases")
    text = "age of the ratings, in months, from which a new population is considered (default: 24)"
    parser.add_argument("--max-age", type=float, default=None, metavar="MONTHS", help=text)
    add_snapshot(parser, required=False)
    add_store(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Extrapolate the series; nothing is changed, and no ledger is made where there is none."""
    from tasks.series import outlook
    from tasks.series.standing import find_basis
    from tasks.store import Store

    config, store = load(options.config), Store(options.store)
    snapshot = snapshot_date(options.snapshot) if options.snapshot else None
    if options.releases < 1:
        raise UsageError("at least one release is needed", where="--releases", remedy="ask for one or more")
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
