"""Count again how many members of each group really rated each item, and compare it with what support.parquet says.

Nothing is taken from the program that made the release: counts come from the source and the membership. The rule and
the attackers are those of docs/proofs/support.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import betabinom

from checks.evidence.case import Case
from checks.evidence.groups import GroupBlock
from checks.evidence.support import Support

ALLOWED_GAIN, ALLOWED_CHANCE = 0.10, 0.5  # docs/support.md: max(1/2, popularity + 0.10)
QUARTERS, FEWEST_GROUPS = (0.25, 0.5, 0.75), 40  # classes of activity; fewer groups are one class
TINY = 1e-9
SPREADS = (1e-4, 0.95)
MOST_ERRORS, MOST_DEVIATIONS = 5.0, 0.5  # of the cells left out from all that could have been


def allowed(popularity: np.ndarray) -> np.ndarray:
    """Return the largest chance that an attacker may give to a link of a member."""
    half_way = popularity + (1 - popularity) / 2
    return np.maximum(np.minimum(popularity + ALLOWED_GAIN, half_way), ALLOWED_CHANCE)


@dataclass(frozen=True)
class Cells:
    """Hold all cells of a block of groups that have a rater or a published count: row of the group, item, real raters
    and the published count (0: blank)."""

    row: np.ndarray
    item: np.ndarray
    raters: np.ndarray
    shown: np.ndarray


def cells_of(block: GroupBlock, support: Support) -> Cells:
    """Put the real and the published counts of a block side by side."""
    width = block.profiles.n_items
    own = block.groups.astype(np.int64) * width + block.items
    inside = (support.row >= block.start) & (support.row < block.start + block.rows)
    stated = support.row[inside] * width + support.item[inside]
    every = np.union1d(own, stated)
    raters, shown = np.zeros(len(every), np.int64), np.zeros(len(every), np.int64)
    raters[np.searchsorted(every, own)] = np.rint(block.contributors.data).astype(np.int64)
    shown[np.searchsorted(every, stated)] = support.raters[inside]
    return Cells(every // width, every % width, raters, shown)


def all_cells(case: Case, support: Support) -> Iterator[Cells]:
    """Yield the cells of all groups, block by block."""
    return (cells_of(block, support) for block in case.group_blocks())


def activity_of_groups(case: Case) -> np.ndarray:
    """Return the mean number of ratings of each group's members."""
    rows = np.where(case.truth.seen, case.truth.row_of_user, -1)
    rated, listed = np.diff(case.truth.ratings.indptr), rows >= 0
    total = np.bincount(rows[listed], weights=rated[listed], minlength=case.release.n_groups)
    return total / np.maximum(case.release.sizes, 1)


def classes_of(activity: np.ndarray) -> np.ndarray:
    """Return the quarter of each group by its members' activity: how many of the quartiles it exceeds."""
    if len(activity) < FEWEST_GROUPS:
        return np.zeros(len(activity), np.int64)
    return (activity[:, None] > np.quantile(activity, QUARTERS)[None, :]).sum(axis=1)


@dataclass
class Tallies:
    """Hold sums over all cells by (item, class of groups): links, and those of published cells with the people behind
    them. Of the cells that the rule lets be published, how many there are and were left out, and sums of their shares
    of raters, all and squared, and of those left out. Σ X²/n of each item; and violations of the rule by kind."""

    links: np.ndarray
    shown_links: np.ndarray
    shown_people: np.ndarray
    allowed: np.ndarray
    left_out: np.ndarray
    shares: np.ndarray
    square_shares: np.ndarray
    shares_left_out: np.ndarray
    squares: np.ndarray
    people: np.ndarray  # by class
    sizes: np.ndarray  # of the groups
    wrong: dict[str, int]
    certain: int  # members of groups in which everybody rated a published item
    c: int

    @property
    def popularity(self) -> np.ndarray:
        """The share of all members who rated each item."""
        return self.links.sum(axis=1) / max(1, int(self.people.sum()))

    @property
    def is_shown(self) -> np.ndarray:
        """Which items have a published count."""
        return self.shown_people.sum(axis=1) > 0


SUMS = (
    "links",
    "shown_links",
    "shown_people",
    "allowed",
    "left_out",
    "shares",
    "square_shares",
    "shares_left_out",
)


def tally(case: Case, support: Support, c: int) -> Tallies:
    """Read all groups and add up."""
    release = case.release
    sizes, items = release.sizes.astype(np.int64), release.n_items
    classes = classes_of(activity_of_groups(case))
    n_classes = len(QUARTERS) + 1
    of_class = np.bincount(classes, weights=sizes, minlength=n_classes)
    sums = {name: np.zeros(items * n_classes) for name in SUMS}
    squares, wrong, certain = np.zeros(items), dict.fromkeys(RULES, 0), 0
    for cells in all_cells(case, support):
        n, where = sizes[cells.row], cells.item * n_classes + classes[cells.row]
        shown, share = cells.shown > 0, cells.raters / n
        may = (cells.raters >= c) & (2 * cells.raters <= n)
        gone = may & ~shown
        added = (
            cells.raters,
            cells.raters * shown,
            n * shown,
            may,
            gone,
            share * may,
            share**2 * may,
            share * gone,
        )
        for name, weights in zip(SUMS, added, strict=True):
            sums[name] += np.bincount(where, weights=weights, minlength=items * n_classes)
        squares += np.bincount(cells.item, weights=cells.raters**2 / n, minlength=items)
        for name, broken in RULES.items():
            wrong[name] += int(broken(cells, n, c).sum())
        certain += int(n[shown & (cells.shown >= n)].sum())
    tables = {name: values.reshape(items, n_classes) for name, values in sums.items()}
    return Tallies(**tables, squares=squares, people=of_class, sizes=sizes, wrong=wrong, certain=certain, c=c)


