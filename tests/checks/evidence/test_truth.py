"""Test reading the source anew: the rating that counts, and people and items that are not in the release."""

import datetime
import pickle
import resource
import stat
from pathlib import Path
from types import SimpleNamespace

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.evidence import source_matrix as matrix
from checks.evidence.membership import Membership
from checks.evidence.release import Release
from checks.evidence.truth import Truth
from checks.evidence.views.shadow import select_people
from checks.evidence.working_files import forget
from checks.gate import judge
from tasks.config import Source
from tasks.engine import engine
from tasks.errors import DiskFull, Refused, UsageError
from tasks.formats import pieces


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
        timestamps=np.array(times, np.int64) * 86_400 + 7 if timed else None,
    )


def table(release, truth, values=None):
    """Ratings (or other values of theirs) by (user, item)."""
    users, items = truth.membership.users.to_pylist(), release.items.to_pylist()
    coo = truth.ratings.tocoo()
    values = coo.data if values is None else values
    return {(users[u], items[i]): v for u, i, v in zip(coo.row, coo.col, values, strict=True)}


def as_dictionary(part):
    """The same block with its ids as a dictionary that holds more than the rows do."""

    def coded(column):
        names = sorted({*column.to_pylist(), "nobody"}, reverse=True)
        return pa.DictionaryArray.from_arrays(pc.index_in(column, value_set=pa.array(names)), pa.array(names))

    return SimpleNamespace(**vars(part) | {"users": coded(part.users), "items": coded(part.items)})


def test_the_last_by_time_counts(release):
    opened, membership = release
    rows = [("a", "x", 1, 50), ("a", "x", 2, 70), ("a", "x", 3, 60), ("b", "y", 4, 10)]
    truth = Truth.build(opened, membership, [block(rows[:2], True), block(rows[2:], True)])
    assert table(opened, truth) == {("a", "x"): 2, ("b", "y"): 4}


def test_without_later_time_the_last_in_the_file_counts(release):
    opened, membership = release
    rows = [("a", "x", 1, 5), ("a", "x", 2, 5), ("c", "y", 5, 5)]
    for timed in (False, True):
        truth = Truth.build(opened, membership, [block(rows, timed)])
        assert table(opened, truth) == {("a", "x"): 2, ("c", "y"): 5}


def test_unlisted_people_are_counted_as_raters(release):
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
    assert truth.ratings.nnz == 3
    case = made.Case(opened, truth)
    (found,) = case.group_blocks()
    assert found.contributors.toarray()[:, 0].tolist() == [2, 1]
    assert found.rating_sums.toarray()[:, 0].tolist() == [-1, 1]
    assert found.rating_sums.nnz == found.contributors.nnz


def test_sums_that_cancel_out_keep_their_cell(release):
    opened, membership = release
    truth = Truth.build(opened, membership, [block([("a", "x", 2, 0), ("b", "x", -2, 0), ("c", "y", 1, 0)])])
    case = made.Case(opened, truth)
    (found,) = case.group_blocks()
    assert found.rating_sums.nnz == found.contributors.nnz == 2


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


ROW = st.tuples(st.sampled_from("abcvz"), st.sampled_from("xyn"), st.integers(1, 5), st.integers(0, 3))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=30),
    cut=st.integers(0, 30),
    timed=st.booleans(),
    at_once=st.integers(1, 4),
    coded=st.booleans(),
)
def test_matrix_matches_a_plain_dictionary(release, rows, cut, timed, at_once, coded):
    opened, membership = release
    expected: dict = {}
    for user, item, rating, time in rows:
        now = time if timed else 0
        if expected.get((user, item), (0, now))[1] <= now:
            expected[user, item] = (rating, now)
    parts = [block(part, timed) for part in (rows[:cut], rows[cut:]) if part]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "GRAINS", at_once)
        patch.setattr(matrix, "ROWS_AT_ONCE", at_once)
        patch.setattr(matrix, "STRANGER_GRAINS", at_once)
        truth = Truth.build(opened, membership, [as_dictionary(part) for part in parts] if coded else parts)
    known = {key: rating for key, (rating, _) in expected.items() if key[0] in "abc" and key[1] in "xy"}
    assert table(opened, truth) == known
    assert truth.unlisted_users == len({u for u, _ in expected if u in "zv"})
    assert truth.unlisted_items == len({i for _, i in expected if i == "n"})
    assert (truth.days is not None) is timed
    if timed:
        assert table(opened, truth, truth.days) == {key: expected[key][1] for key in known}
    assert truth.raters.tolist() == [sum(item == i for _, i in expected) for item in "xy"]


@pytest.mark.parametrize(
    "columns",
    [{"user": ["a"], "group": [1]}, {"user": ["a"], "pseudonym": [None], "group": pa.array([1], pa.int32())}],
)
def test_a_wrong_membership_is_refused(tmp_path, columns):
    pq.write_table(pa.table(columns), tmp_path / "membership.parquet")
    with pytest.raises(Refused, match="membership"):
        Membership.read(tmp_path)


