"""Which entries of a release of single people an attacker takes for rated, and what ratings he makes of them.

Where a record has only some items, they are what the person rated. Where every record has every item, most are not: the
attacker keeps what stands out of the noise (paper 001, section 4.1). He was told by the owner which noise it is and how
strong. The judge is not: the manifest has no room for it. So he estimates the strength from the values, tries both
kinds of noise (and that every entry was rated), of one strength for all and of every record's own, and keeps the
reading that tells most of the truth.
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

Kind = Literal["every entry", "gaussian", "uniform", "each record's gaussian", "each record's uniform"]

# What is taken for rated: the entries beyond this noise, as strong for all alike as it is on most, or on each record.
DETECTING: dict[Kind, tuple[Noise, bool]] = {
    "gaussian": ("gaussian", False),
    "uniform": ("uniform", False),
    "each record's gaussian": ("gaussian", True),
    "each record's uniform": ("uniform", True),
}

MEDIAN_OF_SQUARES = 0.4549  # of a standard normal variable
UNLIKE = 2.0  # times as different as people with equal noise would be: then everybody has their own
PER_MAD = {"gaussian": 1.4826, "uniform": 2.0}  # σ and α, by the median distance from the centre
ROUNDING = 1e-6
COLUMNS_AT_ONCE = 256
MOSTLY = 0.5
LESS = 0.5  # of the variance of everybody's noise: chance does not make a record of a hundred values so quiet
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

    def on(self, kind: Kind) -> "Strength":
        """As a reading has it: where it takes every record by its own noise, this is of everybody's own."""
        return replace(self, flexible=self.flexible or (kind in DETECTING and DETECTING[kind][1]))

    def amounts(self, noise: Noise) -> np.ndarray:
        """σ or α of every record."""
        variance = self.per_row if self.flexible else np.full(len(self.per_row), self.pooled)
        return amount_of(variance, noise)


@dataclass(frozen=True)
class Unrated:
    """What noise alone looks like: values no further from their item's `centre` than the item's limit times the
    record's."""

    centre: np.ndarray
    per_item: np.ndarray
    per_record: np.ndarray

    def beyond(self, block: Profiles) -> np.ndarray:
        """Which cells of a block are more than that."""
        columns = block.columns
        limit = self.per_item[columns] * self.per_record[block.start + block.row_numbers()]
        return np.abs(block.values - self.centre[columns]) > limit + ROUNDING

    @classmethod
    def of(cls, release: Release, kind: Kind) -> "Unrated":
        """Of z-scores: 0, by section 4.1. Of ratings: whatever most records have there."""
        noise, own = DETECTING[kind]
        if release.unit == "z-score":
            limit = noise_limit(noise, Strength.of(release).on(kind).amounts(noise))
            return cls(np.zeros(release.n_items), np.ones(release.n_items), limit)
        centre, mad = medians(release)
        limit = noise_limit(noise, mad * PER_MAD[noise])
        return cls(centre, limit, _shares(release, centre, mad) if own else np.ones(release.n_groups))


def _shares(release: Release, centre: np.ndarray, mad: np.ndarray) -> np.ndarray:
    """Per record of a full table: its median distance from the items' centres, where that of all records is 1."""
    shares, varied = np.ones(release.n_groups), np.flatnonzero(mad > 0)
    if len(varied):
        for block in release.blocks():
            apart = np.abs(block.table()[:, varied] - centre[varied]) / mad[varied]
            shares[block.rows_slice] = np.median(apart, axis=1)
    return shares


def medians(release: Release) -> tuple[np.ndarray, np.ndarray]:
    """Per item: the median of its values, and that of their distances to it; what is not published is at the centre of
    the scale. Holds the whole table: for samples."""
    middle = (release.low + release.high) / 2
    table = np.concatenate([np.nan_to_num(block.table(), nan=middle) for block in release.blocks()])
    centre, mad = np.empty(release.n_items), np.empty(release.n_items)
    for start in range(0, release.n_items, COLUMNS_AT_ONCE):
        part = slice(start, start + COLUMNS_AT_ONCE)
        columns = np.ascontiguousarray(table[:, part].T)
        centre[part] = np.median(columns, axis=1)
        mad[part] = np.median(np.abs(columns - centre[part][:, None]), axis=1)
    return centre, mad


def readings(release: Release) -> list[Kind]:
    """Of a full table: either kind of noise; and each record by its own strength, where that of some is much less than
    everybody's: few people with little noise would not stand out beyond the others' limits."""
    if release.unit == "z-score":
        strength = Strength.of(release)
        quiet = not strength.flexible and bool((strength.per_row < LESS * strength.pooled).any())
    else:
        quiet = bool((_shares(release, *medians(release)) ** 2 < LESS).any())
    return [kind for kind, (_, own) in DETECTING.items() if quiet or not own]


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
    tried = readings(part.release)
    if rated > MOSTLY:
        tried.append("every entry")
    return max(tried, key=lambda kind: _told(part, kind))


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
