"""Test the subspace iteration against a full eigendecomposition."""

import numpy as np

from checks.recovery.subspace import iterate, random_basis, strongest


def test_main_directions_are_those_of_the_gram_matrix():
    random = np.random.default_rng(3)
    matrix = random.standard_normal((40, 12)) * (0.5 ** np.arange(12))
    gram = matrix.T @ matrix
    basis = iterate(lambda vectors: gram @ vectors, random_basis(random, 12, 6), 60)
    assert np.allclose(basis.T @ basis, np.eye(6))
    values, vectors = strongest(basis.T @ gram @ basis, 3)
    expected, directions = np.linalg.eigh(gram)
    assert np.allclose(values, expected[::-1][:3])
    assert np.allclose(np.abs((basis @ vectors).T @ directions[:, ::-1][:, :3]), np.eye(3), atol=1e-6)


def test_all_directions_without_a_count():
    values, vectors = strongest(np.diag([1.0, 3.0, 2.0]))
    assert values.tolist() == [3.0, 2.0, 1.0]
    assert np.abs(vectors).argmax(axis=0).tolist() == [1, 2, 0]
