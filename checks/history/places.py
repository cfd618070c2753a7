"""Find the releases of a store: which were ever public, and where their files lie now."""

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tasks.errors import Refused

_DIRECTORY = re.compile(r"(\d{4}-\d{2}-\d{2})(?:-r([1-9]\d*))?")
TOMBSTONE = "tombstone.json"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Place:
    """Name a release: its directory below private/, and where its public files lie (moved there once withdrawn)."""

    private: Path
    files: Path
    withdrawn: bool

    @property
    def name(self) -> str:
        """The release's name, which is the directory above the snapshot's."""
        return self.private.parent.name

    @property
    def directory(self) -> str:
        """The snapshot, with its revision where it was repaired."""
        return self.private.name


def is_release_directory(name: str) -> bool:
    """Test whether a directory is called YYYY-MM-DD or, repaired, YYYY-MM-DD-rN."""
    found = _DIRECTORY.fullmatch(name)
    try:
        return found is not None and bool(date.fromisoformat(found[1]))
    except ValueError:
        return False


def own_place(private: Path | None) -> Path | None:
    """Return the <store>/private/<name>/<snapshot> at or above a private directory; None: it is in no store."""
    for place in (private.resolve(), *private.resolve().parents) if private else ():
        if len(place.parents) > 2 and place.parents[1].name == "private" and is_release_directory(place.name):
            return place
    return None


def ever_public(private: Path) -> list[Place]:
    """Return every release below a store's private directory that is public or was: it has a manifest or a tombstone.

    The published side decides, so that a release cannot drop out of the history because its private files are gone:
    reading those then refuses.
    """
    published = private.with_name("published")
    places = []
    for directory in sorted(published.glob("*/*")):
        own = private / directory.relative_to(published)
        if not is_release_directory(directory.name):
            continue
        if (directory / TOMBSTONE).exists():
            places.append(Place(own, own / "withdrawn", withdrawn=True))
        elif (directory / MANIFEST).exists():
            places.append(Place(own, directory, withdrawn=False))
    return places


def refuse_gap(what: str, place: Place) -> Refused:
    """Return the refusal for a past release whose files are missing: without them nothing can be shown."""
    return Refused(
        f"{what} of the earlier release {place.directory} cannot be read, and it was public",
        where=f"{place.name}/{place.directory}",
        remedy="restore the private directory of this store from its backup",
    )
