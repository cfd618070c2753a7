"""Test whether an item's column reveals what its one or two raters thought of it (docs/leaks-and-bars.md).

A model that was fitted to an item with a single rater repeats that rating in every group's prediction. The attacker
takes each such item's published values, less the level of the groups that publish it, and tests across these items
whether the columns correlate with what the raters thought of it, compared with their other ratings. (Whether a group
rates high or low as a whole is what a release is meant to show.)
"""

import numpy as np

from checks.evidence.case import Case
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, correlation

FEWEST = 2
KNOWLEDGE = "the columns of rare items"


@check("rare-items", threshold=0.5)
def run(case: Case, threshold: float) -> Finding:
    """Measure the correlation between the columns of rare items and their raters' opinion of them (upper bound)."""
    fewest = max(FEWEST, case.release.min_contributors)
    raters = case.truth.raters
    items = np.flatnonzero((raters >= 1) & (raters < fewest))
    opinion, known = _opinions(case, items)
    column, there = _columns(case) if known.any() else (opinion, known)
    items = items[there[items] & known[items]]
    count_text = f"{len(items):,} published items have fewer than {fewest} raters in the source"
    if len(items) == 0:
        return Finding(
            True,
            0.0,
            0,
            f"{count_text}.",
            outcomes=(Outcome(KNOWLEDGE, Risk(0, 0)),),
            applicable=False,
        )
    outcomes = (_outcome(column[items], opinion[items]),)
    if np.ptp(column[items]) <= case.release.step / 2:
        alike = f"{count_text}; their columns are all the same, so they reveal no opinion."
        return Finding(True, 0.0, len(items), alike, outcomes=outcomes, applicable=False)
    r, low, high = correlation(column[items], opinion[items])
    most = max(-low, high)  # a column that shows the opposite reveals as much
    return Finding(
        most <= threshold,
        r,
        len(items),
        f"{count_text}; what their columns show correlates with their raters' opinion by {r:+.2f} "
        f"(at most ±{most:.2f}).",
        ci_low=low,
        ci_high=high,
        outcomes=outcomes,
    )


def _outcome(column: np.ndarray, opinion: np.ndarray) -> Outcome:
    """Predict whether the raters like the item more than most such items, by its column standing above most; the
    baseline always predicts the more frequent answer."""
    liked, high = opinion > np.median(opinion), column > np.median(column)
    risk = Risk(int((liked == high).sum()), len(liked), max(float(liked.mean()), 1 - float(liked.mean())))
    return Outcome(KNOWLEDGE, risk, more={"correlation": correlation(column, opinion)[0]})


def _columns(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return per item the mean over the groups publishing it of (value − the group's own mean), and whether any group
    does."""
    total, count = np.zeros(case.release.n_items), np.zeros(case.release.n_items)
    for block in case.release.blocks():
        if block.items is None:
            table = block.table()
            levels = table.mean(axis=1, dtype=np.float64)
            total += table.sum(axis=0, dtype=np.float64) - levels.sum()
            count += block.rows
            continue
        rows, values = block.row_numbers(), block.values.astype(np.float64)
        level = np.bincount(rows, weights=values, minlength=block.rows) / np.maximum(np.diff(block.indptr), 1)
        total += np.bincount(block.items, weights=values - level[rows], minlength=block.n_items)
        count += np.bincount(block.items, minlength=block.n_items)
    return total / np.maximum(count, 1), count > 0


def _opinions(case: Case, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return per item, for these items, the mean over its raters of (rating − the mean of their other ratings), and
    whether any rater is known."""
    truth, wanted = case.truth, np.zeros(case.release.n_items, dtype=bool)
    wanted[items] = True
    places = [part.start + np.flatnonzero(wanted[truth.ratings.indices[part]]) for part in truth.stretches()]
    place = np.concatenate([np.zeros(0, np.int64), *places])  # few: these items have hardly any raters
    rating, item = truth.ratings.data[place].astype(np.float64), truth.ratings.indices[place]
    user = np.searchsorted(truth.ratings.indptr, place, side="right") - 1
    raters, number = np.unique(user, return_inverse=True)
    sums = np.asarray(truth.ratings[raters].sum(axis=1, dtype=np.float64)).ravel()[number] - rating
    others = np.diff(truth.ratings.indptr)[user] - 1
    overall = truth.item_totals[1].sum() / max(1, truth.ratings.nnz)
    opinion = rating - np.where(others > 0, sums / np.maximum(others, 1), overall)
    count = np.bincount(item, minlength=len(wanted))
    total = np.bincount(item, weights=opinion, minlength=len(wanted))
    return total / np.maximum(count, 1), count > 0
