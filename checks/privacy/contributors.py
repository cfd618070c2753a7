"""Test the contributor rule (docs/leaks-and-bars.md): real ratings of few people must not be readable in a release.

A cell with fewer than c real contributors may hold predictions only. So its published value may be equal to the
contributors' mean (one contributor: to their own rating) only as often as by chance. It is compared twice: to the
digit, and rounded to the ratings people can give, since a rating published with a little noise is still readable
(checks/evidence/rating_levels.py). Predictions are often right once they are rounded, so chance is the best of several
guesses: other people's ratings of the same item, their mean, and a smooth fit of the published values from which the
cells were hidden (what the rest of a release predicts, a cell does not disclose). Where these leave something to
explain, also the judge's own predictions of the group's members from the same ratings
(checks/recovery/rating_model.py): the question here is whether a cell holds a prediction or a rating. How much a
prediction reveals of the ratings it was made from is for recovery, membership-inference and rating-inference to judge.

An average over cells protects nobody in particular. So of every person the cells are counted of which that person is
the only contributor, and nobody may be exposed: more than half of them right beyond what the best of these guesses has
right, at a lower bound that holds for all people together (`Tally` in checks/stats.py).

The rule is about groups: finding a person's group is allowed, so the group must not reveal their ratings. Where every
record is one person's, finding the record is what is not allowed, and the re-identification attacks judge that at the
same 1/k; there the check only reports how much of the source is published unchanged.

Every such cell of every group is examined. Only the average chance is estimated, where the data are large: it is a
mean, so the cells of a sample of the groups are enough, with some people's ratings.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.groups import GroupBlock
from checks.evidence.rating_levels import ItemRatings, RatingLevels
from checks.evidence.seeds import seeded
from checks.evidence.views.sample import sampled
from checks.privacy.k_anonymity import publishes_single_people
from checks.recovery.low_rank_fit import hide_cells, hold_tables, read_tables, robust_fit
from checks.recovery.rating_model import RatingModel, Ridge
from checks.recovery.real_cells import RealCells
from checks.registry import check
from checks.result import Finding
from checks.stats import EXPOSED_FROM, Risk, Tally, gains_low, runs

FEWEST = 2  # even where a release promises nothing, a single person's rating is never published as it is
SMOOTH_RANKS = (8, 20)  # of the fits that guess hidden cells, as in recovery; a padded release has rank 17
MOST_RATINGS = 5_000_000  # from which others' ratings of an item are drawn
MODELS = ((16, 0.04), (4, 0.04))  # rank and ridge (on a scale of four units) of the judge's own predictions
ROUNDS = 10  # of these models' fits
MOST_SUSPECTS = 20_000  # for whom predictions are made; of a release with more, the average says enough


@dataclass(frozen=True)
class _FewContributors:
    """Count published cells of too few contributors: all, those equal to their contributors' mean to the digit and
    after rounding, and those of one contributor that are equal to the digit. `people` has, per person, the cells of
    which they are the only contributor."""

    cells: int
    verbatim: int
    rounded: int
    sole: int
    people: Tally


@dataclass(frozen=True)
class _Agreement:
    """Hold how often such cells agree with their contributors in one sense, and how often by chance."""

    sense: str
    risk: Risk

    @property
    def above_chance(self) -> bool:
        """Whether it is certain that they agree more often than by chance."""
        return self.risk.gain_interval[0] > 0

    def __str__(self) -> str:
        return (
            f"{self.risk.rate:.1%} {self.sense} (chance {self.risk.baseline:.1%}, gain {self.risk.gain:+.3f})"
        )


@check(
    "contributors",
    threshold=0.05,
    about=About(
        title="Few contributors",
        summary="Read ratings of few people from a group's values",
        knows="The attacker has found a person's group.",
        tries="They read a published value as the rating of the one or two members who really rated the item.",
        means=(
            "Such values may hold predictions only, so they may be right no more often than guesses are; the "
            "limit is the margin of the estimate."
        ),
        measure="share of such values that reveal a rating, beyond chance",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the share of such cells that reveal their contributors' ratings, above chance (upper bound); nobody may
    be exposed."""
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
    cells = RealCells.of(part)
    few = np.flatnonzero((cells.number < fewest) & cells.is_published)
    guesses = list(_simple_guesses(part, cells, few))
    agreements = _agreements(case, found, cells, few, guesses)
    bound = gains_low([found.people])[0]
    if _leaks(agreements, threshold) or (bound > EXPOSED_FROM).any():
        predictions = _Predictions.of(case, part, np.flatnonzero(bound > EXPOSED_FROM), fewest)
        guesses += predictions.of_cells(part, cells.groups[few], cells.items[few])
        agreements = _agreements(case, found, cells, few, guesses)
        bound = gains_low([_explained(case, found.people, fewest, predictions)])[0]
    worst = max(agreements, key=lambda one: (one.above_chance, one.risk.gain_interval[1]))
    low, high = worst.risk.gain_interval
    exposed = int((bound > EXPOSED_FROM).sum())
    share = found.sole / max(1, case.truth.ratings.nnz)
    return Finding(
        not _leaks(agreements, threshold) and not exposed,
        worst.risk.gain,
        found.cells,
        f"{found.cells:,} cells have fewer than {fewest} real contributors; of them agree with the contributors' mean: "
        f"{'; '.join(map(str, agreements))}. Of all ratings {share:.1%} are published unchanged (one contributor, same "
        f"value), chance included. Of {found.people.tested:,} people who are the only contributor of a cell "
        f"{exposed:,} are exposed: rounding reveals more than half of these ratings beyond chance (highest lower bound "
        f"{bound.max(initial=0):+.2f}).{_sample_text(part, case)}",
        ci_low=low,
        ci_high=high,
    )


