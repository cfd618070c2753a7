"""The attack on one attribute: everybody asked is told by inferrers that learnt from people of the other folds.

*Retrained* inferrers learn from the released records of people whose attribute is known. *Naive* ones learn from raw
records and are asked about released ones, as in the papers. All inferrers' scores together make two more, their mean
and their weighted sum; the weights for a fold are learnt in the others. (Trees that saw both a record and its members'
votes would learn each group by heart: of its people, those with fewer votes for a class are of it.)
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import norm

from checks.case import Case
from checks.inference.inferrers import Inferrer, named, suited
from checks.inference.lesson import Lesson
from checks.inference.measure import (
    Balanced,
    answers,
    area_under_curve,
    at_equal_recalls,
    balanced,
    equal_recalls,
)
from checks.inference.people import Labelled
from checks.inference.records import Records
from checks.inference.regression import fit
from checks.inference.votes import votes
from checks.raw import RawRelease
from checks.result import Outcome
from tasks.engine import Engine

MIXING_C = 1.0
SUREST = 0.1  # share of the people the attacker is surest about
VOTES, MEAN, WEIGHTED = "votes of known members", "mean of all", "weighted sum of all"

Scores = dict[str, np.ndarray]  # per inferrer: people asked × questions


@dataclass(frozen=True)
class Answered:
    """What an inferrer says: the score of everybody asked, and whom it calls of the class (people × questions)."""

    scores: np.ndarray
    called: np.ndarray

    @classmethod
    def joined(cls, parts: list["Answered"]) -> "Answered":
        """Of one entry per question."""
        return cls(
            *(np.column_stack([getattr(part, name) for part in parts]) for name in ("scores", "called"))
        )


@dataclass(frozen=True)
class Told:
    """How well one inferrer tells one class of one attribute from all others."""

    attribute: str
    inferrer: str
    trained: str
    question: int
    classes: int
    risk: Balanced
    own_cut: float  # balanced precision at the cut-off that the attacker found himself
    area: float
    surest: float

    @property
    def high(self) -> float:
        """The upper bound of the balanced precision."""
        return self.risk.interval[1]

    @property
    def name(self) -> str:
        """For a table."""
        return f"{self.attribute}: {self.inferrer}, {self.trained}"

    @property
    def which(self) -> str:
        """Which class it is about, where there are more than two; by number, for the value is nobody's business."""
        return "" if self.classes == 2 else f" (class {self.question + 1} of {self.classes})"

    def outcome(self) -> Outcome:
        """As a line of `murmur attack`."""
        more: dict[str, Any] = {
            "balanced_precision": self.risk.rate,
            "from_half": abs(self.risk.rate - self.risk.baseline),
            "at_own_cut_off": self.own_cut,
            "recall_by_class": [round(recall.rate, 6) for recall in self.risk.recalls],
            "area_under_curve": self.area,
            "surest_tenth": self.surest,
            "effective_people": self.risk.effective,
        }
        return Outcome(self.name + self.which, self.risk, more=more)


def retrained(records: Records, who: Labelled, inferrers: list[Inferrer], engine: Engine | None) -> Scores:
    """Scores of everybody asked by inferrers that learnt from these records of the people of other folds."""
    found = _over_folds(_learn, who, inferrers, engine, records=records)
    return {name: _standardised(scores[0], who) for name, scores in found.items()}


def naive(case: Case, who: Labelled) -> tuple[Scores, Scores]:
    """Scores by the papers' inferrers, learnt from raw records of the people of other folds: of everybody's raw record,
    and of the released one. Nothing where the raw data are what is released."""
    if isinstance(case.release, RawRelease):
        return {}, {}
    people = who.people[who.asked]
    raw, released = case.raw.records(people), case.as_ratings.records(people)
    papers = [one for one in suited(raw) if one.papers]
    found = _over_folds(_learn_raw, who, papers, case.engine, raw=raw, released=released)
    of_raw, of_released = ({name: scores[kind] for name, scores in found.items()} for kind in (0, 1))
    return of_raw, of_released


def _over_folds(
    function: Any, who: Labelled, inferrers: list[Inferrer], engine: Engine | None, **common: Any
) -> dict[str, np.ndarray]:
    folds, labels = who.folds[who.asked], who.labels[who.asked]
    questions = who.questions
    tasks = [
        (one.name, question, fold)
        for one in inferrers
        for question in questions
        for fold in range(int(who.folds.max()) + 1)
    ]
    results = (engine or Engine()).map(function, tasks, labels=labels, folds=folds, **common)
    scores: dict[str, np.ndarray] = {}
    for (name, question, fold), found in zip(tasks, results, strict=True):
        if name not in scores:
            scores[name] = np.full((len(found), len(labels), len(questions)), np.nan)
        scores[name][:, folds == fold, questions.index(question)] = found
    return scores


def _learn(
    task: tuple[str, int, int], *, records: Records, labels: np.ndarray, folds: np.ndarray
) -> list[np.ndarray]:
    name, question, fold = task
    own, rows = folds == fold, records.record_of
    learnt = named(name, records).learn(records, Lesson.of(rows[~own], labels[~own] == question))
    return [learnt(records)[rows[own]]]


def _learn_raw(
    task: tuple[str, int, int], *, raw: Records, released: Records, labels: np.ndarray, folds: np.ndarray
) -> list[np.ndarray]:
    name, question, fold = task
    own = folds == fold
    learnt = named(name, raw).learn(raw, Lesson.of(raw.record_of[~own], labels[~own] == question))
    return [learnt(some)[some.record_of[own]] for some in (raw, released)]


