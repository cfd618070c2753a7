"""Recognise a snapshot that is published already, before any step runs: it never changes, so nothing is to be done."""

import datetime
import json

from tasks import formats
from tasks.config import ReleaseConfig
from tasks.errors import MurmurError, Refused
from tasks.series.ledger import Ledger
from tasks.series.publication import recover
from tasks.store import Store, digest_of, dumps, owner_only


def source_state(config: ReleaseConfig, snapshot: datetime.date) -> str:
    """Return the state of the source's files and a digest of the settings that a release depends on, as text."""
    settings = config.model_dump(
        mode="json", exclude={"release"}
    )  # its schedule changes nothing that is published
    return dumps({"source": formats.state(config.source, snapshot), "settings": digest_of(settings)})


def is_already_published(config: ReleaseConfig, snapshot: datetime.date, store: Store) -> bool:
    """Complete or remove what a crash left of a publication, then test whether this snapshot is published.

    Raises Refused where it is, but from another source or with other settings, and where an erasure is unfinished.
    """
    with owner_only():
        recover(store, config.population)
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
    now = source_state(config, snapshot)
    if release.source == now:
        return True
    changed = "source" if _part(release.source, "source") != _part(now, "source") else "settings"
    raise Refused(
        f"this snapshot is published already, and its {changed} {'has' if changed == 'source' else 'have'} changed "
        "since",
        where=where,
        remedy="a published release never changes: late data enter the next snapshot; publish that instead",
    )


def _part(state: str, name: str) -> object:
    return json.loads(state).get(name)


def _refuse_second_independent(config: ReleaseConfig, ledger: Ledger, day: str) -> None:
    releases = ledger.releases()
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