def _leaks(agreements: "tuple[_Agreement, ...]", threshold: float) -> bool:
    """Return whether cells agree more often than they may; a handful within chance is no leak, however wide the
    interval."""
    return any(one.above_chance and one.risk.gain_interval[1] > threshold for one in agreements)


def _sample_text(part: Case, case: Case) -> str:
    if part is case:
        return ""
    return (
        f" Cells and people are those of all {case.release.n_groups:,} groups; chance was estimated in "
        f"{part.release.n_groups:,} of them, drawn by the release's fingerprint."
    )


def _is_few(block: GroupBlock, fewest: int) -> np.ndarray:
    """Mark the block's published cells with fewer contributors than may be shown."""
    return (block.contributors.data < fewest) & ~np.isnan(block.published)


def _count_cells(case: Case, fewest: int) -> _FewContributors:
    """Count the cells in one pass over all groups."""
    truth = case.truth
    levels, others = RatingLevels.of(truth), ItemRatings.of(truth)
    counts = np.zeros(4, np.int64)
    hits, trials, drawn, mean_right = (np.zeros(truth.users) for _ in range(4))
    for block in case.group_blocks():
        few = _is_few(block, fewest)
        number, published = block.contributors.data[few], block.published[few]
        mean = block.rating_sums.data[few] / number
        verbatim = _is_verbatim(case, published, mean)
        rounded = levels.same(published, mean, number)
        counts += [len(mean), verbatim.sum(), rounded.sum(), verbatim[number == 1].sum()]
        entry = np.flatnonzero((few & (block.contributors.data == 1))[block.cells])
        who, starts = runs(block.users[entry])
        cell, own = block.cells[entry], block.ratings[entry]
        value, item = block.published[cell], block.items[cell]
        for per_person, each in (
            (hits, levels.same(value, own)),
            (trials, np.ones(len(entry))),
            (drawn, others.chance(value, item, own)),
            (mean_right, levels.same(truth.mean_of_others(item, own), own)),
        ):
            per_person[who] = np.add.reduceat(each, starts[:-1], dtype=np.float64) if len(who) else 0
    tally = Tally(hits, trials, np.maximum(drawn, mean_right))
    cells, equal, alike, alone = (int(count) for count in counts)
    return _FewContributors(cells, equal, alike, alone, tally)


