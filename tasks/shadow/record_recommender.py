"""Train a recommender on released records of single users, and on nothing else: what can others learn from them?

A disguised record is not read cell by cell: an item that the user has not rated is missing or is noise. A recommender
is trained on the records ([Zhang2006], section 3: the server predicts from disguised values): the release's own
padding predictor where items are missing; where none is, the solution of the same regularized least squares at once,
an SVD.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tasks.data import profiles
from tasks.data.factors import FactorParams, fit_factors, open_model
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.kernels.als import PRIOR
from tasks.kernels.padded import LowRank
from tasks.kernels.rating_noise import moments
from tasks.kernels.truncated_svd import truncated_svd
from tasks.padders.als import REGULARIZATION_SPAN
from tasks.pipeline import StepContext

CELLS_PER_BLOCK = 4_000_000


@dataclass(frozen=True)
class UserScales:
    """Hold what converts a released value into a rating of a user: rating = level + deviation · value.

    A user knows the own mean and deviation ([Zhang2006], section 3) and so converts z-scores into ratings; released
    ratings stay as they are (level 0, deviation 1).
    """

    level: np.ndarray
    deviation: np.ndarray
    typical: float = 1.0  # the mean deviation of users who have one: the size of a z-score in ratings

    def take(self, users: np.ndarray) -> "UserScales":
        """Return the scales of some users."""
        return replace(self, level=self.level[users], deviation=self.deviation[users])

    def ratings(self, values: np.ndarray) -> np.ndarray:
        """Convert one released value of each user into a rating."""
        return self.level + self.deviation * values

    def comparable(self, rows: np.ndarray) -> np.ndarray:
        """Convert a row of ratings of each user into the unit of released values, times `typical`."""
        deviation = self.deviation[:, None]
        scores = (rows - self.level[:, None]) / np.where(deviation > 0, deviation, 1)
        return np.where(deviation > 0, scores, 0) * np.float32(self.typical)


def user_scales(ratings: Ratings, coding: profiles.Coding, every_item: bool) -> UserScales:
    """Return the mean and deviation by which the release standardised each user; without ratings the mean of all."""
    if coding.unit == "rating":
        return UserScales(np.zeros(ratings.n_users, np.float32), np.ones(ratings.n_users, np.float32))
    side = ratings.by_user
    found = [moments(side.block(*b), ratings.n_items if every_item else None) for b in side.blocks()]
    means, deviations = (np.concatenate(parts) for parts in zip(*found, strict=True))
    counts = side.counts()
    means = np.where(counts > 0, means, counts @ means / max(counts.sum(), 1))
    typical = float(deviations[deviations > 0].mean()) if (deviations > 0).any() else 1.0
    return UserScales(means.astype(np.float32), deviations.astype(np.float32), typical)


def train_on_records(
    context: StepContext[FactorParams], unpacked: Path, coding: profiles.Coding, n_items: int
) -> LowRank:
    """Train on released records (as `profiles.unpack` wrote them); predictions are in the release's unit, by record."""
    released = profiles.open_unpacked(unpacked, coding.dtype)
    records = len(released.sizes)
    params = context.params.unprotected()  # what is published needs no protection
    if coding.unit == "z-score":  # z-scores vary about as much as ratings from 1 to 5 do
        params = params.model_copy(update={"span": REGULARIZATION_SPAN})
    if released.items is None:
        weight = params.regularization * params.span / REGULARIZATION_SPAN
        return truncated_svd(
            lambda: _rows(unpacked, coding, n_items),
            n_items,
            params.rank,
            weight * math.sqrt((records + PRIOR) * (n_items + PRIOR)),
            context.rng("learn"),
        )
    out = context.out
    out.mkdir()
    cells = (coding.values(released.codes), released.items, released.indptr)
    write_ids(out, "user", [str(number) for number in range(records)])
    write_ids(out, "item", [str(number) for number in range(n_items)])
    write_matrix(out, sp.csr_array(cells, shape=(records, n_items)))
    model = out / "model"
    model.mkdir()
    fit_factors(replace(context, params=params, out=model), Ratings(out))
    return open_model(model)


def _rows(unpacked: Path, coding: profiles.Coding, n_items: int) -> Iterator[np.ndarray]:
    """Yield records that hold every item, dense, a block at a time."""
    height = max(1, CELLS_PER_BLOCK // n_items)
    records = len(profiles.open_unpacked(unpacked, coding.dtype).sizes)
    for start in range(0, records, height):
        # Opened anew: pages read from a mapping count as this process' memory until the mapping is closed.
        some = profiles.open_unpacked(unpacked, coding.dtype).rows(start, min(start + height, records))
        yield np.asarray(coding.values(some.codes), np.float32).reshape(-1, n_items)
