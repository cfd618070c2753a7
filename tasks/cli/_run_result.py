"""What `murmur run` tells about a release, published or refused (the contract's JSON of `run`)."""

import datetime
from pathlib import Path
from typing import Any

from checks.utility.utility import summary
from tasks.config import ReleaseConfig
from tasks.errors import Refused
from tasks.store import Store, read_json


def describe(
    config: ReleaseConfig, snapshot: datetime.date, store: Store, refusal: Refused | None, *, judged: bool
) -> dict[str, Any]:
    """Places, checks, utility and counts; `judged` says whether the gate got as far as a verdict."""
    private = store.private(config.release.name, snapshot)
    published = store.published(config.release.name, snapshot)
    validated = private / "work" / "validate"
    where: Path | None = validated / "candidate" if judged else None
    utility: Path | None = validated / "private" / "utility" if judged else None
    if refusal is None:
        where, utility = published, private / "utility"
    manifest = read_json(where / "manifest.json") if where and (where / "manifest.json").exists() else {}
    return {
        "status": "refused" if refusal else "published",
        "why": refusal.what if refusal else None,
        "published": None if refusal else str(published),
        "private": str(private),
        "report": str(where / "report.html") if where else None,
        "checks": manifest.get("checks", []),
        "utility": summary(utility) if utility and utility.is_dir() else {},
        "counts": manifest.get("counts", {}),
    }