def _is_verbatim(case: Case, published: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mark the values that are equal after rounding to the published step."""
    tolerance = case.release.step / 2 if case.release.step else 1e-4
    return np.abs(published - mean) <= tolerance + 1e-4


# Chance


def _agreements(
    case: Case, found: _FewContributors, cells: RealCells, few: np.ndarray, guesses: list[np.ndarray]
) -> tuple[_Agreement, _Agreement]:
    """Compare how often the cells agree, to the digit and after rounding, with the best of the guesses; these are of
    all groups or of a sample of them."""
    levels, release = RatingLevels.of(case.truth), case.release
    number, published = cells.number[few], cells.published[few]
    mean = cells.total[few] / number
    other = _other_people(case, cells, few)
    digits, rounded = [_is_verbatim(case, published, other)], [levels.same(published, other, number)]
    for guess in guesses:
        inside = np.clip(guess, release.low, release.high)
        rounded.append(levels.same(inside, mean, number))
        if release.step:
            inside = release.low + np.rint((inside - release.low) / release.step) * release.step
        digits.append(_is_verbatim(case, inside, mean))

    def best(right: list[np.ndarray]) -> float:
        return max((float(one.mean()) for one in right if len(one)), default=0.0)

    return (
        _Agreement("to the digit", Risk(found.verbatim, found.cells, best(digits))),
        _Agreement("after rounding to a rating", Risk(found.rounded, found.cells, best(rounded))),
    )


def _other_people(case: Case, cells: RealCells, few: np.ndarray) -> np.ndarray:
    """Return for each cell the mean of as many ratings of the same item by people drawn at random."""
    by_item = _some_ratings(case).tocsc()
    number, items = cells.number[few].astype(np.int64), cells.items[few]
    start, many = by_item.indptr[items], np.diff(by_item.indptr)[items]
    alone = many <= number  # no other person rated the item: any rating stands in
    draw = seeded("contributors")
    total = np.zeros(len(few), dtype=np.float64)
    for turn in range(int(number.max(initial=0))):  # over contributors of a cell, fewer than c
        own = start + draw.integers(0, np.maximum(many, 1))
        any_rating = draw.integers(0, by_item.nnz, len(few))
        total += np.where(number > turn, by_item.data[np.where(alone, any_rating, own)], 0)
    return total / number


def _some_ratings(case: Case) -> sp.csr_array:
    """Return all ratings; of large data those of people drawn by the release's fingerprint."""
    ratings = case.truth.ratings
    share = MOST_RATINGS / max(1, ratings.nnz)
    if share >= 1:
        return ratings
    count = max(1, int(share * case.truth.users))
    return ratings[np.sort(case.draw("contributors").choice(case.truth.users, count, replace=False))]


def _simple_guesses(part: Case, cells: RealCells, few: np.ndarray) -> Iterator[np.ndarray]:
    """Yield guesses of these cells without them: other people's mean of the item, and fits of the other cells."""
    groups, items, number = cells.groups[few], cells.items[few], cells.number[few]
    yield part.truth.mean_of_others(items, cells.total[few], number)
    release = part.release
    shape = (release.n_groups, release.n_items)
    tables = hold_tables(hide_cells(lambda: read_tables(release), groups, items))
    for rank in sorted({min(rank, min(shape) // 2) for rank in SMOOTH_RANKS}):
        yield robust_fit(tables, shape, rank, release.step).cells(groups, items)


@dataclass(frozen=True)
class _Predictions:
    """Hold models of some people's ratings: of the groups in a sample, and of those with suspects. `people` are the
    rows of the models."""

    models: tuple[RatingModel, ...]
    tastes: tuple[np.ndarray, ...]  # of the people, by each model
    people: np.ndarray
    suspects: np.ndarray

    @classmethod
    def of(cls, case: Case, part: Case, suspects: np.ndarray, fewest: int) -> "_Predictions":
        """Fit the models."""
        suspects = suspects[:MOST_SUSPECTS]
        rows = case.truth.row_of_user
        people = np.flatnonzero((part.truth.row_of_user >= 0) | np.isin(rows, rows[suspects]))
        ratings = sp.csr_array(case.truth.ratings[people])
        units = (case.release.high - case.release.low) / 4
        models = tuple(
            RatingModel.fit(
                ratings,
                rank,
                Ridge.even(each * units**2),
                fewest=fewest,
                rounds=ROUNDS,
                random=seeded("rating model"),
            )
            for rank, each in MODELS
        )
        return cls(models, tuple(model.people(ratings) for model in models), people, suspects)

    def of_cells(self, case: Case, groups: np.ndarray, items: np.ndarray) -> list[np.ndarray]:
        """Return by each model the mean prediction of some cells over the members of their groups, on the scale."""
        rows = case.truth.row_of_user[self.people]
        inside = np.flatnonzero(rows >= 0)
        belongs = sp.csr_array(
            (np.ones(len(inside)), (rows[inside], inside)), shape=(case.release.n_groups, len(self.people))
        )
        number = np.maximum(np.asarray(belongs.sum(axis=1)).ravel(), 1)[:, None]
        guesses = (
            model.cells((belongs @ tastes) / number, groups, items)
            for model, tastes in zip(self.models, self.tastes, strict=True)
        )
        return [np.clip(guess, case.release.low, case.release.high) for guess in guesses]


# Every person


def _explained(case: Case, people: Tally, fewest: int, predictions: _Predictions) -> Tally:
    """Return the tally of all people in which predictions count as luck, for those who would be exposed."""
    levels = RatingLevels.of(case.truth)
    suspected = np.zeros(case.truth.users, bool)
    suspected[predictions.suspects] = True
    luck = people.luck.copy()
    for block in case.group_blocks():
        sole = _is_few(block, fewest) & (block.contributors.data == 1)
        entry = np.flatnonzero(sole[block.cells] & suspected[block.users])
        if not len(entry):
            continue
        cell, (who, starts) = block.cells[entry], runs(block.users[entry])
        for guess in predictions.of_cells(case, block.groups[cell], block.items[cell]):
            right = levels.same(guess, block.ratings[entry])
            luck[who] = np.maximum(luck[who], np.add.reduceat(right, starts[:-1], dtype=np.float64))
    return replace(people, luck=luck)
