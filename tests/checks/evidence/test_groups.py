"""Test what members really rated, block by block, against plain sums."""

import made_releases as made
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.evidence import release_view as reader

GROUPS, ITEMS = 4, 5


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_group_blocks_match_plain_sums(tmp_path_factory, data):
    users = data.draw(st.integers(GROUPS, 9))
    rating = st.one_of(st.none(), st.sampled_from([-2, 0, 1, 2, 4.5]))
    row = st.lists(rating, min_size=ITEMS, max_size=ITEMS)
    table = np.array(data.draw(st.lists(row, min_size=users, max_size=users)), dtype=float)
    table[:, 0] = np.nan_to_num(table[:, 0], nan=1.0)
    rows, columns = np.nonzero(~np.isnan(table))
    ratings = made.csr(rows, columns, table[rows, columns], table.shape)
    other = st.lists(st.integers(0, GROUPS - 1), min_size=users - GROUPS, max_size=users - GROUPS)
    group_of = np.array([*range(GROUPS), *data.draw(other)])
    values = np.arange(GROUPS * ITEMS, dtype=np.float32).reshape(GROUPS, ITEMS) / 2 - 3
    values[data.draw(st.integers(0, GROUPS - 1)), 1] = np.nan
    release = made.Made(ratings, group_of, values, k=2, scale=(-3.0, 7.0), step=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "BLOCK_CELLS", ITEMS * data.draw(st.integers(1, 3)))
        case = made.case(release, tmp_path_factory.mktemp("groups"))
        blocks = list(case.group_blocks())
    known = case.truth.ratings
    of_user = case.truth.row_of_user
    members = np.zeros((GROUPS, users))
    members[of_user, np.arange(users)] = 1
    pattern = np.zeros((users, ITEMS))
    pattern[_stored(known)] = 1
    assert np.array_equal(np.concatenate([b.contributors.toarray() for b in blocks]), members @ pattern)
    assert np.concatenate([b.rating_sums.toarray() for b in blocks]) == pytest.approx(
        members @ known.toarray()
    )
    assert case.members.tolist() == members.sum(axis=1).tolist()
    for block in blocks:
        assert np.array_equal(block.contributors.indices, block.rating_sums.indices)
        assert np.array_equal(block.published, values[block.groups, block.items], equal_nan=True)
        assert np.array_equal(known.data[block.places], block.ratings)
        assert np.array_equal(known.indices[block.places], block.items[block.cells])
        assert np.array_equal(of_user[block.users], block.groups[block.cells])
    places = np.concatenate([block.places for block in blocks])
    assert sorted(places) == list(range(known.nnz))


def _stored(matrix):
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices
