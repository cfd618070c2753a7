"""Derive random streams, noise and pseudonyms from the owner's secret: without it they cannot be recomputed.

All randomness that protects users is drawn from a stream keyed with this secret (docs/leaks-and-bars.md); if seeds
followed from public names alone, an attacker could repeat the draw and subtract it.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import UsageError
from tasks.store import storage_of

if TYPE_CHECKING:
    import numpy as np

SECRET_BYTES = 32


class OwnerKey:
    """Hold the owner's secret and derive keys from it."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def __repr__(self) -> str:
        return "OwnerKey(…)"  # never the secret, not even in a traceback

    @classmethod
    def load(cls, store_root: Path) -> "OwnerKey":
        """Read `MURMUR_SECRET_FILE`; without it the secret is a file in the store, created once."""
        named = os.environ.get("MURMUR_SECRET_FILE")
        path = Path(named) if named else store_root / "private" / "secret.key"
        if not named and storage_of(store_root) is not None:
            raise UsageError(
                "a store in an object store holds no secret: whoever may read the releases could recompute their "
                "pseudonyms",
                where="MURMUR_SECRET_FILE",
                remedy="mount the same secret file on every machine that runs steps (workers need none)",
            )
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
        """Return a digest that shows whether two runs had the same secret, without disclosing it."""
        return self._mac("fingerprint")[:16].hex()

    def rng(self, *names: object) -> "np.random.Generator":
        """Return the random stream of one purpose: (release, snapshot, step, block, …)."""
        import numpy as np

        return np.random.Generator(np.random.PCG64(int.from_bytes(self._mac("rng", *names), "big")))

    def noise(self, *names: object) -> "NoiseKey":
        """Return the key of the noise of one purpose: (population, what is disguised and how, …)."""
        return NoiseKey(self._mac("noise", *names))

    def pseudonyms(self, release: str, snapshot: str, ids: list[str]) -> list[str]:
        """Return keyed hashes of source ids, different in every release and snapshot (128 bits: no collisions)."""
        key = self._mac("pseudonym", release, snapshot)
        return [hmac.digest(key, i.encode("utf-8", "surrogatepass"), "sha256")[:16].hex() for i in ids]

    def _mac(self, *names: object) -> bytes:
        return _mac(self._secret, *names)


class NoiseKey:
    """Draw random numbers that belong to cells: the same cell has the same number, in any order and any block.

    A generator's stream does not serve: it ties numbers to an order, and an attacker who knows some of them may compute
    its state and so all others. Here a number is a block of AES, which cannot be computed without the key, even from
    all other blocks (docs/decisions/0010-perturbation.md).
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "NoiseKey(…)"

    def tokens(self, purpose: str, messages: Iterable[bytes]) -> "np.ndarray":
        """Return 64 bits for each message, as the name of a row or a column of cells."""
        import numpy as np

        key = _mac(self._key, "tokens", purpose)
        return np.frombuffer(b"".join(hmac.digest(key, m, "sha256")[:8] for m in messages), "<u8")

    def words(self, purpose: str, count: int) -> "np.ndarray":
        """Return `count` words of 64 bits of the keystream of ChaCha20: for noise that needs whole vectors of them."""
        import numpy as np
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        # One key for each purpose, so the nonce may be the same.
        cipher = Cipher(algorithms.ChaCha20(_mac(self._key, "words", purpose), bytes(16)), mode=None)
        return np.frombuffer(cipher.encryptor().update(bytes(8 * count)), "<u8")

    def uniforms(self, purpose: str, rows: "np.ndarray", columns: "np.ndarray") -> "np.ndarray":
        """Return a number of the open interval (0, 1) for each pair of tokens."""
        import numpy as np
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        # One block per cell: there is no chain of blocks that another mode would have to protect.
        cipher = Cipher(algorithms.AES(_mac(self._key, "uniforms", purpose)), modes.ECB())  # noqa: S305
        blocks = np.column_stack([rows, columns]).astype("<u8", copy=False)
        drawn = np.empty((len(rows) + 1, 2), "<u8")  # the library needs slightly more room than it fills
        given, taken = (array.reshape(-1).view(np.uint8).data for array in (blocks, drawn))
        cipher.encryptor().update_into(given, taken)
        # 52 bits: with 53 the highest number would round to 1.
        return ((drawn[:-1, 0] >> np.uint64(12)) + 0.5) * 2.0**-52


def _mac(secret: bytes, *names: object) -> bytes:
    message = b"".join(len(p).to_bytes(4, "big") + p for p in (str(n).encode() for n in names))
    return hmac.digest(secret, message, hashlib.sha256)


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
        os.link(temporary, path)  # fails if another process was quicker: then its secret is used
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
