"""Test that signature.json carries nothing but a signature over this release: free text in it could name a person.

Whether the right key signed is for a reader who has the key (`murmur verify --key`); here the envelope's shape is
tested, and that the statement in it is the one that follows from the release's files.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.store import digest, parse_json, read_published_json

SIGNATURE = "signature.json"
LARGEST = 2**20
SIGNATURE_BYTES = 64
MOST_SIGNATURES = 16

Problem = tuple[int, str]


def signature_problems(directory: Path) -> Iterator[Problem]:
    """Yield, with counts, what a signature file holds that it must not."""
    try:
        if (directory / SIGNATURE).stat().st_size > LARGEST:
            raise ValueError
        envelope = read_published_json(directory / SIGNATURE)
        payload = parse_json(base64.b64decode(envelope["payload"], validate=True))
        shape = envelope.keys() == {"payload", "payloadType", "signatures"}
        known = shape and envelope["payloadType"] == "application/vnd.in-toto+json"
        signatures = envelope["signatures"]
        sound = 0 < len(signatures) <= MOST_SIGNATURES and all(map(_is_signature, signatures))
        expected = _expected(directory)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, binascii.Error):
        yield 1, "a signature that is no envelope"
        return
    yield int(not known), "an envelope of another kind than releases are signed with"
    yield int(not sound), "signatures that are no Ed25519 signatures with the id of a key"
    yield int(payload != expected), "a signed statement that is not about these files"


def _is_signature(one: dict[str, Any]) -> bool:
    return (
        one.keys() == {"keyid", "sig"}
        and re.fullmatch("[0-9a-f]{64}", one["keyid"]) is not None
        and len(base64.b64decode(one["sig"], validate=True)) == SIGNATURE_BYTES
    )


def _expected(directory: Path) -> dict[str, Any]:
    """Return the only statement that may be signed about these files."""
    manifest = read_published_json(directory / "manifest.json")
    names = sorted({"manifest.json", *manifest["files"]})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": digest(directory / name)}}
            for name in names
            if Path(name).name == name and (directory / name).is_file()
        ],
        "predicateType": "urn:murmuration:release:v1",
        "predicate": {
            "release": manifest["release"],
            "snapshot": manifest["snapshot"],
            "revision": manifest.get("revision", {}).get("number", 0),
            "signedAt": manifest["created_at"],
        },
    }
