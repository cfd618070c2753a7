"""Score an item by its relations to the items a row has: the base of EASE and item neighbourhoods."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.recommenders import Train, bias
from tasks.recommenders._cells import dense, pick


@dataclass(frozen=True)
class ItemToItem:
    """Hold item-to-item weights for ratings and, where items are listed, for co-occurrence; column = the scored item.

    Ratings are predicted from a row's deviations from its biases. Items are ranked by their co-occurrence with the
    items the row has (1 or 0); where every cell has a value co-occurrence carries no information, and the predicted
    value ranks.
    """

    base: bias.Biases
    residuals: Train
    ratings: np.ndarray
    listed: sp.csr_array | None  # 1 where a row has the item; None: every row has every item
    company: np.ndarray | None

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Return scores for every item."""
        if self.listed is None:
            return self._ratings(users)
        return dense(self.listed, users) @ self.company

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predict single cells."""
        return pick(self._ratings, users, items)

    def _ratings(self, users: np.ndarray) -> np.ndarray:
        return self.base.rows(users) + self._deviations(users)

    def _deviations(self, users: np.ndarray) -> np.ndarray:
        """Return how far every item is above or below these rows' biases."""
        return dense(self.residuals, users) @ self.ratings
