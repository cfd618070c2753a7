"""Test the pure parts of the benchmarks of a series: coverage, combinations of groups, attacks on differences."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import difference_attacks as attacks
from benchmarks import series_attacks, series_backfill, series_erasures


def group(*people):
    return frozenset(people)


# --- backfill


def test_orders_are_permutations_and_repeat():
    found = series_backfill.orders(6, 3)
    assert found["chronological"] == [0, 1, 2, 3, 4, 5]
    assert len(found) == 4
    assert all(sorted(order) == list(range(6)) for order in found.values())
    assert found == series_backfill.orders(6, 3)


def test_coverage_counts_people_of_the_source_only():
    assert series_backfill.coverage({"a", "b", "gone"}, {"a", "b", "c", "d"}) == 0.5
    assert series_backfill.coverage(set(), set()) == 0.0


def test_orders_are_compared_snapshot_by_snapshot():
    def line(day, coverage, status="published"):
        return {"snapshot": day, "coverage": coverage, "status": status}

    found = series_backfill.compare(
        {"chronological": [line("1", 0.8), line("2", 1.0)], "other": [line("2", 0.0, "refused"), line("1", 0.6)]}
    )  # fmt: skip
    assert found["chronological"]["share_of_chronological"] == 1.0
    assert found["other"] == {
        "published": 1,
        "mean_coverage": 0.3,
        "worst_coverage": 0.0,
        "share_of_chronological": pytest.approx(0.6 / 1.8, abs=1e-4),
        "worst_share_of_chronological": 0.0,
    }


# --- erasures


def test_groups_that_share_people_are_one_cluster():
    found = series_erasures.clusters([group("a", "b"), group("c"), group("b", "d"), group("d", "e")])
    assert sorted(map(len, found)) == [1, 3]


def test_survivors_who_return_together_isolate_one_person():
    assert series_erasures.smallest_support([group(*"abcde"), group(*"abcd")]) == 1


@pytest.mark.parametrize("k", [2, 3, 4])
def test_transversals_isolate_nobody(k):
    old = [group(*((row, column) for column in range(k))) for row in range(k)]
    new = [group(*((row, column) for row in range(k))) for column in range(k - 1)]  # column k − 1 is erased
    assert series_erasures.smallest_support([*old, *new]) == k
    short = [*old[:-1], *(one - {(k - 1, c)} for c, one in enumerate(new))]
    assert series_erasures.smallest_support(short) == k - 1


def test_the_independent_script_reports_the_worst():
    found = series_erasures.judge([group(*range(5)), group(*range(10, 17)), group(3, 20, 21, 22, 23)])
    assert found["groups"] == 3
    assert found["pools"] == 1
    assert found["smallest_group"] == 5
    assert found["fewest_people_in_a_combination"] == 5


def test_waits_are_counted_in_releases():
    source = [set("abcd"), set("abd"), set("abd")]
    found = series_erasures.waits({"a": 0, "b": 0, "c": 0, "d": 1}, {"a": 2, "b": 1}, source, 2)
    assert (found["survivors"], found["pooled"]) == (4, 2)
    assert (found["left_the_source"], found["still_waiting"]) == (1, 1)
    assert (found["releases_waited_mean"], found["releases_waited_most"]) == (1.5, 2)


def test_nobody_is_erased_after_the_last_release():
    moments = series_erasures.draw_moments(200, 4, np.random.default_rng(0))
    assert moments == sorted(moments)
    assert set(moments) == {0, 1, 2}


# --- attacks


def test_a_person_is_nearest_to_the_own_predictions():
    table = np.random.default_rng(0).normal(3, 1, (12, 40))
    known, targets = attacks.Candidates(np.arange(100, 112), table), [{person} for person in range(100, 112)]
    assert attacks.found(known, table + 0.05, targets) == (12, 12)
    assert attacks.found(known, np.roll(table, 1, axis=0), targets) == (0, 12)
    published = table.copy()
    published[:6, :10] = np.nan  # not in these profiles
    table[:, 30:] = np.nan  # the model has no such items
    assert attacks.found(known, published, targets) == (12, 12)


def test_a_second_group_of_unlike_people_adds_to_what_the_first_shows():
    """Planted: every target is in two groups with three others each; scrambled links add nothing."""
    rng = np.random.default_rng(3)
    table = 3 + rng.normal(size=(200, 12)) @ rng.normal(size=(12, 50))
    known, targets = attacks.Candidates(np.arange(200), table), np.arange(200)

    def groups():
        order = rng.permutation(200)
        label = np.empty(200, int)
        label[order] = (
            np.arange(200) // 4
        )  # with 12 tastes and fours, one group finds some people and two find most
        return np.array([table[label == number].mean(axis=0) for number in range(50)])[label]

    one, two = (attacks.likelihoods(known, vectors, targets) for vectors in (groups(), groups()))
    scrambled = attacks.likelihoods(known, rng.permutation(groups()), targets)
    alone, both = (attacks.hits(known, score, targets)[0] for score in (one, one + two))
    assert both > 1.5 * alone > 0
    assert attacks.hits(known, one + scrambled, targets)[0] < 1.2 * alone


def test_a_share_has_its_interval():
    none, half = attacks.rate(0, 50), attacks.rate(25, 50)
    assert (none["rate"], none["low"], none["n"]) == (0.0, 0.0, 50)
    assert none["high"] == pytest.approx(0.0713, abs=1e-4)
    assert attacks.is_within(none, half)
    assert not attacks.is_within(half, none)


def test_the_item_that_moved_is_guessed_first():
    table = np.random.default_rng(1).normal(size=(30, 8))
    difference = np.zeros((1, 8))
    difference[0, 5] = 0.3
    guesses = attacks.guess_items(difference, table)
    assert guesses["size"][0, 0] == 5
    assert guesses["direction"][0, 0] == 5


def test_precision_is_of_the_highest_scores_among_candidates():
    score, true = np.array([9.0, 1, 5, 4, 3]), np.array([True, True, True, False, True])
    assert attacks.precision(score, true, np.array([1, 2, 3]), 2) == (1, 2)


def test_intersections_of_groups():
    one, two = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
    assert attacks.smallest_intersections([one, two], 3) == {"below_k": 0.5, "alone": 0.1667}
    assert attacks.smallest_intersections([one, one], 3) == {"below_k": 0.0, "alone": 0.0}


def test_a_release_is_read_as_published(tmp_path):
    columns = {
        "group": pa.array([1, 0], pa.int32()),
        "size": pa.array([5, 6], pa.int32()),
        "items": pa.array([None, [1]], pa.list_(pa.int32())),
        "ratings": pa.array([bytes([0, 40]), bytes([10])], pa.binary()),
    }
    pq.write_table(pa.table(columns), tmp_path / "groups.parquet")
    pq.write_table(pa.table({"item": ["x", "y"]}), tmp_path / "items.parquet")
    read = attacks.Published.read(tmp_path, {"y": 0, "z": 1, "x": 2})
    assert read.table[0] == pytest.approx([5, np.nan, 1], nan_ok=True)
    assert read.table[1] == pytest.approx([2, np.nan, np.nan], nan_ok=True)
    assert read.row_of() == {1: 0, 0: 1}
    assert attacks.nearest_group(np.array([4.0, 4, 2]), read) == 0


def test_attacks_are_put_side_by_side():
    before = {"a": {"x": 1}, "b": {"x": 2}}
    after = {
        "a": {"after": attacks.rate(9, 10), "baseline": attacks.rate(0, 10)},
        "b": {"differences": 0, "comparisons": 7},
    }
    lines = series_attacks.summarise(before, after)
    assert [(line["attack"], line["within"]) for line in lines] == [("a", False), ("b", True)]
    assert lines[1]["before"] == {"x": 2}
