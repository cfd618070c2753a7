"""Rank released profiles by their distance to users ([Chang2009], section 7.4): is the own profile the nearest?

Where profiles hold every item of a long catalogue, distances are those over a sample of MOST_ITEMS items: the mean of
so many terms is known to a fraction of a per cent, and groups × items is what everything else avoids to multiply out.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tasks.data import profiles
from tasks.data.factors import open_model
from tasks.data.ratings import Ratings
from tasks.kernels.metrics import distances
from tasks.kernels.padded import LowRank
from tasks.kernels.profile_distances import profile_distances
from tasks.pipeline import StepContext
from tasks.shadow.placement import Placement
from tasks.shadow.record_recommender import UserScales

# Users compared with every released profile: as many as this many cells allow, within these bounds. A share found on
# 1,000 is known to ±3 points (±1.5 where it is near 0 or 1), on 5,000 to ±1.4; summary.json holds their number.
CELLS_RANKED = 100_000_000_000
FEWEST_RANKED, MOST_RANKED = 1_000, 5_000
MOST_ITEMS = 20_000
USERS_PER_BLOCK = 256
CELLS_PER_BLOCK = 4_000_000  # of dense profiles in memory at once


@dataclass(frozen=True)
class Compared:
    """Hold what is compared, and how: users' padded ratings with the released profiles."""

    ratings: Ratings
    factors: Path
    unpacked: Path  # as profiles.unpack wrote them
    coding: profiles.Coding
    published_items: np.ndarray | None  # None: all
    measure: dict[str, Any]  # metric and max_diff, as the kernels take them
    sample: np.ndarray | None = None  # columns of the profiles that are compared; None: all

    @property
    def width(self) -> int:
        """Return the number of items of the release."""
        return self.ratings.n_items if self.published_items is None else len(self.published_items)

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Return padded ratings of some users, of the items that are compared."""
        model, observed = open_model(self.factors), self.ratings.by_user.take(users)
        if self.sample is None:
            padded = model.padded_rows(users, observed)
            return padded if self.published_items is None else padded[:, self.published_items]
        items = self.sample if self.published_items is None else self.published_items[self.sample]
        some = LowRank(model.users, np.asarray(model.items)[items], model.mean)
        return some.padded_rows(users, sp.csr_array(observed[:, items]))


def rank_profiles(
    context: StepContext[Any], compared: Compared, placement: Placement, scales: UserScales
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest released profile of each user (−1: not ranked), and the ranks of the ranked users' own."""
    record = placement.record_of_user
    users = np.flatnonzero(record >= 0)
    affordable = CELLS_RANKED // (int(record.max() + 1) * compared.ratings.n_items)
    most = min(max(affordable, FEWEST_RANKED), MOST_RANKED)
    if len(users) > most:
        users = np.sort(context.rng("ranked").choice(users, most, replace=False))
    compared = _with_sample(context, compared)
    pieces = [users[start : start + USERS_PER_BLOCK] for start in range(0, len(users), USERS_PER_BLOCK)]
    blocks = [(piece, record[piece], scales.take(piece)) for piece in pieces]
    context.progress(0, len(blocks))  # restarts the clock: the shadow run's time does not predict this one's
    parts = context.engine.map(_rank_block, blocks, progress=context.progress, compared=compared)
    nearest = np.full(len(record), -1, np.int64)
    nearest[users] = np.concatenate([found for found, _ in parts])
    return nearest, np.concatenate([rank for _, rank in parts])


def _with_sample(context: StepContext[Any], compared: Compared) -> Compared:
    """Draw the items that are compared, where every profile holds more than MOST_ITEMS."""
    is_dense = profiles.open_unpacked(compared.unpacked, compared.coding.dtype).items is None
    if compared.width <= MOST_ITEMS or not is_dense:
        return compared
    drawn = context.rng("ranked items").choice(compared.width, MOST_ITEMS, replace=False)
    return replace(compared, sample=np.sort(drawn))


def _rank_block(
    block: tuple[np.ndarray, np.ndarray, UserScales], *, compared: Compared
) -> tuple[np.ndarray, np.ndarray]:
    users, own, scales = block
    rows, unit = scales.comparable(compared.rows(users)), np.float32(scales.typical)
    coding, measure = compared.coding, compared.measure
    n_profiles = len(profiles.open_unpacked(compared.unpacked, coding.dtype).sizes)
    distance = np.empty((len(users), n_profiles), np.float32)
    width = max(1, CELLS_PER_BLOCK // compared.width)
    for start in range(0, n_profiles, width):
        # Opened anew: pages read from a mapping count as this process' memory until the mapping is closed.
        opened = profiles.open_unpacked(compared.unpacked, coding.dtype)
        some = opened.rows(start, min(start + width, n_profiles))
        values = coding.values(some.codes) * unit
        if some.items is None:
            every_item = values.reshape(-1, compared.width)
            some_items = every_item if compared.sample is None else every_item[:, compared.sample]
            found = distances(rows, some_items, **measure)
        else:
            found = profile_distances(rows, some.matrix(values, rows.shape[1]), **measure)
        distance[:, start : start + width] = found
    rank = 1 + (distance < distance[np.arange(len(users)), own][:, None]).sum(axis=1)
    return distance.argmin(axis=1), rank
