"""Infer membership from synthetic rows: was this person in the data that the rows were made of?

The attacker knows everything a person rated and has the rows (checks/synthetic/signals.py). As in membership-inference,
the attack runs on shadows: rows of the same mechanism made without some people. Signal and threshold are chosen on one
half of the people and measured on the other, both ways round; people of several shadows are pooled by their ranks.

What gates is the upper bound of the advantage, at most 1/4: of membership-inference's limit 1/k + 1/4 the first part is
missing, because no part of a row belongs to anybody (docs/threat-model.md, "Limits, and why"). And no advantage may be
shown that the claimed epsilon excludes, (e^ε − 1 + 2δ)/(e^ε + 1) ([Dwork2006]): that is refused at the lower bound. The
control is the same attack where the rows are the records of the present people themselves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from checks.about import About
from checks.attacks.dp_audit import claim_of
from checks.attacks.membership_inference import (
    FEWEST_ABSENT,
    MIN_RAW_ADVANTAGE,
    area_under_curve,
    best_threshold,
)
from checks.evidence.case import HALF_WIDTH, Case
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, difference, sample_size
from checks.synthetic.people import ShadowRows, shadows_of
from checks.synthetic.signals import NAMES, RowModel, measure

MOST_LEVELS = 21
FEWEST_KNOWN = 1  # ratings of chosen items: of people without any the rows can know nothing


@dataclass(frozen=True)
class Guesses:
    """Hold how many people were called members, and by which signals."""

    members: int
    called: int
    absent: int
    called_absent: int
    signs: str
    auc: float

    @property
    def advantage(self) -> float:
        """Share of members called members minus the share of absent people called members."""
        return self.called / self.members - self.called_absent / self.absent

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the advantage."""
        return difference((self.called, self.members), (self.called_absent, self.absent))

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.advantage:+.3f} ({low:+.3f} to {high:+.3f}; AUC {self.auc:.3f}, by {self.signs})"


@check(
    "row-membership",
    threshold=0.25,
    controlled=True,
    whole=True,
    as_published=True,
    units=("synthetic",),
    about=About(
        title="Membership from rows",
        summary="Infer from synthetic rows who was in the data",
        knows="The attacker knows everything that a person rated.",
        tries="It compares this record with the rows, which resemble people in the data more than others.",
        means="At 0 % the attacker guesses; at 100 % it always infers whether a person was in the data.",
        measure="advantage over guessing",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the advantage in distinguishing people in the shadows' data from people who were left out of it."""
    shadows = shadows_of(case)
    sides = [_sides(case, shadow, number, len(shadows)) for number, shadow in enumerate(shadows)]
    left_out = sum(absent.shape[0] for _, absent in sides)
    if left_out < FEWEST_ABSENT:
        return Finding(
            True,
            None,
            0,
            f"{left_out} people with ratings of the chosen items were left out of the shadows; the attack needs "
            f"{FEWEST_ABSENT}.",
            control=True,
            applicable=False,
        )
    levels = _levels(sides)
    found = _guess(case, [RowModel(shadow.rows, levels) for shadow in shadows], sides)
    control = _guess(case, [RowModel(present, levels) for present, _ in sides], sides)
    epsilon, delta = claim_of(case)
    excluded = (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1)
    low, high = found.interval
    trials = found.members + found.absent
    more = {"advantage": found.advantage, "advantage_low": low, "advantage_high": high, "auc": found.auc}
    return Finding(
        high <= threshold + 1e-9 and low <= excluded,
        found.advantage,
        trials,
        f"{found.members:,} people in the data of {len(shadows)} shadows against {found.absent:,} who were left out, "
        f"everything known: advantage {found}; allowed {threshold:g}, excluded by epsilon above {excluded:.3f}. "
        f"Control, rows that are people's records: {control}.",
        ci_low=low,
        ci_high=high,
        control=control.advantage >= MIN_RAW_ADVANTAGE,
        planned=trials,
        outcomes=(
            Outcome(
                "everything",
                Risk(found.called, found.members, found.called_absent / found.absent),
                more={**more, "sign": found.signs},
            ),
        ),
    )


def _sides(case: Case, shadow: ShadowRows, number: int, shadows: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the present and the absent people to attack in one shadow; nobody is present in two of them."""
    mine = shadow.number_of_present % shadows == number
    some = np.flatnonzero(mine & (np.diff(shadow.present.indptr) >= FEWEST_KNOWN))
    most = -(-sample_size(HALF_WIDTH) // shadows)
    chosen = np.sort(case.draw("row membership", number).permutation(some)[:most])
    known = np.flatnonzero(np.diff(shadow.absent.indptr) >= FEWEST_KNOWN)
    return sp.csr_array(shadow.present[chosen]), sp.csr_array(shadow.absent[known])


def _levels(sides: list[tuple[sp.csr_array, sp.csr_array]]) -> np.ndarray:
    """Return the ratings that people give; where they give many different ones, a grid over them."""
    values = np.unique(np.concatenate([side.data for pair in sides for side in pair]))
    return values if len(values) <= MOST_LEVELS else np.linspace(values[0], values[-1], MOST_LEVELS)


def _guess(case: Case, models: list[RowModel], sides: list[tuple[sp.csr_array, sp.csr_array]]) -> Guesses:
    """Attack the people of all shadows; a model for each."""
    pairs = [_ranked(model, *pair) for model, pair in zip(models, sides, strict=True)]
    members, absent = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    draw = case.draw("row membership halves")
    halves = list(zip(_halves(members, draw), _halves(absent, draw), strict=True))
    called, signs, areas = np.zeros(2, np.int64), [], []
    for learn, test in (halves, halves[::-1]):
        sign, threshold = best_threshold(*learn)
        called += [int((side[:, sign] >= threshold).sum()) for side in test]
        signs.append(NAMES[sign])
        areas.append(area_under_curve(*(side[:, sign] for side in test)))
    by = " and ".join(dict.fromkeys(signs))
    return Guesses(len(members), int(called[0]), len(absent), int(called[1]), by, float(np.mean(areas)))


def _ranked(model: RowModel, present: sp.csr_array, absent: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the signals of the people of one shadow as ranks among them all: scales of shadows differ."""
    both = np.concatenate([measure(model, side) for side in (present, absent)])
    ranks = rankdata(both, axis=0) / max(1, len(both))
    return ranks[: present.shape[0]], ranks[present.shape[0] :]


def _halves(side: np.ndarray, draw: np.random.Generator) -> Sequence[np.ndarray]:
    return [side[part] for part in np.array_split(draw.permutation(len(side)), 2)]
