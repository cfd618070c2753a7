"""One trial of paper 003: protect the filled ratings, then measure what is lost, who is found and what is predicted.

Readings of the paper that its figures depend on (docs/decisions/0009-microaggregation.md). *SSE*: over all cells of the
filled matrix, in rating units. *DR*: for every original record the nearest protected one, in rating units; where a
group of c shares it, that is a hit of 1/c. The text has it the other way round, from protected to original records:
the literal direction is measured too. *MAE*: the items are split, four fifths to find everybody's nearest protected
record by, one fifth whose values there are the prediction; the error counts over real ratings.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tasks.kernels.mdav import mdav, v_mdav
from tasks.ratings import Ratings

TESTED_SHARE = 0.2
RECORDS_AT_ONCE = 25_000_000  # distances that lie in memory
ROUNDING = 64  # units in the last place by which two equal distances may differ
GNA, CLIPPED = "not clipped", "clipped"

Measures = dict[str, float]


@dataclass(frozen=True)
class Filled:
    """Ratings with the centre of the scale in the place of missing ones, and which are real."""

    values: np.ndarray
    rated: np.ndarray
    scale: tuple[float, float]

    @classmethod
    def of(cls, ratings: Ratings, scale: tuple[float, float]) -> "Filled":
        """Central-value imputation (section 3, step 1): 3 on a scale of 1 to 5, 0 on Jester's."""
        matrix = ratings.by_user.whole()
        values = np.full(matrix.shape, sum(scale) / 2)
        rated = np.zeros(matrix.shape, bool)
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        values[row, matrix.indices], rated[row, matrix.indices] = matrix.data, True
        return cls(values, rated, scale)

    def without(self, hidden: np.ndarray) -> "Filled":
        """Some ratings not known."""
        values = np.where(hidden, sum(self.scale) / 2, self.values)
        return Filled(values, self.rated & ~hidden, self.scale)

    def spreads(self) -> np.ndarray:
        """Population deviation of every item; 1 where all values are the same."""
        same = self.values.min(axis=0) == self.values.max(axis=0)
        return np.where(same, 1.0, self.values.std(axis=0))


@dataclass(frozen=True)
class Protected:
    """Protected records: `records[own[u]]` is user u's, shared by `sizes[own[u]]` users."""

    records: np.ndarray
    own: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class Setting:
    """A way to microaggregate, by k (and gamma), or an amount of noise σ."""

    method: Literal["MDAV", "V-MDAV", "GNA"]
    amount: float
    gamma: float = 0.0

    @property
    def row(self) -> str:
        """The setting as a table names it."""
        if self.method == "GNA":
            return f"σ={self.amount:g}"
        return f"k={self.amount:g}" + (f", V-MDAV γ={self.gamma:g}" if self.method == "V-MDAV" else "")


def microaggregated(filled: Filled, setting: Setting) -> Protected:
    """Groups in z-space, their centroids in rating units (section 3, steps 2 to 5)."""
    z_scores = (filled.values - filled.values.mean(axis=0)) / filled.spreads()
    k = int(setting.amount)
    own = mdav(z_scores, k) if setting.method == "MDAV" else v_mdav(z_scores, k, setting.gamma)
    order, sizes = np.argsort(own, kind="stable"), np.bincount(own)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return Protected(np.add.reduceat(filled.values[order], starts) / sizes[:, None], own, sizes)


def disguised(filled: Filled, sigma: float, seed: int) -> dict[str, Protected]:
    """Gaussian noise on z-scores (section 4), as it is and with ratings off the scale moved to its ends.

    The same seed means the same noise up to its amount: rows of a table differ by nothing else.
    """
    noise = np.random.default_rng([seed, 1]).standard_normal(filled.values.shape)
    records = filled.values + sigma * filled.spreads() * noise
    everybody = np.arange(len(records))
    alone = np.ones(len(records), np.int64)
    return {
        GNA: Protected(records, everybody, alone),
        CLIPPED: Protected(np.clip(records, *filled.scale), everybody, alone),
    }


def trial(
    block: tuple[Setting, tuple[int, ...]], *, ingest: Path, scale: tuple[float, float]
) -> dict[str, Measures]:
    """All measures of one setting, by the treatment of what leaves the scale. Noise is the first seed's; the split of
    the items is drawn with every seed."""
    setting, seeds = block
    filled = Filled.of(Ratings(ingest), scale)
    if setting.method == "GNA":
        made = disguised(filled, setting.amount, seeds[0])
    else:
        made = {CLIPPED: microaggregated(filled, setting)}  # a mean of ratings stays on the scale
    return {
        way: measure(filled, protected, seeds if way == CLIPPED else ()) for way, protected in made.items()
    }


def held_out_trial(block: tuple[Setting, int], *, ingest: Path, scale: tuple[float, float]) -> float:
    """MAE where the tested ratings, a fifth of all, are hidden before anything is protected."""
    setting, seed = block
    filled = Filled.of(Ratings(ingest), scale)
    hidden = filled.rated & (np.random.default_rng([seed, 2]).random(filled.rated.shape) < TESTED_SHARE)
    known = filled.without(hidden)
    made = (
        disguised(known, setting.amount, seed)[CLIPPED]
        if setting.method == "GNA"
        else microaggregated(known, setting)
    )
    row, column = np.nonzero(hidden)
    predicted = made.records[_nearest(known.values, made.records)[row], column]
    return float(np.abs(predicted - filled.values[row, column]).mean())


def measure(filled: Filled, made: Protected, seeds: tuple[int, ...]) -> Measures:
    """SSE, DR in both directions, the mean size of a group, and MAE where there is a seed for splits."""
    found, right = _links(filled.values, made)
    return {
        "SSE": _squared_error(filled.values, made),
        "DR %": 100 * float((found / made.sizes[made.own]).mean()),
        # All members of a group have the same record; it is right for the one whose original is nearest to it.
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


def _links(originals: np.ndarray, made: Protected) -> tuple[np.ndarray, np.ndarray]:
    """Whose own record is the nearest to the original; which records' nearest original is one of their own. Two that
    are equally near up to rounding are both the nearest."""
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
    """The record nearest to every original."""
    return np.concatenate([apart.argmin(axis=1) for _, apart in _distances(originals, records)])


def _distances(originals: np.ndarray, records: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Squared distances of blocks of originals to all records, about the middle of the originals.

    Noisy records are as many as the originals and never nearly as far as each other: float32 tells them apart.
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
