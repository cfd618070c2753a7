"""Infer a user's class from ratings by class-balanced logistic regression ([RFPP], sections 3.2 and 4.2).

A user's features are the rating vector itself, 0 where nothing was rated. With more than two classes there is one
regression for each class against the rest; the class with the highest score is the guess.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

STRENGTH = 0.01  # C of the regression: rating vectors have thousands of columns, so weights are held small
_TOLERANCE = 1e-6  # lists of items are cut by weight, so weights must not depend on where the search stopped
_MOST_ROUNDS = 5000
_DIGITS = 5  # of a weight; further digits come from the search and not from the data


@dataclass(frozen=True)
class Inferrer:
    """Hold a fitted classifier: `weights[c, i]` is how strongly item i indicates class c (ω of [RFPP], section 4.2).

    A negative weight indicates the other classes.
    """

    weights: npt.NDArray[np.float64]
    intercepts: npt.NDArray[np.float64]

    @property
    def classes(self) -> int:
        """Return the number of classes."""
        return len(self.intercepts)

    def scores(self, ratings: sp.csr_array) -> npt.NDArray[np.float64]:
        """Return the log-odds of every class against the rest, (users, classes)."""
        return np.asarray(ratings @ self.weights.T) + self.intercepts

    def guess(self, ratings: sp.csr_array) -> npt.NDArray[np.intp]:
        """Return the class with the highest score: with two classes, the sign of the log-odds."""
        return self.scores(ratings).argmax(axis=1)


def fit(ratings: sp.csr_array, labels: np.ndarray, classes: int, *, strength: float = STRENGTH) -> Inferrer:
    """Learn from users whose class is known; every class has the same total weight, whatever its size.

    A class without users, or with all of them, cannot be distinguished: its weights are 0, and it is never or always
    guessed.
    """
    if len(labels) != ratings.shape[0]:
        raise ValueError(f"one label per row is needed, got {len(labels)} for {ratings.shape[0]} rows")
    if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
        raise ValueError(f"labels must lie in 0..{classes - 1}, got {labels.min()}..{labels.max()}")
    weights, intercepts = np.zeros((classes, ratings.shape[1])), np.zeros(classes)
    if classes == 2:
        weights[1], intercepts[1] = _against_the_rest(ratings, labels == 1, strength)
        weights[0], intercepts[0] = -weights[1], -intercepts[1]
        return Inferrer(weights, intercepts)
    for c in range(classes):
        weights[c], intercepts[c] = _against_the_rest(ratings, labels == c, strength)
    return Inferrer(weights, intercepts)


def _against_the_rest(ratings: sp.csr_array, mine: np.ndarray, strength: float) -> tuple[np.ndarray, float]:
    from sklearn.linear_model import LogisticRegression

    if mine.all() or not mine.any():
        return np.zeros(ratings.shape[1]), np.inf if len(mine) and mine.all() else -np.inf
    features = sp.csr_matrix(
        (ratings.data.astype(np.float64), ratings.indices.astype(np.int32), ratings.indptr.astype(np.int32)),
        shape=ratings.shape,
    )
    model = LogisticRegression(
        C=strength, class_weight="balanced", solver="lbfgs", tol=_TOLERANCE, max_iter=_MOST_ROUNDS
    )
    model.fit(features, mine)
    return np.round(model.coef_[0], _DIGITS), float(np.round(model.intercept_[0], _DIGITS))


def class_costs(labels: np.ndarray, classes: int = 2) -> npt.NDArray[np.float64]:
    """Return the cost of misjudging each class: the normalised information of belonging to it ([RFPP], equation 3).

    With two classes c = −log p / (−log p − log(1−p)), p being the share of the positive one.
    """
    shares = np.bincount(labels, minlength=classes) / max(len(labels), 1)
    if len(shares) > classes or (shares == 0).any() or classes < 2:
        raise ValueError(
            f"every one of {classes} classes must have at least one user, got {np.bincount(labels)}"
        )
    information = -np.log2(shares)
    return information / information.sum()


def balanced_precision(labels: np.ndarray, guessed: np.ndarray, classes: int = 2) -> float:
    """Return Σ cost of a class × share of its users recognised ([RFPP], section 3.2, ρ being the recall of a class).

    With ρ as the precision of a guess, as [RFPP] words it, random guessing would not give 0.5. Only random guesses
    do: an inferrer that always answers the rarer class gets that class's cost (0.79 where it is 28 % of the users).
    """
    weights = class_costs(labels, classes)
    known = np.bincount(labels[labels == guessed], minlength=classes) / np.bincount(labels, minlength=classes)
    return float(weights @ known)
