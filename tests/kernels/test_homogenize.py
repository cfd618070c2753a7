import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tasks.kernels.homogenize import add_cells, boost, group_cells, padded_profiles, simple_profiles
from tasks.kernels.padded import LowRank

# Four users, three items; groups {0, 1} and {2, 3}. Everybody is predicted 3 for everything.
OBSERVED = sp.csr_array(np.array([[5, 4, 0], [3, 0, 0], [0, 2, 1], [0, 4, 0]], np.float32))
LABELS = np.array([0, 0, 1, 1])
FLAT = LowRank(np.zeros((4, 1), np.float32), np.zeros((3, 1), np.float32), 3.0)
SIZES = np.array([2, 2])


def test_cells_count_their_contributors():
    cells = group_cells(OBSERVED, LABELS)
    assert list(zip(cells.group, cells.item, cells.count, cells.mean, strict=True)) == [
        (0, 0, 2, 4.0),
        (0, 1, 1, 4.0),
        (1, 1, 2, 3.0),
        (1, 2, 1, 1.0),
    ]


def test_simple_is_union_and_mean_of_those_who_rated():
    profiles = simple_profiles(FLAT.group_means(LABELS, 2), group_cells(OBSERVED, LABELS), 1)
    assert profiles.toarray().tolist() == [[4, 4, 0], [0, 3, 1]]


def test_too_few_contributors_show_as_predictions():
    profiles = simple_profiles(FLAT.group_means(LABELS, 2), group_cells(OBSERVED, LABELS), 2)
    assert profiles.toarray().tolist() == [[4, 3, 0], [0, 3, 3]]


def test_padded_shows_predictions_only():
    assert padded_profiles(FLAT, OBSERVED, LABELS, SIZES, 1, keep_observed=False).tolist() == [
        [3, 3, 3],
        [3, 3, 3],
    ]


def test_padded_with_observed_ratings_is_the_papers_mean():
    kept = padded_profiles(FLAT, OBSERVED, LABELS, SIZES, 1, keep_observed=True)
    assert kept.tolist() == [[4, 3.5, 3], [3, 3, 2]]
    # The sole ratings (4 of item 1, 1 of item 2) vanish behind predictions when two must contribute.
    assert padded_profiles(FLAT, OBSERVED, LABELS, SIZES, 2, keep_observed=True).tolist() == [
        [4, 3, 3],
        [3, 3, 3],
    ]


def test_boost_adds_the_most_confident_items_first():
    simple = simple_profiles(FLAT.group_means(LABELS, 2), group_cells(OBSERVED, LABELS), 1)
    spread = np.array([[0.0, 0.0, 0.5], [0.1, 0.0, 0.0]], np.float32)
    boosted = boost(simple, FLAT.group_means(LABELS, 2), spread, np.array([2, 3, 1]), density=1.0)
    assert boosted.toarray().tolist() == [[4, 4, 3], [3, 3, 1]]
    assert boost(simple, FLAT.group_means(LABELS, 2), spread, np.array([2, 3, 1]), 0.0).nnz == simple.nnz


def test_boost_prefers_agreement_and_support():
    empty = sp.csr_array((1, 3), dtype=np.float32)
    means = FLAT.group_means(np.zeros(4, int), 1)
    chosen = boost(empty, means, np.array([[0.3, 0.1, 0.2]], np.float32), np.array([9, 9, 9]), 1 / 3)
    assert chosen.indices.tolist() == [1]
    chosen = boost(empty, means, np.array([[0.1, 0.1, 0.1]], np.float32), np.array([1, 2, 9]), 1 / 3)
    assert chosen.indices.tolist() == [2]


def test_a_rating_of_zero_is_a_value():
    profiles = add_cells(
        sp.csr_array((2, 3), dtype=np.float32), np.array([1]), np.array([2]), np.array([0.0])
    )
    assert profiles.nnz == 1


@given(st.integers(0, 1000), st.integers(2, 12), st.integers(2, 9), st.integers(1, 4))
def test_no_observed_rating_enters_a_cell_of_too_few(seed, users, items, least):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((users, items)) < 0.5, rng.integers(1, 6, (users, items)), 0).astype(
        np.float32
    )
    labels = rng.permutation(np.arange(users) % 2)
    model = LowRank(
        rng.standard_normal((users, 2)).astype(np.float32),
        rng.standard_normal((items, 2)).astype(np.float32),
        3.0,
    )
    means = model.group_means(labels, 2)
    profiles = simple_profiles(means, group_cells(sp.csr_array(dense), labels), least)
    for group in range(2):
        mine = dense[labels == group]
        for item in range(items):
            raters = mine[:, item][mine[:, item] > 0]
            released = profiles[group, item]
            if len(raters) == 0:
                assert (
                    profiles.indices[profiles.indptr[group] : profiles.indptr[group + 1]].tolist().count(item)
                    == 0
                )
            elif len(raters) >= least:
                assert np.isclose(released, raters.mean(), atol=1e-5)
            else:
                assert np.isclose(released, means.rows(slice(None))[group, item], atol=1e-4)
