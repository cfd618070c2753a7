"""Test what every padder must keep (tasks/padders)."""

from itertools import count
from types import SimpleNamespace
from typing import Any, ClassVar, get_args

import numpy as np
import pytest
import scipy.sparse as sp

import tasks.padders
from tasks.config.padding import Padding
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.engine import Engine
from tasks.steps import padding


class PadderContract:
    """Require that a padder learns tastes, and nothing about items outside the fit."""

    name: ClassVar[str]
    table: ClassVar[dict[str, Any]] = {}  # further keys of [padding]

    @pytest.fixture
    def fit(self, tmp_path, config):
        """Fit the padder on a matrix and a mask of items: (matrix, fit_items) → model."""
        numbers = count()

        def make(matrix: sp.csr_array, fit_items: np.ndarray) -> Any:
            place = tmp_path / str(next(numbers))
            (place / "out").mkdir(parents=True)
            write_ids(place, "user", [str(n) for n in range(matrix.shape[0])])
            write_ids(place, "item", [str(n) for n in range(matrix.shape[1])])
            write_matrix(place, matrix)
            context: Any = SimpleNamespace(
                params=padding.params(config(padding=self.table)),
                out=place / "out",
                engine=Engine(),
                rng=lambda *_: np.random.default_rng(0),
                progress=lambda *_: None,
            )
            return tasks.padders.padder(self.name).fit(context, Ratings(place), fit_items)

        return make

    def test_registered(self):
        """The configuration accepts the padder's name."""
        assert self.name in get_args(Padding.model_fields["predictor"].annotation)

    def test_error(self, fit, taste_matrix):
        """Predictions of known ratings are better than the overall mean."""
        matrix = taste_matrix(users=120, items=50)
        model = fit(matrix, np.ones(50, bool))
        row = np.repeat(np.arange(120), np.diff(matrix.indptr))
        error = model.cells(row, matrix.indices) - matrix.data
        assert np.mean(error**2) < 0.95 * np.var(matrix.data)

    def test_deterministic(self, fit, taste_matrix):
        """The same ratings give the same model."""
        matrix = taste_matrix(users=60, items=30)
        one, other = (fit(matrix, np.ones(30, bool)).rows(slice(None)) for _ in range(2))
        assert np.array_equal(one, other)

    def test_rare_items(self, fit, taste_matrix):
        """Reversing every rating of an item outside the fit moves no prediction for any user."""
        matrix = taste_matrix(users=80, items=30)
        fit_items = np.ones(30, bool)
        fit_items[[3, 17]] = False
        reversed_ = matrix.copy()
        rare = ~fit_items[reversed_.indices]
        reversed_.data[rare] = 6 - reversed_.data[rare]
        one, other = (fit(ratings, fit_items).rows(slice(None)) for ratings in (matrix, reversed_))
        assert np.array_equal(one, other)
        # Rare items are predicted alike: the user's own level, nothing about the item.
        assert np.array_equal(one[:, 3], one[:, 17])
