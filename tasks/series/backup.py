"""Back up the owner's part of a store into one file, and restore it: ledgers, keys, secret, memberships, verdicts.

The file is a tar archive, the owner's alone: whoever reads it knows every person in every release. Intermediates of
steps (work/) are left out, since a run recomputes them. Databases are copied through SQLite, so a ledger is whole
although a reader has it open. A ledger in PostgreSQL, and a secret or keys outside the store, are not in it; the answer
says so.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from tasks.errors import Refused, UsageError
from tasks.series import chain
from tasks.series.database import populations
from tasks.series.forgotten import forgotten
from tasks.series.ledger import Ledger
from tasks.series.publication import quiet
from tasks.store import Store, dumps, make_private, owner_only, restrict, sync_directory

LIST = "backup.json"
FORM = 1
LARGEST_LIST = 2**28  # bytes
LEFT_OUT = ("work",)
OUTSIDE = {
    "MURMUR_LEDGER": "the ledger's database (back it up with pg_dump, at the same time)",
    "MURMUR_SECRET_FILE": "the secret of the pseudonyms",
    "MURMUR_SIGNING_KEY": "the signing key",
    "MURMUR_APPROVERS": "the file of approvers",
}


def create(store: Store, out: Path) -> dict[str, Any]:
    """Write a backup while nothing is published, withdrawn or erased; it appears whole or not at all."""
    private = store.root / "private"
    if not private.is_dir():
        raise UsageError(
            "this store has no private part", where=str(store.root), remedy="check --store, MURMUR_STORE"
        )
    if out.exists():
        raise UsageError("this file exists already", where=str(out), remedy="choose another name")
    if not out.absolute().parent.is_dir():
        raise UsageError("there is no such directory", where=str(out.parent), remedy="create it first")
    if out.absolute().is_relative_to(store.root):
        raise UsageError(
            "a backup inside the store is lost with it", where=str(out), remedy="name a place elsewhere"
        )
    with owner_only(), quiet(store), tempfile.TemporaryDirectory(dir=private, prefix=".backup-") as scratch:
        copies = _copy_databases(private, Path(scratch))
        files: dict[str, str] = {}
        listed = {
            "form": FORM,
            "made_at": chain.now(),
            "files": files,
            "ledgers": _heads(store),
            "not_included": {name: OUTSIDE[name] for name in OUTSIDE if os.environ.get(name)},
        }
        partial = out.with_name(f".{out.name}.partial")
        try:
            with tarfile.open(partial, "w") as archive:
                for name in sorted(_names(private)):
                    path = copies.get(name, private / name)
                    # A run may have removed it meanwhile.
                    with contextlib.suppress(FileNotFoundError), path.open("rb") as opened:
                        size = os.fstat(opened.fileno()).st_size
                        files[name] = _add(archive, f"private/{name}", opened, size)
                data = dumps(listed, indent=1).encode()
                _add(archive, LIST, io.BytesIO(data), len(data))
            partial.chmod(0o600)
            with partial.open("rb") as done:
                os.fsync(done.fileno())
            partial.rename(out)
            sync_directory(out.absolute().parent)
        finally:
            partial.unlink(missing_ok=True)
    return {
        "status": "written",
        "file": str(out),
        "files": len(files),
        "bytes": out.stat().st_size,
        "ledgers": listed["ledgers"],
        "not_included": listed["not_included"],
    }


def restore(store: Store, file: Path) -> dict[str, Any]:
    """Put a backup in the place of a private part that is gone; nothing is overwritten.

    `forgotten` names what the store shows and the restored ledgers do not know: with that, nothing runs.
    """
    private = store.root / "private"
    if private.exists() and any(path.is_file() for path in private.rglob("*") if path.name != "publish.lock"):
        raise UsageError(
            "this store has a private part",
            where=str(private),
            remedy="move it away first; it may be newer than the backup, so keep it",
        )
    make_private(private, below=store.root)
    with owner_only():
        scratch = Path(tempfile.mkdtemp(dir=store.root, prefix=".restoring-"))
        try:
            listed = _unpack(file, scratch)
            restrict(scratch)
            shutil.rmtree(private)  # nothing but a lock file is in it
            (scratch / "private").rename(private)
            sync_directory(store.root)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    problems = behind(store)
    return {
        "status": "behind" if problems else "restored",
        "made_at": listed["made_at"],
        "files": len(listed["files"]),
        "ledgers": _heads(store),
        "forgotten": problems,
        "not_included": listed["not_included"],
    }


def check(file: Path) -> dict[str, Any]:
    """Verify that a backup is whole: every file has the digest that was listed when it was made."""
    listed = _unpack(file, None)
    return {
        "status": "intact",
        "made_at": listed["made_at"],
        "files": len(listed["files"]),
        "ledgers": listed["ledgers"],
        "not_included": listed["not_included"],
    }


def behind(store: Store) -> list[str]:
    """Return what the store shows and no ledger knows, of every name below published/."""
    owners: dict[str, list[str]] = {}
    problems: dict[str, list[str]] = {}
    for population in populations(store):
        with Ledger.open(store, population) as ledger:
            for name in {one.name for one in ledger.releases()}:
                owners.setdefault(name, []).append(population)
            problems[population] = forgotten(store, ledger)
    found = [line for lines in problems.values() for line in lines]
    for place in sorted((store.root / "published").glob("*")):
        if place.name not in owners and any(place.glob("*/manifest.json")):
            found.append(f"{place.name} was published and is in no ledger")
    return found


def _names(private: Path) -> Iterator[str]:
    """Yield what is backed up, by its name below private/."""
    for root, below, files in os.walk(private):
        here = Path(root).relative_to(private)
        if len(here.parts) == 2:  # <name>/<snapshot>
            below[:] = [one for one in below if one not in LEFT_OUT]
        below[:] = [one for one in below if not one.startswith(".")]
        for file in files:
            if not file.startswith(".") and not file.endswith((".lock", ".db-wal", ".db-shm")):
                yield (here / file).as_posix()


def _copy_databases(private: Path, scratch: Path) -> dict[str, Path]:
    """Copy each ledger as it is at one moment; return the copies by the names of the originals."""
    copies = {}
    for path in sorted((private / "ledger").glob("*.db")):
        copies[f"ledger/{path.name}"] = scratch / path.name
        with (
            contextlib.closing(sqlite3.connect(path)) as source,
            contextlib.closing(sqlite3.connect(scratch / path.name)) as target,
        ):
            source.backup(target)
    return copies


def _heads(store: Store) -> dict[str, dict[str, Any]]:
    found = {}
    for population in populations(store):
        with Ledger.open(store, population) as ledger:
            found[population] = {"head": ledger.head, "releases": len(ledger.releases())}
    return found


class _Hashed:
    """Read a file once and keep the digest of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.state = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Read a block."""
        block = self._file.read(size)
        self.state.update(block)
        return block


def _add(archive: tarfile.TarFile, name: str, file: IO[bytes], size: int) -> str:
    """Add a file without its account and mode: what is restored belongs to whoever restores it. Return its digest."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    source = _Hashed(file)
    archive.addfile(member, cast(IO[bytes], source))
    return source.state.hexdigest()


