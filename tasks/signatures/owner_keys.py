"""Make, rotate, retire and revoke the owner's signing keys.

    private/keys/<id>.pem     the private keys, for the owner alone
    private/keys/keys.json    all keys there ever were, with their times; the public half of it is what readers trust

`MURMUR_SIGNING_KEY` names a private key outside the store (a mounted secret). If it is not in keys.json, the owner
hands out its public half by other means.
"""

import base64
import datetime
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from tasks.errors import UsageError
from tasks.signatures.envelope import key_id, seal
from tasks.signatures.statement import SIGNATURE, state_release
from tasks.store import Store, make_private, owner_only, read_json, write_bytes, write_json

RECORD = "keys.json"
PUBLIC_FIELDS = ("keyid", "public_key", "valid_from", "valid_until", "revoked_at")


class OwnerKeys:
    """Hold the signing keys of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._directory = store.root / "private" / "keys"

    def listed(self) -> list[dict[str, Any]]:
        """Return all keys with their times, the oldest first; no private part."""
        path = self._directory / RECORD
        return read_json(path)["keys"] if path.exists() else []

    def make(self, *, days: int | None = None, now: datetime.datetime | None = None) -> dict[str, Any]:
        """Make a key and let it sign from now on; the key before is retired: it stays valid for what it signed."""
        moment = _now(now)
        key = Ed25519PrivateKey.generate()
        name = key_id(key.public_key())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        keys = self.listed()
        for one in keys:
            if one["revoked_at"] is None and (
                one["valid_until"] is None or one["valid_until"] > _text(moment)
            ):
                one["valid_until"] = _text(moment)
        until = None if days is None else _text(moment + datetime.timedelta(days=days))
        made = {
            "keyid": name,
            "public_key": base64.b64encode(_raw(key)).decode(),
            "valid_from": _text(moment),
            "valid_until": until,
            "revoked_at": None,
            "reason": None,
        }
        with owner_only():
            make_private(self._directory, below=self._store.root)
            write_bytes(self._directory / f"{name}.pem", pem)  # first: a listed key must exist
            self._write([*keys, made])
        return made

    def revoke(self, name: str, reason: str, *, now: datetime.datetime | None = None) -> dict[str, Any]:
        """Revoke a key, named by its id or the beginning of it: nothing that it ever signed counts any more."""
        keys = self.listed()
        found = [one for one in keys if one["keyid"].startswith(name)]
        if len(found) != 1 or not name:
            raise UsageError(
                f"{len(found)} keys have an id that begins so",
                where=name,
                remedy="see murmur keys list for the ids",
            )
        if found[0]["revoked_at"] is None:
            found[0] |= {"revoked_at": _text(_now(now)), "reason": reason}
            self._write(keys)
        return found[0]

    def export(self) -> dict[str, Any]:
        """Return what readers need to verify: the public keys with their times."""
        return {"keys": [{field: one[field] for field in PUBLIC_FIELDS} for one in self.listed()]}

    def signing_key(self, now: datetime.datetime | None = None) -> Ed25519PrivateKey | None:
        """Return the key that signs now; None: the owner does not sign.

        Refuses a key that has expired or was revoked: a release that readers must reject is not published.
        """
        named = os.environ.get("MURMUR_SIGNING_KEY")
        keys = self.listed()
        if not named and not keys:
            return None
        path = Path(named) if named else self._directory / f"{keys[-1]['keyid']}.pem"
        key = read_private(path)
        name = key_id(key.public_key())
        known = next((one for one in keys if one["keyid"] == name), None)
        where, moment = f"signing key {name[:16]}…", _text(_now(now))
        if known is None:
            return key  # a mounted key whose public half the owner hands out by other means
        if known["revoked_at"] is not None:
            raise UsageError(
                "the signing key was revoked", where=where, remedy="make a new one: murmur keys new"
            )
        if known["valid_until"] is not None and known["valid_until"] < moment:
            raise UsageError(
                "the signing key has expired", where=where, remedy="make a new one: murmur keys new"
            )
        return key

    def _write(self, keys: list[dict[str, Any]]) -> None:
        with owner_only():
            write_json(self._directory / RECORD, {"keys": keys})


def sign_release(store: Store, published: Path) -> bool:
    """Write signature.json beside the files of a release where the owner signs; return whether it was signed."""
    key = OwnerKeys(store).signing_key()
    if key is None:
        return False
    write_json(published / SIGNATURE, seal(state_release(published), key))
    return True


def read_private(path: Path) -> Ed25519PrivateKey:
    """Read a private key; one that other accounts can read is refused."""
    if not path.is_file():
        raise UsageError(
            "there is no signing key", where=str(path), remedy="restore it, mount it, or run: murmur keys new"
        )
    if path.stat().st_mode & 0o077:
        raise UsageError(
            "the signing key can be read by others", where=str(path), remedy=f"run: chmod 600 {path}"
        )
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(
            "this is no Ed25519 private key in PEM form without a passphrase",
            where=str(path),
            remedy="make one: murmur keys new",
        )
    return key


def _raw(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _now(given: datetime.datetime | None) -> datetime.datetime:
    return (given or datetime.datetime.now(datetime.UTC)).replace(microsecond=0)


def _text(moment: datetime.datetime) -> str:
    return moment.isoformat()
