"""Infer ratings: how well does the found record predict a target's other ratings?

The attacker knows a few ratings of a target, takes the record that fits them best (Scoreboard-RH; at worst, the right
one) and reads the target's *other* ratings off it. One is right when the published value rounds to it, and a value
rounds to one rating only (checks/evidence/rating_levels.py). Much can be guessed without any release, so the mean of
all other people's ratings of the item is the baseline, rounded alike; it also stands in where the record lacks the
item. What is gated is the gain: the share of the baseline's misses that the record reveals. A release is made to show
what people like the target think, so some gain is its use; it must leave more in doubt than it settles, hence the
default of one half. Heavy raters are judged separately: they have the most to lose, and weigh most in their group.

An average protects nobody in particular. So everybody's ratings are also read off their own record, and nobody may be
exposed, no person and no group: more than half of what the baseline misses is right, at a lower bound that holds for
all of them together (`Tally` in checks/stats.py). About twenty right ratings in doubt are needed to be sure of one
person. Here the baseline may also add the level of the group's *other* members to the item's mean: that all five
members of a group rate nearly everything with 5 is true of them together, and publishing it is no person's exposure.
(With the item's mean alone, 5 of 6,040 people and one group of the default release of MovieLens 1M count as exposed:
all of them gave 5 to 70 to 94 % of their items, in groups of people who do.)
"""

from dataclasses import dataclass

import numpy as np

from checks.about import About
from checks.attacks.scoreboard_rh import rule
from checks.evidence.case import Case
from checks.evidence.groups import GroupBlock
from checks.evidence.rating_levels import RatingLevels
from checks.evidence.views.raw import MIN_CONTROL_SHARE, raw_view
from checks.linkage.drawn_knowledge import knowledge_of
from checks.linkage.knowledge import Knowledge, Model
from checks.linkage.nearest import have_no_twin
from checks.linkage.postings import postings_of
from checks.linkage.ranking import rank
from checks.linkage.rules import world_of
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import EXPOSED_FROM, Risk, Tally, clustered, gains_low, runs

MODELS = (Model(8), Model(16), Model(8, "rare"), Model(8, error="±1"))
EVERYTHING = Model(0, "all")
CONTROL = Model(8)
LEAST_ROOM = (
    30  # misses of the baseline below which a gain would be noise (who has 17 ratings has 1 beside 16)
)


@dataclass(frozen=True)
class ReadRatings:
    """Hold the ratings read off the records found, per target: right ones, those the baseline has right, all.

    `found` is the share of targets whose own record was read.
    """

    name: str
    right: np.ndarray
    guessed: np.ndarray
    trials: np.ndarray
    found: float

    @property
    def risk(self) -> Risk:
        """The share read correctly beside the baseline's; the ratings of one target depend on each other."""
        return clustered(self.right, self.trials, float(self.guessed.sum() / max(1, self.trials.sum())))

    @property
    def room(self) -> int:
        """Number of ratings the baseline misses."""
        return int((self.trials - self.guessed).sum())

    def __str__(self) -> str:
        risk = self.risk
        return f"{self.name}: {risk.rate:.1%} against {risk.baseline:.1%}, gain {risk.gain:+.3f}"

    def outcome(self) -> Outcome:
        """Return the result as a line of `murmur attack`; `n` is the effective number of ratings."""
        more = {"ratings": int(self.trials.sum()), "targets": len(self.trials), "right_record": self.found}
        return Outcome(self.name, self.risk, more=more)


@dataclass(frozen=True)
class Exposure:
    """Hold of how many people, or groups, the ratings were read off the own record, how many are exposed, and the
    highest lower bound of a gain."""

    who: str
    tested: int
    exposed: int
    highest: float

    def __str__(self) -> str:
        return f"{self.exposed:,} of {self.tested:,} {self.who} (highest lower bound {self.highest:+.2f})"

    def outcome(self) -> Outcome:
        """Return the result as a line of `murmur attack`; a success is one who is exposed."""
        risk = Risk(self.exposed, self.tested)
        return Outcome(f"everybody's own record, {self.who}", risk, more={"highest_bound": self.highest})


