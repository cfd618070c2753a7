"""Test the inference of a class from ratings: weights on a few users, and balanced precision by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.kernels import inferrer
from tests.tasks.two_class_ratings import LABELS, RATINGS


def test_weights_indicate_the_class_of_an_item():
    found = inferrer.fit(RATINGS, LABELS, 2)
    assert (found.weights[1] == -found.weights[0]).all()
    assert np.sign(found.weights[1]).tolist() == [-1, -1, 1, 1, 0]
    assert found.guess(RATINGS).tolist() == LABELS.tolist()
    assert found.scores(RATINGS).shape == (6, 2)


def test_weights_minimise_the_loss():
    """The gradient of ½|w|² + C Σ balance · log(1 + e^(−y·score)), by hand, is 0."""
    labels = np.array([0, 0, 0, 0, 1, 1])
    found = inferrer.fit(RATINGS, labels, 2, strength=0.5)
    balance = np.where(labels == 1, 6 / (2 * 2), 6 / (2 * 4))
    wrong = balance * (1 / (1 + np.exp(-found.scores(RATINGS)[:, 1])) - labels)
    gradient = found.weights[1] + 0.5 * (RATINGS.T @ wrong)
    assert gradient == pytest.approx(np.zeros(5), abs=2e-4)
    assert wrong.sum() == pytest.approx(0, abs=2e-4)


def test_every_class_against_the_rest():
    people = sp.csr_array(np.kron(np.eye(3), np.full((4, 2), 4.0)).astype(np.float32))
    labels = np.repeat([0, 1, 2], 4)
    found = inferrer.fit(people, labels, 3)
    assert found.guess(people).tolist() == labels.tolist()
    assert (found.weights[0, :2] > 0).all()
    assert (found.weights[0, 2:] < 0).all()


def test_empty_class_is_never_guessed():
    found = inferrer.fit(RATINGS, LABELS * 2, 3)
    assert found.guess(RATINGS).tolist() == [0, 0, 0, 2, 2, 2]
    assert (found.weights[1] == 0).all()


def test_wrong_labels_are_refused():
    with pytest.raises(ValueError, match="one label per row"):
        inferrer.fit(RATINGS, LABELS[:5], 2)
    with pytest.raises(ValueError, match=r"0\.\.1, got 0\.\.2"):
        inferrer.fit(RATINGS, np.array([0, 1, 2, 0, 1, 2]), 2)


def test_costs_are_the_information_of_a_class():
    """A quarter and three quarters: 2 bits and 0.415 bits."""
    labels = np.array([1, 0, 0, 0])
    rare = 2 / (2 + np.log2(4 / 3))
    assert inferrer.class_costs(labels) == pytest.approx([1 - rare, rare])
    # One of the four, recognised; two of the other three.
    assert inferrer.balanced_precision(labels, np.array([1, 0, 0, 1])) == pytest.approx(
        rare + (1 - rare) * 2 / 3
    )


def test_random_guesses_score_one_half_constants_do_not():
    labels = np.repeat([0, 1], [7200, 2800])
    half = np.tile([0, 1], 5000)
    assert inferrer.balanced_precision(labels, half) == pytest.approx(0.5)
    assert inferrer.balanced_precision(labels, labels) == pytest.approx(1)
    assert inferrer.balanced_precision(labels, 1 - labels) == 0
    assert inferrer.balanced_precision(labels, np.ones_like(labels)) == pytest.approx(0.795, abs=1e-3)


def test_random_guesses_of_three_classes_score_one_third():
    labels = np.repeat([0, 1, 2], [30, 60, 90])
    assert inferrer.balanced_precision(labels, np.tile([0, 1, 2], 60), 3) == pytest.approx(1 / 3)


def test_empty_class_is_refused_by_costs():
    with pytest.raises(ValueError, match="every one of 2 classes"):
        inferrer.balanced_precision(np.zeros(4, int), np.zeros(4, int))
