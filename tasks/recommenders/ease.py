"""EASE (Steck 2019): every item as a linear combination of all others, in closed form.

With G the Gram matrix of the rows and P = (G + λI)⁻¹, the weights are B = −P / diag(P), 0 on the diagonal. Ratings are
predicted from what a row deviates from its biases. Items are ranked by what the row has (1 or 0), as in the paper;
where every cell has a value there is no company of items to tell anything, and the predicted value ranks.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tasks.recommenders import Train, bias
from tasks.recommenders._cells import dense, gram, mask_of, pick, weights_of

# λ as a multiple of G's mean diagonal, so that it means the same in any unit and for any number of people.
RIDGE = 4.0
RIDGE_OF_RATINGS = 5.0


@dataclass(frozen=True)
class Ease:
    """Item-to-item weights for ratings and, where items are listed, for company."""

    base: bias.Biases
    residuals: Train
    ratings: np.ndarray
    listed: sp.csr_array | None  # 1 where a row has the item; None: every row has every item
    company: np.ndarray | None

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Scores for every item."""
        if self.listed is None:
            return self._ratings(users)
        return dense(self.listed, users) @ self.company

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predictions of single cells."""
        return pick(self._ratings, users, items)

    def _ratings(self, users: np.ndarray) -> np.ndarray:
        return self.base.rows(users) + dense(self.residuals, users) @ self.ratings


def fit(
    train: Train,
    weights: np.ndarray | None = None,
    *,
    ridge: float = RIDGE,
    ridge_of_ratings: float = RIDGE_OF_RATINGS,
) -> Ease:
    """Two Gram matrices, two inverses."""
    people = weights_of(train, weights)
    base = bias.fit(train, people)
    residuals = base.residuals(train)
    listed = mask_of(train)
    company = None if listed is None else _solve(gram(listed, people), ridge)
    return Ease(base, residuals, _solve(gram(residuals, people), ridge_of_ratings), listed, company)


def _solve(of: np.ndarray, ridge: float) -> np.ndarray:
    diagonal = np.einsum("ii->i", of)
    diagonal += max(ridge * diagonal.mean(), np.finfo(np.float32).tiny)
    inverse = np.linalg.inv(of)
    found = (inverse / -np.diag(inverse)).astype(np.float32)
    np.fill_diagonal(found, 0)
    return found
