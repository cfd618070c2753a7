"""Run one trial of [Casino2015]: protect the filled ratings, then measure information loss, disclosure risk and
error.

Interpretations of the paper that its figures depend on (docs/decisions/0009-microaggregation.md). *SSE*: over all
cells of the filled matrix, in rating units. *DR*: for every original record the nearest protected one, in rating
units; where a group of c shares it, that is a hit of 1/c. The text describes the opposite direction, from protected
to original records: that direction is measured too. *MAE*: the items are split, four fifths to find each user's
nearest protected record, one fifth whose values there are the prediction; the error counts over real ratings.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tasks.data.ratings import Ratings
from tasks.kernels.mdav import mdav, v_mdav

TESTED_SHARE = 0.2
RECORDS_AT_ONCE = 25_000_000  # distances in memory
ROUNDING = 64  # units in the last place by which two equal distances may differ
UNCLIPPED, CLIPPED = "not clipped", "clipped"

Measures = dict[str, float]


@dataclass(frozen=True)
class Filled:
    """Hold ratings with the centre of the scale in place of missing ones, and which are real."""

    values: np.ndarray
    rated: np.ndarray
    scale: tuple[float, float]

    @classmethod
    def of(cls, ratings: Ratings, scale: tuple[float, float]) -> "Filled":
        """Impute the central value ([Casino2015], section 3, step 1): 3 on a scale of 1 to 5, 0 on Jester's."""
        matrix = ratings.by_user.whole()
        values = np.full(matrix.shape, sum(scale) / 2)
        rated = np.zeros(matrix.shape, bool)
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        values[row, matrix.indices], rated[row, matrix.indices] = matrix.data, True
        return cls(values, rated, scale)

    def without(self, hidden: np.ndarray) -> "Filled":
        """Return the data with some ratings hidden."""
        values = np.where(hidden, sum(self.scale) / 2, self.values)
        return Filled(values, self.rated & ~hidden, self.scale)

    def deviations(self) -> np.ndarray:
        """Return the population deviation of every item; 1 where all values are the same."""
        same = self.values.min(axis=0) == self.values.max(axis=0)
        return np.where(same, 1.0, self.values.std(axis=0))


@dataclass(frozen=True)
class Protected:
    """Hold protected records: `records[own[u]]` is user u's, shared by `sizes[own[u]]` users."""

    records: np.ndarray
    own: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class Setting:
    """Describe a way to microaggregate, by k (and gamma), or an amount of noise σ."""

    method: Literal["MDAV", "V-MDAV", "GNA"]
    amount: float
    gamma: float = 0.0

    @property
    def row(self) -> str:
        """Return the setting's row in a table."""
        if self.method == "GNA":
            return f"σ={self.amount:g}"
        return f"k={self.amount:g}" + (f", V-MDAV γ={self.gamma:g}" if self.method == "V-MDAV" else "")


def microaggregate(filled: Filled, setting: Setting) -> Protected:
    """Form groups in z-space and return their centroids in rating units ([Casino2015], section 3, steps 2 to 5)."""
    z_scores = (filled.values - filled.values.mean(axis=0)) / filled.deviations()
    k = int(setting.amount)
    own = mdav(z_scores, k) if setting.method == "MDAV" else v_mdav(z_scores, k, setting.gamma)
    order, sizes = np.argsort(own, kind="stable"), np.bincount(own)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return Protected(np.add.reduceat(filled.values[order], starts) / sizes[:, None], own, sizes)


def add_noise(filled: Filled, sigma: float, seed: int) -> dict[str, Protected]:
    """Add Gaussian noise to z-scores ([Casino2015], section 4), unclipped and clipped to the scale.

    The same seed means the same noise up to its amount: rows of a table differ by nothing else.
    """
    noise = np.random.default_rng([seed, 1]).standard_normal(filled.values.shape)
    records = filled.values + sigma * filled.deviations() * noise
    users = np.arange(len(records))
    alone = np.ones(len(records), np.int64)
    return {
        UNCLIPPED: Protected(records, users, alone),
        CLIPPED: Protected(np.clip(records, *filled.scale), users, alone),
    }


def run_trial(
    block: tuple[Setting, tuple[int, ...]], *, ingest: Path, scale: tuple[float, float]
) -> dict[str, Measures]:
    """Return all measures of one setting, by the treatment of values off the scale.

    Noise is that of the first seed; the split of the items is drawn with every seed.
    """
    setting, seeds = block
    filled = Filled.of(Ratings(ingest), scale)
    if setting.method == "GNA":
        made = add_noise(filled, setting.amount, seeds[0])
    else:
        made = {CLIPPED: microaggregate(filled, setting)}  # a mean of ratings stays on the scale
    return {
        way: measure(filled, protected, seeds if way == CLIPPED else ()) for way, protected in made.items()
    }


