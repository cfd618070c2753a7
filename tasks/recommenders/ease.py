"""Fit EASE ([Steck2019]): every item as a linear combination of all others, in closed form.

With G the Gram matrix of the rows and P = (G + λI)⁻¹, the weights are B = −P / diag(P), 0 on the diagonal. Ratings
are predicted from a row's deviations from its biases. Items are ranked by the items the row has (1 or 0), as in
[Steck2019]; where every cell has a value co-occurrence carries no information, and the predicted value ranks.
"""

import numpy as np
import scipy.linalg

from tasks.recommenders import Recommender, Train, bias
from tasks.recommenders._cells import gram, mask_of, weights_of
from tasks.recommenders._items import ItemToItem

RECOMMENDER = Recommender(compared=True, position=60)
# λ as a multiple of G's mean diagonal, so that it means the same in any unit and for any number of users.
RIDGE = 4.0
RIDGE_OF_RATINGS = 5.0


def fit(
    train: Train,
    weights: np.ndarray | None = None,
    *,
    ridge: float = RIDGE,
    ridge_of_ratings: float = RIDGE_OF_RATINGS,
) -> ItemToItem:
    """Invert two Gram matrices: of the ratings' residuals and of co-occurrence."""
    people = weights_of(train, weights)
    base = bias.fit(train, people)
    residuals = base.residuals(train)
    listed = mask_of(train)
    company = None if listed is None else solve(gram(listed, people), ridge)
    return ItemToItem(base, residuals, solve(gram(residuals, people), ridge_of_ratings), listed, company)


def solve(of: np.ndarray, ridge: float) -> np.ndarray:
    """Return B from a Gram matrix, which is overwritten; the weights of a scored item are its column."""
    diagonal = np.einsum("ii->i", of)
    diagonal += max(ridge * diagonal.mean(), np.finfo(np.float32).tiny)
    inverse = scipy.linalg.inv(of, overwrite_a=True, assume_a="pos")
    found = (inverse / -np.diag(inverse)).astype(np.float32)
    np.fill_diagonal(found, 0)
    return found