@check(
    "rating-inference",
    threshold=0.5,
    controlled=True,
    about=About(
        title="Rating inference",
        summary="Read a person's other ratings off the found record",
        knows=(
            "The attacker knows a few ratings of a person and finds the record that fits best, or is given the "
            "right one."
        ),
        tries="They read the person's other ratings off that record.",
        means=(
            "Some gain is the use of a release: it shows what people like the target think. Above the limit it "
            "settles more than it leaves in doubt."
        ),
        measure="gain over guessing each item's mean",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the largest gain over the item mean, for all targets and for heavy raters (upper bound); nobody may be
    exposed."""
    readings, planned = [], 0
    for heavy in (False, True):
        targets = case.targets("knowledge", heavy=heavy)
        planned += len(targets) * (len(MODELS) + 1)
        readings += [found_record(case, targets, model, heavy=heavy) for model in MODELS]
        readings.append(own_record(case, targets, heavy=heavy))
    judged = [reading for reading in readings if reading.room >= LEAST_ROOM]
    if not judged:
        return Finding(
            False, None, 0, "there are too few ratings to read: nothing is shown about the release."
        )
    worst = max(judged, key=lambda reading: reading.risk.gain_interval[1])
    low, high = worst.risk.gain_interval
    everybody = count_exposed(case)
    raw = raw_view(case)
    people = raw.control_targets()
    broken = found_record(raw, people, CONTROL)
    strangers = found_record(raw, people[have_no_twin(raw, people)], CONTROL, without_own=True)
    return Finding(
        high <= threshold and not any(one.exposed for one in everybody),
        worst.risk.gain,
        sum(len(reading.trials) for reading in readings),
        f"largest gain {worst.risk.gain:+.3f} (at most {high:+.3f}). Ratings read off the record found, against "
        f"the item's mean: {'; '.join(map(str, readings))}. Everybody's ratings read off their own record: exposed, "
        "with more than half of what the item's mean and the other members' level miss, are "
        f"{'; '.join(map(str, everybody))}. Control in the raw data: {broken}; with the own record removed: gain "
        f"{strangers.risk.gain:+.3f}.",
        ci_low=low,
        ci_high=high,
        control=broken.risk.gain >= MIN_CONTROL_SHARE and strangers.risk.gain < threshold,
        control_share=broken.risk.gain,
        planned=planned,
        outcomes=(*(one.outcome() for one in readings), *(one.outcome() for one in everybody)),
    )


def found_record(
    case: Case, targets: np.ndarray, model: Model, *, heavy: bool = False, without_own: bool = False
) -> ReadRatings:
    """Read the record that Scoreboard-RH finds with this knowledge (`without_own`: among all others)."""
    knows = knowledge_of(case, targets, model)
    own = case.record_of(targets)
    gone = own if without_own else None
    found = rule(world_of(case))
    ranks = rank(postings_of(case), found, knows, own, leave_out=gone, engine=case.engine)
    return _compare(case, _name(model.name, heavy), ranks.best_at.astype(np.int64), _others(case, knows))


def own_record(case: Case, targets: np.ndarray, *, heavy: bool = False) -> ReadRatings:
    """Read the target's own record: the worst case, in which the attacker knows the record and none of the ratings."""
    name = _name("the right record", heavy)
    return _compare(case, name, case.record_of(targets), knowledge_of(case, targets, EVERYTHING))


def _name(knowledge: str, heavy: bool) -> str:
    return f"{knowledge}, heavy raters" if heavy else knowledge


def _others(case: Case, knows: Knowledge) -> Knowledge:
    """Return the targets' ratings that are not among the known ones."""
    everything = knowledge_of(case, knows.targets, EVERYTHING)
    not_known = ~np.isin(_keys(case, everything), _keys(case, knows))
    owner = everything.owners()[not_known]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(knows)))])
    return Knowledge(
        "others", knows.targets, indptr, everything.items[not_known], everything.ratings[not_known]
    )


