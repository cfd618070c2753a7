"""Test the low-rank predictions, their group means and variances, and the codes of published ratings."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tasks.kernels.padded import LowRank, code_type, encode

# Three users, two items; predictions 3 + a·b.
MODEL = LowRank(np.array([[1.0], [0.0], [-1.0]], np.float32), np.array([[0.5], [2.0]], np.float32), 3.0)


def test_rows_are_predictions():
    assert MODEL.rows(slice(None)).tolist() == [[3.5, 5.0], [3.0, 3.0], [2.5, 1.0]]
    assert MODEL.cells(np.array([0, 2]), np.array([1, 0])).tolist() == [5.0, 2.5]


def test_padded_rows_keep_observed_ratings():
    observed = sp.csr_array(np.array([[0, 1], [4, 0]], np.float32))
    assert MODEL.padded_rows(np.array([0, 2]), observed).tolist() == [[3.5, 1.0], [4.0, 1.0]]


def test_group_means_stay_low_rank():
    means = MODEL.group_means(np.array([1, 0, 0]), 2)
    assert means.rows(slice(None)).tolist() == [[2.75, 2.0], [3.5, 5.0]]


def test_group_variances_by_hand():
    variances = MODEL.group_variances(np.array([0, 0, 0]), 1, np.array([0, 1]))
    dense = MODEL.rows(slice(None))
    np.testing.assert_allclose(variances[0], dense.var(axis=0), rtol=1e-5)


@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 5), st.integers(0, 10_000))
def test_group_means_and_variances_equal_dense_ones(users, items, groups, seed):
    rng = np.random.default_rng(seed)
    model = LowRank(
        rng.standard_normal((users, 3)).astype(np.float32),
        rng.standard_normal((items, 3)).astype(np.float32),
        1.0,
    )
    labels = np.concatenate([np.arange(min(groups, users)), rng.integers(0, min(groups, users), users)])[
        :users
    ]
    count = int(labels.max()) + 1
    dense = model.rows(slice(None)).astype(np.float64)
    for group in range(count):
        mine = dense[labels == group]
        np.testing.assert_allclose(
            model.group_means(labels, count).rows(slice(None))[group], mine.mean(0), atol=1e-4
        )
        np.testing.assert_allclose(
            model.group_variances(labels, count, np.arange(items))[group], mine.var(0), atol=1e-3
        )


def test_codes_are_rounded_and_clipped_to_the_scale():
    codes = encode(np.array([0.2, 1.0, 3.449, 4.96, 9.0], np.float32), (1.0, 5.0), 0.1)
    assert codes.tolist() == [0, 0, 24, 40, 40]
    assert codes.dtype == np.uint8


@pytest.mark.parametrize(
    ("scale", "step", "kind"),
    [
        ((1.0, 5.0), 0.1, "u1"),
        ((-10.0, 10.0), 0.1, "u1"),
        ((-10.0, 10.0), 0.05, "<u2"),
        ((0.0, 255.0), 1.0, "u1"),
    ],
)
def test_code_type_is_the_smallest_that_fits(scale, step, kind):
    assert code_type(scale, step) == np.dtype(kind)
    assert encode(np.array([scale[1]], np.float32), scale, step)[0] == round((scale[1] - scale[0]) / step)


def test_the_highest_code_never_wraps_around():
    scale, step = (0.1, 25.7), 0.1  # the ratio is 255.99999999999997: 256 in truth
    assert encode(np.array([25.7], np.float32), scale, step)[0] == 256


def test_codes_stay_on_the_scale_with_an_uneven_step():
    code = encode(np.array([5.0], np.float32), (1.0, 5.0), 0.3)[0]
    assert 1.0 + code * 0.3 <= 5.0
