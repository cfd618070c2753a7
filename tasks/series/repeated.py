"""Recognise a snapshot that is published already, before any step runs: it never changes, so nothing is to be done."""

import contextlib
import datetime
import json
from collections.abc import Iterator
from typing import Any

from tasks import formats
from tasks.config import ReleaseConfig
from tasks.data.approval import begin_run
from tasks.errors import MurmurError, Refused
from tasks.series.forgotten import require_whole
from tasks.series.ledger import Ledger
from tasks.series.publication import recover
from tasks.series.rows import about_people
from tasks.series.under_way import under_way
from tasks.store import Store, digest_of, dumps, owner_only

REMEDY = "a published release never changes: late data enter the next snapshot; publish that instead"


def source_state(config: ReleaseConfig, snapshot: datetime.date) -> str:
    """Return, as text, what a release is made from: state and content of the source's files, digest of the settings.

    The content is null where a file is not local.
    """
    return dumps({**_quick_state(config, snapshot), "content": formats.content(config.source, snapshot)})


def _quick_state(config: ReleaseConfig, snapshot: datetime.date) -> dict[str, Any]:
    """Return the part of the state for which no file is read."""
    settings = config.model_dump(
        mode="json", exclude={"release", "alerts"}
    )  # schedule and alerts change nothing that is published
    return {"source": formats.state(config.source, snapshot), "settings": digest_of(settings)}


@contextlib.contextmanager
def begun(config: ReleaseConfig, snapshot: datetime.date, store: Store) -> Iterator[bool]:
    """Keep erasures waiting while a run is under way; yield whether its snapshot is published already."""
    with under_way(store, config.population):
        published = is_already_published(config, snapshot, store)
        if not published:
            begin_run(config, snapshot, store)
        yield published


def is_already_published(config: ReleaseConfig, snapshot: datetime.date, store: Store) -> bool:
    """Complete or remove what a crash left of a publication, then test whether this snapshot is published.

    Raises Refused where it is, but from another source or with other settings, where an erasure is unfinished, and
    where the ledger is older than the store.
    """
    with owner_only():
        recover(store, config.population)
        require_whole(store, config.population, config.release.name)
        if (store.root / "private" / config.release.name / "erasures" / "pending.json").exists():
            raise Refused(
                "an erasure was interrupted",
                where=f"release {config.release.name}",
                remedy="run `murmur erase` again, which completes it; nothing is published before that",
            )
        return is_published(config, snapshot, store)


def is_published(config: ReleaseConfig, snapshot: datetime.date, store: Store) -> bool:
    """Return whether this snapshot was published from the same source with the same settings.

    Raises Refused where it was published and the source or the settings are others now, or where it was withdrawn.
    """
    name, day = config.release.name, snapshot.isoformat()
    with Ledger.open(store, config.population) as ledger:
        release = ledger.find(name, day)
        if release is None:
            _refuse_second_independent(config, ledger, day)
            return False
    where = str(store.root / "published" / name / release.directory)
    if release.state == "withdrawn":
        raise Refused(
            "this snapshot was published and withdrawn; it still counts, and is not published again",
            where=where,
            remedy="publish a later snapshot",
        )
    if not (store.root / "published" / name / release.directory / "manifest.json").exists():
        raise MurmurError(
            "the ledger has this release, and its files are gone",
            where=where,
            remedy="restore the published files from a backup",
        )
    _require_same_state(release.source, config, snapshot, where)
    return True


def _require_same_state(state: str, config: ReleaseConfig, snapshot: datetime.date, where: str) -> None:
    """Refuse another source or other settings; files are read only where their size, time or entity tag differs."""
    published, now = json.loads(state), _quick_state(config, snapshot)
    already = "this snapshot is published already, and its"
    if published.get("settings") != now["settings"]:
        raise Refused(f"{already} settings have changed since", where=where, remedy=REMEDY)
    if published.get("source") == now["source"]:
        return
    before = published.get("content")  # null, or missing in an entry of an older version
    content = None if before is None else formats.content(config.source, snapshot)
    if content is None:
        raise Refused(
            f"{already} source may have changed since: size, time of change or entity tag of a file differ from those "
            "of the source published; its content was not recorded or is not local, so it cannot be compared",
            where=where,
            remedy=f"if the content is the same, there is nothing to do; else {REMEDY}",
        )
    if content != before:
        raise Refused(f"{already} source has changed since", where=where, remedy=REMEDY)


def _refuse_second_independent(config: ReleaseConfig, ledger: Ledger, day: str) -> None:
    releases = about_people(ledger.releases())
    if config.privacy.budget is not None:
        return  # synthetic rows have no groups that could be intersected; the budget limits their number
    if not releases or (
        config.series_mode == "sticky" and all(release.mode == "sticky" for release in releases)
    ):
        return
    first = releases[0]
    raise Refused(
        f"population '{config.population}' has a release already ({first.name} {first.snapshot}), and independent "
        "releases about the same people can be intersected: k-anonymity does not compose",
        where=f"series.mode, snapshot {day}",
        remedy='use series.mode = "sticky" from the first release of a population on',
    )
