"""Tell whether two manifests are of the same release."""

from typing import Any

from tasks.store import digest_of

NOT_COMPARED = ("created_at", "code_version")  # they differ when the same release is made again


def comparable(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what is the same when the same release is made again."""
    return {key: value for key, value in manifest.items() if key not in NOT_COMPARED}


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return the digest by which a ledger knows a release."""
    return digest_of(comparable(manifest))