def run_held_out_trial(block: tuple[Setting, int], *, ingest: Path, scale: tuple[float, float]) -> float:
    """Return the MAE where the tested ratings, a fifth of all, are hidden before anything is protected."""
    setting, seed = block
    filled = Filled.of(Ratings(ingest), scale)
    hidden = filled.rated & (np.random.default_rng([seed, 2]).random(filled.rated.shape) < TESTED_SHARE)
    known = filled.without(hidden)
    made = (
        add_noise(known, setting.amount, seed)[CLIPPED]
        if setting.method == "GNA"
        else microaggregate(known, setting)
    )
    row, column = np.nonzero(hidden)
    predicted = made.records[_nearest(known.values, made.records)[row], column]
    return float(np.abs(predicted - filled.values[row, column]).mean())


def measure(filled: Filled, made: Protected, seeds: tuple[int, ...]) -> Measures:
    """Return SSE, DR in both directions, the mean size of a group, and MAE where there is a seed for splits."""
    found, right = _link_records(filled.values, made)
    return {
        "SSE": _squared_error(filled.values, made),
        "DR %": 100 * float((found / made.sizes[made.own]).mean()),
        # All members of a group have the same record; it counts for the member whose original is nearest to it.
        "DR %, literal": 100 * np.count_nonzero(right) / len(made.own),
        "mean size": len(made.own) / len(made.sizes),
        **({"MAE": float(np.mean([_prediction_error(filled, made, s) for s in seeds]))} if seeds else {}),
    }


def _squared_error(values: np.ndarray, made: Protected) -> float:
    rows = _rows_at_once(values.shape[1])
    parts = (slice(start, start + rows) for start in range(0, len(values), rows))
    return float(sum(np.sum((values[part] - made.records[made.own[part]]) ** 2) for part in parts))


def _prediction_error(filled: Filled, made: Protected, seed: int) -> float:
    items = np.random.default_rng([seed, 0]).permutation(filled.values.shape[1])
    tested = np.sort(items[: max(1, round(TESTED_SHARE * len(items)))])
    known = np.delete(np.arange(len(items)), tested)
    nearest = _nearest(filled.values[:, known], made.records[:, known])
    row, place = np.nonzero(filled.rated[:, tested])
    predicted = made.records[nearest[row], tested[place]]
    return float(np.abs(predicted - filled.values[row, tested[place]]).mean())


def _link_records(originals: np.ndarray, made: Protected) -> tuple[np.ndarray, np.ndarray]:
    """Return whose own record is the nearest to the original, and which records' nearest original is one of their
    own.

    Two records that are equally near up to rounding are both the nearest.
    """
    found = np.empty(len(originals), bool)
    nearest_own, nearest = np.full((2, len(made.records)), np.inf)
    for start, apart in _distances(originals, made.records):
        own = made.own[start : start + len(apart)]
        to_own = apart[np.arange(len(apart)), own]
        rounding = ROUNDING * np.finfo(apart.dtype).eps
        least = apart.min(axis=1)
        found[start : start + len(apart)] = to_own - least <= rounding * np.abs(least)
        np.minimum(nearest, apart.min(axis=0), out=nearest)
        np.minimum.at(nearest_own, own, to_own)
    return found, nearest_own - nearest <= rounding * np.abs(nearest)


def _nearest(originals: np.ndarray, records: np.ndarray) -> np.ndarray:
    """Return the record nearest to every original."""
    return np.concatenate([apart.argmin(axis=1) for _, apart in _distances(originals, records)])


def _distances(originals: np.ndarray, records: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield squared distances of blocks of originals to all records, about the middle of the originals.

    Noisy records are as many as the originals and never nearly as far as each other: float32 distinguishes them.
    """
    kind = np.float64 if len(records) < len(originals) else np.float32
    middle = originals.mean(axis=0)
    left, right = ((matrix - middle).astype(kind) for matrix in (originals, records))
    squares = np.einsum("rc,rc->r", right, right)
    rows = _rows_at_once(len(records))
    for start in range(0, len(left), rows):
        some = left[start : start + rows]
        apart = some @ right.T
        apart *= -2
        apart += squares
        apart += np.einsum("rc,rc->r", some, some)[:, None]
        yield start, apart


def _rows_at_once(width: int) -> int:
    return max(1, RECORDS_AT_ONCE // width)