def test_stray_rating_is_no_level(release):
    opened, membership = release
    truth = Truth.build(opened, membership, [block([("a", "x", 1, 0)])])
    values = np.concatenate([np.tile([1, 2, 3, 4, 5], 100), [3.0002]]).astype(np.float32)
    matrix = made.csr(np.zeros(501, int), np.arange(501), values, (1, 501))
    assert Truth(membership, matrix, truth.row_of_user, truth.raters, truth.seen, 0, 0).half_level == 0.5


SNAPSHOT = datetime.date(2026, 1, 1)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A source of several pieces in no order, with strangers and ratings given twice, and a release of some of it."""
    root = tmp_path_factory.mktemp("large")
    draw = np.random.default_rng(0)
    rows = 60_000
    columns = {
        "user": [f"u{n}" for n in draw.integers(0, 700, rows)],
        "item": [f"i{n}" for n in draw.integers(0, 60, rows)],
        "rating": draw.integers(1, 6, rows).astype(float),
        "timestamp": draw.integers(0, 10**9, rows),
    }
    pq.write_table(pa.table(columns), root / "source.parquet", row_group_size=1_000)
    source = Source(format="parquet", path=str(root / "source.parquet"), scale=(1, 5), block_bytes=2**12)
    users, items = [f"u{n}" for n in range(650)], [f"i{n}" for n in range(55)]
    ratings = made.csr(np.arange(650), np.arange(650) % 55, np.ones(650), (650, 55))
    release = made.Made(ratings, np.arange(650) // 5, np.full((130, 55), 3.0, np.float32), k=5)
    published, private = made.write(release.but(user_ids=users, item_ids=items), root / "release")
    return Release(published), private, source


def same(one, other):
    assert (one.ratings != other.ratings).nnz == 0
    assert one.ratings.nnz == other.ratings.nnz
    assert np.array_equal(one.ratings.indices, other.ratings.indices)
    assert np.array_equal(one.days, other.days)
    assert np.array_equal(one.raters, other.raters)
    assert np.array_equal(one.seen, other.seen)
    assert (one.unlisted_users, one.unlisted_items) == (other.unlisted_users, other.unlisted_items) == (50, 5)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_and_range_size_do_not_matter(large, monkeypatch):
    release, private, source = large
    here = Truth.read(release, private, source, SNAPSHOT)
    with engine(2) as workers:
        same(Truth.read(release, private, source, SNAPSHOT, workers), here)
    for name, size in {"GRAINS": 18, "ROWS_AT_ONCE": 2_500, "PIECES_AT_ONCE": 3}.items():
        monkeypatch.setattr(matrix, name, size)
    same(Truth.read(release, private, source, SNAPSHOT), here)


def test_ratings_are_mapped_from_private_files_until_closed(large):
    release, private, source = large
    truth = Truth.read(release, private, source, SNAPSHOT)
    (place,) = private.glob(".attack-*")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert sorted(file.name for file in place.iterdir()) == ["days", "items", "ratings"]
    for array, name in ((truth.ratings.indices, "items"), (truth.ratings.data, "ratings")):
        while not isinstance(array, np.memmap):
            array = array.base
        assert array.filename == place / name
    before = truth.ratings.data.sum()
    truth.forget()
    forget(np.ones(3), None)  # what lies in memory stays
    assert truth.ratings.data.sum() == before
    truth.close()
    assert list(private.glob(".attack-*")) == []


def test_failed_reading_leaves_no_files(large, monkeypatch):
    release, private, source = large
    monkeypatch.setattr(matrix, "_join_range", None)
    with pytest.raises(TypeError):
        Truth.read(release, private, source, SNAPSHOT)
    assert list(private.glob(".attack-*")) == []
    with pytest.raises(UsageError):
        Truth.read(release, private, source.model_copy(update={"path": "nowhere.parquet"}), SNAPSHOT)
    assert list(private.glob(".attack-*")) == []


def test_source_alone_has_all_people_in_order(large):
    _, _, source = large
    truth = Truth.from_source_only(source, SNAPSHOT)
    assert truth.membership.users.to_pylist() == sorted(f"u{n}" for n in range(700))
    assert (truth.ratings.shape, truth.unlisted_users, truth.seen.all()) == ((700, 60), 0, True)
    count, total = truth.item_totals
    assert np.array_equal(count, truth.raters)
    assert total == pytest.approx(truth.ratings.sum(axis=0))
    values, often = truth.value_counts
    assert values.tolist() == [1, 2, 3, 4, 5]
    assert np.array_equal(often, np.bincount(truth.ratings.data.astype(int))[1:])


def test_rating_figures_do_not_depend_on_stretches(large):
    _, _, source = large
    truth = Truth.from_source_only(source, SNAPSHOT)
    other = truth.listed_at(truth.row_of_user)
    other.__dict__["stretches"] = lambda: (slice(n, n + 999) for n in range(0, truth.ratings.nnz, 999))
    for one, two in zip(
        truth.item_totals + truth.value_counts, other.item_totals + other.value_counts, strict=True
    ):
        assert one == pytest.approx(two)
    assert truth.listed_at(truth.row_of_user).__dict__["item_totals"] is truth.item_totals


def test_no_id_is_sent_between_processes(large, tmp_path):
    release, _, source = large
    only_listed = matrix.IdArrays(pa.array(["u1"]), release.items)
    runs = matrix._read_stretch(
        (0, pieces(source, SNAPSHOT)), source=source, snapshot=SNAPSHOT, ids=only_listed, place=tmp_path
    )
    raised = pickle.dumps(runs)
    assert len(runs[0].missing_items) == 5
    assert not any(f"u{n}".encode() in raised for n in range(100, 700))


def test_a_full_disk_is_no_verdict_and_leaves_nothing(large):
    release, private, source = large
    Truth.read(release, private, source, SNAPSHOT).close()  # compiled; the cache of that is a file, too
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(DiskFull, match="no space left") as raised:
            judge(release.directory, private, source, SNAPSHOT, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert Path(raised.value.where).parent == private
    assert list(private.glob(".attack-*")) == []


@given(st.lists(st.integers(0, 50), min_size=6, max_size=40), st.integers(1, 60))
def test_ranges_hold_the_allowed_number_of_ratings(rows, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "GRAINS", len(rows) // 2)
        patch.setattr(matrix, "ROWS_AT_ONCE", most)
        ranges = matrix._ranges(np.array(rows))
    assert [grain for first, last in ranges for grain in range(first, last)] == list(range(len(rows)))
    assert len(rows) // 2 in [first for first, _ in ranges]
    for first, last in ranges:
        assert sum(rows[first : last - 1]) < most or last - first == 1


@pytest.fixture
def people(tmp_path):
    """A release of b, c and a (in this order of pseudonyms), and a source with a table of its users."""
    ratings = made.csr(np.array([0, 1, 2]), np.array([0, 1, 1]), np.array([1.0, 2, 3]), (3, 2))
    small = made.Made(ratings, np.array([0, 0, 1]), np.full((2, 2), 3.0, np.float32), k=2)
    published, private = made.write(
        small.but(user_ids=["b", "a", "c"], item_ids=["x", "y"]), tmp_path, ["1", "3", "2"]
    )
    (tmp_path / "ratings.csv").write_text("user,item,rating\na,x,1\nb,y,2\nc,y,3\nstranger,x,3\n")
    (tmp_path / "users.csv").write_text("user,side,age\nstranger,up,9\nc,left,\nb,left,30\nb,right,40\n")
    table = {"path": str(tmp_path / "users.csv"), "columns": ["side", "age"]}
    source = Source(format="csv", path=str(tmp_path / "ratings.csv"), scale=(1, 5), attributes=table)
    return Release(published), private, source


def listed(truth):
    """What is known, by user."""
    assert all(isinstance(values, pa.DictionaryArray) for values in truth.attributes.values())
    columns = [values.to_pylist() for values in truth.attributes.values()]
    return dict(zip(truth.membership.users.to_pylist(), zip(*columns, strict=True), strict=True))


def test_attributes_follow_the_membership(people):
    release, private, source = people
    truth = Truth.read(release, private, source, SNAPSHOT)
    assert truth.membership.users.to_pylist() == ["b", "c", "a"]  # neither the table's order nor the source's
    assert list(truth.attributes) == ["side", "age"]
    assert listed(truth) == {"b": ("right", "40"), "a": (None, None), "c": ("left", None)}
    assert listed(truth.listed_at(truth.row_of_user[::-1])) == listed(truth)


def test_source_alone_has_all_attributes(people):
    truth = Truth.from_source_only(people[2], SNAPSHOT)
    all_people = {"a": (None, None), "b": ("right", "40"), "c": ("left", None), "stranger": ("up", "9")}
    assert listed(truth) == all_people


def test_a_part_of_the_people_keeps_their_attributes(people):
    release, private, source = people
    truth = Truth.read(release, private, source, SNAPSHOT)
    part = select_people(truth, np.array([1, 0]), np.array([0, 1], np.int32))
    assert listed(part) == {"c": ("left", None), "b": ("right", "40")}


def test_nothing_is_known_without_a_table(large):
    release, private, source = large
    truth = Truth.read(release, private, source, SNAPSHOT)
    assert truth.attributes == {}
    assert select_people(truth, np.arange(3), np.zeros(3, np.int32)).attributes == {}


def test_unreadable_table_leaves_no_files_and_no_verdict(people):
    release, private, source = people
    Path(source.attributes.path).write_text("user,side\nsecret-1,left\n")
    with pytest.raises(UsageError, match="no column called 'age'") as raised:
        judge(release.directory, private, source, SNAPSHOT, {})
    assert "secret" not in str(raised.value)
    assert list(private.glob(".attack-*")) == []
