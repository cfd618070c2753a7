"""Let people leave: show what their departure touches, and apply it."""

import argparse
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.cli._command import CommandResult, add_snapshot, add_store
from tasks.config import ReleaseConfig, load, snapshot_date
from tasks.errors import UsageError

if TYPE_CHECKING:
    from tasks.series.ledger import Ledger

HELP = "let people leave: which groups and releases are withdrawn, who waits; applied with --apply"
MOST_MINUTES = 10_080  # a week
LARGEST_SHARE = 0.5  # of released people who may be missing from a source that is complete


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release and who leaves."""
    parser.add_argument("config", metavar="CONFIG", help="release file (TOML)")
    who = parser.add_mutually_exclusive_group(required=True)
    text = "source id of the person; other users of this machine can see it while the command runs"
    who.add_argument("--user", metavar="ID", help=text)
    who.add_argument("--users-file", metavar="FILE", help="file with one source id per line; - is stdin")
    text = "everybody who was released and is missing from the source of --snapshot"
    who.add_argument("--departed", action="store_true", help=text)
    add_snapshot(parser, required=False)
    parser.add_argument("--apply", action="store_true", help="do it; without this nothing is changed")
    text = "with --apply, wait so long for runs of the population that are under way (default 60)"
    parser.add_argument("--wait-minutes", type=float, default=60.0, metavar="N", help=text)
    add_store(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Show what the departure touches; with --apply, carry it out and write the certificate."""
    from tasks.keys import OwnerKey
    from tasks.pipeline import code_version
    from tasks.series.erasure import Maker, erase, is_interrupted, preview
    from tasks.series.ledger import Ledger
    from tasks.store import Store, owner_only

    if not 0 <= options.wait_minutes <= MOST_MINUTES:
        raise UsageError(
            "this is no time to wait", where="--wait-minutes", remedy=f"give 0 to {MOST_MINUTES:,}"
        )
    config, store = load(options.config), Store(options.store)
    if not Ledger.exists(store, config.population):
        raise UsageError(
            f"there is no ledger of population '{config.population}': nothing was published about it",
            where=str(store.root),
            remedy="check --store and series.population",
        )
    named = frozenset() if options.departed else _named(options)
    with Ledger.open(store, config.population) as ledger:
        tokens = _departed(config, options, ledger) if options.departed else set(ledger.tokens(named))
        answer = preview(ledger, sorted(tokens), config.privacy.k, _why_no_pools(config))
        answer |= _unknown(config, options, ledger, named, answer["never_released"])
    if not options.apply:
        following = _next(answer, is_interrupted(store, config.population))
        return CommandResult({"status": "planned", **answer, "next": following})
    with owner_only():
        maker = Maker(OwnerKey.load(store.root), code_version(), _failed_checks)
        certificate = erase(
            store,
            config.population,
            config.release.name,
            maker,
            ids=named,
            tokens=tokens,
            wait_seconds=60 * options.wait_minutes,
        )
    done = {"certificate": certificate["path"], "withdrawn": certificate["releases"]}
    return CommandResult(
        {"status": "erased", **done, **answer, "private_files": certificate["private_files"]}
    )


def _why_no_pools(config: ReleaseConfig) -> str | None:
    """Return why survivors are not released again; None: they are pooled."""
    from tasks.series.cohort import SeriesParams

    params = SeriesParams.of(config)
    if params is not None and params.pools:
        return None
    if not config.series.pool_survivors:
        return "off (series.pool_survivors = false): survivors stay unreleased"
    return "off: releases with these settings have no pools, so survivors stay unreleased"


def _unknown(
    config: ReleaseConfig,
    options: argparse.Namespace,
    ledger: "Ledger",
    named: Collection[str],
    never_released: int,
) -> dict[str, Any]:
    """Say that some of the people who are named were never released and, with --snapshot, are not in the source."""
    if not never_released:
        return {}
    found = f"{never_released:,} of {len(named):,} people named were never released under this population"
    kept_out = "nothing of theirs is withdrawn; --apply keeps these ids out of all later releases"
    if options.snapshot is None:
        hint = (
            "whether they are in the source was not examined (--snapshot YYYY-MM-DD does): check the spelling"
        )
        return {"note": f"{found}: {kept_out}; {hint}"}
    known = {*ledger.people()[0], *ledger.blocked()}
    strange = [one for one in named if ledger.tokens([one])[0] not in known]
    absent = len(set(strange) - _present(config, options.snapshot))
    hint = f"{absent:,} of them are not in the source of {options.snapshot}, either"
    return {
        "not_in_source": absent,
        "note": f"{found}: {kept_out}; {hint}{': check the spelling' if absent else ''}",
    }


def _next(answer: dict[str, Any], interrupted: bool) -> str:
    if interrupted:
        return "an erasure was interrupted: --apply completes it first"
    if not answer["people"]:
        return "nothing: nobody is to be erased"
    if answer["erased_before"] == answer["people"]:
        return "nothing: everybody who is named was erased before"
    return "run it again with --apply"


def _named(options: argparse.Namespace) -> frozenset[str]:
    given = [options.user] if options.user is not None else _read(options.users_file).split("\n")
    found = {one.rstrip("\r") for one in given} - {""}
    if not found:
        raise UsageError(
            "nobody is named", where="--user, --users-file", remedy="give one source id per line"
        )
    return frozenset(found)


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            "this file cannot be read",
            where=f"--users-file {name}",
            remedy="check the path; UTF-8 is expected",
        ) from None


def _departed(config: ReleaseConfig, options: argparse.Namespace, ledger: "Ledger") -> Collection[bytes]:
    """Return the tokens of released people who are missing from a snapshot's source."""
    from tasks.series.erasure import departed

    if options.snapshot is None:
        raise UsageError(
            "which source people are missing from is not said",
            where="--departed",
            remedy="add --snapshot YYYY-MM-DD",
        )
    found = departed(ledger, set(ledger.tokens(_present(config, options.snapshot))))
    if len(found) > LARGEST_SHARE * len(ledger.people()[0]):
        raise UsageError(
            f"{len(found):,} of {len(ledger.people()[0]):,} released people are missing from the source",
            where=f"--snapshot {options.snapshot}",
            remedy="check that the source is complete; people who really left can be named with --users-file",
        )
    return found


def _present(config: ReleaseConfig, snapshot: str) -> set[str]:
    """Return the source ids of a snapshot."""
    from tasks import formats

    present: set[str] = set()
    for block in formats.read_all(config.source, snapshot_date(snapshot)):
        present.update(str(one) for one in block.users.unique().to_pylist())
    return present


def _failed_checks(candidate: Path) -> list[str]:
    """Return which of the checks that need the published files alone fail."""
    from checks.gate import verify

    return verify(candidate).failed
