"""From what inferrers tell to a finding: what both checks on attributes have in common."""

from dataclasses import dataclass

from checks.case import Case
from checks.inference.attack import Told, answered, answered_naively, mixed, naive, retrained, told
from checks.inference.controls import negative, positive
from checks.inference.inferrers import suited
from checks.inference.people import FEWEST, Labelled, labelled
from checks.result import Finding, Outcome
from checks.stats import Risk

FOLDS = 5
QUICK_FOLDS = 2
REMEDY = "put classes together with source.attributes.groups"


@dataclass(frozen=True)
class Attacked:
    """One attribute: what retrained inferrers told of each class, what naive ones did, and the controls."""

    who: Labelled
    told: list[Told]
    naive: list[Told]
    alive: bool
    control: str

    @property
    def asked(self) -> int:
        """People who were asked about."""
        return len(self.who.asked) if self.who.enough else 0

    def unshown(self, threshold: float) -> set[int]:
        """Classes of so few people that nobody could be shown to know nothing: even a wild guess would be above the
        threshold at its upper bound."""
        shown = {one.question for one in self.told if one.risk.by_guess <= threshold}
        return {one.question for one in self.told} - shown

    def judged(self, threshold: float, *, quick: bool) -> list[Told]:
        """What decides: of attributes that nobody asked to protect, what can be shown."""
        aside = self.unshown(threshold) if quick else set()
        return [one for one in self.told if one.question not in aside]


def attack(case: Case, attribute: str, *, quick: bool) -> Attacked:
    """Attack one attribute of the people of a case."""
    who = labelled(case, attribute, QUICK_FOLDS if quick else FOLDS)
    if not who.enough:
        return Attacked(who, [], [], True, "")
    people = who.people[who.asked]
    records = case.records(people)
    scores = retrained(records, who, suited(records, quick=quick), case.engine)
    of_raw, of_released = ({}, {}) if quick else naive(case, who)
    found = told(case, who, answered(scores, who) | mixed(case, who, scores, of_released), "retrained")
    fooled = told(case, who, answered_naively(of_raw, of_released, who), "naive", found_elsewhere=True)
    alive, said = positive(case, who)
    if not quick:
        quiet, silence = negative(case, who)
        alive, said = alive and quiet, f"{said}, {silence}"
    return Attacked(who, found, fooled, alive, said)


def judge(case: Case, threshold: float, attributes: tuple[str, ...], *, quick: bool) -> Finding:
    """The finding about some attributes. `quick`: nobody asked to protect them; what cannot be shown is told only."""
    attacked = [attack(case, attribute, quick=quick) for attribute in attributes]
    judged = [one for each in attacked for one in each.judged(threshold, quick=quick)]
    worst = max(judged, key=lambda one: one.high, default=None)
    passed = worst is None or worst.high <= threshold
    if not quick:
        passed &= all(each.told and not each.unshown(threshold) for each in attacked)
    sentences = [_said(each, threshold, quick=quick) for each in attacked]
    about = "" if case.single else " About the group somebody is listed in, not the person."
    low, high = worst.risk.interval if worst else (None, None)
    return Finding(
        passed,
        worst.risk.rate if worst else None,
        sum(each.told[0].risk.n if each.told else 0 for each in attacked),
        f"balanced precision (0.5: a wild guess) of people whose attribute is not known. {' '.join(sentences)}{about}",
        ci_low=low,
        ci_high=high,
        control=all(each.alive for each in attacked if not quick or each.judged(threshold, quick=True)),
        planned=sum(each.asked for each in attacked),
        outcomes=tuple(one.outcome() for each in attacked for one in _by_inferrer([*each.told, *each.naive]))
        or (Outcome("not tried", Risk(0, 0)),),
    )


def _by_inferrer(found: list[Told]) -> list[Told]:
    """Of each inferrer the class it tells best."""
    best: dict[str, Told] = {}
    for one in found:
        if one.name not in best or one.high > best[one.name].high:
            best[one.name] = one
    return list(best.values())


def _said(each: Attacked, threshold: float, *, quick: bool) -> str:
    """One attribute in words. Its values are nobody's business: classes are numbers."""
    who = each.who
    if not who.enough:
        return (
            f"{who.attribute}: cannot be shown, {'it is the same for everybody' if who.classes < 2 else ''}"
            f"{'' if who.classes < 2 else f'a class has fewer than {FEWEST} people; {REMEDY}'}."
        )
    if not each.told:
        return f"{who.attribute}: nothing could be learnt from these records."
    worst = max(each.judged(threshold, quick=quick) or each.told, key=lambda one: one.high)
    listed = "; ".join(f"{one.inferrer} {one.risk.rate:.3f}" for one in _by_inferrer(each.told))
    words = (
        f"{who.attribute}: told best by {worst.inferrer}{worst.which}: {worst.risk.rate:.3f} (at most "
        f"{worst.high:.3f}), retrained on released records of {len(who.asked):,} people in {int(who.folds.max()) + 1} "
        f"folds ({listed})."
    )
    if each.naive:
        fooled = "; ".join(
            f"{one.inferrer} {one.risk.rate:.3f}, |BPre − 0.5| = {abs(one.risk.rate - 0.5):.3f}, area under the "
            f"curve {one.area:.3f}"
            for one in _by_inferrer(each.naive)
        )
        words += f" Told, not judged: trained on raw records and asked about released ones {fooled}."
    if unshown := each.unshown(threshold):
        words += (
            f" {'Not judged' if quick else 'Cannot be shown'}: with {len(who.asked):,} people even a wild guess could "
            f"seem to be above {threshold:g} for {len(unshown)} of {max(1, len(who.questions))} classes; {REMEDY}."
        )
    return f"{words} Control: {each.control}."
