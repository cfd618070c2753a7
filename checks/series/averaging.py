"""Attack with averages: the mean of all profiles a person was published with, and the nearest of all people to it.

Every regrouping puts a person among other people, whose ratings average out while the person's stay: of independent
releases, one gives away .17 of the targets, two .41 and eight .53. Groups link by content across pseudonyms; here they
are linked without error. A person whose profile never changed has one profile however often it is published, and so
nothing is gained: where nobody has a second profile, the check cannot fail and is not applicable. Refused is a gain
over this release alone that is shown: its lower bound (95 %) is above 0, over all targets.
People with several profiles (pooled survivors) are reported by themselves. Positive control: people with many ratings
among sixteen random sets of k − 1 others, all by their own ratings, must be found more often than among one, and more
often than not.

Only people who are still in the source can be attacked, so the rates depend on which released people have left it. A
release that passes does not state them: they would differ by one person's departure. They are in the owner's verdict.
"""

import math
from collections.abc import Iterator

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.history.history import FIRST, History
from checks.history.nearest_person import found_first, records
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Z95, Risk, difference, wilson

CONTROLS = 60
CONTROL_GROUPS = 16
WORK = 2e10  # ratings × vectors: some minutes


@check(
    "averaging",
    threshold=0,
    controlled=True,
    as_published=True,
    whole=True,
    about=About(
        title="Averages over releases",
        summary="Average a person's profiles over all releases",
        knows="The attacker holds every release and knows which profiles are a person's.",
        tries="They average these profiles and look for the nearest person.",
        means=(
            "Each regrouping would average out the other members; so a further release may not show any gain over "
            "a single one."
        ),
        measure="further people found by averaging",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Return how many more people are found by averaging over releases than in one (lower bound above 0 refuses)."""
    history = History.of(case)
    if not history.sharing:
        return Finding(True, None, 0, FIRST, control=True, applicable=False)
    before = _released_before(case, history)
    number = int(_with_several(history, case, before).sum())
    if not number:
        detail = "Nobody has more than one profile in all releases: nothing can be averaged."
        return Finding(True, None, 0, detail, control=True, applicable=False)
    targets = _sample(case, before[np.diff(case.truth.ratings.indptr)[before] > 0])
    if not len(targets):  # all of them have left: nobody's ratings are at hand
        return Finding(True, None, number, _public_words(number), control=True)
    one, every, several = _vectors(history, case, targets)
    alone, together = found_first(case, one, targets), found_first(case, every, targets)
    n = len(targets)
    gain = float(together.mean() - alone.mean())
    low = _lower(int(together.sum()), int(alone.sum()), n)
    ends = difference((int(together.sum()), n), (int(alone.sum()), n)) if several.any() else (0.0, 0.0)
    single, averaged = _control(case, history)
    chance = 1 / max(1, case.truth.users)
    outcomes = [Outcome("all releases", Risk(int(together.sum()), n, chance))]
    if several.any():
        few = Risk(int(together[several].sum()), int(several.sum()), float(alone[several].mean()))
        outcomes.append(Outcome("people with several profiles (baseline: one profile)", few))
    control = averaged >= 0.5 and averaged > single
    if low <= threshold and control:
        return Finding(True, None, number, _public_words(number), control=True, outcomes=tuple(outcomes))
    detail = (
        f"Nearest of all people: {together.mean():.1%} over all releases, {alone.mean():.1%} in this one alone. "
        f"{several.mean():.0%} of {n:,} people have more than one profile in all releases. "
        f"Positive control: {averaged:.0%} over {CONTROL_GROUPS} random groups, {single:.0%} in one."
    )
    return Finding(
        low <= threshold,
        gain,
        n,
        detail,
        *ends,
        control=control,
        outcomes=tuple(outcomes),
    )


def _public_words(number: int) -> str:
    """Return what is published where no gain is shown: nothing that depends on who is still in the source."""
    return (
        f"{number:,} people of this release have more than one profile in all releases; no gain over this release "
        "alone is shown at 95 %. The rates depend on which people are still in the source and are not published."
    )


def _lower(together: int, alone: int, n: int) -> float:
    """Return the lower end of the gain's interval at 95 %, whatever the number of attempts: it must show harm."""
    first, second = wilson(together, n, Z95), wilson(alone, n, Z95)
    return (together - alone) / n - math.hypot(together / n - first[0], second[1] - alone / n)


def _released_before(case: Case, history: History) -> np.ndarray:
    """Return people (rows of the truth) who are in this release and in an earlier one, in the source or not."""
    before = np.zeros(case.truth.users, bool)
    before[np.flatnonzero(history.own.listed)] = history.released_before[history.persons[-1]]
    return np.flatnonzero(before & (case.truth.row_of_user >= 0))


def _sample(case: Case, able: np.ndarray) -> np.ndarray:
    """Return a sample of people where they are many."""
    most = int(min(2_000, max(100, WORK / max(1, 2 * case.truth.ratings.nnz))))
    return able if len(able) <= most else np.sort(case.in_drawn_order(able, "averaging")[:most])


def _earlier(
    history: History, case: Case, people: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield each earlier release with the people's rows in it (−1: absent) and the digests of their profiles."""
    person = np.full(case.truth.users, -1, np.int64)
    person[np.flatnonzero(history.own.listed)] = history.persons[-1]
    place = np.full(len(history.ids), -1, np.int64)
    for at in history.sharing:
        place[:] = -1
        place[history.persons[at]] = history.earlier[at].rows_of(history.numbers[at])
        row = place[person[people]]
        yield at, row, np.where(row >= 0, history.earlier[at].facts.profiles[np.maximum(row, 0)], b"")


def _with_several(history: History, case: Case, people: np.ndarray) -> np.ndarray:
    """Return who has a profile in an earlier release that differs from the one in this release."""
    own = history.own.facts.profiles[case.truth.row_of_user[people]]
    several = np.zeros(len(people), bool)
    for _, _, digest in _earlier(history, case, people):
        several |= (digest != b"") & (digest != own)
    return several


def _vectors(history: History, case: Case, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each target's profile here, the mean of its different profiles in all releases, and who has several."""
    items = history.own.facts.items
    rows = case.truth.row_of_user[targets]
    here = history.own.profiles(rows, items)
    total, count = np.nan_to_num(here), (~np.isnan(here)).astype(np.float32)
    seen = [history.own.facts.profiles[rows]]
    for at, row, digest in _earlier(history, case, targets):
        other = (row >= 0) & np.logical_and.reduce([digest != known for known in seen])
        if other.any():
            table = history.earlier[at].profiles(row[other], items)
            total[other] += np.nan_to_num(table)
            count[other] += ~np.isnan(table)
        seen.append(digest)
    mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    return here, mean, _with_several(history, case, targets)


def _control(case: Case, history: History) -> tuple[float, float]:
    """Return how often people are found in one and in several means over themselves and k − 1 random others."""
    draw = case.draw("averaging", "control")
    rated = np.diff(case.truth.ratings.indptr)
    able = np.flatnonzero(rated > 0)
    people = np.sort(draw.permutation(able[rated[able] >= np.median(rated[able])])[:CONTROLS])
    k = history.own.k
    own = records(case, people)
    total, first = np.zeros_like(own), own
    for group in range(CONTROL_GROUPS):
        others = sum(records(case, draw.choice(able, len(people))) for _ in range(k - 1))
        mean = (own + others) / k
        total += mean
        first = mean if group == 0 else first
    return (
        float(found_first(case, first, people).mean()),
        float(found_first(case, total / CONTROL_GROUPS, people).mean()),
    )
