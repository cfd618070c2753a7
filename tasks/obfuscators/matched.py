"""Add ratings that an inferrer cannot learn: each class receives the items it has less often than another class.

RFPP ([RFPP]) misleads an inferrer that was trained on the original data. One that is retrained on obfuscated data of
users whose class it knows learns what was added to whom, and infers classes better than before
(docs/decisions/0015-hiding-attributes.md). A logistic regression has nothing to learn where every class holds every
item equally often; a stronger inferrer has little to learn where items that occur together still do. So:

- who gives to whom: users of another class with similar tastes and as many ratings (kernels/class_strata.py). The
  items added to a user come from the record of one such user, and so occur together as in real records.
- which items: an item is accepted the more likely, the more the user's class lacks it compared with the class that
  holds it most. Only the part of a difference beyond chance counts (`CHANCE` standard errors' worth of it is left):
  if every accidental difference were removed, an attacker who knows most users' classes could infer the others from
  that.
- which rating: the model's prediction for the user plus the difference between the giver's rating and the model's
  prediction for the giver: as uncertain as real ratings are, and of the user's own taste.

`share` is the requested amount; without it, as many are added as matching needs. The cells that matching needs most
come first: with a smaller share classes are matched in part, with a larger one further items are accepted, too.
"""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tasks.kernels.als import REGULARIZATION, factorize
from tasks.kernels.class_strata import assign_strata, draw_partners
from tasks.kernels.padded import LowRank
from tasks.kernels.profile_cells import find_cells
from tasks.obfuscators import NO_ITEM, Request

CHANCE = 4.0  # squared standard errors of a difference that are attributed to chance
COMPONENTS = 16  # principal components of the rated items, by which tastes are compared
FEWEST = 2  # users of each class among whom partners are chosen
LAST = 1e-9  # probability of an item that matching does not need: accepted after all others
REGULARIZATION_SPAN = 4.0  # the model's regularization is meant for ratings that span 4 units, as 1..5 does


def add(ratings: sp.csr_array, labels: np.ndarray, request: Request) -> sp.csr_array:
    """Add items that the partner has and the own class lacks."""
    people = np.arange(len(labels))
    strata = assign_strata(taste_vectors(ratings), labels, FEWEST)
    givers = draw_partners(strata, labels, request.chance("partner", people, np.full_like(people, NO_ITEM)))
    row, item = list_offers(ratings, givers)
    chances = acceptance_probabilities(ratings, labels, request.classes, row, item)
    total = round(float(chances.sum())) if request.share is None else request.total(ratings)
    # A race: of cells that each arrive after an exponential time, the first are drawn in proportion to their rates.
    arrival = -np.log(request.chance("matched", row, item)) / np.maximum(chances, LAST)
    chosen = np.sort(np.argsort(arrival, kind="stable")[:total])
    row, item = row[chosen], item[chosen]
    values = estimate_ratings(ratings, request.scale, row, givers[row], item)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(labels)))])
    return sp.csr_array((values, item.astype(np.int32), indptr), shape=ratings.shape)


def taste_vectors(ratings: sp.csr_array) -> npt.NDArray[np.float64]:
    """Return which items users rate (not how): the direction of the leading components, and the log of the number."""
    from sklearn.utils.extmath import randomized_svd

    counts = np.diff(ratings.indptr)
    there = sp.csr_matrix((np.ones(ratings.nnz), ratings.indices, ratings.indptr), shape=ratings.shape)
    width = min(COMPONENTS, min(ratings.shape) - 1)
    left, values, _ = randomized_svd(there, width, random_state=0)
    points = left * values
    length = np.linalg.norm(points, axis=1, keepdims=True)
    points = points / np.where(length > 0, length, 1)
    return np.column_stack([points, np.log(np.maximum(counts, 1))])


def list_offers(ratings: sp.csr_array, givers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List every item the giver has and the user does not, as (row, item) in order."""
    ones = np.ones(ratings.nnz, np.int8)
    there = sp.csr_array((ones, ratings.indices, ratings.indptr), shape=ratings.shape)
    taken = there[np.maximum(givers, 0)]
    taken = sp.csr_array(taken - taken.multiply(there))
    taken.eliminate_zeros()
    taken.sort_indices()
    row = np.repeat(np.arange(ratings.shape[0]), np.diff(taken.indptr))
    return row[givers[row] >= 0], taken.indices[givers[row] >= 0]


def acceptance_probabilities(
    ratings: sp.csr_array, labels: np.ndarray, classes: int, row: np.ndarray, item: np.ndarray
) -> npt.NDArray[np.float64]:
    """Return the probability of accepting each offered item, so that a class holds it as often as the leading class."""
    shape = (classes, ratings.shape[1])
    people = np.maximum(np.bincount(labels, minlength=classes), 1)[:, None]
    share = _counted(np.repeat(labels, np.diff(ratings.indptr)), ratings.indices, shape) / people
    most = share.argmax(axis=0)
    highest, uncertain = share.max(axis=0), share * (1 - share) / people
    missing = highest - share
    by_chance = CHANCE * (uncertain + uncertain[most, np.arange(shape[1])])
    squared = missing**2
    real = missing * np.maximum(0, 1 - by_chance / np.where(squared > 0, squared, np.inf))
    supply = _counted(labels[row], item, shape)
    chance = np.minimum(1, real * people / np.maximum(supply, 1))
    return chance[labels[row], item]


def _counted(label: np.ndarray, item: np.ndarray, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    return np.bincount(label * shape[1] + item, minlength=shape[0] * shape[1]).reshape(shape).astype(float)


def estimate_ratings(
    ratings: sp.csr_array, scale: tuple[float, float], row: np.ndarray, giver: np.ndarray, item: np.ndarray
) -> npt.NDArray[np.float32]:
    """Return the factitious rating of each cell: the user's prediction plus the giver's deviation from the giver's."""
    ridge = REGULARIZATION * (scale[1] - scale[0]) / REGULARIZATION_SPAN
    model = LowRank(
        *factorize(ratings, regularization=ridge, rng=np.random.default_rng(0))
    )  # any start will do
    given = ratings.data[find_cells(ratings.indptr, ratings.indices, giver, item)]
    off = given - model.cells(giver, item)
    return np.clip(model.cells(row, item) + off, *scale).astype(np.float32)
