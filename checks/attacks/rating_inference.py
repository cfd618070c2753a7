"""Rating inference: how well does the found record tell what else the target thought?

The attacker knows a few ratings of a target, takes the record that fits them best (Scoreboard-RH; at worst, the
right one) and reads the target's *other* ratings off it. One is read right when the published value rounds to
it. Much can be guessed without any release, so the mean of everybody else's ratings of the item is the baseline; it
also stands in where the record does not have the item. What is gated is the gain: the share of what the baseline
misses that the record gives away. A release is made to tell what people like the target think, so some gain is its
use; it must leave more in doubt than it settles, hence the default of one half. Heavy raters are judged separately:
they have the most to lose, and weigh most in their group.
"""

from dataclasses import dataclass

import numpy as np

from checks.attacks.scoreboard_rh import rule
from checks.case import Case
from checks.linkage.attack import BROKEN
from checks.linkage.knowledge import Knowledge, Model
from checks.linkage.nearest import without_twin
from checks.linkage.ranking import rank
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, clustered

MODELS = (Model(8), Model(16), Model(8, "rare"), Model(8, error="±1"))
EVERYTHING = Model(0, "all")
CONTROL = Model(8)
LEAST_ROOM = (
    30  # misses of the baseline below which a gain would be noise (who has 17 ratings has 1 beside 16)
)


@dataclass(frozen=True)
class Reading:
    """Ratings read off the records found, per target: right ones, those the baseline has right, all."""

    name: str
    right: np.ndarray
    guessed: np.ndarray
    trials: np.ndarray
    found: float  # share of targets whose own record was read

    @property
    def risk(self) -> Risk:
        """Share read right beside the baseline's; the ratings of one target hang together."""
        return clustered(self.right, self.trials, float(self.guessed.sum() / max(1, self.trials.sum())))

    @property
    def room(self) -> int:
        """Ratings the baseline misses."""
        return int((self.trials - self.guessed).sum())

    def __str__(self) -> str:
        risk = self.risk
        return f"{self.name}: {risk.rate:.1%} against {risk.baseline:.1%}, gain {risk.gain:+.3f}"

    def outcome(self) -> Outcome:
        """As a line of `murmur attack`; `n` is the effective number of ratings."""
        more = {"ratings": int(self.trials.sum()), "targets": len(self.trials), "right_record": self.found}
        return Outcome(self.name, self.risk, more=more)


@check("rating-inference", threshold=0.5, controlled=True)
def run(case: Case, threshold: float) -> Finding:
    """Largest gain over the item mean, for all targets and for heavy raters (upper bound)."""
    readings, planned = [], 0
    for heavy in (False, True):
        targets = case.targets("knowledge", heavy=heavy)
        planned += len(targets) * (len(MODELS) + 1)
        readings += [found_record(case, targets, model, heavy=heavy) for model in MODELS]
        readings.append(own_record(case, targets, heavy=heavy))
    judged = [reading for reading in readings if reading.room >= LEAST_ROOM]
    if not judged:
        return Finding(
            False, None, 0, "there are too few ratings to be read: nothing is shown about the release."
        )
    worst = max(judged, key=lambda reading: reading.risk.gain_interval[1])
    low, high = worst.risk.gain_interval
    raw = case.raw.control_targets()
    broken = found_record(case.raw, raw, CONTROL)
    strangers = found_record(case.raw, raw[without_twin(case.raw, raw)], CONTROL, without_own=True)
    return Finding(
        high <= threshold,
        worst.risk.gain,
        sum(len(reading.trials) for reading in readings),
        f"largest gain {worst.risk.gain:+.3f} (at most {high:+.3f}). Ratings read off the record found, against "
        f"the item's mean: {'; '.join(map(str, readings))}. Control in the raw data: {broken}; with the own record "
        f"taken away: gain {strangers.risk.gain:+.3f}.",
        ci_low=low,
        ci_high=high,
        control=broken.risk.gain >= BROKEN and strangers.risk.gain < threshold,
        planned=planned,
        outcomes=tuple(reading.outcome() for reading in readings),
    )


def found_record(
    case: Case, targets: np.ndarray, model: Model, *, heavy: bool = False, without_own: bool = False
) -> Reading:
    """Read the record that Scoreboard-RH finds with this knowledge (`without_own`: among all others)."""
    knows = case.known(targets, model)
    own = case.record_of(targets)
    gone = own if without_own else None
    ranks = rank(case.postings, rule(case.world), knows, own, leave_out=gone, engine=case.engine)
    return _read(case, _name(model.name, heavy), ranks.best_at.astype(np.int64), _others(case, knows))


def own_record(case: Case, targets: np.ndarray, *, heavy: bool = False) -> Reading:
    """The worst case: the attacker knows which record is the target's, and none of the ratings."""
    name = _name("the right record", heavy)
    return _read(case, name, case.record_of(targets), case.known(targets, EVERYTHING))


def _name(knowledge: str, heavy: bool) -> str:
    return f"{knowledge}, heavy raters" if heavy else knowledge


def _others(case: Case, knows: Knowledge) -> Knowledge:
    """What there is to be read: the targets' ratings that are not among the known ones."""
    everything = case.known(knows.targets, EVERYTHING)
    open_ = ~np.isin(_keys(case, everything), _keys(case, knows))
    owner = everything.owners()[open_]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(knows)))])
    return Knowledge("others", knows.targets, indptr, everything.items[open_], everything.ratings[open_])


def _keys(case: Case, knows: Knowledge) -> np.ndarray:
    return knows.owners() * np.int64(case.release.n_items) + knows.items


def _read(case: Case, name: str, records: np.ndarray, asked: Knowledge) -> Reading:
    """Compare the target's ratings with the record's and with the baseline's."""
    owner = asked.owners()
    guess = _item_means(case, asked)
    value = _values(case, records[owner], asked.items)
    value = np.where(np.isnan(value), guess, value)
    near = case.truth.half_level + 1e-4

    def per_target(hit: np.ndarray) -> np.ndarray:
        return np.bincount(owner, weights=hit, minlength=len(asked))

    right, guessed = (per_target(np.abs(v - asked.ratings) <= near) for v in (value, guess))
    found = float((records == case.record_of(asked.targets)).mean()) if len(asked) else 0.0
    return Reading(name, right, guessed, np.diff(asked.indptr), found)


def _item_means(case: Case, asked: Knowledge) -> np.ndarray:
    """The mean of all other people's ratings of the item; of all ratings where nobody else rated it."""
    count, total = case.truth.item_totals
    others, rest = count[asked.items] - 1, total[asked.items] - asked.ratings
    return np.where(others > 0, rest / np.maximum(others, 1), total.sum() / max(1, count.sum()))


def _values(case: Case, records: np.ndarray, items: np.ndarray) -> np.ndarray:
    """What these records publish about these items; NaN where they do not."""
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
