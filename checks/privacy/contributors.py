"""The contributor rule (SCIENCE P0, leak i): few people's real ratings must not be published as they are.

A cell with fewer than c real contributors may hold predictions only. So its published value may agree to
the digit with the contributors' mean (one contributor: with their very rating) only as often as chance has
it: as often as it agrees with other people's ratings of the same item, or as a smooth guess of the
published value would.

The rule is about groups: finding a person's group is allowed, so the group must not tell their ratings. Where every
record is one person's, finding the record is what is not allowed, and the re-identification attacks judge that at the
same 1/k; there the check only reports how much of the source stands in the release as it is.
"""

from collections.abc import Iterator

import numpy as np

from checks.case import Case
from checks.lowrank import Table, robust_fit
from checks.privacy.k_anonymity import publishes_single_people
from checks.registry import check
from checks.result import Finding
from checks.seeds import seeded
from checks.stats import Risk

FEWEST = 2  # even where a release promises nothing, a single person's rating is never published as it is
SMOOTH_RANK = 8


@check("contributors", threshold=0.05)
def run(case: Case, threshold: float) -> Finding:
    """Share of such cells published verbatim, above chance (upper bound)."""
    fewest = max(FEWEST, case.release.min_contributors)
    counts = case.contributors
    cells = np.flatnonzero((counts.data < fewest) & ~np.isnan(case.published))
    if not len(cells):
        return Finding(
            True,
            0.0,
            0,
            f"no published cell has real contributors, but fewer than {fewest}: nothing to give away.",
        )
    number = counts.data[cells].astype(np.int64)
    verbatim = _agrees(case, case.published[cells], case.rating_sums.data[cells] / number)
    if publishes_single_people(case.release):
        return Finding(
            True,
            None,
            len(cells),
            "not applicable: every record is one person's and holds that person's ratings; the re-identification "
            f"attacks decide. {verbatim.mean():.1%} of the published ratings are the person's to the digit.",
        )
    chance = max(_other_people(case, cells, number), _smooth(case, cells, number))
    risk = Risk(int(verbatim.sum()), len(cells), chance)
    low, high = risk.gain_interval
    sole = number == 1
    share = float(verbatim[sole].sum() / max(1, case.truth.ratings.nnz))
    return Finding(
        high <= threshold
        or low <= 0,  # a handful of cells within chance is no leak, however wide the interval
        risk.gain,
        len(cells),
        f"{len(cells):,} cells have fewer than {fewest} real contributors; {risk.rate:.1%} of "
        f"them agree to the digit with "
        f"their contributors' mean, chance gives {chance:.1%}. Of all ratings {share:.1%} "
        f"stand in the release as they are "
        "(one contributor, same value), chance included.",
        ci_low=low,
        ci_high=high,
    )


def _agrees(case: Case, published: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Equal after rounding to the published step."""
    tolerance = case.release.step / 2 if case.release.step else 1e-4
    return np.abs(published - mean) <= tolerance + 1e-4


def _other_people(case: Case, cells: np.ndarray, number: np.ndarray) -> float:
    """How often the cells agree with as many ratings of the same item by people drawn from everybody."""
    by_item = case.truth.ratings.tocsc()
    start, count = by_item.indptr[case.contributors.indices[cells]], np.diff(by_item.indptr)
    many = count[case.contributors.indices[cells]]
    alone = many <= number  # nobody else rated the item: any rating at all stands in
    draw = seeded("contributors")
    total = np.zeros(len(cells), dtype=np.float64)
    for turn in range(int(number.max())):  # over contributors of a cell, fewer than c
        own = start + draw.integers(0, np.maximum(many, 1))
        anybody = draw.integers(0, by_item.nnz, len(cells))
        total += np.where(number > turn, by_item.data[np.where(alone, anybody, own)], 0)
    return float(_agrees(case, case.published[cells], total / number).mean())


def _smooth(case: Case, cells: np.ndarray, number: np.ndarray) -> float:
    """How often a low-rank guess of the value, made without these cells, agrees with the contributors'
    mean."""
    release, counts = case.release, case.contributors
    groups = np.repeat(np.arange(release.n_groups), np.diff(counts.indptr))[cells]
    items = counts.indices[cells]

    def without() -> Iterator[Table]:
        for block in release.blocks():
            table = block.table().copy()
            part = slice(*np.searchsorted(groups, [block.start, block.start + block.rows]))
            table[groups[part] - block.start, items[part]] = np.nan
            yield block.start, table

    shape = (release.n_groups, release.n_items)
    fit = robust_fit(without, shape, min(SMOOTH_RANK, min(shape) // 2), release.step)
    guess = np.clip(fit.cells(groups, items), release.low, release.high)
    if release.step:
        guess = release.low + np.rint((guess - release.low) / release.step) * release.step
    return float(_agrees(case, guess, case.rating_sums.data[cells] / number).mean())
