"""Turn the results of inferrers into a finding: what both checks on attributes have in common."""

from dataclasses import dataclass

from checks.evidence.case import Case
from checks.inference.attack import (
    ClassResult,
    answer,
    answer_naively,
    combine,
    evaluate,
    naive_scores,
    retrained_scores,
)
from checks.inference.controls import negative_control, positive_control
from checks.inference.inferrers import suitable
from checks.inference.labelled_people import MIN_CLASS_SIZE, LabelledPeople, label_people
from checks.inference.records import records_of
from checks.result import Finding, Outcome
from checks.stats import Risk

FOLDS = 5
QUICK_FOLDS = 2
REMEDY = "put classes together with source.attributes.groups"


@dataclass(frozen=True)
class AttributeResult:
    """Hold the result for one attribute: what retrained inferrers achieved for each class, what naive ones did, and the
    controls."""

    who: LabelledPeople
    results: list[ClassResult]
    naive: list[ClassResult]
    control_succeeded: bool
    control_text: str

    @property
    def tested(self) -> int:
        """Number of people whose attribute was inferred."""
        return len(self.who.tested) if self.who.enough else 0

    def inconclusive(self, threshold: float) -> set[int]:
        """Return the classes of so few people that nothing can be shown: even a guess would exceed the threshold at its
        upper bound."""
        shown = {one.question for one in self.results if one.risk.guess_upper_bound <= threshold}
        return {one.question for one in self.results} - shown

    def gating(self, threshold: float, *, quick: bool) -> list[ClassResult]:
        """Return the results that decide: of attributes that are not protected, those that can be shown."""
        aside = self.inconclusive(threshold) if quick else set()
        return [one for one in self.results if one.question not in aside]


def attack_attribute(case: Case, attribute: str, *, quick: bool) -> AttributeResult:
    """Attack one attribute of the people of a case."""
    who = label_people(case, attribute, QUICK_FOLDS if quick else FOLDS)
    if not who.enough:
        return AttributeResult(who, [], [], True, "")
    people = who.people[who.tested]
    records = records_of(case, people)
    scores = retrained_scores(records, who, suitable(records, quick=quick), case.engine)
    of_raw, of_released = ({}, {}) if quick else naive_scores(case, who)
    found = evaluate(case, who, answer(scores, who) | combine(case, who, scores, of_released), "retrained")
    naive_found = evaluate(case, who, answer_naively(of_raw, of_released, who), "naive", found_elsewhere=True)
    succeeded, control_text = positive_control(case, who)
    if not quick:
        infers_nothing, negative_text = negative_control(case, who)
        succeeded, control_text = succeeded and infers_nothing, f"{control_text}, {negative_text}"
    return AttributeResult(who, found, naive_found, succeeded, control_text)


def find_attribute_disclosure(
    case: Case, threshold: float, attributes: tuple[str, ...], *, quick: bool
) -> Finding:
    """Return the finding about some attributes. `quick`: they are not protected, and what cannot be shown is only
    reported."""
    attacked = [attack_attribute(case, attribute, quick=quick) for attribute in attributes]
    gating = [one for each in attacked for one in each.gating(threshold, quick=quick)]
    worst = max(gating, key=lambda one: one.high, default=None)
    passed = worst is None or worst.high <= threshold
    if not quick:
        passed &= all(each.results and not each.inconclusive(threshold) for each in attacked)
    sentences = [_attribute_text(each, threshold, quick=quick) for each in attacked]
    about = "" if case.single else " This concerns the group in which a person is listed, not the person."
    low, high = worst.risk.interval if worst else (None, None)
    return Finding(
        passed,
        worst.risk.rate if worst else None,
        sum(each.results[0].risk.n if each.results else 0 for each in attacked),
        f"balanced precision (0.5: a random guess) on people whose attribute is not known. "
        f"{' '.join(sentences)}{about}",
        ci_low=low,
        ci_high=high,
        control=all(
            each.control_succeeded for each in attacked if not quick or each.gating(threshold, quick=True)
        ),
        planned=sum(each.tested for each in attacked),
        outcomes=tuple(
            one.outcome() for each in attacked for one in _by_inferrer([*each.results, *each.naive])
        )
        or (Outcome("not tried", Risk(0, 0)),),
        subject=worst.attribute if worst else "",
    )


def _by_inferrer(found: list[ClassResult]) -> list[ClassResult]:
    """Return for each inferrer the class it infers best."""
    best: dict[str, ClassResult] = {}
    for one in found:
        if one.name not in best or one.high > best[one.name].high:
            best[one.name] = one
    return list(best.values())


def _attribute_text(each: AttributeResult, threshold: float, *, quick: bool) -> str:
    """Describe the result for one attribute. Its values must not be published: classes are numbers."""
    who = each.who
    if not who.enough:
        return (
            f"{who.attribute}: cannot be shown, {'all people have the same value' if who.classes < 2 else ''}"
            f"{'' if who.classes < 2 else f'a class has fewer than {MIN_CLASS_SIZE} people; {REMEDY}'}."
        )
    if not each.results:
        return f"{who.attribute}: nothing could be learned from these records."
    worst = max(each.gating(threshold, quick=quick) or each.results, key=lambda one: one.high)
    listed = "; ".join(f"{one.inferrer} {one.risk.rate:.3f}" for one in _by_inferrer(each.results))
    words = (
        f"{who.attribute}: inferred best by {worst.inferrer}{worst.class_text}: {worst.risk.rate:.3f} (at most "
        f"{worst.high:.3f}), retrained on released records of {len(who.tested):,} people in {int(who.folds.max()) + 1} "
        f"folds ({listed})."
    )
    if each.naive:
        naive_found = "; ".join(
            f"{one.inferrer} {one.risk.rate:.3f}, |BPre − 0.5| = {abs(one.risk.rate - 0.5):.3f}, area under the "
            f"curve {one.area:.3f}"
            for one in _by_inferrer(each.naive)
        )
        words += f" Reported, not judged: trained on raw records and applied to released ones {naive_found}."
    if inconclusive := each.inconclusive(threshold):
        words += (
            f" {'Not judged' if quick else 'Cannot be shown'}: with {len(who.tested):,} people even a guess could "
            f"appear to exceed {threshold:g} for {len(inconclusive)} of {max(1, len(who.questions))} classes; "
            f"{REMEDY}."
        )
    return f"{words} Control: {each.control_text}."
