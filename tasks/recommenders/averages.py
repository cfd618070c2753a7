"""The plainest predictions: an item's mean rating, or a person's (paper 001, tables 3 and 5).

Both need only sums, which can be had without anybody showing a rating, so nothing disguised should do worse.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from tasks.config.base import Settings


class Averages(Settings):
    """Whose averages."""

    of: Literal["items", "users"] = "items"


@dataclass(frozen=True)
class Means:
    """One prediction for each row, or for each column."""

    values: np.ndarray
    of: Literal["items", "users"]
    columns: int

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Predicted ratings of every item."""
        return self.predict(*np.broadcast_arrays(users[:, None], np.arange(self.columns)))

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predicted ratings of single cells."""
        return self.values[items if self.of == "items" else users]


def fit(train: sp.csr_array, **settings: Any) -> Means:
    """Means of the known ratings; the mean of all where there is none."""
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
