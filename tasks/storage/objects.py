"""Keep a store in an object store: every process has a private copy of what it reads, and nothing else is shared.

Object stores have no rename, no locks and no maps, and everything else here works on files. So each process has a
directory of its own (tasks/storage/cache.py). `refresh` copies there what others have written, `save` copies back what
was written here; whoever holds a lock has refreshed after taking it and saves before giving it back. Three kinds of
files differ:

- the result of a step (private/<release>/<snapshot>/work/<step>) is large and never changes once step.json is there: it
  is read when it is needed and written when it is closed, step.json last;
- a release appears by `reveal`: every file is created where nothing is, manifest.json last, so that no byte that is
  public can be replaced, whoever else believes to hold the lock;
- what is hidden (begins with a dot) is a process's own and is not stored.
"""

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tasks.errors import MurmurError
from tasks.storage.bucket import FETCHED_AT_ONCE, Address, Bucket
from tasks.storage.cache import make_cache
from tasks.storage.content import Signature, files_in, signature
from tasks.storage.exchange import EXCHANGES, Exchange
from tasks.storage.locks import Locks, require_shared_ledger

LAST = ("step.json", "manifest.json")  # of a directory: what says that it is whole; removed first
OFFERED = ("manifest.json", "tombstone.json")  # a public directory without either is not there
WORK_PARTS = 5  # private/<release>/<snapshot>/work/<step>


