"""Measure link existence ([Chang2009], theorems 6.2 and 6.3): a group has the item; did a given member rate it?

If people rated independently, a member of a group of k that has an item of popularity p rated it with probability p /
(1 − (1 − p)^k). Similar people share a group, so the truth may lie a little above it, but only a little. Heavy raters
are reported separately: most of a group's links are theirs, more than popularity explains but no more than their own
activity does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.views.sample import sample_text, sampled
from checks.recovery.low_rank_fit import Fit, Table, robust_fit
from checks.recovery.person_baseline import Activity, published_ratings
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, clustered

BIN_EDGES = np.array([0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.0])
FEWEST_PAIRS = 500
FIT_RANK = 20
FLAGGED_SHARE = 0.02  # of a bin's cells, those that deviate most from the fit
FEWEST_FLAGS = 50
MOST_SAMPLED = 2_000_000


@dataclass(frozen=True)
class Bin:
    """Hold items of similar popularity: published (member, item) pairs, how many are real, how many chance allows."""

    low: float
    high: float
    pairs: int
    real: int
    expected: float
    theorem: float | None

    @property
    def share(self) -> float:
        """Share of published pairs that are real ratings."""
        return self.real / self.pairs

    @property
    def excess(self) -> float:
        """The share above the formula's value."""
        return self.share - self.expected

    def outcome(self) -> Outcome:
        """Return the bin as a line of `murmur attack`; the baseline is the formula's value."""
        name = f"items that {100 * self.low:.3g} to {100 * self.high:.3g} % of the people rated"
        return Outcome(
            name, Risk(self.real, self.pairs, self.expected), more={"popularity": [self.low, self.high]}
        )


