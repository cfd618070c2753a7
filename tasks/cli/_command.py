"""Define what a command returns, and the arguments that several commands share."""

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tasks.errors import MurmurError, Refused, UsageError, printable
from tasks.store import Store, copy_objects, read_published_json

if TYPE_CHECKING:
    from checks.result import Verdict

DONE, FAILED, BAD_USAGE, REFUSED = 0, 1, 2, 3  # exit codes


@dataclass(frozen=True)
class CommandResult:
    """Hold the JSON object that answers a command, and the exit code.

    `end` are the few lines that a person reads instead of tables (rich markup; tasks/cli/_short_ends.py); the tables
    are printed before them with --verbose. Without them the tables are printed.
    """

    answer: dict[str, Any]
    exit_code: int = DONE
    end: tuple[str, ...] = ()
    plain: str | None = None  # printed as it is, for another program to read


class Command(Protocol):
    """Describe a command file."""

    HELP: str  # and optionally EPILOG: a function that returns what `--help` prints below the arguments

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""

    def run(self, options: argparse.Namespace) -> CommandResult:
        """Execute the command."""


def add_snapshot(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Declare `--snapshot`."""
    text = "snapshot date, YYYY-MM-DD" if required else "YYYY-MM-DD; needed if the path contains {snapshot}"
    parser.add_argument("--snapshot", required=required, default=None, metavar="DATE", help=text)


def add_store(parser: argparse.ArgumentParser) -> None:
    """Declare `--store`."""
    text = "store: a directory or s3://bucket/prefix (default: MURMUR_STORE, else ./store)"
    parser.add_argument("--store", default=None, metavar="DIR", help=text)


def require_local(path: str, argument: str) -> None:
    """Refuse the address of an object store where a command reads files of this machine."""
    if "://" in path:
        raise UsageError(
            "this command reads and writes a directory of this machine, not an object store",
            where=f"{argument} {path}",
            remedy="name a directory: a copy of the store or of the release (for example aws s3 cp --recursive)",
        )


def local_store(named: str | None) -> Store:
    """Return a store that is a directory: a study tries releases there, beside the real ones."""
    require_local(named or os.environ.get("MURMUR_STORE") or "", "--store, MURMUR_STORE")
    return Store(named)


@contextlib.contextmanager
def copied_here(published: str) -> Iterator[Path]:
    """Yield the directory of a release; of one in an object store a copy of its files, removed afterwards."""
    if "://" not in published:
        yield Path(published)
        return
    *_, name, snapshot = published.rstrip("/").split("/")
    with tempfile.TemporaryDirectory(prefix="murmur-copy-") as place:
        copy = Path(place) / name / snapshot
        copy.mkdir(parents=True)
        if not copy_objects(published, copy):
            raise UsageError("there is no release here", where=published, remedy="check the address")
        try:
            yield copy
        except MurmurError as problem:  # nobody else can open our copy
            problem.what, problem.where, problem.remedy = (
                text.replace(str(copy), published) for text in (problem.what, problem.where, problem.remedy)
            )
            raise


def require_directory(path: str | Path, argument: str) -> Path:
    """Return the path of an existing directory, or refuse the argument that names it."""
    require_local(str(path), argument)
    path = Path(path)
    if not path.is_dir():
        raise UsageError("there is no such directory", where=f"{argument} {path}", remedy="check the path")
    return path


def require_offered(published: Path) -> None:
    """Refuse a release that was withdrawn: its directory holds a tombstone and no manifest."""
    stone = published / "tombstone.json"
    if stone.exists() and not (published / "manifest.json").exists():
        raise UsageError(
            f"this release was withdrawn{_when_and_why(stone)}",
            where=str(published),
            remedy="use a repaired release beside it (<snapshot>-rN), if there is one, or a later snapshot",
        )


def _when_and_why(stone: Path) -> str:
    """Return what a tombstone states; nothing where it cannot be read, since it may be anybody's."""
    try:
        facts = read_published_json(stone)
        when, why = facts["withdrawn_at"], facts["reason"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    if not isinstance(when, str) or not isinstance(why, str):
        return ""
    return f" on {printable(when[:10])}: {printable(why, 300)}"


def require_own_private(published: Path, private: Path) -> None:
    """Refuse the private directory of another release: pseudonyms are drawn anew for each.

    Files that cannot be read, and memberships that differ in part, are for the gate to judge.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from tasks.formats import read_published

    try:
        members = read_published(published / "members.parquet", ["user"]).column("user")
        own = pq.read_table(private / "membership.parquet", columns=["pseudonym"]).column("pseudonym")
        shared = pc.any(pc.is_in(members, value_set=own.combine_chunks())).as_py()
    except (OSError, ValueError, LookupError, pa.ArrowException, Refused):
        return
    if not shared and len(members) and len(own):
        raise UsageError(
            "this is the private directory of another release: none of the release's members is in its membership",
            where=f"--private {private}",
            remedy=f"name the private directory that belongs to {published}: private/<name>/{published.name} of its "
            "store",
        )


def naming_checks() -> set[str]:
    """Return the checks that try to name people: those with the limit 1/k, without those that undo a disguise."""
    from checks.registry import registered

    return {
        name
        for name, check in registered().items()
        if check.threshold == 1.0 and not name.endswith("-reconstruction")
    }


def verdict_result(verdict: "Verdict", published: Path) -> CommandResult:
    """Return the answer of a command that judges an existing release."""
    from tasks.cli._short_ends import end_of_judgement

    answer = {
        "status": "passed" if verdict.passed else "refused",
        "verdict": verdict.headline,
        "attempts": verdict.attempts,
        "published": str(published),
        "checks": [check.to_json() for check in verdict.checks],
    }
    end = end_of_judgement(answer, f"{published.parent.name} {published.name}", naming_checks())
    return CommandResult(answer, DONE if verdict.passed else REFUSED, tuple(end))
