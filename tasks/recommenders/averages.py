"""Predict an item's mean rating, or a user's: the simplest baseline ([Zhang2006], tables 3 and 5).

Both need only sums, which can be collected without any user showing a rating, so no predictor on disguised data
should do worse.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from tasks.config.base import Settings
from tasks.recommenders import Recommender

RECOMMENDER = Recommender(compared=False)  # it serves the study of [Zhang2006]


class Averages(Settings):
    """Set whose averages are predicted."""

    of: Literal["items", "users"] = "items"


@dataclass(frozen=True)
class Means:
    """Hold one prediction for each row, or for each column."""

    values: np.ndarray
    of: Literal["items", "users"]
    columns: int

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Predict the ratings of every item."""
        return self.predict(*np.broadcast_arrays(users[:, None], np.arange(self.columns)))

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predict the ratings of single cells."""
        return self.values[items if self.of == "items" else users]


def fit(train: sp.csr_array, **settings: Any) -> Means:
    """Average the known ratings; use the overall mean for rows or columns without a rating."""
    chosen = Averages(**settings)
    rows, columns = train.shape
    if chosen.of == "items":
        return Means(_means(train.indices, train.data, columns), "items", columns)
    owners = np.repeat(np.arange(rows), np.diff(train.indptr))
    return Means(_means(owners, train.data, rows), "users", columns)


def _means(places: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    counts = np.bincount(places, minlength=size)
    sums = np.bincount(places, weights=values, minlength=size)
    return np.divide(sums, counts, out=np.full(size, values.mean()), where=counts > 0)