def _unpack(file: Path, target: Path | None) -> dict[str, Any]:
    """Unpack a backup into an empty directory, or (None) read it only; one that is not exactly whole is refused."""
    if not file.is_file():
        raise UsageError("there is no such backup", where=str(file), remedy="check the path")
    try:
        with tarfile.open(file, "r:") as archive:
            found: dict[str, str] = {}
            listed: dict[str, Any] = {}
            for member in archive:
                parts = PurePosixPath(member.name).parts
                is_own = parts == (LIST,) or (len(parts) > 1 and parts[0] == "private")
                if not member.isfile() or not is_own or ".." in parts or member.name in found:
                    raise ValueError
                opened = archive.extractfile(member)
                assert opened is not None
                if member.name == LIST:
                    if member.size > LARGEST_LIST:
                        raise ValueError
                    found[LIST], listed = "", json.loads(opened.read())
                    continue
                with _written(target and target.joinpath(*parts)) as write:
                    source = _Hashed(opened)
                    while block := source.read(2**20):
                        write(block)
                found[member.name] = source.state.hexdigest()
        wanted = {f"private/{name}": value for name, value in listed["files"].items()}
        form, _ = listed["form"], [listed[name] for name in ("made_at", "ledgers", "not_included")]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, tarfile.TarError):
        raise _damaged(file, "it cannot be read as one") from None
    if form != FORM:
        raise UsageError(
            f"this backup has form {form}, and this version of the program reads form {FORM}",
            where=str(file),
            remedy="restore it with the version that made it",
        )
    found.pop(LIST)
    if wanted != found:
        raise _damaged(
            file, f"{len(wanted.items() ^ found.items())} files in it are not those that were backed up"
        )
    return listed


@contextlib.contextmanager
def _written(path: Path | None) -> Iterator[Callable[[bytes], object]]:
    """Return what writes blocks to a new file, or (None) nowhere."""
    if path is None:
        yield lambda block: None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as target:
        yield target.write
        target.flush()
        os.fsync(target.fileno())


def _damaged(file: Path, why: str) -> Refused:
    return Refused(f"this backup is damaged: {why}", where=str(file), remedy="use another backup")
