"""Test the profiles of groups: contributors, simple, padded and boosted profiles."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kernels.group_profiles import (
    add_cells,
    boost_profiles,
    group_cells,
    observed_shifts,
    padded_codes,
    simple_profiles,
)
from tasks.kernels.padded import LowRank

# Four users, three items; groups {0, 1} and {2, 3}. Every prediction is 3.
OBSERVED = sp.csr_array(np.array([[5, 4, 0], [3, 0, 0], [0, 2, 1], [0, 4, 0]], np.float32))
LABELS = np.array([0, 0, 1, 1])
FLAT = LowRank(np.zeros((4, 1), np.float32), np.zeros((3, 1), np.float32), 3.0)
SIZES = np.array([2, 2])


def test_cells_count_their_contributors():
    cells = group_cells(OBSERVED, LABELS, 2)
    assert list(zip(cells.group, cells.item, cells.count, cells.mean, strict=True)) == [
        (0, 0, 2, 4.0),
        (0, 1, 1, 4.0),
        (1, 1, 2, 3.0),
        (1, 2, 1, 1.0),
    ]


def test_simple_is_union_and_mean_of_those_who_rated():
    profiles = simple_profiles(FLAT.group_means(LABELS, 2), group_cells(OBSERVED, LABELS, 2), 1)
    assert profiles.toarray().tolist() == [[4, 4, 0], [0, 3, 1]]


def test_too_few_contributors_show_as_predictions():
    profiles = simple_profiles(FLAT.group_means(LABELS, 2), group_cells(OBSERVED, LABELS, 2), 2)
    assert profiles.toarray().tolist() == [[4, 3, 0], [0, 3, 3]]


# The 5 of the first person and the 4 of the last are made up: of groups {0, 1} and {2, 3} one real rating each is left.
MADE_UP = sp.csr_array(np.array([[5, 0, 0], [0, 0, 0], [0, 0, 0], [0, 4, 0]], np.float32))


def test_factitious_ratings_are_not_contributors():
    cells = group_cells(OBSERVED, LABELS, 2, MADE_UP)
    assert list(zip(cells.count, cells.real, cells.mean, strict=True)) == [
        (2, 1, 4),
        (1, 1, 4),
        (2, 1, 3),
        (1, 1, 1),
    ]
    means = FLAT.group_means(LABELS, 2)
    assert simple_profiles(means, cells, 1).toarray().tolist() == [[4, 4, 0], [0, 3, 1]]
    assert simple_profiles(means, cells, 2).toarray().tolist() == [
        [3, 3, 0],
        [0, 3, 3],
    ]  # all are predictions
    assert observed_shifts(FLAT, OBSERVED, LABELS, SIZES, 2).nnz == 2
    assert observed_shifts(FLAT, OBSERVED, LABELS, SIZES, 2, MADE_UP).nnz == 0
    assert observed_shifts(FLAT, OBSERVED, LABELS, SIZES, 1, MADE_UP).nnz == 4


def test_rare_items_and_boosted_profiles_show_predictions_alone():
    cells, means = group_cells(OBSERVED, LABELS, 2), FLAT.group_means(LABELS, 2)
    common = np.array([False, True, True])  # item 0 has too few raters in the source
    assert simple_profiles(means, cells, 2, common).toarray().tolist() == [[3, 3, 0], [0, 3, 3]]
    assert simple_profiles(means, cells, 1, common).toarray().tolist() == [[3, 4, 0], [0, 3, 1]]
    assert simple_profiles(means, cells, np.inf).toarray().tolist() == [[3, 3, 0], [0, 3, 3]]


def padded(min_contributors, *, keep_observed):
    """Return published ratings of the groups, in steps of a half."""
    shifts = observed_shifts(FLAT, OBSERVED, LABELS, SIZES, min_contributors) if keep_observed else None
    return (1 + padded_codes(FLAT.group_means(LABELS, 2), shifts, (1.0, 5.0), 0.5) * 0.5).tolist()


def test_padded_profile_holds_only_predictions():
    assert padded(1, keep_observed=False) == [[3, 3, 3], [3, 3, 3]]


def test_padded_with_observed_is_the_mean_of_padded_rows():
    assert padded(1, keep_observed=True) == [[4, 3.5, 3], [3, 3, 2]]
    # The sole ratings (4 of item 1, 1 of item 2) vanish behind predictions when two must contribute.
    assert padded(2, keep_observed=True) == [[4, 3, 3], [3, 3, 3]]


@pytest.mark.parametrize("step", [0.1, 0.01], ids=["one byte", "two bytes"])
@settings(deadline=None)  # the first example compiles the kernel
@given(st.integers(1, 100), st.integers(1, 9), st.booleans(), st.integers(0, 1000))
def test_padded_codes_do_not_depend_on_the_slab(step, groups, items, keep, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(3 * groups) % groups)
    users, factors = (rng.standard_normal((n, 2)).astype(np.float32) for n in (3 * groups, items))
    model = LowRank(users, factors, 3.3)
    dense = model.rows(slice(None)).astype(np.float64)
    rated = rng.random(dense.shape) < 0.5
    ratings = np.where(rated, rng.integers(1, 6, dense.shape), 0).astype(np.float32)
    shifts = None
    if keep:
        shifts = observed_shifts(model, sp.csr_array(ratings), labels, np.full(groups, 3), 2)
        enough = np.stack([rated[labels == g].sum(axis=0) >= 2 for g in range(groups)])[labels]
        dense = np.where(rated & enough, ratings, dense)
    expected = np.stack([dense[labels == group].mean(axis=0) for group in range(groups)])
    codes = padded_codes(model.group_means(labels, groups), shifts, (1.0, 5.0), step)
    assert codes.dtype == (np.uint8 if step == 0.1 else np.uint16)
    assert np.abs(1 + codes * step - np.clip(expected, 1, 5)).max() <= step / 2 + 1e-4


@settings(deadline=None)  # the first example compiles the kernel
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 1000))
def test_cells_equal_their_definition(groups, items, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(2 * groups) % groups)
    ratings = np.where(rng.random((2 * groups, items)) < 0.4, rng.integers(1, 6, (2 * groups, items)), 0)
    cells = group_cells(sp.csr_array(ratings.astype(np.float32)), labels, groups)
    expected = [
        (g, i, int((column > 0).sum()), float(np.float32(column[column > 0].mean())))
        for g in range(groups)
        for i, column in enumerate(ratings[labels == g].T)
        if column.any()
    ]
    assert list(zip(cells.group, cells.item, cells.count, cells.mean, strict=True)) == expected


@settings(deadline=None)  # the first example compiles the kernel
@given(st.integers(1, 5), st.integers(1, 30), st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.integers(0, 1000))
def test_boost_takes_lowest_doubt_then_lowest_item(groups, items, density, seed):
    rng = np.random.default_rng(seed)
    held = rng.random((groups, items)) < 0.4
    variances = rng.integers(0, 4, (groups, items)).astype(np.float32)  # many ties
    model = LowRank(np.zeros((groups, 1), np.float32), np.zeros((items, 1), np.float32), 3.0)
    profiles = sp.csr_array(held.astype(np.float32))
    boosted = boost_profiles(profiles, model, variances.copy(), np.zeros(items), density)
    for group in range(groups):
        free = np.flatnonzero(~held[group])
        wanted = int(np.floor(density * len(free) + 0.5))
        chosen = free[np.argsort(variances[group, free], kind="stable")[:wanted]]
        found = boosted.indices[boosted.indptr[group] : boosted.indptr[group + 1]]
        assert found.tolist() == sorted([*np.flatnonzero(held[group]), *chosen])


def test_boost_adds_the_most_confident_items_first():
    simple = simple_profiles(FLAT.group_means(LABELS, 2), group_cells(OBSERVED, LABELS, 2), 1)
    variances = np.array([[0.0, 0.0, 0.5], [0.1, 0.0, 0.0]], np.float32)
    boosted = boost_profiles(simple, FLAT.group_means(LABELS, 2), variances, np.array([2, 3, 1]), density=1.0)
    assert boosted.toarray().tolist() == [[4, 4, 3], [3, 3, 1]]
    assert (
        boost_profiles(simple, FLAT.group_means(LABELS, 2), variances, np.array([2, 3, 1]), 0.0).nnz
        == simple.nnz
    )


def test_boost_prefers_agreement_and_support():
    empty = sp.csr_array((1, 3), dtype=np.float32)
    means = FLAT.group_means(np.zeros(4, int), 1)
    chosen = boost_profiles(empty, means, np.array([[0.3, 0.1, 0.2]], np.float32), np.array([9, 9, 9]), 1 / 3)
    assert chosen.indices.tolist() == [1]
    chosen = boost_profiles(empty, means, np.array([[0.1, 0.1, 0.1]], np.float32), np.array([1, 2, 9]), 1 / 3)
    assert chosen.indices.tolist() == [2]


def test_a_rating_of_zero_is_a_value():
    profiles = add_cells(
        sp.csr_array((2, 3), dtype=np.float32), np.array([1]), np.array([2]), np.array([0.0])
    )
    assert profiles.nnz == 1


@settings(deadline=None)  # the first example compiles the kernel
@given(st.integers(0, 1000), st.integers(2, 12), st.integers(2, 9), st.integers(1, 4))
def test_no_rating_enters_a_cell_of_too_few_contributors(seed, users, items, least):
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
    profiles = simple_profiles(means, group_cells(sp.csr_array(dense), labels, 2), least)
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