# What the rule forbids, by the words that report it: functions of cells, group sizes and c.
RULES = {
    "are not rounded to a multiple of min_contributors": lambda cells, n, c: cells.shown % c != 0,
    "do not lie within min_contributors below the real count": lambda cells, n, c: (
        (cells.shown > 0) & ((cells.raters < cells.shown) | (cells.raters >= cells.shown + c))
    ),
    "show a count above half of the group": lambda cells, n, c: (
        (cells.shown > 0) & ((2 * cells.raters > n) | (2 * cells.shown > n))
    ),
}


def choice_follows_counts(found: Tallies) -> tuple[bool, float, float]:
    """Return whether the cells that were left out have other counts than those that could have been, and by how much:
    in standard errors, and in standard deviations of the shares of an item's cells in a class of groups.

    Cells left out at random have the mean of all, up to chance. That the program stops to leave out as soon as an
    item's blank cells are uncertain enough makes the mean a little lower, by about a tenth of a deviation, so chance
    alone is not the limit.
    """
    there = (found.allowed > 1) & (found.left_out > 0) & (found.left_out < found.allowed)
    number, gone = found.allowed[there], found.left_out[there]
    mean = found.shares[there] / number
    variance = np.maximum(found.square_shares[there] / number - mean**2, 0)
    apart = float((found.shares_left_out[there] - gone * mean).sum())
    error = float(np.sqrt((gone * (number - gone) / (number - 1) * variance).sum()))
    deviation = float(np.sqrt((gone * variance).sum() / max(1.0, gone.sum())))
    if error <= 0:
        return False, 0.0, 0.0
    z, effect = apart / error, apart / max(1.0, float(gone.sum())) / deviation
    return abs(z) > MOST_ERRORS and abs(effect) > MOST_DEVIATIONS, z, effect


@dataclass(frozen=True)
class Confidence:
    """Hold the largest posterior of a link, by attacker, in blank cells and in published ones; how many items have
    blank cells in which it is above what is allowed; the largest excess over that; and members whose link is certain
    though the item's popularity does not make it so."""

    by_attacker: dict[str, float]
    items: int
    excess: float
    certain: int
    blank: np.ndarray  # the posterior of each item's blank cells, for the attacks

    @property
    def largest(self) -> float:
        """The largest posterior of all."""
        return max(self.by_attacker.values())


def confidence_in_blanks(found: Tallies) -> Confidence:
    """Compute what each attacker of docs/proofs/support.md believes of a member's link where no count is shown."""
    sure = np.zeros(len(found.links), bool)
    certain, worst, excess = 0, {}, -1.0
    whole = (found.links.sum(axis=1)[:, None], found.shown_links.sum(axis=1)[:, None])
    people = (np.array([found.people.sum()]), found.shown_people.sum(axis=1)[:, None])
    blank = np.zeros(len(found.links))
    for name, links, shown, of, shown_of in (
        ("who knows the item's counts", *whole, *people),
        (
            "who also knows the groups' activity",
            found.links,
            found.shown_links,
            found.people,
            found.shown_people,
        ),
    ):
        left, room = links - shown, of[None, :] - shown_of
        there = (room > 0) & (shown_of > 0)  # where nothing is published, nothing was learned
        posterior = np.divide(left, room, out=np.zeros_like(left), where=room > 0)
        popularity = np.divide(links, of[None, :], out=np.zeros_like(links), where=of[None, :] > 0)
        beyond = np.where(there, posterior - allowed(popularity), -1.0)
        sure |= (beyond > TINY).any(axis=1)
        excess = max(excess, float(beyond.max(initial=-1)))
        certain += (
            int(room[there & (left >= room - TINY) & (popularity < 1 - TINY)].sum()) if not certain else 0
        )
        worst[name] = float(np.where(there, posterior, 0).max(initial=0))
        blank = posterior[:, 0] if name == "who knows the item's counts" else blank
    by_law, beyond = _confidence_by_law(found)
    worst["who knows the item's popularity and spread"] = by_law
    sure |= beyond > TINY
    excess = max(excess, float(beyond.max(initial=-1)))
    return Confidence(worst, int(sure.sum()), excess, certain, blank)


def _confidence_by_law(found: Tallies) -> tuple[float, np.ndarray]:
    """Return the largest posterior for an attacker who expects a beta-binomial law, and the excess by item."""
    there = found.is_shown
    beyond, largest = np.full(len(there), -1.0), 0.0
    popularity, groups, people = found.popularity[there], len(found.sizes), found.sizes.sum()
    apart = (found.squares[there] - people * popularity**2) / np.maximum(popularity * (1 - popularity), TINY)
    spread = np.clip((apart - (groups - 1)) / max(1, people - groups), *SPREADS)
    strength = (1 - spread) / spread
    a, b = np.maximum(popularity, 1e-12) * strength, np.maximum(1 - popularity, 1e-12) * strength
    kept_back = (found.left_out.sum(axis=1) / np.maximum(found.allowed.sum(axis=1), 1))[there]
    for n in np.unique(found.sizes).tolist():
        x = np.arange(n + 1)[None, :]
        may = (x >= found.c) & (2 * x <= n)
        blank = betabinom.pmf(x, n, a[:, None], b[:, None]) * np.where(may, kept_back[:, None], 1.0)
        mass = blank.sum(axis=1)
        posterior = np.divide((blank * x).sum(axis=1), n * mass, out=np.zeros(len(mass)), where=mass > 0)
        beyond[there] = np.maximum(beyond[there], posterior - allowed(popularity))
        largest = max(largest, float(posterior.max(initial=0)))
    return largest, beyond
