"""Which entries of a release of single people an attacker takes for rated, and what ratings he makes of them.

Where a record has only some items, they are what the person rated. Where every record has every item, most are not: the
attacker keeps what stands out of the noise (paper 001, section 4.1). He was told by the owner which noise it is and how
strong. The judge is not: the manifest has no room for it. So he estimates the strength from the values, tries both
kinds of noise (and that every entry was rated), and keeps the reading that tells most of the truth.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from checks.case import Case
from checks.profiles import Profiles
from checks.reconstruction.detection import Noise, amount_of, noise_limit, noise_variance
from checks.reconstruction.kmeans import cluster_ranks
from checks.reconstruction.measures import right
from checks.reconstruction.originals import Originals
from checks.reconstruction.scale import RatingScale
from checks.release import Release
from checks.sample import sampled

Kind = Literal["every entry", "gaussian", "uniform"]

MEDIAN_OF_SQUARES = 0.4549  # of a standard normal variable
UNLIKE = 2.0  # times as different as people with equal noise would be: then everybody has their own
PER_MAD = {"gaussian": 1.4826, "uniform": 2.0}  # σ and α, by the median distance from the centre
ROUNDING = 1e-6
COLUMNS_AT_ONCE = 256
MOSTLY = 0.5
DENSE_CELLS = (
    6_000_000  # looked at where nearly all of them are ratings: these cost more than the cells of a table
)


@dataclass(frozen=True)
class Strength:
    """How strong the noise on z-scores is: its variance per record, and whether every record has its own."""

    per_row: np.ndarray
    pooled: float
    flexible: bool

    @classmethod
    def of(cls, release: Release) -> "Strength":
        """From the values alone: whatever they have above a variance of 1 is noise (section 6.3).

        Records of equal noise differ in their variance by (4σ² + 2σ⁴) / values, by chance; where the median record is
        twice as far off, each has noise of its own.
        """
        squares, counts = np.zeros(release.n_groups), release.lengths
        for block in release.blocks():
            values = block.values.astype(np.float64)
            squares[block.rows_slice] = np.bincount(
                block.row_numbers(), weights=values * values, minlength=block.rows
            )
        pooled = float(noise_variance(squares.sum(), counts.sum()))
        by_chance = (4 * pooled + 2 * pooled**2) / np.maximum(counts, 1)
        apart = (squares / np.maximum(counts, 1) - 1 - pooled) ** 2
        unlike = float(np.median(apart / np.maximum(by_chance, 1e-12))) if len(apart) else 0.0
        return cls(noise_variance(squares, counts), pooled, unlike > UNLIKE * MEDIAN_OF_SQUARES)

    @classmethod
    def none(cls, rows: int) -> "Strength":
        """No noise at all."""
        return cls(np.zeros(rows), 0.0, flexible=False)

    def amounts(self, noise: Noise) -> np.ndarray:
        """σ or α of every record."""
        variance = self.per_row if self.flexible else np.full(len(self.per_row), self.pooled)
        return amount_of(variance, noise)


@dataclass(frozen=True)
class Unrated:
    """What noise alone looks like: values no further from their item's `centre` than `limit`, one per record or one per
    item."""

    centre: np.ndarray
    limit: np.ndarray
    per_item: bool

    def beyond(self, block: Profiles) -> np.ndarray:
        """Which cells of a block are more than that."""
        columns = block.columns
        limit = self.limit[columns] if self.per_item else self.limit[block.start + block.row_numbers()]
        return np.abs(block.values - self.centre[columns]) > limit + ROUNDING

    @classmethod
    def of(cls, release: Release, noise: Noise) -> "Unrated":
        """Of z-scores: 0, by section 4.1. Of ratings: whatever most records have there."""
        if release.unit == "z-score":
            limit = noise_limit(noise, Strength.of(release).amounts(noise))
            return cls(np.zeros(release.n_items), limit, per_item=False)
        centre, mad = _medians(release)
        return cls(centre, noise_limit(noise, mad * PER_MAD[noise]), per_item=True)


def _medians(release: Release) -> tuple[np.ndarray, np.ndarray]:
    """Per item: the median of its values, and that of their distances to it. Holds the whole table: for samples."""
    table = np.concatenate([block.table() for block in release.blocks()])
    centre, mad = np.empty(release.n_items), np.empty(release.n_items)
    for start in range(0, release.n_items, COLUMNS_AT_ONCE):
        part = slice(start, start + COLUMNS_AT_ONCE)
        columns = np.ascontiguousarray(table[:, part].T)
        centre[part] = np.median(columns, axis=1)
        mad[part] = np.median(np.abs(columns - centre[part][:, None]), axis=1)
    return centre, mad


def claimed(release: Release, kind: Kind) -> Iterator[Profiles]:
    """The blocks of a release with the entries only that are taken for rated."""
    if kind == "every entry":
        yield from release.blocks()
        return
    noise = Unrated.of(release, kind)
    for block in release.blocks():
        yield kept(block, noise.beyond(block))


def kept(block: Profiles, cells: np.ndarray) -> Profiles:
    """Some of a block's cells."""
    counts = np.bincount(block.row_numbers()[cells], minlength=block.rows)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return replace(block, indptr=indptr, items=block.columns[cells], codes=block.codes[cells])


def rated_as(block: Profiles, unit: str, scale: RatingScale) -> Profiles:
    """What a block says as ratings: z-scores by k-means on each record; of ratings the nearest that can be given."""
    if unit == "z-score":
        ranks = cluster_ranks(
            block.indptr.astype(np.int64), block.values.astype(np.float64), len(scale.levels)
        )
        ratings = scale.levels[ranks]
    else:
        ratings = scale.nearest(block.values)
    return replace(block, codes=ratings.astype(np.float32))


def choose(case: Case) -> Kind:
    """The reading that tells most: by the harmonic mean of the share of its claims that are right (rated, with that
    rating) and the share of all ratings that it tells. That every entry was rated is believed only where most are."""
    if not case.release.complete:
        return "every entry"
    part = sampled(case, "reading", DENSE_CELLS)
    rated = len(Originals.of(part).ratings.data) / max(1, part.release.cells)
    readings: list[Kind] = ["gaussian", "uniform"]
    if rated > MOSTLY:
        readings.append("every entry")
    return max(readings, key=lambda kind: _told(part, kind))


def _told(part: Case, kind: Kind) -> float:
    hits = claims = ratings = 0
    for block in claimed(part.release, kind):
        read = part.groups.block(rated_as(block, part.release.unit, part.rating_scale))
        told = read.published[read.cells]
        hits += int(
            right(told, read.ratings, part.rating_scale.half).sum()
        )  # NaN, not claimed, is never right
        claims += len(block.codes)
        ratings += len(told)
    return 2 * hits / max(1, claims + ratings)
