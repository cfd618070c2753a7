"""Attack one attribute: every person tested is classified by inferrers that learned from people of the other folds.

*Retrained* inferrers learn from the released records of people whose attribute is known. *Naive* ones learn from raw
records and are applied to released ones, as in the papers. All inferrers' scores together make two more, their mean and
their weighted sum; the weights for a fold are learned in the others. (Trees that saw both a record and its members'
votes would memorize each group: of its people, those with fewer votes for a class belong to it.)
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import norm

from checks.evidence.case import Case
from checks.evidence.views.raw import is_raw, raw_view
from checks.inference.balanced_precision import (
    BalancedPrecision,
    area_under_curve,
    call_at_equal_recalls,
    call_by_other_folds,
    equal_recall_cut,
    measure_balanced_precision,
)
from checks.inference.inferrers import Inferrer, inferrer_named, suitable
from checks.inference.labelled_people import LabelledPeople
from checks.inference.member_votes import vote_features
from checks.inference.records import Records, records_of
from checks.inference.regression import fit
from checks.inference.training_data import TrainingSet
from checks.reconstruction.estimated_ratings import ratings_view
from checks.result import Outcome
from checks.stats import error_share
from tasks.engine import Engine

MIXING_C = 1.0
SUREST = 0.1  # share of the people with the most extreme scores
VOTES, MEAN, WEIGHTED = "votes of known members", "mean of all", "weighted sum of all"

Scores = dict[str, np.ndarray]  # per inferrer: people tested × questions


@dataclass(frozen=True)
class Answers:
    """Hold an inferrer's answers: the score of every person tested, and who is classified as a member of the class
    (people × questions)."""

    scores: np.ndarray
    called: np.ndarray

    @classmethod
    def by_question(cls, parts: list["Answers"]) -> "Answers":
        """Join answers to one question each."""
        return cls(
            *(np.column_stack([getattr(part, name) for part in parts]) for name in ("scores", "called"))
        )


@dataclass(frozen=True)
class ClassResult:
    """Hold how well one inferrer distinguishes one class of one attribute from all others.

    `own_cut` is the balanced precision at the cut-off that the attacker found himself.
    """

    attribute: str
    inferrer: str
    trained: str
    question: int
    classes: int
    risk: BalancedPrecision
    own_cut: float
    area: float
    surest: float

    @property
    def high(self) -> float:
        """The upper bound of the balanced precision."""
        return self.risk.interval[1]

    @property
    def name(self) -> str:
        """The name in a table."""
        return f"{self.attribute}: {self.inferrer}, {self.trained}"

    @property
    def class_text(self) -> str:
        """The class, where there are more than two; by number, because values must not be published."""
        return "" if self.classes == 2 else f" (class {self.question + 1} of {self.classes})"

    def outcome(self) -> Outcome:
        """Return the result as a line of `murmur attack`."""
        more: dict[str, Any] = {
            "balanced_precision": self.risk.rate,
            "from_half": abs(self.risk.rate - self.risk.baseline),
            "at_own_cut_off": self.own_cut,
            "recall_by_class": [round(recall.rate, 6) for recall in self.risk.recalls],
            "area_under_curve": self.area,
            "surest_tenth": self.surest,
            "effective_people": self.risk.effective,
        }
        return Outcome(self.name + self.class_text, self.risk, more=more)


def retrained_scores(
    records: Records, who: LabelledPeople, inferrers: list[Inferrer], engine: Engine | None
) -> Scores:
    """Return the scores of every person tested, by inferrers that learned from these records of the people of other
    folds."""
    found = _over_folds(_learn, who, inferrers, engine, records=records)
    return {name: _standardised(scores[0], who) for name, scores in found.items()}


def naive_scores(case: Case, who: LabelledPeople) -> tuple[Scores, Scores]:
    """Return scores by the papers' inferrers, which learned from raw records of the people of other folds: of every
    person's raw record, and of the released one. Nothing where the raw data are what is released."""
    if is_raw(case):
        return {}, {}
    people = who.people[who.tested]
    raw, released = records_of(raw_view(case), people), records_of(ratings_view(case), people)
    papers = [one for one in suitable(raw) if one.papers]
    found = _over_folds(_learn_raw, who, papers, case.engine, raw=raw, released=released)
    of_raw, of_released = ({name: scores[kind] for name, scores in found.items()} for kind in (0, 1))
    return of_raw, of_released


def _over_folds(
    function: Any, who: LabelledPeople, inferrers: list[Inferrer], engine: Engine | None, **common: Any
) -> dict[str, np.ndarray]:
    folds, labels = who.folds[who.tested], who.labels[who.tested]
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
    scorer = inferrer_named(name, records).learn(
        records, TrainingSet.of(rows[~own], labels[~own] == question)
    )
    return [scorer(records)[rows[own]]]


def _learn_raw(
    task: tuple[str, int, int], *, raw: Records, released: Records, labels: np.ndarray, folds: np.ndarray
) -> list[np.ndarray]:
    name, question, fold = task
    own = folds == fold
    scorer = inferrer_named(name, raw).learn(
        raw, TrainingSet.of(raw.record_of[~own], labels[~own] == question)
    )
    return [scorer(some)[some.record_of[own]] for some in (raw, released)]


