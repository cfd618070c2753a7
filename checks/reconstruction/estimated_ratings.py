"""Estimate which entries of a release of single people were rated, and with which ratings, as an attacker would.

Where a record has only some items, they are what the person rated. Where every record has every item, most are not: the
attacker keeps the entries that exceed the noise ([Zhang2006], section 4.1). The paper's attacker knows from the owner
which noise it is and how strong. The gate does not: the manifest has no field for it. So it estimates the strength
from the values, tries both kinds of noise (and that every entry was rated), with one strength for all and with each
record's own, and keeps the rule that recovers most of the truth.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from checks.evidence.case import Case
from checks.evidence.profiles import Profiles
from checks.evidence.release_view import ReleaseView
from checks.evidence.views.as_ratings import RatingsRelease
from checks.evidence.views.sample import sampled
from checks.reconstruction.detection import Noise, amount_of, noise_limit, noise_variance
from checks.reconstruction.kmeans import cluster_ranks
from checks.reconstruction.measures import is_recovered
from checks.reconstruction.original_ratings import Originals
from checks.reconstruction.rating_scale import RatingScale, rating_scale

EntryRule = Literal["every entry", "gaussian", "uniform", "each record's gaussian", "each record's uniform"]

# Entries beyond this noise are taken as rated; the flag: with each record's own strength instead of one for all.
DETECTING: dict[EntryRule, tuple[Noise, bool]] = {
    "gaussian": ("gaussian", False),
    "uniform": ("uniform", False),
    "each record's gaussian": ("gaussian", True),
    "each record's uniform": ("uniform", True),
}

MEDIAN_OF_SQUARES = 0.4549  # of a standard normal variable
UNEQUAL_FACTOR = 2.0  # times as different as records with equal noise would be: then each record has its own
PER_MAD = {"gaussian": 1.4826, "uniform": 2.0}  # σ and α per median distance from the centre
ROUNDING = 1e-6
COLUMNS_AT_ONCE = 256
MOST_ENTRIES = 0.5
QUIET_SHARE = (
    0.5  # of the variance of all records' noise: chance gives no record of a hundred values so little
)
DENSE_CELLS = (
    6_000_000  # examined where nearly all of them are ratings: these cost more than the cells of a table
)


@dataclass(frozen=True)
class NoiseStrength:
    """Hold how strong the noise on z-scores is: its variance per record, and whether every record has its own."""

    per_row: np.ndarray
    pooled: float
    flexible: bool

    @classmethod
    def of(cls, release: ReleaseView) -> "NoiseStrength":
        """Estimate the strength from the values alone: their variance above 1 is noise ([Zhang2006], section 6.3).

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
        distance = (squares / np.maximum(counts, 1) - 1 - pooled) ** 2
        unequal = float(np.median(distance / np.maximum(by_chance, 1e-12))) if len(distance) else 0.0
        return cls(noise_variance(squares, counts), pooled, unequal > UNEQUAL_FACTOR * MEDIAN_OF_SQUARES)

    @classmethod
    def none(cls, rows: int) -> "NoiseStrength":
        """Return the strength of no noise at all."""
        return cls(np.zeros(rows), 0.0, flexible=False)

    def by_rule(self, kind: EntryRule) -> "NoiseStrength":
        """Return the strength as an entry rule assumes it: of every record's own noise where the rule does."""
        return replace(self, flexible=self.flexible or (kind in DETECTING and DETECTING[kind][1]))

    def amounts(self, noise: Noise) -> np.ndarray:
        """Return σ or α of every record."""
        variance = self.per_row if self.flexible else np.full(len(self.per_row), self.pooled)
        return amount_of(variance, noise)


@dataclass(frozen=True)
class NoiseBand:
    """Describe values that noise alone explains: no further from their item's `centre` than the item's limit times the
    record's."""

    centre: np.ndarray
    per_item: np.ndarray
    per_record: np.ndarray

    def beyond(self, block: Profiles) -> np.ndarray:
        """Mark the cells of a block that are further away."""
        columns = block.columns
        limit = self.per_item[columns] * self.per_record[block.start + block.row_numbers()]
        return np.abs(block.values - self.centre[columns]) > limit + ROUNDING

    @classmethod
    def of(cls, release: ReleaseView, kind: EntryRule) -> "NoiseBand":
        """Estimate the band: for z-scores around 0 ([Zhang2006], section 4.1), for ratings around the median of each
        item."""
        noise, own = DETECTING[kind]
        if release.unit == "z-score":
            limit = noise_limit(noise, NoiseStrength.of(release).by_rule(kind).amounts(noise))
            return cls(np.zeros(release.n_items), np.ones(release.n_items), limit)
        centre, mad = medians(release)
        limit = noise_limit(noise, mad * PER_MAD[noise])
        return cls(centre, limit, _relative_noise(release, centre, mad) if own else np.ones(release.n_groups))


