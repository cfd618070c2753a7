"""Guessing a class from ratings: weights on a few people, and balanced precision by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.kernels import inferrer

# The first three rate the first two items, the others the next two; everybody rates the last one alike.
PEOPLE = sp.csr_array(
    np.array(
        [
            [5, 4, 0, 0, 3],
            [5, 0, 0, 0, 3],
            [4, 5, 1, 0, 3],
            [0, 0, 5, 4, 3],
            [0, 1, 4, 0, 3],
            [0, 0, 5, 2, 3],
        ],
        np.float32,
    )
)
LABELS = np.array([0, 0, 0, 1, 1, 1])


def test_weights_say_which_class_an_item_speaks_for():
    found = inferrer.fit(PEOPLE, LABELS, 2)
    assert (found.weights[1] == -found.weights[0]).all()
    assert np.sign(found.weights[1]).tolist() == [-1, -1, 1, 1, 0]
    assert found.guess(PEOPLE).tolist() == LABELS.tolist()
    assert found.scores(PEOPLE).shape == (6, 2)


def test_weights_are_where_the_loss_is_least():
    """The gradient of ½|w|² + C Σ balance · log(1 + e^(−y·score)), by hand, is 0."""
    labels = np.array([0, 0, 0, 0, 1, 1])
    found = inferrer.fit(PEOPLE, labels, 2, strength=0.5)
    balance = np.where(labels == 1, 6 / (2 * 2), 6 / (2 * 4))
    wrong = balance * (1 / (1 + np.exp(-found.scores(PEOPLE)[:, 1])) - labels)
    gradient = found.weights[1] + 0.5 * (PEOPLE.T @ wrong)
    assert gradient == pytest.approx(np.zeros(5), abs=2e-4)
    assert wrong.sum() == pytest.approx(0, abs=2e-4)


def test_every_class_against_the_rest():
    people = sp.csr_array(np.kron(np.eye(3), np.full((4, 2), 4.0)).astype(np.float32))
    labels = np.repeat([0, 1, 2], 4)
    found = inferrer.fit(people, labels, 3)
    assert found.guess(people).tolist() == labels.tolist()
    assert (found.weights[0, :2] > 0).all()
    assert (found.weights[0, 2:] < 0).all()


def test_a_class_nobody_is_in_is_never_guessed():
    found = inferrer.fit(PEOPLE, LABELS * 2, 3)
    assert found.guess(PEOPLE).tolist() == [0, 0, 0, 2, 2, 2]
    assert (found.weights[1] == 0).all()


def test_wrong_labels_are_refused():
    with pytest.raises(ValueError, match="one label per row"):
        inferrer.fit(PEOPLE, LABELS[:5], 2)
    with pytest.raises(ValueError, match=r"0\.\.1, got 0\.\.2"):
        inferrer.fit(PEOPLE, np.array([0, 1, 2, 0, 1, 2]), 2)


def test_costs_are_the_information_of_a_class():
    """A quarter and three quarters: 2 bits and 0.415 bits."""
    labels = np.array([1, 0, 0, 0])
    rare = 2 / (2 + np.log2(4 / 3))
    assert inferrer.costs(labels) == pytest.approx([1 - rare, rare])
    # One of the four, recognised; two of the other three.
    assert inferrer.balanced_precision(labels, np.array([1, 0, 0, 1])) == pytest.approx(
        rare + (1 - rare) * 2 / 3
    )


def test_wild_guesses_give_a_half_and_a_constant_does_not():
    labels = np.repeat([0, 1], [7200, 2800])
    half = np.tile([0, 1], 5000)
    assert inferrer.balanced_precision(labels, half) == pytest.approx(0.5)
    assert inferrer.balanced_precision(labels, labels) == pytest.approx(1)
    assert inferrer.balanced_precision(labels, 1 - labels) == 0
    assert inferrer.balanced_precision(labels, np.ones_like(labels)) == pytest.approx(0.795, abs=1e-3)


def test_three_classes_guessed_wildly_give_a_third():
    labels = np.repeat([0, 1, 2], [30, 60, 90])
    assert inferrer.balanced_precision(labels, np.tile([0, 1, 2], 60), 3) == pytest.approx(1 / 3)


def test_a_class_without_people_has_no_cost():
    with pytest.raises(ValueError, match="every one of 2 classes"):
        inferrer.balanced_precision(np.zeros(4, int), np.zeros(4, int))
