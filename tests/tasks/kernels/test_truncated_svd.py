"""Test the regularized low-rank fit of a matrix in blocks, against NumPy's SVD of the whole."""

import numpy as np
import pytest

from tasks.kernels.truncated_svd import truncated_svd

RNG = np.random.default_rng(3)
TASTES = RNG.standard_normal((60, 4)) @ RNG.standard_normal((4, 25)) * 3
MATRIX = (2 + TASTES + RNG.standard_normal((60, 25))).astype(np.float32)


def fit(height, rank=4, shrinkage=0.0):
    def blocks():
        return (MATRIX[start : start + height] for start in range(0, len(MATRIX), height))

    return truncated_svd(blocks, 25, rank, shrinkage, np.random.default_rng(0)).rows(slice(None))


@pytest.mark.parametrize("shrinkage", [0.0, 5.0])
@pytest.mark.parametrize("height", [1, 7, 60])
def test_equals_the_shrunken_svd_of_the_residual(height, shrinkage):
    means = MATRIX.mean(axis=0)
    left, singular, right = np.linalg.svd(MATRIX - means)
    kept = np.maximum(singular[:4] - shrinkage, 0)
    np.testing.assert_allclose(
        fit(height, shrinkage=shrinkage), means + left[:, :4] * kept @ right[:4], atol=2e-3
    )


def test_full_shrinkage_leaves_the_item_means():
    np.testing.assert_allclose(fit(60, shrinkage=1e6), np.tile(MATRIX.mean(axis=0), (60, 1)), atol=1e-4)


def test_surplus_rank_reproduces_the_matrix():
    np.testing.assert_allclose(fit(60, rank=99), MATRIX, atol=1e-3)
