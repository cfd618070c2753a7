"""Recover links by spectral fits: which rare items did members of a group really rate, beyond what taste suggests?

Published predictions are low rank, and an item's factors are combinations of its raters' factors; a group whose
direction agrees with a rare item's was probably among its raters (checks/recovery/spectral.py). The attacker flags the
cells with the highest scores. Averages over thousands of flags hide a few people with unusual tastes, so heads of 50,
100, 500 and 2,000 flags are judged, and every group and every person for themselves.

*What is allowed* (docs/threat-model.md, "Limits, and why"): the share of right flags may exceed the taste baseline by
the threshold, 0.10. The taste baseline is the same attack on profiles predicted by a model that was fitted on other
people only: half of the groups, drawn five times (checks/recovery/rating_model.py). Both shares are taken above what
the popularity of an item and the activity of a group among rare items explain (checks/recovery/rare_baseline.py), since
the two attacks flag different groups. Heads of 500 and more must show it at the upper bound; smaller heads, whose
interval is wider than the margin, are refused where they contradict it, at the lower bound. No group, and no person,
may be exposed: more than half of its flags right beyond what popularity and activity explain, at a lower bound that
holds for all of them together.

*Controls.* Positive, planted leverage: the same attack on profiles by the model of one such half, in which the rare
items that a few groups rated stand out of these groups' profiles, must exceed what is allowed. Negative: with the
flags of each group attributed to another group, drawn at random, it must not.

A release with more than a few million cells is sampled for its directions, for the baseline and for the controls; the
flags are those of all groups.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.views.sample import sampled
from checks.recovery.cell_baseline import CERTAIN, CellBaseline
from checks.recovery.exposed_links import count_links
from checks.recovery.flagged_links import HEADS, OF_EACH_GROUP, Flags, flag_links, rare_items
from checks.recovery.low_rank_fit import Tables, hold_tables, read_tables
from checks.recovery.person_baseline import Activity
from checks.recovery.rare_baseline import extend_rare_baseline, fit_rare_baseline
from checks.recovery.rating_model import RatingModel, fit_taste
from checks.recovery.real_cells import RealCells, hold_real_ratings
from checks.recovery.spectral import Score, find_directions
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Z95, Risk, find_exposed, interval_z

DRAWS = 5
SURE_HEAD = 500  # flags from which the upper bound decides
LARGEST_SHARE = 0.05  # of the candidate cells: beyond it a head is no longer a tail
FEWEST_GROUPS = 20  # of which half form the baseline
PLANTED_GROUPS = 12  # fewer than the directions that are examined
PLANTED_SHARE = 0.25  # of the scale's width


@dataclass(frozen=True)
class Head:
    """Hold how often the flags of one head are right, in the release and in the taste baseline."""

    size: int
    how: str
    rate: float
    expected: float  # by popularity and activity
    error: float  # standard error of the rate above what is expected; flags are clustered by group
    largest_group: float  # share of the flags that one group holds
    taste: float = 0.0  # the baseline's rate above what is expected there
    taste_error: float = 0.0  # standard error over the draws

    @property
    def excess(self) -> float:
        """Return the share of right flags above the taste baseline."""
        return self.rate - self.expected - self.taste

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval of the excess; the baseline's own uncertainty counts.

        Only the upper end is widened for attempts: a lower end must show harm, and widening it would make passing
        easier.
        """
        error = float(np.hypot(self.error, self.taste_error))
        return self.excess - Z95 * error, self.excess + interval_z() * error

    @property
    def decisive(self) -> float:
        """Return the bound that is compared with the threshold."""
        low, high = self.interval
        return high if self.size >= SURE_HEAD else low

    def __str__(self) -> str:
        return (
            f"{self.size:,} flags ({self.how}): {self.rate:.2f} right, where popularity and activity explain "
            f"{self.expected:.2f} and taste {self.taste:+.2f}, {self.largest_group:.0%} of them in one group"
        )


