"""What others can learn from single people's released records: a recommender trained on nothing else.

A disguised record is not read cell by cell: what somebody has not rated is not in it, or is noise. It is trained on
(paper 001, section 3: the server predicts from disguised values): by the release's own padding predictor where items
are missing, by the solution of the same regularized least squares in one piece, an SVD, where none is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tasks import profiles
from tasks.kernels.als import PRIOR
from tasks.kernels.padded import LowRank
from tasks.kernels.perturb import moments
from tasks.kernels.truncated_svd import truncated_svd
from tasks.padders.als import REGULARIZATION_SPAN
from tasks.pipeline import Job
from tasks.progress import StepProgress
from tasks.ratings import Ratings, write_ids, write_matrix
from tasks.steps import padding

CELLS_PER_BLOCK = 4_000_000


@dataclass(frozen=True)
class OwnScales:
    """What turns a released value into a rating of somebody: rating = level + spread · value.

    A person knows the own mean and deviation (paper 001, section 3) and so turns z-scores into ratings; ratings stay.
    """

    level: np.ndarray
    spread: np.ndarray
    typical: float = 1.0  # the mean spread of those who have one: how much of a rating a z-score is

    def take(self, users: np.ndarray) -> "OwnScales":
        """The scales of some people."""
        return replace(self, level=self.level[users], spread=self.spread[users])

    def ratings(self, values: np.ndarray) -> np.ndarray:
        """A released value for each of these people, as ratings of theirs."""
        return self.level + self.spread * values

    def comparable(self, rows: np.ndarray) -> np.ndarray:
        """A row of ratings of each of these people, in the unit of released values, times `typical`."""
        spread = self.spread[:, None]
        apart = (rows - self.level[:, None]) / np.where(spread > 0, spread, 1)
        return np.where(spread > 0, apart, 0) * np.float32(self.typical)


def own_scales(ratings: Ratings, coding: profiles.Coding, every_item: bool) -> OwnScales:
    """Everybody's mean and deviation, as the release standardised by them; who rated nothing has the mean of all."""
    if coding.unit == "rating":
        return OwnScales(np.zeros(ratings.n_users, np.float32), np.ones(ratings.n_users, np.float32))
    side = ratings.by_user
    found = [moments(side.block(*b), ratings.n_items if every_item else None) for b in side.blocks()]
    means, spreads = (np.concatenate(parts) for parts in zip(*found, strict=True))
    counts = side.counts()
    means = np.where(counts > 0, means, counts @ means / max(counts.sum(), 1))
    typical = float(spreads[spreads > 0].mean()) if (spreads > 0).any() else 1.0
    return OwnScales(means.astype(np.float32), spreads.astype(np.float32), typical)


def learn(job: Job, unpacked: Path, coding: profiles.Coding, out: Path) -> LowRank:
    """Train on released records (as `profiles.unpack` left them); predictions are in the release's unit, by record."""
    released = profiles.open_unpacked(unpacked, coding.dtype)
    records, n_items = len(released.sizes), Ratings(job.ratings).n_items
    settings = padding.params(job.config)
    if coding.unit == "z-score":  # z-scores spread about as much as ratings from 1 to 5 do
        settings = settings.model_copy(update={"span": REGULARIZATION_SPAN})
    if released.items is None:
        weight = settings.regularization * settings.span / REGULARIZATION_SPAN
        return truncated_svd(
            lambda: _rows(unpacked, coding, n_items),
            n_items,
            settings.rank,
            weight * math.sqrt((records + PRIOR) * (n_items + PRIOR)),
            job.rng("learn"),
        )
    out.mkdir()
    cells = (coding.values(released.codes), released.items, released.indptr)
    write_ids(out, "user", [str(number) for number in range(records)])
    write_ids(out, "item", [str(number) for number in range(n_items)])
    write_matrix(out, sp.csr_array(cells, shape=(records, n_items)))
    place = out / "model"
    place.mkdir()
    silent = StepProgress("learn", lambda *_: None)
    padding.run(replace(job, params=settings, inputs={"ingest": out}, out=place, progress=silent))
    return padding.open_model(place)


def _rows(unpacked: Path, coding: profiles.Coding, n_items: int) -> Iterator[np.ndarray]:
    """Records that hold every item, dense, a block at a time."""
    height = max(1, CELLS_PER_BLOCK // n_items)
    records = len(profiles.open_unpacked(unpacked, coding.dtype).sizes)
    for start in range(0, records, height):
        # Opened anew: what was read of a mapping counts as this process' memory until the mapping is gone.
        some = profiles.open_unpacked(unpacked, coding.dtype).rows(start, min(start + height, records))
        yield np.asarray(coding.values(some.codes), np.float32).reshape(-1, n_items)
