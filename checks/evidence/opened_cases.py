"""Open what a check examines: a release with the source it was made from, or the source alone."""

import contextlib
import datetime
import tempfile
from collections.abc import Iterator
from pathlib import Path

from checks.evidence.case import Case
from checks.evidence.release import Release
from checks.evidence.truth import Truth
from checks.evidence.views.raw import RawRelease
from tasks.config import Source
from tasks.engine import Engine
from tasks.errors import MurmurError, Refused, UsageError, room_in
from tasks.store import read_published_json


def raw_case(
    source: Source,
    snapshot: datetime.date,
    engine: Engine | None = None,
    protect: tuple[str, ...] = (),
) -> Case:
    """Open the source with the user ids removed, as if it were published."""
    truth = Truth.from_source_only(source, snapshot)
    low, high = source.scale
    release = RawRelease(truth, low=low, high=high)
    return Case(release, truth, snapshot=snapshot, engine=engine, protect=protect)


def candidate_case(
    published: Path,
    private: Path,
    source: Source,
    snapshot: datetime.date,
    engine: Engine | None = None,
    protect: tuple[str, ...] = (),
) -> Case:
    """Open a release with the ratings it was made from; files that cannot be read are refused."""
    with refuse_unreadable("the published files or the membership", private):
        release = Release(published, private)
        truth = Truth.read(release, private, source, snapshot, engine)
    return Case(release, truth, private, snapshot, engine, protect, source=source)


def released_case(
    published: Path,
    private: Path,
    source: Source,
    snapshot: datetime.date | None = None,
    engine: Engine | None = None,
    protect: tuple[str, ...] = (),
) -> Case:
    """Open a release for a single attack: no verdict is made, so files that cannot be read are wrong input."""
    when = snapshot or manifest_snapshot(published)
    try:
        return candidate_case(published, private, source, when, engine, protect)
    except Refused as problem:
        raise UsageError(problem.what, where=problem.where, remedy=problem.remedy) from None


def manifest_snapshot(published: Path) -> datetime.date:
    """Return the snapshot date that a release's manifest states."""
    try:
        return datetime.date.fromisoformat(str(read_published_json(published / "manifest.json")["snapshot"]))
    except (OSError, ValueError, KeyError, TypeError):
        return datetime.date(1970, 1, 1)  # opening the release then reports what is wrong with the manifest


@contextlib.contextmanager
def refuse_unreadable(what: str, private: Path | None = None) -> Iterator[None]:
    """Turn any error of a file reader into one refusal; a disk without room for working files is reported as such."""
    try:
        with room_in(working_directory(private)):
            yield
    except MurmurError:
        raise
    except Exception as problem:
        raise Refused(
            f"{what} cannot be read ({type(problem).__name__}); they are damaged or not a release"
        ) from None


def working_directory(private: Path | None) -> Path:
    """Return where working files lie: in the private directory, or in the system's temporary one."""
    return private or Path(tempfile.gettempdir())