@check(
    "link-recovery",
    threshold=0.1,
    controlled=True,
    about=About(
        title="Link recovery",
        summary="Find rare items that members rated, by spectral fits",
        knows="The attacker has the release alone.",
        tries=(
            "They look for groups whose taste points at a rare item more than it should, and flag those pairs as "
            "real ratings."
        ),
        means=(
            "Some flags are right because people of one taste rate alike. The limit is how much more often they "
            "may be right than taste explains."
        ),
        measure="share of right flags beyond what taste explains",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure how much more often flagged links are right than taste explains, for all heads, groups and people."""
    part = sampled(case, "recovery")
    cells = RealCells.of(part)
    chance = CellBaseline.kept(case, part, cells)
    items = rare_items(chance)
    candidates = int(chance.open_cells[items].sum())
    heads = [head for head in HEADS if head <= LARGEST_SHARE * candidates]
    if chance.overall > CERTAIN or not heads or part.release.n_groups < FEWEST_GROUPS:
        return _not_applicable(case, chance, candidates)
    tables = hold_tables(read_tables(part.release))
    directions = find_directions(tables, (part.release.n_groups, part.release.n_items))
    rare = fit_rare_baseline(part, cells, tables, items, chance)
    whole = rare if part is case else extend_rare_baseline(case, rare, items)
    flags = flag_links(
        tables if part is case else lambda: read_tables(case.release), directions, whole, items
    )
    attacked = _Attacked(part, cells, rare, items, tables, heads)
    baseline = _taste_baseline(attacked)
    found = [
        _beyond_taste(head, baseline[size])
        for size, head in zip(heads, _heads(case, whole, flags, heads), strict=True)
    ]
    exposed_groups, exposed_people = _exposed(case, whole, flags)
    worst = max(found, key=lambda head: head.decisive)
    positive, positive_text = _positive_control(attacked, baseline, threshold)
    negative, negative_text = _negative_control(case, whole, flags, max(heads), threshold)
    low, high = worst.interval
    return Finding(
        worst.decisive <= threshold and not exposed_groups and not exposed_people,
        worst.excess,
        sum(head.size for head in found),
        f"{'; '.join(map(str, found))}. Exposed: {exposed_groups:,} of {case.release.n_groups:,} groups, "
        f"{exposed_people:,} people. {positive_text} {negative_text}",
        ci_low=low,
        ci_high=high,
        control=positive and negative,
        outcomes=tuple(
            Outcome(
                f"{head.size:,} flags, {head.how}",
                Risk(head.rate * head.size, head.size, min(1.0, max(0.0, head.expected + head.taste))),
                more={"excess": head.excess, "largest_group_share": head.largest_group},
            )
            for head in found
        ),
    )


def _not_applicable(case: Case, chance: CellBaseline, candidates: int) -> Finding:
    if chance.overall > CERTAIN:
        why = (
            f"{chance.overall:.1%} of the published cells are real: link-existence measures what they reveal"
        )
    else:
        why = (
            f"{case.release.n_groups:,} groups and {candidates:,} cells of rare items are too few for an attacker "
            f"who names the {HEADS[0]} likeliest cells"
        )
    return Finding(
        True, None, 0, f"{why}.", control=True, outcomes=(Outcome("not tried", Risk(0, 0)),), applicable=False
    )


def _heads(case: Case, chance: CellBaseline, flags: list[Flags], sizes: list[int]) -> list[Head]:
    """Return for each size the head of the score that exceeds popularity and activity most."""
    of_scores = [_measure_heads(case, chance, one, sizes) for one in flags]
    return [max(of_size, key=lambda head: head.excess) for of_size in zip(*of_scores, strict=True)]


def _measure_heads(case: Case, chance: CellBaseline, flags: Flags, sizes: list[int]) -> list[Head]:
    """Look up the flags of a score once, and measure the first ones of each size."""
    keys = flags.overall[: max(sizes)]
    groups, right = keys // case.release.n_items, hold_real_ratings(case, keys).astype(float)
    expected = chance.of(keys)
    return [_measure(flags.score, groups[:size], right[:size], expected[:size]) for size in sizes]


def _measure(score: Score, groups: np.ndarray, right: np.ndarray, expected: np.ndarray) -> Head:
    """Compare flags with what popularity and activity explain; a group is one cluster."""
    if not len(groups):  # a model that knows none of these items flags nothing
        return Head(0, str(score), 0.0, 0.0, 0.5, 0.0)
    _, cluster = np.unique(groups, return_inverse=True)
    trials = np.bincount(cluster)
    gain = float((right - expected).mean())
    apart = np.bincount(cluster, right - expected) - gain * trials
    clusters = len(trials)
    between = (
        np.sqrt((apart**2).sum() * clusters / max(1, clusters - 1)) / len(groups) if clusters > 1 else 0.5
    )
    within = np.sqrt(max(right.mean() * (1 - right.mean()), 1 / len(groups)) / len(groups))
    return Head(
        len(groups),
        str(score),
        float(right.mean()),
        float(expected.mean()),
        float(max(between, within)),
        trials.max() / len(groups),
    )


def _beyond_taste(head: Head, taste: tuple[float, float]) -> Head:
    return replace(head, taste=taste[0], taste_error=taste[1])


# Taste


@dataclass(frozen=True)
class _Attacked:
    """Hold what the attacks on other profiles of the same groups share."""

    part: Case
    cells: RealCells
    chance: CellBaseline
    items: np.ndarray
    tables: Tables
    heads: list[int]

    def flags(self, model: RatingModel, groups: np.ndarray) -> list[Flags]:
        """Attack the profiles that a model predicts for these groups."""
        table = _profiles(self.part, model, groups, self.tables)
        return self.flags_of(table, groups, self.items[model.fitted[self.items]])

    def flags_of(self, table: np.ndarray, groups: np.ndarray, known: np.ndarray) -> list[Flags]:
        """Attack these profiles of these groups; only these items may be flagged."""
        directions = find_directions(lambda: [(0, table)], table.shape)
        return flag_links(lambda: [(0, table)], directions, self.chance, known, groups, per_group=False)


def _taste_baseline(attacked: _Attacked) -> dict[int, tuple[float, float]]:
    """Return for each head how far right flags exceed popularity and activity in profiles that never saw the members,
    and the standard error over the draws."""
    gains = np.array([_taste_gains(attacked, draw) for draw in range(DRAWS)])
    error = gains.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    return {head: (float(gains[:, n].mean()), float(error[n])) for n, head in enumerate(attacked.heads)}


def _taste_gains(attacked: _Attacked, draw: int) -> list[float]:
    """Attack the groups of one half with profiles by a model of the other half's people; the best score counts."""
    part = attacked.part
    model, judged = _model_of_half(part, draw)
    flags = attacked.flags(model, judged)
    return [head.excess for head in _heads(part, attacked.chance, flags, attacked.heads)]


def _model_of_half(part: Case, draw: int) -> tuple[RatingModel, np.ndarray]:
    """Return a model of the people of half of the groups, drawn at random, and the other groups."""

    def fit() -> tuple[RatingModel, np.ndarray]:
        random, groups = part.draw("taste", draw), part.release.n_groups
        order = random.permutation(groups)
        fitted_on, others = order[: groups // 2], np.sort(order[groups // 2 :])
        return fit_taste(_ratings_of(part, fitted_on), part.release.high - part.release.low, random), others

    return part.cached(("taste", draw), fit)


def _ratings_of(part: Case, groups: np.ndarray) -> sp.csr_array:
    """Return the source ratings of these groups' members."""
    people = part.groups
    return part.truth.ratings[
        np.concatenate([people.members[people.starts[g] : people.starts[g + 1]] for g in groups])
    ]


def _belongs(part: Case, groups: np.ndarray) -> sp.csr_array:
    """Return which of these groups' members, in the order of `_ratings_of`, are in which of them (groups × people)."""
    label = np.repeat(np.arange(len(groups)), part.groups.sizes[groups])
    ones = np.ones(len(label), np.float32)
    return sp.csr_array((ones, (label, np.arange(len(label)))), shape=(len(groups), len(label)))


def _profiles(part: Case, model: RatingModel, groups: np.ndarray, tables: Tables) -> np.ndarray:
    """Return the mean predictions of these groups, rounded and with gaps as the release has them."""
    release, sizes = part.release, np.maximum(part.groups.sizes[groups], 1)
    means = (_belongs(part, groups) @ model.people(_ratings_of(part, groups))) / sizes[:, None]
    table = np.clip(model.profiles(means), release.low, release.high)
    if release.step:
        table = release.low + np.rint((table - release.low) / release.step) * np.float32(release.step)
    if not release.complete:
        for start, published in tables():
            inside = np.flatnonzero((groups >= start) & (groups < start + len(published)))
            table[inside] = np.where(np.isnan(published[groups[inside] - start]), np.nan, table[inside])
    return table


# Every group and every person


def _exposed(case: Case, chance: CellBaseline, flags: list[Flags]) -> tuple[int, int]:
    """Count groups, and people, of whose flags more than half beyond the baseline are right."""
    activity = Activity.fitted(case)
    keys = [one.of_groups for one in flags if len(one.of_groups)]
    tallies = [count_links(case, chance, activity, some, OF_EACH_GROUP) for some in keys]
    groups, people = (
        find_exposed([tally for of_sizes in tallies for tally in of_sizes[who]]) for who in (0, 1)
    )
    return int(groups.sum()), int(people.sum())


# Controls


def _positive_control(
    attacked: _Attacked, baseline: dict[int, tuple[float, float]], threshold: float
) -> tuple[bool, str]:
    """Test that the attack finds leverage: a few groups in whose profiles the rare items they rated stand out."""
    part, everybody = attacked.part, np.arange(attacked.part.release.n_groups)
    span = part.release.high - part.release.low
    model, _ = _model_of_half(part, 0)
    table = _profiles(part, model, everybody, attacked.tables)
    rated = np.zeros(table.shape, bool)
    rated[attacked.cells.groups, attacked.cells.items] = True
    rated = rated[:, attacked.items] & ~np.isnan(table[:, attacked.items])
    for group in np.argsort(-rated.sum(axis=1), kind="stable")[:PLANTED_GROUPS]:
        table[group, attacked.items[rated[group]]] += PLANTED_SHARE * span
    flags = attacked.flags_of(np.clip(table, part.release.low, part.release.high), everybody, attacked.items)
    heads = _heads(part, attacked.chance, flags, attacked.heads)
    found = [_beyond_taste(head, taste) for head, taste in zip(heads, baseline.values(), strict=True)]
    best = max(found, key=lambda head: head.interval[0])
    return best.interval[0] > threshold, f"Control, planted leverage: {best}."


def _negative_control(
    case: Case, chance: CellBaseline, flags: list[Flags], size: int, threshold: float
) -> tuple[bool, str]:
    """Test that the flags mean nothing for other groups, drawn at random."""
    other = case.draw("shuffled groups").permutation(case.release.n_groups)
    moved = []
    for one in flags:
        groups, items = np.divmod(one.overall[:size], case.release.n_items)
        keys = other[groups].astype(np.int64) * case.release.n_items + items
        moved.append(replace(one, overall=keys))
    (worst,) = _heads(case, chance, moved, [size])
    return worst.interval[0] <= threshold, (
        f"Groups shuffled: {worst.rate:.2f} of {worst.size:,} right, {worst.expected:.2f} expected."
    )
