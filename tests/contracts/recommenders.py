"""Test what every recommender must keep (tasks/recommenders)."""

import inspect
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from tasks import recommenders

# Four users, four items (0: not rated), and a fifth user who rated nothing.
RATED = np.array([[5, 4, 0, 0], [4, 5, 1, 0], [1, 0, 5, 4], [0, 1, 4, 5], [0, 0, 0, 0]], np.float32)


class RecommenderContract:
    """Require that a recommender is deterministic, answers for every user, and counts a row as often as its weight.

    A recommender for disguised ratings is given z-scores instead of ratings (`z_scores`).
    """

    name: ClassVar[str]
    z_scores: ClassVar[bool] = False
    weighted: ClassVar[bool] = True  # False: serves studies of single records only
    settings: ClassVar[dict[str, Any]] = {}  # keyword arguments of `fit`

    def fit(self, train: Any, *arguments: Any) -> Any:
        """Fit the recommender on ratings, or on values around 0 where it expects z-scores."""
        return import_module(f"tasks.recommenders.{self.name}").fit(train, *arguments, **self.settings)

    def sample(self) -> sp.csr_array:
        """Return the ratings of the small example."""
        matrix = sp.csr_array(RATED)
        matrix.sort_indices()
        if self.z_scores:
            matrix.data -= np.float32(3.1)
        return matrix

    def test_shapes(self):
        """Scores and predictions are finite for every user and item, also for a user without ratings."""
        model = self.fit(self.sample())
        users, items = (index.ravel() for index in np.indices(RATED.shape))
        scores, predicted = model.rows(np.arange(5)), model.predict(users, items)
        assert scores.shape == RATED.shape
        assert predicted.shape == (RATED.size,)
        assert np.isfinite(scores).all()
        assert np.isfinite(predicted).all()

    def test_deterministic(self):
        """Two fits give the same scores and predictions."""
        users, items = (index.ravel() for index in np.indices(RATED.shape))
        one, other = self.fit(self.sample()), self.fit(self.sample())
        assert np.array_equal(one.rows(np.arange(5)), other.rows(np.arange(5)))
        assert np.array_equal(one.predict(users, items), other.predict(users, items))

    def test_subset(self):
        """The scores of a user do not depend on which other users are asked for."""
        model = self.fit(self.sample())
        assert model.rows(np.array([3, 1])) == pytest.approx(model.rows(np.arange(5))[[3, 1]], abs=1e-6)

    def test_input(self):
        """Fitting leaves the ratings as they were."""
        train = self.sample()
        self.fit(train)
        assert np.array_equal(train.toarray(), self.sample().toarray())

    def test_weights(self):
        """A row that three users share counts as three rows."""
        fit = import_module(f"tasks.recommenders.{self.name}").fit
        assert ("weights" in inspect.signature(fit).parameters) == self.weighted
        assert self.weighted or not recommenders.registered()[self.name].compared
        if not self.weighted:
            return
        weights = np.array([1, 3, 2, 1])
        train = sp.csr_array(RATED[:4] + np.float32(0.01) * np.arange(16, dtype=np.float32).reshape(4, 4))
        place = np.repeat(np.arange(4), weights)
        shared, repeated = self.fit(train, weights), self.fit(sp.csr_array(train[place]))
        first = np.searchsorted(place, np.arange(4))
        assert shared.rows(np.arange(4)) == pytest.approx(repeated.rows(first), abs=2e-3)
