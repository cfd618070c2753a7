"""Sign and open DSSE envelopes: a payload, its type, and signatures over both ([Dsse2021]).

The signature covers the pre-authentication encoding of type and payload, so a payload cannot be taken for one of
another type. Only Ed25519 keys are used: signatures are short, and the same bytes whenever the same payload is signed.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tasks.errors import Refused
from tasks.store import parse_json

PAYLOAD_TYPE = "application/vnd.in-toto+json"
SIGNATURE_BYTES = 64
MOST_SIGNATURES = 16


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that are signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def key_id(key: Ed25519PublicKey) -> str:
    """Return the name of a key: the SHA-256 of its public part in DER form, in hex."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def seal(payload: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return the envelope of a JSON payload with one signature."""
    encoded = json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    signature = key.sign(pre_authentication_encoding(PAYLOAD_TYPE, encoded))
    return {
        "payload": base64.b64encode(encoded).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}],
    }


def open_envelope(
    envelope: object, trusted: Mapping[str, Ed25519PublicKey]
) -> tuple[dict[str, Any], list[str]]:
    """Return the payload and the ids of the trusted keys that signed it; refuse an envelope that none signed.

    A signature that names a trusted key and is wrong is refused even where others are right: something was changed.
    """
    try:
        assert isinstance(envelope, dict)
        kind, signatures = envelope["payloadType"], envelope["signatures"]
        payload = _decoded(envelope["payload"])
        signed = [(str(one["keyid"]), _decoded(one["sig"])) for one in signatures]
        if len(signed) > MOST_SIGNATURES:
            raise ValueError
    except (AssertionError, LookupError, TypeError, ValueError, binascii.Error):
        raise _refused("the signature is no DSSE envelope") from None
    if kind != PAYLOAD_TYPE:
        raise _refused("the signature is about something else than an in-toto statement")
    message = pre_authentication_encoding(PAYLOAD_TYPE, payload)
    found = []
    for name, signature in signed:
        if (public := trusted.get(name)) is None:
            continue
        try:
            public.verify(signature, message)
        except InvalidSignature:
            raise _refused(f"the signature by key {name[:16]}… is wrong") from None
        found.append(name)
    if not found:
        names = ", ".join(f"{name[:16]}…" for name, _ in signed[:3]) or "nobody"
        raise _refused(f"no trusted key signed this release (signed by {names})")
    try:
        content = parse_json(payload)
    except ValueError:
        raise _refused("what was signed cannot be read") from None
    if not isinstance(content, dict):
        raise _refused("what was signed is no statement")
    return content, sorted(set(found))


def _decoded(text: str) -> bytes:
    """Return what is written in base64; refuse a second way to write the same bytes, so that no bit can change."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError
    return data


def _refused(what: str) -> Refused:
    return Refused(
        what,
        where="signature.json",
        remedy="fetch release and key again from the owner; do not use these files",
    )
