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
GROUPS_OF_A_SIZE = 10  # groups of rarer sizes are taken together
TINY = 1e-9
SPREADS = (1e-4, 0.95)
LEAST_MASS, BY_LAW = 1e-6, 1e-6  # of what the law expects at all; of a posterior by it, for rounding


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


def size_classes(sizes: np.ndarray) -> np.ndarray:
    """Return a class for each group: one for each size that many groups have, and 0 for all other sizes."""
    common = [size for size in np.unique(sizes).tolist() if (sizes == size).sum() >= GROUPS_OF_A_SIZE]
    return (sizes[:, None] == np.array([0, *common])[None, :]).argmax(axis=1)


# What attackers know beside the rule and who is in which group: each one's partition of the groups.
ATTACKERS = (
    "who knows the item's counts",
    "who also knows the groups' activity",
    "who also compares groups of one size",
)


@dataclass
class Tallies:
    """Hold sums over all cells, by item and part of the groups (`part_of`: the attacker that each part belongs to):
    links, those of published cells and of cells with the item's highest published count, with the people behind them;
    and the largest share of raters in a cell that shows a lower count. Of each item: its highest published count,
    whether that stands for more than itself, and Σ X²/n. Violations of the rule by kind."""

    links: np.ndarray
    shown_links: np.ndarray
    shown_people: np.ndarray
    top_links: np.ndarray
    top_people: np.ndarray
    most_below: np.ndarray
    people: np.ndarray  # by part
    part_of: np.ndarray
    top: np.ndarray
    coded: np.ndarray
    squares: np.ndarray
    sizes: np.ndarray  # of the groups
    wrong: dict[str, int]
    c: int

    @property
    def popularity(self) -> np.ndarray:
        """The share of all members who rated each item."""
        return self.links[:, 0] / max(1, int(self.people[0]))


SUMS = ("links", "shown_links", "shown_people", "top_links", "top_people")


def tally(case: Case, support: Support, c: int) -> Tallies:
    """Read all groups and add up."""
    release = case.release
    sizes, items = release.sizes.astype(np.int64), release.n_items
    partitions = [np.zeros(len(sizes), np.int64), classes_of(activity_of_groups(case)), size_classes(sizes)]
    widths = [int(labels.max(initial=0)) + 1 for labels in partitions]
    offsets = np.concatenate([[0], np.cumsum(widths)])
    parts = offsets[-1]
    top = np.zeros(items, np.int64)
    inside = (support.row >= 0) & (support.item >= 0) & (support.item < items)
    np.maximum.at(top, support.item[inside], support.raters[inside])
    sums = {name: np.zeros(items * parts) for name in SUMS}
    most_below, coded, squares = np.zeros(items * parts), top % c != 0, np.zeros(items)
    wrong = dict.fromkeys(RULES, 0)
    for cells in all_cells(case, support):
        n, of_item = sizes[cells.row], top[cells.item]
        shown = cells.shown > 0
        highest = shown & (cells.shown == of_item)
        lower = shown & ~highest
        coded[cells.item[highest & (cells.raters >= of_item + c)]] = True
        added = (cells.raters, cells.raters * shown, n * shown, cells.raters * highest, n * highest)
        for labels, offset in zip(partitions, offsets, strict=False):
            where = cells.item * parts + offset + labels[cells.row]
            for name, weights in zip(SUMS, added, strict=True):
                sums[name] += np.bincount(where, weights=weights, minlength=items * parts)
            np.maximum.at(most_below, where[lower], (cells.raters / n)[lower])
        squares += np.bincount(cells.item, weights=cells.raters**2 / n, minlength=items)
        for name, broken in RULES.items():
            wrong[name] += int(broken(cells, of_item, c).sum())
    return Tallies(
        **{name: values.reshape(items, parts) for name, values in sums.items()},
        most_below=most_below.reshape(items, parts),
        people=np.concatenate(
            [
                np.bincount(labels, weights=sizes, minlength=w)
                for labels, w in zip(partitions, widths, strict=True)
            ]
        ),
        part_of=np.repeat(np.arange(len(widths)), widths),
        top=top,
        coded=coded & (top > 0),
        squares=squares,
        sizes=sizes,
        wrong=wrong,
        c=c,
    )


