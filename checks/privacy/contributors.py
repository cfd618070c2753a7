"""Test the contributor rule (docs/leaks-and-bars.md): real ratings of few people must not be published unchanged.

A cell with fewer than c real contributors may hold predictions only. So its published value may agree to the digit with
the contributors' mean (one contributor: with their own rating) only as often as by chance: as often as it agrees with
other people's ratings of the same item, or as a smooth guess of the published value would.

The rule is about groups: finding a person's group is allowed, so the group must not reveal their ratings. Where every
record is one person's, finding the record is what is not allowed, and the re-identification attacks judge that at the
same 1/k; there the check only reports how much of the source is published unchanged.

Every such cell of every group is examined. Only the chance is estimated, where the data are large: it is a mean, so the
cells of a sample of the groups are enough, with some people's ratings.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.seeds import seeded
from checks.evidence.views.sample import sampled
from checks.privacy.k_anonymity import publishes_single_people
from checks.recovery.low_rank_fit import Table, robust_fit
from checks.recovery.real_cells import RealCells
from checks.registry import check
from checks.result import Finding
from checks.stats import Risk

FEWEST = 2  # even where a release promises nothing, a single person's rating is never published as it is
SMOOTH_RANK = 8
MOST_RATINGS = 5_000_000  # from which others' ratings of an item are drawn


@dataclass(frozen=True)
class _FewContributors:
    """Count published cells of too few contributors, how many agree with their contributors' mean, and how many of
    these have one contributor."""

    cells: int = 0
    verbatim: int = 0
    sole: int = 0


@check("contributors", threshold=0.05)
def run(case: Case, threshold: float) -> Finding:
    """Measure the share of such cells published verbatim, above chance (upper bound)."""
    fewest = max(FEWEST, case.release.min_contributors)
    found = _count_cells(case, fewest)
    if not found.cells:
        return Finding(
            True,
            0.0,
            0,
            f"no published cell has between 1 and {fewest - 1} real contributors.",
        )
    if publishes_single_people(case.release):
        return Finding(
            True,
            None,
            found.cells,
            "every record is one person's and holds that person's ratings; the re-identification "
            f"attacks decide. {found.verbatim / found.cells:.1%} of the published ratings equal the person's own.",
            applicable=False,
        )
    part = sampled(case, "contributors")
    chance = _chance(case, part, fewest)
    risk = Risk(found.verbatim, found.cells, chance)
    low, high = risk.gain_interval
    share = found.sole / max(1, case.truth.ratings.nnz)
    return Finding(
        high <= threshold
        or low <= 0,  # a handful of cells within chance is no leak, however wide the interval
        risk.gain,
        found.cells,
        f"{found.cells:,} cells have fewer than {fewest} real contributors; {risk.rate:.1%} of "
        f"them agree to the digit with "
        f"their contributors' mean, chance gives {chance:.1%}. Of all ratings {share:.1%} "
        f"are published unchanged "
        f"(one contributor, same value), chance included.{_sample_text(part, case)}",
        ci_low=low,
        ci_high=high,
    )


def _count_cells(case: Case, fewest: int) -> _FewContributors:
    """Count the cells in one pass over all groups."""
    cells = verbatim = sole = 0
    for block in case.group_blocks():
        number, published = block.contributors.data, block.published
        few = (number < fewest) & ~np.isnan(published)
        agrees = _agrees(case, published[few], block.rating_sums.data[few] / number[few])
        cells += len(agrees)
        verbatim += int(agrees.sum())
        sole += int(agrees[number[few] == 1].sum())
    return _FewContributors(cells, verbatim, sole)


def _agrees(case: Case, published: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mark the values that are equal after rounding to the published step."""
    tolerance = case.release.step / 2 if case.release.step else 1e-4
    return np.abs(published - mean) <= tolerance + 1e-4


def _sample_text(part: Case, case: Case) -> str:
    if part is case:
        return ""
    return (
        f" Cells are those of all {case.release.n_groups:,} groups; chance was estimated in {part.release.n_groups:,} "
        "of them, drawn by the release's fingerprint."
    )


def _chance(case: Case, part: Case, fewest: int) -> float:
    """Return how often such cells agree for no reason: the better of two guesses, in all groups or in a
    sample of them."""
    cells = RealCells.of(part)
    few = np.flatnonzero((cells.number < fewest) & cells.is_published)
    return max(_other_people(case, cells, few), _smooth(part, cells, few)) if len(few) else 0.0


def _other_people(case: Case, cells: RealCells, few: np.ndarray) -> float:
    """Return how often the cells agree with as many ratings of the same item by people drawn at random."""
    by_item = _some_ratings(case).tocsc()
    number, items = cells.number[few].astype(np.int64), cells.items[few]
    start, many = by_item.indptr[items], np.diff(by_item.indptr)[items]
    alone = many <= number  # no other person rated the item: any rating stands in
    draw = seeded("contributors")
    total = np.zeros(len(few), dtype=np.float64)
    for turn in range(int(number.max())):  # over contributors of a cell, fewer than c
        own = start + draw.integers(0, np.maximum(many, 1))
        any_rating = draw.integers(0, by_item.nnz, len(few))
        total += np.where(number > turn, by_item.data[np.where(alone, any_rating, own)], 0)
    return float(_agrees(case, cells.published[few], total / number).mean())


def _some_ratings(case: Case) -> sp.csr_array:
    """Return all ratings; of large data those of people drawn by the release's fingerprint."""
    ratings = case.truth.ratings
    share = MOST_RATINGS / max(1, ratings.nnz)
    if share >= 1:
        return ratings
    count = max(1, int(share * case.truth.users))
    return ratings[np.sort(case.draw("contributors").choice(case.truth.users, count, replace=False))]


def _smooth(part: Case, cells: RealCells, few: np.ndarray) -> float:
    """Return how often a low-rank guess of the value, made without these cells, agrees with the contributors' mean."""
    release = part.release
    groups, items = cells.groups[few], cells.items[few]

    def without() -> Iterator[Table]:
        for block in release.blocks():
            table = block.table().copy()
            inside = slice(*np.searchsorted(groups, [block.start, block.start + block.rows]))
            table[groups[inside] - block.start, items[inside]] = np.nan
            yield block.start, table

    shape = (release.n_groups, release.n_items)
    tables = list(without())
    fit = robust_fit(lambda: tables, shape, min(SMOOTH_RANK, min(shape) // 2), release.step)
    guess = np.clip(fit.cells(groups, items), release.low, release.high)
    if release.step:
        guess = release.low + np.rint((guess - release.low) / release.step) * release.step
    return float(_agrees(part, guess, cells.total[few] / cells.number[few]).mean())
