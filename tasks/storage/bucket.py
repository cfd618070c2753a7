"""Read and write the objects below one address of an S3-compatible object store, through s3fs.

Where the server is and who we are follows from the usual variables (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_PROFILE).
Every object carries the digest of its content, and what is read is compared with it.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tasks.errors import MurmurError, UsageError
from tasks.storage.content import digest

DIGEST = "sha256"  # of an object's metadata
FETCHED_AT_ONCE = 16
REMOVED_AT_ONCE = 1000  # the most that a request may name


class Bucket:
    """Hold the objects below an address, named relative to it."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._base = self.address.partition("://")[2]
        self._files = _filesystem(os.getpid(), os.environ.get("AWS_ENDPOINT_URL"))

    def entries(self, below: str = "") -> dict[str, str]:
        """Return the entity tag of every object below a name."""
        return {name: tag for name, (tag, _) in self.dated_entries(below).items()}

    def dated_entries(self, below: str = "") -> dict[str, tuple[str, float]]:
        """Return entity tag and time of change of every object below a name."""
        place = f"{self._base}/{below}".rstrip("/")
        with self._explained(below):
            found = self._files.find(place, detail=True)
        cut = len(self._base) + 1
        named = {
            name[cut:]: (str(facts["ETag"]).strip('"'), facts["LastModified"].timestamp())
            for name, facts in found.items()
        }
        if any(part in ("", ".", "..") for name in named for part in name.split("/")):
            raise UsageError(
                "an object has a name that is no file's",
                where=self.address,
                remedy="remove it: it is not ours",
            )
        return named

    def tag(self, name: str) -> str | None:
        """Return the entity tag of an object; None: there is none."""
        with self._explained(name), contextlib.suppress(FileNotFoundError):
            return str(self._files.info(self._key(name))["ETag"]).strip('"')
        return None

    def put(self, name: str, file: Path, *, known_digest: str | None = None) -> None:
        """Store a file; what was there is replaced."""
        self._put(name, file, known_digest or digest(file), "overwrite")

    def create(self, name: str, file: Path) -> None:
        """Store a file where there is nothing; raise FileExistsError where there is.

        A request that is repeated after a lost answer finds its own object: that is no conflict.
        """
        content = digest(file)
        try:
            self._put(name, file, content, "create")
        except FileExistsError:
            if self._files.metadata(self._key(name), refresh=True).get(DIGEST) != content:
                raise

    def get(self, name: str, file: Path, *, wanted: str | None = None, strangers: bool = False) -> None:
        """Read an object into a file, whole or not at all; refuse other content than its digest, or `wanted`, says.

        What a stranger put there need not carry a digest.
        """
        temporary = file.with_name(f".{file.name}.part")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.close(handle)
        try:
            with self._explained(name):
                self._files.get_file(self._key(name), str(temporary))
                if wanted is None:
                    wanted = self._files.metadata(self._key(name), refresh=True).get(DIGEST)
            if digest(temporary) != wanted and not (strangers and wanted is None):
                raise MurmurError(
                    "an object of the store is not what was written",
                    where=f"{self.address}/{name}",
                    remedy="run it again: another process may have replaced it meanwhile; if it stays, find out who "
                    "writes there",
                )
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are gone already are no error."""
        from fsspec.asyn import sync

        keys = [self._key(name) for name in names]
        with self._explained(""):
            for first in range(0, len(keys), REMOVED_AT_ONCE):
                # Not `rm`, which takes a name with brackets or stars for a pattern.
                sync(self._files.loop, self._files._bulk_delete, keys[first : first + REMOVED_AT_ONCE])

    def _put(self, name: str, file: Path, content: str, mode: str) -> None:
        with self._explained(name):
            self._files.put_file(str(file), self._key(name), mode=mode, Metadata={DIGEST: content})

    def _key(self, name: str) -> str:
        return f"{self._base}/{name}"

    @contextlib.contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Say what the store answered, without the text of a foreign exception."""
        try:
            yield
        except (MurmurError, FileExistsError):
            raise
        except FileNotFoundError:
            raise UsageError(
                "this object, or its bucket, is not there",
                where=f"{self.address}/{name}".rstrip("/"),
                remedy="make the bucket, or correct the address; an object that vanished was removed meanwhile: run it "
                "again",
            ) from None
        except Exception as problem:
            denied = isinstance(problem, PermissionError) or "Credentials" in type(problem).__name__
            answer = f"the object store does not answer as it should ({type(problem).__name__})"
            raise UsageError(
                "the object store refuses our credentials" if denied else answer,
                where=f"{self.address}/{name}".rstrip("/"),
                remedy="check the address, AWS_ENDPOINT_URL, the credentials in the AWS variables and what they allow",
            ) from None


@dataclass(frozen=True)
class Address:
    """Hold an address of objects: nothing else may be in it, least of all credentials."""

    text: str

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Refuse what is no address of objects in S3."""
        scheme, _, rest = text.partition("://")
        bucket = rest.partition("/")[0]
        if scheme != "s3" or not bucket or any(sign in rest for sign in "?#@\\") or ".." in rest.split("/"):
            raise UsageError(
                "this is no address of a store",
                where="MURMUR_STORE, --store",
                remedy="give a directory, or s3://bucket/prefix; credentials belong into the AWS variables",
            )
        return cls(f"s3://{rest.rstrip('/')}")


@cache
def _filesystem(process: int, endpoint: str | None) -> Any:
    """Return what reads and writes objects: one for a process, and none that a forked child inherits."""
    try:
        import s3fs
    except ImportError:
        raise UsageError(
            "the package s3fs is not installed", where="a store s3://…", remedy="install murmuration[s3]"
        ) from None
    # Nothing is remembered: other machines write there, too.
    return s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
