"""Make releases of synthetic rows to judge, with their shadows and source, without the product's mechanism.

The honest rows are drawn from a low-rank model of the people in the data, with noise; the planted violations copy
people, or draw rows around single people.
"""

import datetime
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checks.evidence.case import Case
from checks.evidence.release import Release
from checks.evidence.truth import Truth
from tasks.config import Source
from tasks.store import digest, write_json

SNAPSHOT = datetime.date(2026, 1, 1)
SCHEMA = pa.schema(
    [
        ("group", pa.int32()),
        ("size", pa.int32()),
        ("items", pa.list_(pa.int32())),
        ("ratings", pa.binary()),
    ]
)
STEP, LOW = 0.1, 1.0
Maker = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def people(users: int = 400, items: int = 60, seed: int = 4) -> np.ndarray:
    """Ratings 1–5 as a dense table, 0 where nothing is rated; everybody rates about 20 items."""
    draw = np.random.default_rng(seed)
    taste = draw.normal(0, 1, (users, 3)) @ draw.normal(0, 0.6, (3, items))
    liked = draw.normal(0, 0.6, items) + taste
    rated = draw.random((users, items)) < 1 / (1 + np.exp(-(liked - 0.6)))
    values = np.clip(np.rint(3.4 + 0.6 * taste + draw.normal(0, 0.8, (users, items))), 1, 5)
    return np.where(rated, values, 0)


def honest(table: np.ndarray, draw: np.random.Generator, rows: int = 500) -> np.ndarray:
    """Rows drawn from noisy means, tastes and levels of all people; each item and rating of a row by chance."""
    share = np.clip((table > 0).mean(axis=0) + draw.normal(0, 0.02, table.shape[1]), 0.02, 0.95)
    pattern = (table > 0) - (table > 0).mean(axis=0)
    cross = pattern.T @ pattern / len(table) + draw.normal(0, 0.01, (table.shape[1],) * 2)
    values, vectors = np.linalg.eigh((cross + cross.T) / 2)
    first = np.argsort(-values)[:3]
    lean = draw.normal(0, 1, (rows, 3)) @ (vectors[:, first] * np.sqrt(np.maximum(values[first], 0))).T
    rated = draw.random((rows, table.shape[1])) < np.clip(share + lean, 0.01, 0.98)
    rated[:, :2] |= ~rated.any(axis=1, keepdims=True)
    level = table.sum(axis=0) / np.maximum((table > 0).sum(axis=0), 1) + draw.normal(0, 0.05, table.shape[1])
    return np.where(rated, np.clip(np.round(level + draw.normal(0, 1, rated.shape), 1), 1, 5), 0)


def raw(table: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """The people's own records."""
    return table[draw.permutation(len(table))]


def with_copies(share: float, changed: float = 0.0) -> Maker:
    """Return a maker of honest rows of which a share are people's records, with a part of the ratings changed."""

    def make(table: np.ndarray, draw: np.random.Generator) -> np.ndarray:
        rows = honest(table, draw)
        long = np.flatnonzero((table > 0).sum(axis=1) >= 20)
        copies = table[draw.choice(long, max(1, round(share * len(rows))), replace=False)].copy()
        other = (draw.random(copies.shape) < changed) & (copies > 0)
        copies[other] = copies[other] % 5 + 1
        rows[: len(copies)] = copies
        return rows

    return make


def case(
    root: Path,
    make: Maker,
    *,
    in_shadow: Maker | None = None,
    table: np.ndarray | None = None,
    draws: int = 2,
) -> Case:
    """Write a release, shadows made without a tenth of the people each, and the source; open them."""
    table = people() if table is None else table
    draw = np.random.default_rng(11)
    published, private = root / "published" / "rows" / "2026-01-01", root / "private" / "rows" / "2026-01-01"
    ids = [f"person {number:04}" for number in range(len(table))]
    source = _source(root, table, ids)
    _write(published, make(table, draw))
    order = draw.permutation(len(table))
    for number in range(draws):
        absent = np.zeros(len(table), bool)
        absent[order[number * len(table) // 10 : (number + 1) * len(table) // 10]] = True
        place = private / "utility" / ("shadow-release" if number == 0 else f"shadow-release-{number + 1}")
        held_out = (draw.random(table.shape) < 0.05) & (table > 0) & ~absent[:, None]
        _write(place, (in_shadow or make)(np.where(held_out, 0, table)[~absent], draw))
        known = pa.table({"user": ids, "present": pa.array(~absent)})
        pq.write_table(known, place / "people.parquet")
        user, item = np.nonzero(held_out)
        cells = {
            "user": pa.array([ids[u] for u in user], pa.string()),
            "item": pa.array([f"item {i:02}" for i in item], pa.string()),
            "rating": pa.array(table[user, item], pa.float32()),
        }
        pq.write_table(pa.table(cells), place / "held_out.parquet")
    nobody = {"user": pa.array([], pa.string()), "pseudonym": pa.array([], pa.string())}
    pq.write_table(pa.table({**nobody, "group": pa.array([], pa.int32())}), private / "membership.parquet")
    release = Release(published, private)
    truth = Truth.read(release, private, source, SNAPSHOT)
    return Case(release, truth, private, SNAPSHOT, source=source)


def _source(root: Path, table: np.ndarray, ids: list[str]) -> Source:
    user, item = np.nonzero(table)
    lines = [f"{ids[u]},item {i:02},{table[u, i]:g}" for u, i in zip(user, item, strict=True)]
    path = root / "ratings.csv"
    root.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["user,item,rating", *lines]) + "\n")
    return Source(format="csv", path=str(path), scale=(1.0, 5.0))


def _write(place: Path, rows: np.ndarray) -> None:
    place.mkdir(parents=True)
    items = [np.flatnonzero(row).astype(np.int32) for row in rows]
    codes = [
        np.rint((row[own] - LOW) / STEP).astype(np.uint8).tobytes()
        for row, own in zip(rows, items, strict=True)
    ]
    columns = [np.arange(len(rows)), np.ones(len(rows)), items, codes]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    pq.write_table(table, place / "groups.parquet")
    pq.write_table(
        pa.table({"item": [f"item {i:02}" for i in range(rows.shape[1])]}), place / "items.parquet"
    )
    nobody = {"user": pa.array([], pa.string()), "group": pa.array([], pa.int32())}
    pq.write_table(pa.table(nobody), place / "members.parquet")
    budget = {"epsilon": 3.0, "delta": 1e-5, "per": "release", "releases": 1}
    manifest = {
        "schema_version": 1,
        "release": "rows",
        "snapshot": "2026-01-01",
        "method": "dp-synthetic",
        "privacy": {"epsilon": 3.0, "delta": 1e-5, "rho": 0.2, "failure": 1e-6, "budget": budget},
        "counts": {"users": 0, "items": rows.shape[1], "groups": len(rows), "ratings": int((rows > 0).sum())},
        "rating_scale": [1.0, 5.0],
        "rating_step": STEP,
        "rating_encoding": "uint8",
        "unit": "rating",
        "series": "unchecked",
        "withheld": {"users": 0, "items": 0, "why": ""},
        "files": {file.name: digest(file) for file in place.iterdir()},
        "checks": [],
        "code_version": "test",
        "created_at": "2026-01-01T00:00:00Z",
    }
    write_json(place / "manifest.json", manifest)
