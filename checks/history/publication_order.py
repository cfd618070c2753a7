"""Order the releases of a store by publication: by the ledgers where they know them, else by the manifests' clocks.

A ledger orders the releases of its own population only; those of several populations are merged by created_at.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checks.history.ledgers import ledgers_of
from checks.history.places import Place


def in_order(places: Sequence[Place], manifests: Sequence[dict[str, Any]], private: Path) -> list[int]:
    """Return the positions of the releases in the order of their publication."""
    clock = sorted(range(len(places)), key=lambda at: _moment(places[at], manifests[at]))
    for ledger in ledgers_of(private):
        numbers = ledger.releases()
        slots = [slot for slot, at in enumerate(clock) if _key(places[at]) in numbers]
        ranked = sorted((clock[slot] for slot in slots), key=lambda at: numbers[_key(places[at])])
        for slot, at in zip(slots, ranked, strict=True):
            clock[slot] = at
    return clock


def _key(place: Place) -> tuple[str, str]:
    return place.name, place.directory


def _moment(place: Place, manifest: dict[str, Any]) -> float:
    """Return when a release was published: created_at, or where it has none, when its membership was written."""
    try:
        moment = datetime.fromisoformat(str(manifest["created_at"]))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (KeyError, ValueError):
        file = place.private / "membership.parquet"
        return file.stat().st_mtime if file.exists() else math.inf
