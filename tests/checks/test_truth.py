"""The source read anew: the rating that counts, people and items that are not in the release."""

from types import SimpleNamespace

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.release import Release
from checks.truth import Membership, Truth
from tasks.errors import Refused


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Three people (a, b, c in two groups) and two items (x, y)."""
    ratings = made.csr(np.array([0, 1, 2]), np.array([0, 1, 1]), np.array([1.0, 2, 3]), (3, 2))
    small = made.Made(ratings, np.array([0, 0, 1]), np.full((2, 2), 3.0, np.float32), k=2)
    small = small.but(user_ids=["a", "b", "c"], item_ids=["x", "y"])
    published, private = made.write(small, tmp_path_factory.mktemp("truth"))
    return Release(published), Membership.read(private)


def block(rows, timed=False):
    users, items, ratings, times = zip(*rows, strict=True)
    return SimpleNamespace(
        users=pa.array(users),
        items=pa.array(items),
        ratings=np.array(ratings, np.float32),
        timestamps=np.array(times, np.int64) if timed else None,
    )


def table(release, truth):
    """Ratings by (user, item)."""
    users, items = truth.membership.users.to_pylist(), release.items.to_pylist()
    coo = truth.ratings.tocoo()
    return {(users[u], items[i]): r for u, i, r in zip(coo.row, coo.col, coo.data, strict=True)}


def test_the_last_by_time_counts(release):
    opened, membership = release
    rows = [("a", "x", 1, 50), ("a", "x", 2, 70), ("a", "x", 3, 60), ("b", "y", 4, 10)]
    truth = Truth.build(opened, membership, [block(rows[:2], True), block(rows[2:], True)])
    assert table(opened, truth) == {("a", "x"): 2, ("b", "y"): 4}


def test_without_times_or_at_the_same_time_the_last_in_the_file_counts(release):
    opened, membership = release
    rows = [("a", "x", 1, 5), ("a", "x", 2, 5), ("c", "y", 5, 5)]
    for timed in (False, True):
        truth = Truth.build(opened, membership, [block(rows, timed)])
        assert table(opened, truth) == {("a", "x"): 2, ("c", "y"): 5}


def test_strangers_are_counted_and_count_as_raters(release):
    opened, membership = release
    rows = [("a", "x", 1, 0), ("z", "x", 2, 0), ("z", "x", 3, 0), ("w", "x", 1, 0), ("b", "new", 2, 0)]
    truth = Truth.build(opened, membership, [block(rows)])
    assert (truth.unlisted_users, truth.unlisted_items) == (2, 1)
    assert truth.raters.tolist() == [3, 0]
    seen = dict(zip(membership.users.to_pylist(), truth.seen, strict=True))
    assert seen == {"a": True, "b": True, "c": False}


def test_a_rating_of_zero_is_a_rating(release):
    opened, membership = release
    truth = Truth.build(opened, membership, [block([("a", "x", 0, 0), ("b", "x", -1, 0), ("c", "x", 1, 0)])])
    assert truth.pattern.sum() == 3
    case = made.Case(opened, truth)
    assert case.contributors.toarray()[:, 0].tolist() == [2, 1]
    assert case.rating_sums.toarray()[:, 0].tolist() == [-1, 1]
    assert case.rating_sums.nnz == case.contributors.nnz


def test_sums_that_cancel_out_keep_their_cell(release):
    opened, membership = release
    truth = Truth.build(opened, membership, [block([("a", "x", 2, 0), ("b", "x", -2, 0), ("c", "y", 1, 0)])])
    case = made.Case(opened, truth)
    assert case.rating_sums.nnz == case.contributors.nnz == 2


def test_an_empty_source_is_refused(release):
    with pytest.raises(Refused, match="no ratings"):
        Truth.build(*release, [])


@pytest.mark.parametrize(
    ("levels", "half"),
    [([1, 2, 3, 5], 0.5), ([0.5, 1.0, 4.5], 0.25), (np.linspace(-10, 10, 60), 0.5), ([3], 0.5)],
)
def test_half_a_level(release, levels, half):
    opened, membership = release
    truth = Truth.build(opened, membership, [block([("a", "x", 1, 0)])])
    matrix = made.csr(np.zeros(len(levels), int), np.arange(len(levels)), np.array(levels), (1, 60))
    other = Truth(membership, matrix, truth.row_of_user, truth.raters, truth.seen, 0, 0)
    assert other.half_level == pytest.approx(half)


ROW = st.tuples(st.sampled_from("abcz"), st.sampled_from("xyn"), st.integers(1, 5), st.integers(0, 3))


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=30), cut=st.integers(0, 30), timed=st.booleans())
def test_as_a_dictionary_would(release, rows, cut, timed):
    opened, membership = release
    expected: dict = {}
    for user, item, rating, time in rows:
        now = time if timed else 0
        if expected.get((user, item), (0, now))[1] <= now:
            expected[user, item] = (rating, now)
    parts = [block(part, timed) for part in (rows[:cut], rows[cut:]) if part]
    truth = Truth.build(opened, membership, parts)
    known = {key: rating for key, (rating, _) in expected.items() if key[0] in "abc" and key[1] in "xy"}
    assert table(opened, truth) == known
    assert truth.unlisted_users == len({u for u, _ in expected if u == "z"})
    assert truth.raters.tolist() == [sum(item == i for _, i in expected) for item in "xy"]


@pytest.mark.parametrize(
    "columns",
    [{"user": ["a"], "group": [1]}, {"user": ["a"], "pseudonym": [None], "group": pa.array([1], pa.int32())}],
)
def test_a_wrong_membership_is_refused(tmp_path, columns):
    pq.write_table(pa.table(columns), tmp_path / "membership.parquet")
    with pytest.raises(Refused, match="membership"):
        Membership.read(tmp_path)


def test_a_stray_rating_does_not_blind_the_comparison(release):
    opened, membership = release
    truth = Truth.build(opened, membership, [block([("a", "x", 1, 0)])])
    values = np.concatenate([np.tile([1, 2, 3, 4, 5], 100), [3.0002]]).astype(np.float32)
    matrix = made.csr(np.zeros(501, int), np.arange(501), values, (1, 501))
    assert Truth(membership, matrix, truth.row_of_user, truth.raters, truth.seen, 0, 0).half_level == 0.5