def _standardised(scores: np.ndarray, who: LabelledPeople) -> np.ndarray:
    """Return scores with mean 0 and deviation 1 in every fold: each fold was learned separately and has a scale of its
    own."""
    folds = who.folds[who.tested]
    out = np.zeros_like(scores)
    for fold in np.unique(folds):
        part = scores[folds == fold]
        spread = part.std(axis=0)
        out[folds == fold] = (part - part.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    return out


def answer(scores: Scores, who: LabelledPeople) -> dict[str, Answers]:
    """Classify people by these scores; the cut-off for a fold is found in the others."""
    labels, folds = who.labels[who.tested], who.folds[who.tested]
    return {
        name: Answers(
            table,
            np.column_stack(
                [
                    call_by_other_folds(own, labels == q, folds)
                    for own, q in zip(table.T, who.questions, strict=True)
                ]
            ),
        )
        for name, table in scores.items()
    }


def answer_naively(of_raw: Scores, of_released: Scores, who: LabelledPeople) -> dict[str, Answers]:
    """Classify people by inferrers that know only raw records: the cut-off is found among these, in the other folds."""
    labels, folds = who.labels[who.tested], who.folds[who.tested]
    found = {}
    for name, table in of_released.items():
        called = np.zeros_like(table)
        for number, question in enumerate(who.questions):
            for fold in np.unique(folds):
                own = folds == fold
                cut = equal_recall_cut(of_raw[name][~own, number], labels[~own] == question)
                called[own, number] = cut.called(table[own, number])
        found[name] = Answers(table, called)
    return found


def combine(
    case: Case, who: LabelledPeople, scores: Scores, scores_from_raw: Scores | None = None
) -> dict[str, Answers]:
    """Return answers by the votes of known members, where people share records, and by all scores together.

    The weighted sum also contains scores learned from raw records; their weight is learned from released ones.
    """
    from_raw = {name: _standardised(table, who) for name, table in (scores_from_raw or {}).items()}
    by_votes, by_mean, by_weighted_sum = [], [], []
    for number, question in enumerate(who.questions):
        inside, folds = who.labels[who.tested] == question, who.folds[who.tested]
        alone = [found[:, number] for found in scores.values()]
        columns = [*alone, *(table[:, number] for table in from_raw.values())]
        if not case.single:
            ballot = _standardised(vote_features(case, who, question), who)
            by_votes.append(_weighted(ballot, inside, folds))
            columns = [*columns, *ballot.T]
            alone = [*alone, _standardised(by_votes[-1].scores, who)]
        mean = np.mean(alone, axis=0)
        by_mean.append(Answers(mean, call_by_other_folds(mean, inside, folds)))
        by_weighted_sum.append(_weighted(np.column_stack(columns), inside, folds))
    every = {VOTES: by_votes, MEAN: by_mean, WEIGHTED: by_weighted_sum}
    return {name: Answers.by_question(parts) for name, parts in every.items() if parts}


def _weighted(columns: np.ndarray, inside: np.ndarray, folds: np.ndarray) -> Answers:
    """Return answers by the weighted sum of these columns that separates best in the other folds, with the cut-off it
    has there.

    Another fold's sum may have another sign.
    """
    scores, called = np.zeros(len(columns)), np.zeros(len(columns))
    for fold in np.unique(folds):
        own = folds == fold
        training = TrainingSet.of(np.arange((~own).sum()), inside[~own])
        plane = fit(columns[~own][training.rows], training, MIXING_C)
        cut = equal_recall_cut(plane.of(columns[~own]), inside[~own])
        scores[own] = plane.of(columns[own])
        called[own] = cut.called(scores[own])
        scores[own] -= cut.value
    return Answers(scores, called)


def evaluate(
    case: Case,
    who: LabelledPeople,
    answers: dict[str, Answers],
    trained: str,
    *,
    found_elsewhere: bool = False,
) -> list[ClassResult]:
    """Measure each inferrer's answers, one result per inferrer and class.

    The cut-off is where recalls are equal or, where nothing was learned from these records (`found_elsewhere`), the one
    the inferrer brought along.
    """
    z = float(norm.isf(error_share() / 2 / len(who.questions)))
    groups = case.truth.row_of_user[who.people[who.tested]]
    labels, folds = who.labels[who.tested], who.folds[who.tested]
    found = []
    for name, answer in answers.items():
        if _constant(answer.scores, folds):  # without different scores there is no answer, and no interval
            continue
        for number, question in enumerate(who.questions):
            inside, scores, called = labels == question, answer.scores[:, number], answer.called[:, number]
            measured = partial(
                measure_balanced_precision,
                inside=inside,
                groups=groups,
                weights=who.weights,
                share=who.share(question),
                z=z,
            )
            own = measured(called, found_elsewhere=True)
            risk = own if found_elsewhere else measured(call_at_equal_recalls(scores, inside, folds))
            area, surest = area_under_curve(scores, inside), _surest(scores, inside)
            found.append(
                ClassResult(who.attribute, name, trained, question, who.classes, risk, own.rate, area, surest)
            )
    return found


def _constant(scores: np.ndarray, folds: np.ndarray) -> bool:
    """Test whether all people have the same score in every fold."""
    return not any(np.ptp(scores[folds == fold], axis=0).any() for fold in np.unique(folds))


def _surest(scores: np.ndarray, inside: np.ndarray) -> float:
    """Return the share classified correctly of the tenth of people with the highest and the lowest scores, both classes
    weighing the same.

    An average can hide a few people who are classified with certainty.
    """
    order = np.argsort(scores, kind="stable")
    count = max(1, round(len(order) * SUREST / 2))
    odds = inside.sum() / max(1, (~inside).sum())
    right = []
    for end, of_class in ((order[-count:], True), (order[:count], False)):
        yes, no = inside[end].sum() / max(odds, 1e-12), (~inside[end]).sum()
        right.append((yes if of_class else no) / max(yes + no, 1e-12))
    return float(np.mean(right))
