"""Predict held-out ratings from the shadow's release and from what it is compared with.

`truth` · `original`: by the model of the unchanged ratings · `target` and `similar`: by the own and by the nearest
released record, null where the item or the user was left out of the release · `random_group`: for a group, or a user,
drawn by chance · `item_mean`.

The profile of a group predicts for its members cell by cell. The record of a single user does not: what was held out is
missing in it, or is noise. There a recommender that was trained on the released records predicts, and `random_group` is
what the model, which is not released, predicts for another user.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.data import profiles
from tasks.data.factors import open_model
from tasks.kernels.padded import LowRank
from tasks.shadow.baseline import item_means
from tasks.shadow.placement import Placement
from tasks.shadow.record_recommender import UserScales
from tasks.shadow.run import Shadow

Rng = Callable[..., np.random.Generator]


@dataclass(frozen=True)
class HeldOut:
    """Hold the held-out ratings and where they would be in the release."""

    user: np.ndarray
    item: np.ndarray
    truth: np.ndarray
    placement: Placement
    nearest: np.ndarray  # the released record nearest to each user; −1: not known

    @property
    def column(self) -> np.ndarray:
        """Return the column of each item in the release; −1: left out."""
        return self.placement.column_of_item[self.item]


def predict_from_groups(
    shadow: Shadow, held_out: HeldOut, unpacked: Path, coding: profiles.Coding, rng: Rng
) -> dict[str, np.ndarray]:
    """Return `target`, `similar` and `random_group` where a record is the profile of a group."""
    released = profiles.open_unpacked(unpacked, coding.dtype)

    def predict(record_of_user: np.ndarray) -> np.ndarray:
        record, column = record_of_user[held_out.user], held_out.column
        there = (record >= 0) & (column >= 0)
        codes = np.full(len(record), np.nan)
        codes[there] = released.cells(record[there], column[there])
        return coding.values(codes)

    by_chance = rng("random groups").permutation(held_out.placement.record_of_user)
    means = open_model(shadow.baseline).group_means(by_chance, shadow.n_groups)
    return {
        "target": predict(held_out.placement.record_of_user),
        "similar": predict(held_out.nearest),
        "random_group": means.cells(by_chance[held_out.user], held_out.item),
    }


def predict_from_records(
    shadow: Shadow,
    held_out: HeldOut,
    recommender: LowRank,
    scales: UserScales,
    scale: tuple[float, float],
    rng: Rng,
) -> dict[str, np.ndarray]:
    """Return `target`, `similar` and `random_group` where a record is a single user's.

    Unlike a released profile, a recommender may predict beyond the scale: its predictions are clipped to it.
    """

    def predict(record_of_user: np.ndarray) -> np.ndarray:
        record, column = record_of_user[held_out.user], held_out.column
        there = (record >= 0) & (column >= 0)
        values = np.full(len(record), np.nan)
        predicted = recommender.cells(record[there], column[there])
        values[there] = scales.take(held_out.user[there]).ratings(predicted)
        return np.clip(values, *scale)

    by_chance = rng("random groups").permutation(held_out.placement.record_of_user)
    # For users who are left out of the release another user is drawn, too.
    another = rng("somebody").permutation(len(by_chance))
    user = np.where(by_chance < 0, another, by_chance)[held_out.user]
    return {
        "target": predict(held_out.placement.record_of_user),
        "similar": predict(held_out.nearest),
        "random_group": open_model(shadow.baseline).cells(user, held_out.item),
    }


def with_baselines(
    shadow: Shadow, held_out: HeldOut, predicted: dict[str, np.ndarray], scale: tuple[float, float]
) -> dict[str, np.ndarray]:
    """Return the columns of heldout.parquet; what the baseline model predicts is clipped to the scale."""
    original = open_model(shadow.baseline).cells(held_out.user, held_out.item)
    return {
        "truth": held_out.truth,
        "original": np.clip(original, *scale),
        **predicted,
        "random_group": np.clip(predicted["random_group"], *scale),
        "item_mean": item_means(shadow.ratings)[held_out.item],
    }