# What the rule forbids, by the words that report it: functions of cells, the items' highest published counts, and c.
RULES = {
    "show more members than rated the item": lambda cells, top, c: cells.shown > cells.raters,
    "are neither rounded to a multiple of min_contributors nor their item's highest": lambda cells, top, c: (
        (cells.shown % c != 0) & (cells.shown < top)
    ),
    "do not lie within min_contributors below the real count, nor are their item's highest": lambda cells, top, c: (
        (cells.shown > 0) & (cells.shown < top) & (cells.raters >= np.minimum(cells.shown + c, top))
    ),
    "are blank where the rule shows a count": lambda cells, top, c: (
        (cells.shown == 0) & (top > 0) & (cells.raters >= c)
    ),
    "are below min_contributors": lambda cells, top, c: (cells.shown > 0) & (cells.shown < c),
}


LOWER = 2  # of the three kinds of cells: blank, highest, lower counts


@dataclass(frozen=True)
class Confidence:
    """Hold the largest posterior of a link, by attacker, in any cell of an item with published counts; how many items
    have cells in which it is above what is allowed; the largest excess over that; and members whose link is certain
    though the item's popularity does not make it so."""

    by_attacker: dict[str, float]
    items: int
    excess: float
    certain: int
    blank: np.ndarray  # the posterior of each item's blank cells, for the attacks
    highest: np.ndarray  # that of the cells with its highest published count

    @property
    def largest(self) -> float:
        """The largest posterior of all."""
        return max(self.by_attacker.values())


def confidence_in_links(found: Tallies) -> Confidence:
    """Compute what each attacker of docs/proofs/support.md believes of a member's link.

    The cells that show the same are the same to the attacker, so the posterior is the share of links in them. Of lower
    counts the largest share is taken, which bounds it.
    """
    people = found.people[None, :]
    popularity = np.divide(found.links, people, out=np.zeros_like(found.links), where=people > 0)
    limit, there = allowed(popularity), (found.top > 0)[:, None]
    kinds = (
        (found.links - found.shown_links, people - found.shown_people),
        (found.top_links, found.top_people),
        (found.most_below, np.ones_like(found.most_below)),  # LOWER
    )
    sure, excess, certain = np.zeros(len(there), bool), -1.0, 0
    worst = dict.fromkeys(ATTACKERS, 0.0)
    posteriors = []
    for number_of_kind, (links, of) in enumerate(kinds):
        posterior = np.divide(links, of, out=np.zeros_like(links), where=of > 0)
        posteriors.append(posterior[:, 0])
        beyond = np.where(there & (of > 0), posterior - limit, -1.0)
        sure |= (beyond > TINY).any(axis=1)
        excess = max(excess, float(beyond.max(initial=-1)))
        for number, name in enumerate(ATTACKERS):
            own = np.where(there, posterior, 0.0)[:, found.part_of == number]
            worst[name] = max(worst[name], float(own.max(initial=0)))
        is_sure = (there & (of > 0) & (posterior >= 1 - TINY) & (popularity < 1 - TINY))[:, 0]
        certain += int(of[is_sure, 0].sum()) if number_of_kind < LOWER else 0
    by_law, beyond = _confidence_by_law(found)
    worst["who knows the item's popularity and spread"] = by_law
    return Confidence(
        worst,
        int((sure | (beyond > TINY)).sum()),
        max(excess, float(beyond.max(initial=-1))),
        certain,
        posteriors[0],
        posteriors[1],
    )


def _confidence_by_law(found: Tallies) -> tuple[float, np.ndarray]:
    """Return the largest posterior for an attacker who expects a beta-binomial law, and the excess by item: in cells
    whose count stands for itself or more."""
    there = found.coded
    beyond, largest = np.full(len(there), -1.0), 0.0
    popularity, groups, people = found.popularity[there], len(found.sizes), found.sizes.sum()
    apart = (found.squares[there] - people * popularity**2) / np.maximum(popularity * (1 - popularity), TINY)
    spread = np.clip((apart - (groups - 1)) / max(1, people - groups), *SPREADS)
    strength = (1 - spread) / spread
    a, b = np.maximum(popularity, 1e-12) * strength, np.maximum(1 - popularity, 1e-12) * strength
    for n in np.unique(found.sizes).tolist():
        x = np.arange(n + 1)[None, :]
        chance = betabinom.pmf(x, n, a[:, None], b[:, None]) * (x >= found.top[there][:, None])
        mass = chance.sum(axis=1)
        posterior = np.divide(
            (chance * x).sum(axis=1), n * mass, out=np.zeros(len(mass)), where=mass > LEAST_MASS
        )
        beyond[there] = np.maximum(beyond[there], posterior - allowed(popularity) - BY_LAW)
        largest = max(largest, float(posterior.max(initial=0)))
    return largest, beyond
