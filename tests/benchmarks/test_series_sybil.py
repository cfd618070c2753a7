"""Test the comparison of `sybil`'s scores with what was public before: planted columns must stand out of it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import series_sybil

GROUPS, ITEMS, RANK = 40, 600, 3


def write(place, table, prior, opinions):
    """Write a run with sybils in which person g rates items g, g + GROUPS, …, and the prior of its items."""
    planted = place / "evaluate" / "sybil" / "opinions"
    planted.mkdir(parents=True)
    (place / "ingest").mkdir()
    np.savez(place / "ingest" / "prior.npz", **prior, known=np.ones(ITEMS, bool))
    (planted / "manifest.json").write_text(json.dumps({"rating_encoding": "uint8", "rating_step": 0.1}))
    codes = np.clip(np.round(table * 10), 0, 255).astype(np.uint8)
    columns = {
        "group": list(range(GROUPS)),
        "size": [5] * GROUPS,
        "ratings": [row.tobytes() for row in codes],
    }
    pq.write_table(pa.table(columns), planted / "groups.parquet")
    names = [f"p{number}" for number in range(GROUPS)]
    pq.write_table(pa.table({"user": names, "group": list(range(GROUPS))}), planted / "members.parquet")
    item = np.arange(ITEMS // 2)
    rater = item % GROUPS
    targets = {"item": item, "rating": 3 + opinions, "usual": np.full(len(item), 3.0), "rater": rater}
    targets["pseudonym"] = [names[one] for one in rater]
    pq.write_table(pa.table(targets), planted / "targets.parquet")


@pytest.fixture
def world():
    draw = np.random.default_rng(0)
    factors, taste = draw.normal(size=(ITEMS, RANK)), draw.normal(size=(GROUPS, RANK))
    levels = draw.normal(size=ITEMS)
    levels -= levels.mean()
    table = 12 + levels + taste @ factors.T
    return table, {"levels": levels.astype(np.float32), "factors": factors.astype(np.float32)}, draw


def test_opinions_that_follow_taste_are_known_before(world, tmp_path):
    table, prior, _ = world
    item = np.arange(ITEMS // 2)
    taste = (table - 12 - prior["levels"])[item % GROUPS, item]
    write(tmp_path, table, prior, np.sign(taste))
    found = series_sybil.measure(tmp_path)
    assert found["before"][0] > 0.95
    assert found["both"][0] < found["before"][0] + 0.05


def test_opinions_that_a_column_carries_are_not_known_before(world, tmp_path):
    table, prior, draw = world
    opinions = draw.choice([-1.0, 1.0], ITEMS // 2)
    table[:, : ITEMS // 2] += 2 * opinions
    write(tmp_path, table, prior, opinions)
    found = series_sybil.measure(tmp_path)
    assert found["before"][0] < 0.6
    assert found["release"][0] > 0.85
    assert found["both"][0] > 0.95


def test_without_a_prior_there_is_nothing_to_compare(tmp_path):
    assert series_sybil.measure(tmp_path) is None