def _standardised(scores: np.ndarray, who: Labelled) -> np.ndarray:
    """Around 0 with spread 1 in every fold: each has learnt by itself, and its scores have a scale of their own."""
    folds = who.folds[who.asked]
    out = np.zeros_like(scores)
    for fold in np.unique(folds):
        part = scores[folds == fold]
        spread = part.std(axis=0)
        out[folds == fold] = (part - part.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    return out


def answered(scores: Scores, who: Labelled) -> dict[str, Answered]:
    """Whom inferrers call of a class by these scores; the cut-off for a fold is found in the others."""
    labels, folds = who.labels[who.asked], who.folds[who.asked]
    return {
        name: Answered(
            table,
            np.column_stack(
                [answers(own, labels == q, folds) for own, q in zip(table.T, who.questions, strict=True)]
            ),
        )
        for name, table in scores.items()
    }


def answered_naively(of_raw: Scores, of_released: Scores, who: Labelled) -> dict[str, Answered]:
    """The same by inferrers that know raw records only: the cut-off is found among these, in the other folds."""
    labels, folds = who.labels[who.asked], who.folds[who.asked]
    found = {}
    for name, table in of_released.items():
        called = np.zeros_like(table)
        for number, question in enumerate(who.questions):
            for fold in np.unique(folds):
                own = folds == fold
                cut = equal_recalls(of_raw[name][~own, number], labels[~own] == question)
                called[own, number] = cut.called(table[own, number])
        found[name] = Answered(table, called)
    return found


def mixed(
    case: Case, who: Labelled, scores: Scores, learnt_from_raw: Scores | None = None
) -> dict[str, Answered]:
    """The votes of known members where people share records, and all scores together; in the weighted sum also those
    learnt from raw records, whose worth is learnt from released ones."""
    from_raw = {name: _standardised(table, who) for name, table in (learnt_from_raw or {}).items()}
    votes_told, mean_told, weighted_told = [], [], []
    for number, question in enumerate(who.questions):
        inside, folds = who.labels[who.asked] == question, who.folds[who.asked]
        alone = [found[:, number] for found in scores.values()]
        columns = [*alone, *(table[:, number] for table in from_raw.values())]
        if not case.single:
            ballot = _standardised(votes(case, who, question), who)
            votes_told.append(_weighted(ballot, inside, folds))
            columns = [*columns, *ballot.T]
            alone = [*alone, _standardised(votes_told[-1].scores, who)]
        mean = np.mean(alone, axis=0)
        mean_told.append(Answered(mean, answers(mean, inside, folds)))
        weighted_told.append(_weighted(np.column_stack(columns), inside, folds))
    every = {VOTES: votes_told, MEAN: mean_told, WEIGHTED: weighted_told}
    return {name: Answered.joined(parts) for name, parts in every.items() if parts}


def _weighted(columns: np.ndarray, inside: np.ndarray, folds: np.ndarray) -> Answered:
    """The sum of these columns that tells best in the other folds, with the cut-off it has there: another fold's sum
    may have another sign."""
    scores, called = np.zeros(len(columns)), np.zeros(len(columns))
    for fold in np.unique(folds):
        own = folds == fold
        lesson = Lesson.of(np.arange((~own).sum()), inside[~own])
        plane = fit(columns[~own][lesson.rows], lesson, MIXING_C)
        cut = equal_recalls(plane.of(columns[~own]), inside[~own])
        scores[own] = plane.of(columns[own])
        called[own] = cut.called(scores[own])
        scores[own] -= cut.value
    return Answered(scores, called)


def told(
    case: Case, who: Labelled, answers: dict[str, Answered], trained: str, *, found_elsewhere: bool = False
) -> list[Told]:
    """What each inferrer's answers are worth, one entry per inferrer and class: where recalls are equal, or, where
    nothing of these records was learnt (`found_elsewhere`), at the cut-off it brought along."""
    z = float(norm.isf(0.025 / len(who.questions)))
    groups = case.truth.row_of_user[who.people[who.asked]]
    labels, folds = who.labels[who.asked], who.folds[who.asked]
    found = []
    for name, said in answers.items():
        if _constant(said.scores, folds):  # has nothing to say, and an interval of nothing says nothing
            continue
        for number, question in enumerate(who.questions):
            inside, scores, called = labels == question, said.scores[:, number], said.called[:, number]
            measured = partial(
                balanced, inside=inside, groups=groups, weights=who.weights, share=who.share(question), z=z
            )
            own = measured(called, found_elsewhere=True)
            risk = own if found_elsewhere else measured(at_equal_recalls(scores, inside, folds))
            area, surest = area_under_curve(scores, inside), _surest(scores, inside)
            found.append(
                Told(who.attribute, name, trained, question, who.classes, risk, own.rate, area, surest)
            )
    return found


def _constant(scores: np.ndarray, folds: np.ndarray) -> bool:
    """Whether everybody has the same score in every fold."""
    return not any(np.ptp(scores[folds == fold], axis=0).any() for fold in np.unique(folds))


def _surest(scores: np.ndarray, inside: np.ndarray) -> float:
    """Of the tenth of people with the highest and the lowest scores, how many are told right, both classes counting
    alike: an average can hide a few who are told for sure."""
    order = np.argsort(scores, kind="stable")
    count = max(1, round(len(order) * SUREST / 2))
    odds = inside.sum() / max(1, (~inside).sum())
    right = []
    for end, of_class in ((order[-count:], True), (order[:count], False)):
        yes, no = inside[end].sum() / max(odds, 1e-12), (~inside[end]).sum()
        right.append((yes if of_class else no) / max(yes + no, 1e-12))
    return float(np.mean(right))
