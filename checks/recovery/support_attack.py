"""Guess member–item links from published counts of raters, and compare with what popularity and activity would give.

The attacker claims of every member of a cell (group, item) that they rated the item, and picks the cells that are most
likely among items that at most 40 % of the people rated: for more popular ones, guessing by popularity alone is allowed
to be right more than half of the time.

published   cells with the largest share of raters; an item's highest count stands for what is expected of it
blank       cells without a count, by a low-rank completion of the published shares: a group whose published cells show
            a taste, or much activity, has more raters in its blank cells, too
taste       published cells by the same completion: which of the cells that show an item's highest count have the most
member      the most active member of each of the `published` cells, alone
exact       the control: all counts, unrounded, in every cell
"""

from dataclasses import dataclass

import numpy as np
from sklearn.utils.extmath import randomized_svd

from checks.evidence.case import Case
from checks.evidence.support import Support
from checks.recovery.support_cells import Confidence, Tallies, activity_of_groups, all_cells
from checks.stats import Risk, clustered

MOST_POPULAR = 0.4
MOST_CELLS = 8_000_000  # groups × items that are examined
CLAIMS = 200  # cells that an attacker claims; fewer where the release is small
SHARE_CLAIMED = 0.01  # of the cells that he may choose from
RANK = 4


@dataclass(frozen=True)
class Guessed:
    """Hold how often an attacker was right in the cells that he chose, with the share that popularity × activity
    gets in as many cells of its own choice."""

    name: str
    risk: Risk

    def __str__(self) -> str:
        return f"{self.risk.rate:.3f} of {self.name} (baseline {self.risk.baseline:.3f})"


@dataclass(frozen=True)
class Field:
    """Hold the examined groups as tables groups × items."""

    rows: np.ndarray
    real: np.ndarray
    shown: np.ndarray
    sizes: np.ndarray
    popularity: np.ndarray
    activity: np.ndarray  # of the groups, relative to the mean


def guess_links(case: Case, support: Support, found: Tallies, sure: Confidence) -> list[Guessed]:
    """Run all attacks; the last two are the most active members, for information, and the control."""
    popularity = found.popularity
    field = _examined(case, support, popularity)
    columns = np.flatnonzero((popularity > 0) & (popularity <= MOST_POPULAR))
    real, shown = field.real[:, columns], field.shown[:, columns]
    share = real / field.sizes[:, None]
    claims = min(CLAIMS, max(1, int(SHARE_CLAIMED * share.size)))
    expected = field.popularity[columns][None, :] * field.activity[:, None]
    is_shown = shown > 0
    known = np.where(
        shown == found.top[columns][None, :],
        np.maximum(shown / field.sizes[:, None], sure.highest[columns][None, :]),
        shown / field.sizes[:, None],
    )
    belief = np.where(is_shown, known, sure.blank[columns][None, :])
    completed = _completed(case, belief, popularity[columns])
    usual = _right(expected, share, field.sizes, claims, np.ones_like(is_shown))
    return [
        Guessed("published cells", _risk(belief, share, field.sizes, claims, is_shown, usual.rate)),
        Guessed(
            "blank cells",
            _risk(completed, share, field.sizes, claims, ~is_shown, usual.rate),
        ),
        Guessed(
            "published cells by taste",
            _risk(completed, share, field.sizes, claims, is_shown, usual.rate),
        ),
        _most_active(case, field, columns, np.where(is_shown, belief, -1), claims),
        Guessed(
            "cells with exact counts",
            _risk(share, share, field.sizes, claims, np.ones_like(is_shown), usual.rate),
        ),
    ]


def _examined(case: Case, support: Support, popularity: np.ndarray) -> Field:
    """Return the groups as tables; of a large release a sample that follows from its fingerprint."""
    release = case.release
    most = max(1, MOST_CELLS // max(1, release.n_items))
    rows = np.arange(release.n_groups)
    if len(rows) > most:
        rows = np.sort(case.draw("support groups").choice(len(rows), most, replace=False))
    place = np.full(release.n_groups, -1)
    place[rows] = np.arange(len(rows))
    real, shown = (np.zeros((len(rows), release.n_items), np.float32) for _ in range(2))
    for cells in all_cells(case, support):
        inside = place[cells.row] >= 0
        at = place[cells.row[inside]], cells.item[inside]
        real[at], shown[at] = cells.raters[inside], cells.shown[inside]
    activity = activity_of_groups(case)
    relative = activity / max(float(activity.mean()), 1e-9)
    return Field(rows, real, shown, release.sizes[rows].astype(np.float64), popularity, relative[rows])


def _completed(case: Case, belief: np.ndarray, popularity: np.ndarray) -> np.ndarray:
    """Return a low-rank approximation of how far each group is from the items' popularity."""
    rank = min(RANK, *belief.shape)
    seed = int(case.draw("support completion").integers(2**31))
    left, values, right = randomized_svd(belief - popularity[None, :], rank, random_state=seed)
    return (left * values) @ right + popularity[None, :]


def _chosen(score: np.ndarray, among: np.ndarray, claims: int) -> np.ndarray:
    cells = np.flatnonzero(among.ravel())
    return cells[np.argsort(-score.ravel()[cells], kind="stable")[:claims]]


def _risk(
    score: np.ndarray, share: np.ndarray, sizes: np.ndarray, claims: int, among: np.ndarray, baseline: float
) -> Risk:
    cells = _chosen(score, among, claims)
    people = sizes[cells // share.shape[1]]
    return clustered(share.ravel()[cells] * people, people, baseline)


def _right(score: np.ndarray, share: np.ndarray, sizes: np.ndarray, claims: int, among: np.ndarray) -> Risk:
    return _risk(score, share, sizes, claims, among, 0.0)


def _most_active(case: Case, field: Field, columns: np.ndarray, belief: np.ndarray, claims: int) -> Guessed:
    """Claim the link of the member with the most ratings in each cell; popularity × activity claims the same people's
    most popular items."""
    truth, groups = case.truth, case.groups
    rated = np.diff(truth.ratings.indptr)
    best = np.full(len(field.rows), -1)
    for at, row in enumerate(field.rows.tolist()):
        members = groups.members[groups.starts[row] : groups.starts[row + 1]]
        if len(members):
            best[at] = members[np.argmax(rated[members])]
    has = np.zeros((len(field.rows), len(columns)), np.float32)
    place = np.full(truth.ratings.shape[1], -1)
    place[columns] = np.arange(len(columns))
    for at, user in enumerate(best.tolist()):
        if user >= 0:
            own = place[truth.ratings.indices[truth.ratings.indptr[user] : truth.ratings.indptr[user + 1]]]
            has[at, own[own >= 0]] = 1
    everyone = np.ones(len(field.rows))
    known = (best >= 0)[:, None] & np.ones_like(has, bool)
    expected = field.popularity[columns][None, :] * rated[np.maximum(best, 0)][:, None]
    usual = _right(expected, has, everyone, claims, known)
    weighted = belief * np.log1p(rated[np.maximum(best, 0)])[:, None]
    return Guessed(
        "most active members", _risk(weighted, has, everyone, claims, known & (belief > 0), usual.rate)
    )
