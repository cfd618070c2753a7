"""Additions that an inferrer cannot learn: each class is given what it has less often than another, as others have it.

RFPP (paper 004) fools an inferrer that was trained on the original data. One that is trained anew on obfuscated data of
people whose class it knows learns what was added to whom, and tells classes better than before (SCIENCE P4). A
logistic regression has nothing to learn where every class holds every item equally often; a stronger inferrer has
little to learn where also the items that go together still do. So:

- who gives to whom: people of another class with similar tastes and as many ratings (tasks/kernels/coupling.py). What
  is added to somebody is taken from one such person's record, and so goes together as real records do.
- what is given: an item is taken over the more likely, the more the person's class lacks it compared with the class
  that holds it most. Of a difference only what is more than chance counts (`CHANCE` standard errors' worth of it is
  left): were every accidental difference mended, then who knows most people's classes could tell the others' from it.
- its rating: the model's prediction for the person plus what the giver's rating differs from the model's prediction for
  the giver: as uncertain as real ratings are, and of the person's own taste.

`share` is how many are wanted; without it, as many as it takes. The cells that matching needs most come first: with a
smaller share classes are matched in part, with a larger one further items are taken over, too.
"""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tasks.kernels.als import REGULARIZATION, factorize
from tasks.kernels.coupling import crowds, partners
from tasks.kernels.padded import LowRank
from tasks.kernels.profile_cells import find_cells
from tasks.obfuscators import NO_ITEM, Wanted

CHANCE = 4.0  # squared standard errors of a difference that are put down to chance
COMPONENTS = 16  # of what people rate, by which tastes are compared
FEWEST = 2  # people of each class among whom partners are chosen
LAST = 1e-9  # chance of an item that matching does not need: taken over when all others are
REGULARIZATION_SPAN = (
    4.0  # the model's regularization is meant for ratings that span so many units, as 1..5 does
)


def add(ratings: sp.csr_array, labels: np.ndarray, wanted: Wanted) -> sp.csr_array:
    """What partners have and the own class lacks."""
    people = np.arange(len(labels))
    crowd = crowds(tastes(ratings), labels, FEWEST)
    givers = partners(crowd, labels, wanted.chance("partner", people, np.full_like(people, NO_ITEM)))
    row, item = offered(ratings, givers)
    chances = acceptance(ratings, labels, wanted.classes, row, item)
    total = round(float(chances.sum())) if wanted.share is None else wanted.total(ratings)
    # A race: of cells that each arrive after an exponential time, the first are drawn in proportion to their rates.
    arrival = -np.log(wanted.chance("matched", row, item)) / np.maximum(chances, LAST)
    chosen = np.sort(np.argsort(arrival, kind="stable")[:total])
    row, item = row[chosen], item[chosen]
    values = rated(ratings, wanted.scale, row, givers[row], item)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(labels)))])
    return sp.csr_array((values, item.astype(np.int32), indptr), shape=ratings.shape)


def tastes(ratings: sp.csr_array) -> npt.NDArray[np.float64]:
    """What people rate (not how): the direction of the leading components, and the logarithm of how much."""
    from sklearn.utils.extmath import randomized_svd

    counts = np.diff(ratings.indptr)
    there = sp.csr_matrix((np.ones(ratings.nnz), ratings.indices, ratings.indptr), shape=ratings.shape)
    width = min(COMPONENTS, min(ratings.shape) - 1)
    left, values, _ = randomized_svd(there, width, random_state=0)
    points = left * values
    length = np.linalg.norm(points, axis=1, keepdims=True)
    points = points / np.where(length > 0, length, 1)
    return np.column_stack([points, np.log(np.maximum(counts, 1))])


def offered(ratings: sp.csr_array, givers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Everything the giver has and the person has not, as (row, item) in order."""
    ones = np.ones(ratings.nnz, np.int8)
    there = sp.csr_array((ones, ratings.indices, ratings.indptr), shape=ratings.shape)
    taken = there[np.maximum(givers, 0)]
    taken = sp.csr_array(taken - taken.multiply(there))
    taken.eliminate_zeros()
    taken.sort_indices()
    row = np.repeat(np.arange(ratings.shape[0]), np.diff(taken.indptr))
    return row[givers[row] >= 0], taken.indices[givers[row] >= 0]


def acceptance(
    ratings: sp.csr_array, labels: np.ndarray, classes: int, row: np.ndarray, item: np.ndarray
) -> npt.NDArray[np.float64]:
    """How likely each offered item is taken over, so that a class comes to hold it as often as that with most of it."""
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


def rated(
    ratings: sp.csr_array, scale: tuple[float, float], row: np.ndarray, giver: np.ndarray, item: np.ndarray
) -> npt.NDArray[np.float32]:
    """What is made up for a cell: the person's prediction, off by as much as the giver's rating is from the giver's."""
    ridge = REGULARIZATION * (scale[1] - scale[0]) / REGULARIZATION_SPAN
    model = LowRank(
        *factorize(ratings, regularization=ridge, rng=np.random.default_rng(0))
    )  # any start will do
    given = ratings.data[find_cells(ratings.indptr, ratings.indices, giver, item)]
    off = given - model.cells(giver, item)
    return np.clip(model.cells(row, item) + off, *scale).astype(np.float32)
