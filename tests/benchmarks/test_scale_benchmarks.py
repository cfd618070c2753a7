"""Test the benchmarks of many items, of rooflines and of a billion ratings without making a release."""

import numpy as np
import pytest

from benchmarks import billion, many_items, roofline

GIB = 2**30


def test_a_long_tail_has_the_size_asked_for():
    """Every rating once, every item at least one, every person at least two; most items have few."""
    made = many_items.draw(300, 2_000, 6_000)
    cells = made["user"].astype(np.int64) * 2_000 + made["item"]
    assert len(cells) == len(np.unique(cells)) == 6_000
    raters = np.bincount(made["item"], minlength=2_000)
    assert raters.min() == 1
    assert np.median(raters) <= 2
    assert raters.max() > 50
    assert np.bincount(made["user"], minlength=300).min() >= many_items.LEAST_PER_USER
    assert set(made["rating"].tolist()) == {1, 2, 3, 4, 5}
    again = many_items.draw(300, 2_000, 6_000)
    assert all(np.array_equal(made[name], again[name]) for name in made)
    with pytest.raises(SystemExit, match="not possible"):
        many_items.draw(300, 2_000, 1_000)


def test_only_the_gate_has_a_bar_of_memory():
    stages = [{"name": "evaluate", "peak_bytes": 9 * GIB}, {"name": "validate", "peak_bytes": 2 * GIB}]
    (bar,) = many_items.bars("7k", "predictive-padded", {"stages": stages})
    assert (bar.value, bar.passed) == (2.0, True)
    assert many_items.bars("7k", "predictive-padded", {"stages": stages[:1]}) == []


def test_a_stage_takes_as_long_as_the_slower_of_memory_and_arithmetic():
    limits = roofline.Limits(bytes_per_second=10.0, operations_per_second=100.0)
    assert limits.seconds(roofline.Work(20, 50)) == 2.0
    assert limits.seconds(roofline.Work(20, 500)) == 5.0


def test_work_is_counted_by_hand():
    """Ten ratings, rank 1: a half step has two unknowns a row, three entries of the lower triangle, and two sides."""
    work = {
        "ratings": 10,
        "users": 4,
        "items": 5,
        "cells": 15,
        "distances": {"centers": 2, "binning": 4, "clustering": 6},
    }
    counted = roofline.count_stages(work, 100, 1, 7)
    assert counted["ingest"].bytes == 100 + 4 * 2 * 10 * 20 + 2 * 10 * 24
    assert counted["padding"].bytes == 7 * 10 * 12
    assert counted["padding"].operations == pytest.approx(7 * (10 * 2 * 3 + 4.5 * 8 / 3))
    assert counted["binning"].operations == 4 * 5 * 5
    assert counted["homogenization"].bytes == 45


def test_a_billion_is_judged_by_its_last_doublings():
    """Growth by 2¹·⁰ at the end passes whatever it was at the beginning; a size that was not made does not."""

    def run(users, seconds, gib=7):
        stages = [{"name": "ingest", "cpu_seconds": seconds}]
        return {"users": users, "stages": stages, "peak_bytes": gib * GIB, "status": "published"}

    runs = [run(1, 1), run(2, 4), run(4, 8), run(8, 16), run(16, 32)]
    memory, growth, passed, largest = billion.bars(runs, 16)
    assert growth.value == pytest.approx(1.0)
    assert memory.passed
    assert growth.passed
    assert passed.passed
    assert largest.passed
    assert not billion.bars(runs, 32)[3].passed
    assert billion.bars(runs[:3], 4)[1].value is None
    assert not any(bar.passed for bar in billion.bars([], 4))
    assert not billion.bars([*runs[:4], run(16, 32, gib=9)], 16)[0].passed
    full = billion.needed_bytes(billion.USERS, billion.ITEMS, billion.RATINGS / billion.USERS)
    assert 60e9 < full < 90e9
