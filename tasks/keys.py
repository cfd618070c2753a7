"""The owner's secret: seeds nobody else can replay, and pseudonyms nobody else can recompute.

Everything random that protects people is drawn from a stream keyed with this secret (SCIENCE, "periodic
releases", rule 9); with public names alone anyone could replay the draw and subtract it.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

SECRET_BYTES = 32


class OwnerKey:
    """The owner's secret and what is derived from it."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def __repr__(self) -> str:
        return "OwnerKey(…)"  # never the secret, not even in a traceback

    @classmethod
    def load(cls, store_root: Path) -> "OwnerKey":
        """Read `MURMUR_SECRET_FILE`; in the embedded default it lies in the store and is created once."""
        named = os.environ.get("MURMUR_SECRET_FILE")
        path = Path(named) if named else store_root / "private" / "secret.key"
        if named and not path.is_file():
            raise UsageError(
                "there is no secret file",
                where=f"MURMUR_SECRET_FILE={path}",
                remedy="mount or restore it (a new secret changes every pseudonym), or unset the variable",
            )
        if not path.exists():
            _create(path)
        if path.stat().st_mode & 0o077:
            raise UsageError(
                "the secret file can be read by others", where=str(path), remedy=f"run: chmod 600 {path}"
            )
        secret = path.read_bytes()
        if len(secret) < SECRET_BYTES:
            raise UsageError(
                f"the secret has {len(secret)} bytes, fewer than {SECRET_BYTES}",
                where=str(path),
                remedy="restore it from your backup; a new secret changes every pseudonym",
            )
        return cls(secret)

    @property
    def fingerprint(self) -> str:
        """Tells whether two runs had the same secret without telling the secret."""
        return self._mac("fingerprint")[:16].hex()

    def rng(self, *names: object) -> "np.random.Generator":
        """The random stream of one purpose: (release, snapshot, step, block, …)."""
        import numpy as np

        return np.random.Generator(np.random.PCG64(int.from_bytes(self._mac("rng", *names), "big")))

    def pseudonyms(self, release: str, snapshot: str, ids: list[str]) -> list[str]:
        """Keyed hashes of source ids, different in every release and snapshot (128 bits: no collisions)."""
        key = self._mac("pseudonym", release, snapshot)
        return [hmac.digest(key, i.encode("utf-8", "surrogatepass"), "sha256")[:16].hex() for i in ids]

    def _mac(self, *names: object) -> bytes:
        message = b"".join(len(p).to_bytes(4, "big") + p for p in (str(n).encode() for n in names))
        return hmac.digest(self._secret, message, hashlib.sha256)


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(handle, secrets.token_bytes(SECRET_BYTES))
        os.fsync(handle)
    finally:
        os.close(handle)
    try:
        os.link(temporary, path)  # fails if another process was quicker: its secret counts
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