def _relative_noise(release: ReleaseView, centre: np.ndarray, mad: np.ndarray) -> np.ndarray:
    """Return per record of a full table its median distance from the items' centres, relative to that of
    all records."""
    shares, varied = np.ones(release.n_groups), np.flatnonzero(mad > 0)
    if len(varied):
        for block in release.blocks():
            distance = np.abs(block.table()[:, varied] - centre[varied]) / mad[varied]
            shares[block.rows_slice] = np.median(distance, axis=1)
    return shares


def medians(release: ReleaseView) -> tuple[np.ndarray, np.ndarray]:
    """Return per item the median of its values, and the median of their distances to it.

    What is not published counts as the centre of the scale. Holds the whole table: for samples.
    """
    middle = (release.low + release.high) / 2
    table = np.concatenate([np.nan_to_num(block.table(), nan=middle) for block in release.blocks()])
    centre, mad = np.empty(release.n_items), np.empty(release.n_items)
    for start in range(0, release.n_items, COLUMNS_AT_ONCE):
        part = slice(start, start + COLUMNS_AT_ONCE)
        columns = np.ascontiguousarray(table[:, part].T)
        centre[part] = np.median(columns, axis=1)
        mad[part] = np.median(np.abs(columns - centre[part][:, None]), axis=1)
    return centre, mad


def candidate_rules(release: ReleaseView) -> list[EntryRule]:
    """Return the entry rules to try on a full table: either kind of noise; and each record by its own strength, where
    that of some is much less than most records'.

    A few people with little noise would not exceed the limits of the others.
    """
    if release.unit == "z-score":
        strength = NoiseStrength.of(release)
        some_have_less_noise = not strength.flexible and bool(
            (strength.per_row < QUIET_SHARE * strength.pooled).any()
        )
    else:
        some_have_less_noise = bool((_relative_noise(release, *medians(release)) ** 2 < QUIET_SHARE).any())
    return [kind for kind, (_, own) in DETECTING.items() if some_have_less_noise or not own]


def claimed_entries(release: ReleaseView, kind: EntryRule) -> Iterator[Profiles]:
    """Yield the blocks of a release with only the entries that are taken as rated."""
    if kind == "every entry":
        yield from release.blocks()
        return
    noise = NoiseBand.of(release, kind)
    for block in release.blocks():
        yield keep_cells(block, noise.beyond(block))


def keep_cells(block: Profiles, cells: np.ndarray) -> Profiles:
    """Return some of a block's cells."""
    counts = np.bincount(block.row_numbers()[cells], minlength=block.rows)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return replace(block, indptr=indptr, items=block.columns[cells], codes=block.codes[cells])


def to_ratings(block: Profiles, unit: str, scale: RatingScale) -> Profiles:
    """Return a block as ratings: z-scores by k-means on each record; ratings by the nearest that can be given."""
    if unit == "z-score":
        ranks = cluster_ranks(
            block.indptr.astype(np.int64), block.values.astype(np.float64), len(scale.levels)
        )
        ratings = scale.levels[ranks]
    else:
        ratings = scale.nearest(block.values)
    return replace(block, codes=ratings.astype(np.float32))


def ratings_view(case: Case) -> Case:
    """Return the case as an attacker reads it: where z-scores are published, the ratings they estimate from them."""
    if case.release.unit == "rating":
        return case
    return case.cached("as ratings", lambda: _estimated(case))


def _estimated(case: Case) -> Case:
    whole, kind, scale = case.release, entry_rule(case), rating_scale(case)
    blocks = (to_ratings(block, whole.unit, scale) for block in claimed_entries(whole, kind))
    release = RatingsRelease(whole, blocks, dense=kind == "every entry" and whole.complete)
    return replace(case.with_release(release), published=case)


def entry_rule(case: Case) -> EntryRule:
    """Return which entries of single people's records an attacker takes as rated."""
    return case.cached("reading", lambda: choose_entry_rule(case))


def choose_entry_rule(case: Case) -> EntryRule:
    """Choose the entry rule that recovers most, by the harmonic mean of two shares.

    They are the share of its claims that are right (rated, with that rating) and the share of all ratings that it
    recovers. That every entry was rated is assumed only where most entries were.
    """
    if not case.release.complete:
        return "every entry"
    part = sampled(case, "reading", DENSE_CELLS)
    rated = len(Originals.of(part).ratings.data) / max(1, part.release.cells)
    tried = candidate_rules(part.release)
    if rated > MOST_ENTRIES:
        tried.append("every entry")
    return max(tried, key=lambda kind: _f_score(part, kind))


def _f_score(part: Case, kind: EntryRule) -> float:
    """Return the harmonic mean of precision and recall of a rule's claims."""
    hits = claims = ratings = 0
    for block in claimed_entries(part.release, kind):
        read = part.groups.block(to_ratings(block, part.release.unit, rating_scale(part)))
        estimated = read.published[read.cells]
        hits += int(
            is_recovered(estimated, read.ratings, rating_scale(part).half).sum()
        )  # NaN, not claimed, is never recovered
        claims += len(block.codes)
        ratings += len(estimated)
    return 2 * hits / max(1, claims + ratings)