def _keys(case: Case, knows: Knowledge) -> np.ndarray:
    return knows.owners() * np.int64(case.release.n_items) + knows.items


def _compare(case: Case, name: str, records: np.ndarray, wanted: Knowledge) -> ReadRatings:
    """Compare the target's ratings with the record's and with the baseline's."""
    owner = wanted.owners()
    guess = case.truth.mean_of_others(wanted.items, wanted.ratings)
    value = _values(case, records[owner], wanted.items)
    value = np.where(np.isnan(value), guess, value)
    levels = RatingLevels.of(case.truth)

    def per_target(hit: np.ndarray) -> np.ndarray:
        return np.bincount(owner, weights=hit, minlength=len(wanted))

    right, guessed = (per_target(levels.same(v, wanted.ratings)) for v in (value, guess))
    found = float((records == case.record_of(wanted.targets)).mean()) if len(wanted) else 0.0
    return ReadRatings(name, right, guessed, np.diff(wanted.indptr), found)


def _values(case: Case, records: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return what these records publish about these items; NaN where they do not."""
    values = np.full(len(items), np.nan, dtype=np.float32)
    if not len(case.people):
        return values
    groups = np.unique(case.release.profile_of_group, return_index=True)[1]
    rows = np.where(records >= 0, groups[np.maximum(records, 0)], -1)
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    for block in case.release.blocks():
        part = order[slice(*np.searchsorted(ascending, [block.start, block.start + block.rows]))]
        if len(part):
            values[part] = block.at(rows[part] - block.start, items[part])
    return values


def count_exposed(case: Case) -> list[Exposure]:
    """Read everybody's ratings off their own record, and return how many people and groups are exposed."""
    tallies = read_everybody(case)
    return [
        Exposure(who, tally.tested, int((low > EXPOSED_FROM).sum()), float(low.max(initial=0)))
        for who, tally, low in zip(("people", "groups"), tallies, gains_low(tallies), strict=True)
    ]


def read_everybody(case: Case) -> tuple[Tally, Tally]:
    """Count in one pass over the release, per person and per group, the ratings that the own record has right, and
    those that the better of two baselines has: the item's mean alone, or with the level of the group's other members
    added."""
    truth, levels = case.truth, RatingLevels.of(case.truth)
    people, groups = (np.zeros((4, count)) for count in (truth.users, case.release.n_groups))
    for block in case.group_blocks():
        mean = truth.mean_of_others(block.items[block.cells], block.ratings)
        with_level = np.clip(
            mean + _level_of_others(block, block.ratings - mean), case.release.low, case.release.high
        )
        value = block.published[block.cells]
        values = (np.where(np.isnan(value), mean, value), mean, with_level)
        columns = (*(levels.same(each, block.ratings) for each in values), np.ones(len(mean)))
        for per, owner in ((people, block.users), (groups, block.groups[block.cells])):
            who, starts = runs(owner)  # every person is in one group, every group in one block
            if len(who):
                per[:, who] = [np.add.reduceat(c, starts[:-1], dtype=np.float64) for c in columns]
    return _tally(people), _tally(groups)


def _tally(counts: np.ndarray) -> Tally:
    right, mean, with_level, trials = counts
    return Tally(right, trials, np.maximum(mean, with_level))


def _level_of_others(block: GroupBlock, above: np.ndarray) -> np.ndarray:
    """Return for every rating of a block how far the other members of the group rate above the items' means on average;
    0 where there are none."""
    groups = block.groups[block.cells] - block.start
    who, starts = runs(block.users)
    person = np.repeat(np.arange(len(who)), np.diff(starts))

    def others(each: np.ndarray) -> np.ndarray:
        of_group = np.bincount(groups, each, minlength=block.rows)[groups]
        return of_group - np.bincount(person, each, minlength=len(who))[person]

    number = others(np.ones(len(above)))
    return np.where(number > 0, others(above) / np.maximum(number, 1), 0.0)
