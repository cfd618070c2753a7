"""Test what is found of people block by block: neither 10⁹ ratings nor a running sum of them fit into memory."""

from functools import partial

import numpy as np
import pytest

from tasks.data.item_removal import write_part
from tasks.data.ratings import Ratings, user_blocks, write_ids, write_matrix
from tasks.series import cohort


@pytest.fixture
def ratings(tmp_path, taste_matrix):
    """Return ratings of 30 people with times."""
    matrix = taste_matrix(users=30, items=20)
    place = tmp_path / "ratings"
    place.mkdir()
    write_ids(place, "user", [f"{number:02}" for number in range(30)])
    write_ids(place, "item", [f"{number:02}" for number in range(20)])
    times = np.random.default_rng(1).integers(0, 10**6, matrix.nnz)
    write_matrix(place, matrix, times)
    return Ratings(place)


@pytest.mark.parametrize("entries", [1, 7, 10**6])
def test_figures_do_not_depend_on_the_blocks(ratings, monkeypatch, entries):
    whole, times = ratings.by_user.whole(), np.asarray(ratings.timestamps)
    blocks = list(user_blocks(ratings, entries))
    assert len(blocks) == (30 if entries == 1 else len(blocks))
    assert np.array_equal(np.concatenate([block.items() for block in blocks]), whole.indices)
    assert np.array_equal(np.concatenate([block.values() for block in blocks]), whole.data)
    assert np.array_equal(np.concatenate([block.times() for block in blocks]), times)
    monkeypatch.setattr(cohort, "user_blocks", partial(user_blocks, entries=entries))
    rows = np.split(np.arange(whole.nnz), whole.indptr[1:-1])
    items = np.arange(20) % 3 == 0
    assert cohort._kept(ratings, items).tolist() == [int(items[whole.indices[row]].sum()) for row in rows]
    assert cohort._first_times(ratings).tolist() == [int(times[row].min()) for row in rows]
    before = cohort._of_people(ratings, partial(cohort._ratings_before, 5e5))
    assert before.tolist() == [int((times[row] < 5e5).sum()) for row in rows]


def test_a_part_keeps_the_times_of_its_ratings(ratings, tmp_path, monkeypatch):
    """Some people and items stay; by item only some people's ratings are written."""
    monkeypatch.setattr("tasks.data.item_removal.RATINGS_PER_BLOCK", 9)
    people, stay, of = np.arange(30) % 4 != 1, np.arange(20) % 5 != 2, np.arange(30) < 20
    (tmp_path / "part").mkdir()
    write_part(ratings, people, stay, tmp_path / "part", by_item_of=of)
    part, whole = Ratings(tmp_path / "part"), ratings.by_user.whole().tocoo()
    times = np.asarray(ratings.timestamps)
    chosen = people[whole.row] & stay[whole.col]
    expected = [
        (f"{row:02}", f"{column:02}", value, time)
        for row, column, value, time in zip(
            whole.row[chosen], whole.col[chosen], whole.data[chosen], times[chosen], strict=True
        )
    ]
    found = part.by_user.whole().tocoo()
    users, items = part.user_ids().to_pylist(), part.item_ids()
    assert [
        (users[row], items[column], value, time)
        for row, column, value, time in zip(found.row, found.col, found.data, part.timestamps, strict=True)
    ] == expected
    by_item = part.by_item.whole().tocoo()
    assert {(users[row], items[column]) for column, row in zip(by_item.row, by_item.col, strict=True)} == {
        (user, item) for user, item, _, _ in expected if int(user) < 20
    }
