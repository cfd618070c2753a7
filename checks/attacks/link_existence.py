"""Link existence (paper theorems 6.2 and 6.3), measured: a group has the item; did a given member rate it?

If people rated independently, a member of a group of k that has an item of popularity p rated it with
probability p / (1 − (1 − p)^k). Similar people share a group, so the truth may lie a little above it, but
only a little.
"""

from dataclasses import dataclass

import numpy as np

from checks.case import Case
from checks.registry import check
from checks.result import Finding

BIN_EDGES = np.array([0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.0])
FEWEST_PAIRS = 500


@dataclass(frozen=True)
class Bin:
    """Items of like popularity: published (member, item) pairs, how many are real, how many chance allows."""

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
        """What the share has above the bar's formula."""
        return self.share - self.expected


@check("link-existence", threshold=0.015)
def run(case: Case, threshold: float) -> Finding:
    """Largest excess of real links over p/(1 − (1 − p)^k) in any popularity bin."""
    if case.release.complete:
        return Finding(
            True,
            0.0,
            0,
            "every group has every item, so the presence of an item tells nothing; whether "
            "real ratings can be told "
            "from padded ones is what the recovery attack examines.",
        )
    bins = _bins(case)
    judged = [b for b in bins if b.pairs >= FEWEST_PAIRS] or bins
    worst = max(judged, key=lambda b: b.excess)
    floor, absent, certain = _floor_and_absence(case)
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
        f"Real share of published links "
        f"per popularity: {lines}. Theorem 6.2's 1/k = {1 / case.release.k:.3f} is a floor: "
        f"{floor:.1%} of published links "
        f"have a real rater in the group. Absence is certain for {certain:.1%} of {absent:,} "
        f"absent (member, item) pairs.",
    )


def _bins(case: Case) -> list[Bin]:
    release = case.release
    popularity = np.bincount(case.truth.ratings.indices, minlength=release.n_items) / max(1, case.truth.users)
    place = np.clip(np.digitize(popularity, BIN_EDGES, right=True) - 1, 0, len(BIN_EDGES) - 2)
    pairs, expected, real = (np.zeros(len(BIN_EDGES) - 1) for _ in range(3))
    for block in release.blocks():
        size = case.members[block.start + block.row_numbers()]
        p = np.clip(popularity[block.columns], 1e-9, 1)
        where = place[block.columns]
        pairs += np.bincount(where, weights=size, minlength=len(pairs))
        expected += np.bincount(
            where,
            weights=size * p / -np.expm1(size * np.log1p(-np.minimum(p, 1 - 1e-9))),
            minlength=len(pairs),
        )
    there = ~np.isnan(case.published)
    counts = case.contributors
    real += np.bincount(place[counts.indices[there]], weights=counts.data[there], minlength=len(pairs))
    bins = []
    for b in np.flatnonzero(pairs > 0):
        theorem = _theorem_6_3(popularity[place == b], release.k)
        low, high = float(BIN_EDGES[b]), float(BIN_EDGES[b + 1])
        bins.append(Bin(low, high, int(pairs[b]), int(real[b]), expected[b] / pairs[b], theorem))
    return bins


def _theorem_6_3(popularity: np.ndarray, k: int) -> float | None:
    """1/k + p/(2 − kp), for p ≤ 1/k, at the bin's mean popularity; None where the theorem does not apply."""
    p = float(popularity.mean())
    return 1 / k + p / (2 - k * p) if p <= 1 / k else None


def _floor_and_absence(case: Case) -> tuple[float, int, float]:
    """Share of published cells with a real rater; absent pairs; the share of those that are truly no
    ratings."""
    there = ~np.isnan(case.published)
    absent = int(case.members.sum()) * case.release.n_items
    for block in case.release.blocks():
        absent -= int((case.members[block.rows_slice] * np.diff(block.indptr)).sum())
    missed = int(case.contributors.data[~there].sum())
    return int(there.sum()) / max(1, case.release.cells), absent, 1 - missed / max(1, absent)