@check(
    "link-existence",
    threshold=0.015,
    about=About(
        title="Link existence",
        summary="Guess that a member rated what the group has",
        knows="The attacker knows who is in which group and how popular every item is.",
        tries="They guess that a member rated an item because the group has it.",
        means=(
            "A member rates popular items more often anyway; what is beyond that is what the release adds, and it "
            "must stay near zero."
        ),
        measure="excess of real ratings over what popularity explains",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the largest excess of real links over p/(1 − (1 − p)^k) in any popularity bin."""
    outcomes = tuple(_outcome(case, heavy=heavy) for heavy in (False, True))
    heavy = outcomes[1]
    heavy_text = (
        f"Of heavy raters {heavy.risk.rate:.1%} of their group's links are real; their activity alone explains "
        f"{heavy.risk.baseline:.1%}, with what the group publishes {heavy.more['explained']:.1%}."
    )
    if case.release.complete:
        return Finding(
            True,
            0.0,
            0,
            "every group holds every item, so the presence of an item reveals nothing; the recovery "
            f"attack examines whether real ratings can be distinguished from padded ones. {heavy_text}",
            outcomes=outcomes,
            applicable=False,
        )
    bins, floor, absent, certain = _links(case)
    judged = [b for b in bins if b.pairs >= FEWEST_PAIRS] or bins
    worst = max(judged, key=lambda b: b.excess)
    lines = "; ".join(
        f"{b.low:.3g}–{b.high:.3g}: {b.share:.3f} of {b.pairs:,} (formula {b.expected:.3f}"
        + (f", theorem 6.3 {b.theorem:.3f})" if b.theorem is not None else ")")
        for b in bins
    )
    return Finding(
        worst.excess <= threshold,
        worst.excess,
        sum(b.pairs for b in bins),
        f"largest excess {worst.excess:+.4f} at popularity {worst.low:.3g}–{worst.high:.3g}. "
        f"Real share of published links per popularity: {lines}. {heavy_text} Theorem 6.2's 1/k = "
        f"{1 / case.release.k:.3f} is a floor: {floor:.1%} of published links have a real rater in the group. "
        f"Absence is certain for {certain:.1%} of {absent:,} absent (member, item) pairs.{_outlier_links(case)}",
        outcomes=(*outcomes, *(b.outcome() for b in bins)),
    )


def _outcome(case: Case, *, heavy: bool) -> Outcome:
    """Return the share of a group's links that are a given member's own.

    The baseline is what popularity and the member's activity predict without the release, `explained` what they predict
    with it if people rate independently.
    """
    targets = case.targets("link-existence", heavy=heavy)
    cells, alone, given_published = Activity.fitted(case).expected(targets)
    pairs = max(1.0, float(cells.sum()))
    risk = clustered(published_ratings(case, targets), cells, float(alone.sum() / pairs))
    more = {
        "links": int(cells.sum()),
        "targets": len(targets),
        "explained": float(given_published.sum() / pairs),
    }
    return Outcome("the right group" + (", heavy raters" if heavy else ""), risk, more=more)


def _outlier_links(case: Case) -> str:
    """Report how many links are real in the cells furthest from a low-rank fit of the release, per popularity bin.

    Means of real ratings deviate from the pattern of the predictions around them, and then reveal several raters. It is
    reported, not judged: where a cell may hold a mean at all, min_contributors of its group have rated the item. So a
    sample of the groups is enough, and the sample is named.
    """
    if case.single:
        return ""
    part = sampled(case, "link-existence")
    release = part.release
    shape = (release.n_groups, release.n_items)
    fit = robust_fit(partial(_tables, part), shape, min(FIT_RANK, min(shape) // 2), release.step)
    popularity, place = _popularity(case)
    cut = _cuts(part, fit, place)
    pairs, real, expected, cells = (np.zeros(len(BIN_EDGES) - 1) for _ in range(4))
    for block in part.group_blocks():
        profiles = block.profiles
        rows, columns = profiles.row_numbers(), profiles.columns
        flagged = (
            np.abs(profiles.values - fit.rows(block.start, block.rows)[rows, columns]) > cut[place[columns]]
        )
        rows, columns = rows[flagged], columns[flagged]
        members = part.members[block.start + rows]
        raters = block.contributors[rows, columns]
        for total, weight in (
            (cells, np.ones(len(rows))),
            (pairs, members),
            (real, np.asarray(raters).ravel()),
            (expected, members * _formula(case, popularity[columns], members)),
        ):
            total += np.bincount(place[columns], weights=weight, minlength=len(total))
    judged = np.flatnonzero(cells >= FEWEST_FLAGS)
    if not len(judged):
        return ""
    excess = (real - expected)[judged] / np.maximum(pairs[judged], 1)
    b = judged[int(np.argmax(excess))]
    return (
        f" Cells that deviate from a low-rank fit of the release reveal most at popularity {BIN_EDGES[b]:.3g}–"
        f"{BIN_EDGES[b + 1]:.3g}: of the links in {cells[b]:,.0f} such cells {real[b] / pairs[b]:.3f} are real "
        f"(formula {expected[b] / pairs[b]:.3f}).{sample_text(part, case)}"
    )


def _tables(case: Case) -> Iterator[Table]:
    return ((block.start, block.table()) for block in case.release.blocks())


def _cuts(case: Case, fit: Fit, place: np.ndarray) -> np.ndarray:
    """Return per bin the distance from the fit that FLAGGED_SHARE of its cells exceed (by a sample of the cells)."""
    stride = case.release.cells // MOST_SAMPLED + 1
    residuals, bins = [], []
    for block in case.release.blocks():
        rows, columns = block.row_numbers()[::stride], block.columns[::stride]
        fitted = fit.rows(block.start, block.rows)[rows, columns]
        residuals.append(np.abs(block.values[::stride] - fitted))
        bins.append(place[columns])
    residual, where = np.concatenate(residuals), np.concatenate(bins)
    return np.array(
        [
            np.quantile(residual[where == b], 1 - FLAGGED_SHARE) if (where == b).any() else np.inf
            for b in range(len(BIN_EDGES) - 1)
        ]
    )


def _popularity(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return per item the share of people who rated it, and its bin."""
    popularity = case.truth.item_totals[0] / max(1, case.truth.users)
    place = np.clip(np.digitize(popularity, BIN_EDGES, right=True) - 1, 0, len(BIN_EDGES) - 2)
    return popularity, place


def _formula(case: Case, popularity: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return p / (1 − (1 − p)^k); a group smaller than promised is measured by the promise."""
    p = np.clip(popularity, 1e-9, 1 - 1e-9)
    return p / -np.expm1(np.maximum(members, case.release.k) * np.log1p(-p))


def _links(case: Case) -> tuple[list[Bin], float, int, float]:
    """Return published links by popularity; the share of published cells with a real rater; the absent pairs; the share
    of those that are truly no ratings."""
    release = case.release
    popularity, place = _popularity(case)
    pairs, expected, real = (np.zeros(len(BIN_EDGES) - 1) for _ in range(3))
    held = missed = 0
    for block in case.group_blocks():
        columns = block.profiles.columns
        size = case.members[block.start + block.profiles.row_numbers()]
        where = place[columns]
        pairs += np.bincount(where, weights=size, minlength=len(pairs))
        chance = size * _formula(case, popularity[columns], size)
        expected += np.bincount(where, weights=chance, minlength=len(pairs))
        there, raters = ~np.isnan(block.published), block.contributors.data
        real += np.bincount(place[block.items[there]], weights=raters[there], minlength=len(pairs))
        held += int(there.sum())
        missed += int(raters[~there].sum())
    absent = int((case.members * (release.n_items - release.lengths)).sum())
    bins = []
    for b in np.flatnonzero(pairs > 0):
        theorem = _theorem_6_3(popularity[place == b], release.k)
        low, high = float(BIN_EDGES[b]), float(BIN_EDGES[b + 1])
        bins.append(Bin(low, high, int(pairs[b]), int(real[b]), expected[b] / pairs[b], theorem))
    return bins, held / max(1, release.cells), absent, 1 - missed / max(1, absent)


def _theorem_6_3(popularity: np.ndarray, k: int) -> float | None:
    """Return 1/k + p/(2 − kp), for p ≤ 1/k, at the bin's mean popularity; None where the theorem does not apply."""
    p = float(popularity.mean())
    return 1 / k + p / (2 - k * p) if p <= 1 / k else None
