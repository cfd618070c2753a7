"""Hold which public keys a reader trusts, from when to when, and which were revoked.

The owner publishes `trusted-keys.json` outside the releases (`murmur keys export`); a reader may also name one public
key in PEM form, which is then trusted without limits. An expired key keeps its meaning for what it signed before:
releases must stay verifiable. A revoked key loses it, whatever time a signature states, because who stole it can state
any.
"""

import base64
import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tasks.errors import Refused, UsageError
from tasks.signatures.envelope import key_id, open_envelope
from tasks.signatures.statement import SIGNATURE, compare, signed_at
from tasks.store import read_published_json

LARGEST_FILE = 2**20  # a reader gets these files from strangers


@dataclass(frozen=True)
class TrustedKey:
    """Represent a public key with the time in which its signatures count; None: without limit."""

    public: Ed25519PublicKey
    valid_from: datetime.datetime | None = None
    valid_until: datetime.datetime | None = None
    revoked: bool = False

    @property
    def name(self) -> str:
        """Return the key's id."""
        return key_id(self.public)

    def require_valid(self, moment: datetime.datetime) -> None:
        """Refuse a signature that this key was not entitled to give."""
        short = f"key {self.name[:16]}…"
        if self.revoked:
            raise _not_entitled(f"{short} was revoked")
        if self.valid_from is not None and moment < self.valid_from:
            raise _not_entitled(f"{short} was not valid yet when it signed")
        if self.valid_until is not None and moment > self.valid_until:
            raise _not_entitled(f"{short} had expired when it signed")


def read_trusted(path: Path) -> dict[str, TrustedKey]:
    """Read a public key in PEM form, or the owner's list of keys; return the keys by id."""
    if not path.is_file():
        raise UsageError(
            "there is no key file", where=f"--key {path}", remedy="name a .pem file or trusted-keys.json"
        )
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError
        if path.read_bytes().lstrip().startswith(b"-----BEGIN"):
            keys = [TrustedKey(_public_of_pem(path.read_bytes()))]
        else:
            keys = [_trusted(one) for one in read_published_json(path)["keys"]]
    except (ValueError, LookupError, TypeError, AttributeError, UnsupportedAlgorithm):
        raise UsageError(
            "this is neither an Ed25519 public key in PEM form nor a list of keys",
            where=f"--key {path}",
            remedy="use the file that the owner made with: murmur keys export",
        ) from None
    return {key.name: key for key in keys}


def verify_signature(published: Path, trusted: dict[str, TrustedKey]) -> dict[str, Any]:
    """Verify offline that a trusted key signed exactly the files of this release; return who signed, and when.

    Raises Refused for a missing, wrong or foreign signature, for changed files, and for a key that was revoked, had
    expired or was not valid yet.
    """
    path = published / SIGNATURE
    if not path.is_file():
        raise Refused(
            "this release is not signed",
            where=str(published),
            remedy="ask its owner for a signed release; do not trust the files for their origin",
        )
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError
        envelope = read_published_json(path)
    except (OSError, ValueError, RecursionError):
        raise Refused("the signature cannot be read", where=str(path), remedy="fetch it again") from None
    statement, signers = open_envelope(envelope, {name: key.public for name, key in trusted.items()})
    compare(published, statement)
    moment = signed_at(statement)
    for name in signers:
        trusted[name].require_valid(moment)
    return {"status": "valid", "keys": signers, "signed_at": moment.isoformat()}


def _public_of_pem(data: bytes) -> Ed25519PublicKey:
    key = load_pem_public_key(data)
    if not isinstance(key, Ed25519PublicKey):
        raise TypeError
    return key


def _trusted(one: dict[str, Any]) -> TrustedKey:
    return TrustedKey(
        Ed25519PublicKey.from_public_bytes(base64.b64decode(one["public_key"], validate=True)),
        _moment(one.get("valid_from")),
        _moment(one.get("valid_until")),
        revoked=one.get("revoked_at") is not None,
    )


def _moment(text: str | None) -> datetime.datetime | None:
    if text is None:
        return None
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _not_entitled(what: str) -> Refused:
    return Refused(what, where=SIGNATURE, remedy="ask the owner for a release signed with a valid key")