class ObjectStorage:
    """Hold the private copy of a store that is in an object store."""

    def __init__(self, address: str) -> None:
        self.address = Address.parse(address).text
        require_shared_ledger(self.address)
        self._bucket = Bucket(self.address)
        self._locks = Locks(self.address)
        self.root = make_cache()
        self._stored: dict[str, tuple[str, Signature]] = {}  # by name: the object's tag, our file
        self._mutex = threading.RLock()  # pages of the UI are served by threads
        self.exchange = Exchange(self._bucket, self.root, self._locks)
        self._sweep_exchanges()

    # Others

    def lock(self, path: Path, seconds: float | None = None) -> contextlib.AbstractContextManager[None]:
        """Keep all machines out that lock the same path; raise TimeoutError after this time."""
        return self._locks.lock(self._name(path), seconds)

    def share(self, path: Path) -> contextlib.AbstractContextManager[None]:
        """Keep out who locks the same path alone, together with others who share it; wait until that is possible."""
        return self._locks.share(self._name(path))

    def refresh(self) -> None:
        """Copy here what others have stored since, and remove what they have removed; results of steps stay away."""
        with self._mutex:
            dated = self._bucket.dated_entries()
            entries, names = {name: tag for name, (tag, _) in dated.items()}, set(dated)
            self._show_results({name: changed for name, (_, changed) in dated.items() if is_of_result(name)})
            wanted = {name for name in names if _is_copied(name) and _is_offered(name, names)}
            for name in [one for one in self._stored if one not in wanted and _is_copied(one)]:
                if self._is_unchanged(name):
                    (self.root / name).unlink(missing_ok=True)
                    self._remove_empty((self.root / name).parent)
                del self._stored[name]
            self._get_all(
                {
                    name: entries[name]
                    for name in sorted(wanted)
                    if not self._is_known(name, entries[name])
                    and (name not in self._stored or self._is_unchanged(name))
                }
            )

    def save(self, place: Path) -> None:
        """Store what was written below a place and is not hidden; remove from the store what was removed here."""
        if not self._is_stored(place):
            return
        with self._mutex:
            whole = is_of_result(
                f"{self._name(place)}/"
            )  # a result is stored when it is named, not with its directory
            here = {
                name: file
                for file in files_in(place)
                if self._is_stored(file) and is_of_result(name := self._name(file)) == whole
            }
            changed = sorted((name for name in here if not self._is_unchanged(name)), key=_last)
            if changed:
                self._locks.require_held()
            for name in changed:
                self._bucket.put(name, here[name])
                self._remember(name)
            if whole and changed:
                self._require_still_held(changed)
            below = f"{self._name(place)}/"
            gone = [
                one
                for one in self._stored
                if (one == below[:-1] or one.startswith(below))
                and one not in here
                and is_of_result(one) == whole
            ]
            self._remove(gone)

    def discard(self, directory: Path) -> None:
        """Remove everything below a directory from the store, results of steps too."""
        if not self._is_stored(directory):
            return
        with self._mutex:
            name = self._name(directory)
            all_known = (
                name.startswith("private/") and "work" not in name.split("/") and not directory.exists()
            )
            if not all_known or any(one.startswith(f"{name}/") for one in self._stored):
                self._remove(self._bucket.entries(name))

    def reveal(self, arriving: Path, published: Path) -> None:
        """Let a complete directory appear under its public name: its manifest is created last, where there is none."""
        below = self._name(published)
        made: list[str] = []
        with self._mutex:
            try:
                if self._bucket.entries(below):
                    raise FileExistsError
                for file in sorted(files_in(arriving), key=lambda file: _last(file.name)):
                    name = f"{below}/{file.relative_to(arriving)}"
                    if file.name in LAST:
                        _crash_point("uploaded")
                        self._locks.require_held()
                    self._bucket.create(name, file)
                    made.append(name)
            except FileExistsError:
                self._remove(made)  # never what another process has made
                raise MurmurError(
                    "another process is publishing this release, or has published it",
                    where=self.shown(str(published)),
                    remedy="run this step again",
                ) from None
            except MurmurError:
                self._take_back(made)
                raise
            _crash_point("revealed")
            shutil.rmtree(published, ignore_errors=True)
            arriving.rename(published)
            for name in made:
                self._remember(name)

    # Results of steps

    def fetch(self, result: Path, *, whole: bool = True) -> None:
        """Copy the result of a step here, as its step.json lists it; else step.json alone."""
        if not self._is_result(result):
            return
        with self._mutex:
            below = self._name(result)
            entries = self._bucket.entries(below)
            for one in [one for one in self._stored if one.startswith(f"{below}/") and one not in entries]:
                (self.root / one).unlink(missing_ok=True)  # of an earlier result
                del self._stored[one]
            closing = f"{below}/step.json"
            if closing in entries and not self._is_known(closing, entries[closing]):
                self._get_all({closing: entries[closing]})
            if not whole:
                return
            files = json.loads((self.root / closing).read_text())["files"] if closing in entries else {}
            lacking = {one: tag for one, tag in entries.items() if not self._is_known(one, tag)}
            # Compared with what step.json says: another run of this step may be replacing the files.
            self._get_all(lacking, {f"{below}/{one}": content for one, content in files.items()})

    def fetch_shared(self, file: Path) -> None:
        """Copy one file here that another machine may have made since."""
        with self._mutex:
            name = self._name(file)
            if (tag := self._bucket.tag(name)) is not None and not self._is_known(name, tag):
                self._get_all({name: tag})

    def names(self, result: Path) -> set[str]:
        """Return the names of all files of a step's result, wherever they are."""
        here = {str(file.relative_to(result)) for file in files_in(result)}
        if not self._is_result(result):
            return here
        below = f"{self._name(result)}/"
        return {one.removeprefix(below) for one in self._bucket.entries(below)}

    def has(self, path: Path) -> bool:
        """Return whether a file is stored now."""
        return self._bucket.tag(self._name(path)) is not None

    def shown(self, text: str) -> str:
        """Return a text with addresses in place of paths of the private copy, which nobody else can open."""
        return text.replace(str(self.root), self.address)

    # Our copy

    def _show_results(self, changed: dict[str, float]) -> None:
        """Make the directories of all results, so that who looks for old ones finds them, and their age."""
        newest: dict[Path, float] = {}
        for name, at in changed.items():
            self._directory("/".join(name.split("/")[:WORK_PARTS]))
            work = self.root.joinpath(*name.split("/")[: WORK_PARTS - 1])
            newest[work] = max(at, newest.get(work, 0.0))
        for work, at in newest.items():
            os.utime(work, (at, at))

    def _get_all(self, tags: dict[str, str], contents: dict[str, str] | None = None) -> None:
        """Copy objects here; one that was replaced since it was listed is copied again by the next call."""
        wanted = contents or {}
        with ThreadPoolExecutor(FETCHED_AT_ONCE) as threads:
            for name in threads.map(lambda name: self._get(name, wanted.get(name)), tags):
                self._remember(name, tags[name])

    def _get(self, name: str, content: str | None) -> str:
        self._directory(str(Path(name).parent))
        self._bucket.get(name, self.root / name, wanted=content)
        return name

    def _remember(self, name: str, tag: str | None = None) -> None:
        tag, here = tag or self._bucket.tag(name), signature(self.root / name)
        if tag is not None and here is not None:
            self._stored[name] = tag, here

    def _is_known(self, name: str, tag: str) -> bool:
        return self._stored.get(name, ("", None))[0] == tag and self._is_unchanged(name)

    def _is_unchanged(self, name: str) -> bool:
        return name in self._stored and self._stored[name][1] == signature(self.root / name)

    def _remove(self, names: Iterable[str]) -> None:
        """Remove objects: first those without which their directory counts for nothing."""
        names = list(names)
        for part in ([n for n in names if _last(n)[0]], [n for n in names if not _last(n)[0]]):
            self._bucket.remove(part)
        for name in names:
            self._stored.pop(name, None)

    def _require_still_held(self, saved: list[str]) -> None:
        """Take a result back where a lock was lost while it was stored: an erasure may have passed meanwhile."""
        try:
            self._locks.require_held()
        except MurmurError:
            self._take_back(saved)
            raise

    def _take_back(self, names: list[str]) -> None:
        """Remove what was uploaded in vain; where even that fails, the next publisher's recovery does it."""
        with contextlib.suppress(MurmurError):
            self._remove(names)

    def _directory(self, name: str) -> None:
        place = self.root
        for part in Path(name).parts:
            place = place / part
            place.mkdir(mode=0o700, exist_ok=True)

    def _remove_empty(self, place: Path) -> None:
        while place != self.root and place.is_dir() and not any(place.iterdir()):
            place.rmdir()
            place = place.parent

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def _is_stored(self, path: Path) -> bool:
        return path.is_relative_to(self.root) and not any(
            p.startswith(".") for p in path.relative_to(self.root).parts
        )

    def _is_result(self, place: Path) -> bool:
        name = self._name(place)
        return self._is_stored(place) and is_of_result(f"{name}/") and name.count("/") == WORK_PARTS - 1

    def _sweep_exchanges(self) -> None:
        """Remove what a killed process left for its workers; one that lives holds a lock of this name."""
        for session in sorted({name.split("/")[2] for name in self._bucket.entries(EXCHANGES)}):
            with contextlib.suppress(TimeoutError), self._locks.lock(f"{EXCHANGES}/{session}", 0):
                self._bucket.remove(self._bucket.entries(f"{EXCHANGES}/{session}"))


def is_of_result(name: str) -> bool:
    """Return whether a name is below the results of steps."""
    parts = name.split("/")
    return len(parts) > WORK_PARTS and parts[0] == "private" and parts[3] == "work"


def _is_copied(name: str) -> bool:
    return not is_of_result(name) and not name.startswith(f"{EXCHANGES}/")


def _is_offered(name: str, names: set[str]) -> bool:
    parts = name.split("/")
    if parts[0] != "published" or len(parts) < 4:
        return True
    place = "/".join(parts[:3])
    return any(f"{place}/{one}" in names for one in OFFERED)


def _last(name: str) -> tuple[bool, str]:
    return name.rpartition("/")[2] in LAST, name


def _crash_point(name: str) -> None:
    """Do nothing; tests kill the process here."""


def copy_objects(address: str, place: Path) -> int:
    """Copy the objects of one directory, whoever put them there, as a reader of a release does; return their number.

    Neither ledger nor lock is needed. Their digests are compared with the manifest by the reader.
    """
    bucket = Bucket(Address.parse(address).text)
    names = [name for name in bucket.entries() if "/" not in name]
    for name in names:
        bucket.get(name, place / name, strangers=True)
    return len(names)
