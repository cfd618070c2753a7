"""Attack with differences: subtract two publications of nearly the same group, and look for the person in between.

The attacker holds every release. For each group that is not byte for byte an earlier one, n₁P₁ − n₂P₂ is computed with
the earlier group nearest by content (how groups are linked across pseudonyms), and, as an attacker who links without
error would, with every earlier group that shares a member. Behind a difference are the people who are in one of the two
groups only; where the members are the same, those whose ratings changed, and where nobody's provably did, whoever
caused the refit: one person is assumed. A difference with fewer than k people behind it isolates them, and none is
allowed: nothing short of that keeps the promise of k, so the threshold is 0. The person with the highest score of all
is looked for behind each difference and reported beside guessing. The attacker knows how much rounding hides: an error
of half a step in a mean is one of n half steps in a sum. Positive control: people with at least as many ratings as most
are taken out of copies of the release's own groups, and must be found in the difference; where groups are so large that
rounding hides even that, in the difference of the means before they were rounded. (That fewer than k people are behind
a difference is refused in either case: this promise does not rest on rounding.)

Only people of this release are candidates: the ratings of those who left are not at hand. They are counted all the
same. How often the attack and its control find a person depends on who has left, so a release that passes does not
state it; it is in the owner's verdict.
"""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from checks.about import About
from checks.evidence.case import Case
from checks.history.history import FIRST, History
from checks.history.nearest_person import found_first, nearest, records, spread_of_ratings
from checks.history.reissues import reissued
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, wilson

CONTROLS = 40
CONTROL_RATE = 0.9  # measured 1.00 on real differences of one person
MOST_ATTACKED = 400
MOST_COMPARED = 1_000  # items
GROUPS_AT_ONCE = 16_384
NOISE = 0.5  # of a difference, at least, in units of the spread of ratings
ROUNDING = 1 / math.sqrt(12)  # standard deviation of a rounding error, in steps


@dataclass(frozen=True)
class Differences:
    """Hold pairs of a group of this release and an earlier one: rows in both, the earlier release, and how many people
    are behind each pair."""

    rows: np.ndarray
    releases: np.ndarray
    earlier_rows: np.ndarray
    people: np.ndarray


@check(
    "differencing",
    threshold=0,
    controlled=True,
    as_published=True,
    whole=True,
    about=About(
        title="Differences of releases",
        summary="Subtract two releases and look for the person between",
        knows="The attacker holds every release about these people.",
        tries="They subtract two publications of nearly the same group and look for the person in between.",
        means="A difference that fewer than k people explain isolates them. None is allowed.",
        measure="share of differences that fewer than k people explain",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Return the share of differences between releases that fewer than k people explain; none is allowed."""
    history = History.of(case)
    if not history.sharing:
        return Finding(True, None, 0, FIRST, control=True, applicable=False)
    found = _differences(case, history)
    if not len(found.people):
        detail = "No group of this release differs from its earlier publication, and none is new."
        return Finding(True, None, 0, detail, control=True, applicable=False)
    k = history.own.k
    few = found.people < k
    total, share = len(found.people), float(few.mean())
    low, high = wilson(int(few.sum()), total)
    control, control_text = _control(case, history)
    outcome, named = _attack(case, history, found)
    detail = (
        f"{total:,} differences of this release's changed and new groups with earlier ones: {int(few.sum()):,} "
        f"have fewer than {k} people behind them."
    )
    if share > threshold or not control:
        detail += f" {named} Positive control: {control_text}."
    return Finding(
        share <= threshold,
        share,
        total,
        detail,
        low,
        high,
        control=control,
        outcomes=(outcome,) if outcome else (),
    )


def _differences(case: Case, history: History) -> Differences:
    """Return all pairs: by shared members, and the nearest by content for groups that share none."""
    changed = np.flatnonzero(~history.carried & (history.own_sets >= 0))
    parts = [_sharing(history, changed, at) for at in history.sharing]
    linked = np.unique(np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)]))
    parts.append(_nearest_by_content(case, history, np.setdiff1d(changed, linked)))
    rows, releases, earlier = (np.concatenate([part[side] for part in parts]) for side in range(3))
    return Differences(rows, releases, earlier, _people_behind(case, history, rows, releases, earlier))


Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def _sharing(history: History, rows: np.ndarray, at: int) -> Pairs:
    """Return the pairs of these rows with the groups of an earlier release that have a member of theirs."""
    sets = history.set_of_rows(at)
    members = history.sets.members
    common = (members[history.own_sets[rows]] @ members[np.maximum(sets, 0)].T).tocoo()
    there = sets[common.col] >= 0
    return rows[common.row[there]], np.full(int(there.sum()), at), common.col[there].astype(np.int64)


def _nearest_by_content(case: Case, history: History, rows: np.ndarray) -> Pairs:
    """Return for each row the earlier group with the smallest mean squared difference over the items of both.

    These groups share no member with an earlier one, so whichever is nearest, both groups' people are behind the
    difference: a sample of rows and of items is enough to attack.
    """
    draw = case.draw("differencing", "content")
    rows = np.sort(draw.permutation(rows)[:MOST_ATTACKED])
    items = history.own.facts.items
    items = items.take(np.sort(draw.permutation(len(items))[:MOST_COMPARED]))
    best = np.full(len(rows), np.inf)
    release, place = np.full(len(rows), -1), np.full(len(rows), -1, np.int64)
    own = history.own.profiles(rows, items)
    mine, value = (~np.isnan(own)).astype(np.float32), np.nan_to_num(own)
    for at in history.related if len(rows) else []:
        fresh = np.flatnonzero(history.sets.first[np.maximum(history.set_of_rows(at), 0)] == at)
        for start in range(0, len(fresh), GROUPS_AT_ONCE):
            part = fresh[start : start + GROUPS_AT_ONCE]
            table = history.earlier[at].profiles(part, items)
            there, plain = (~np.isnan(table)).astype(np.float32), np.nan_to_num(table)
            common = np.maximum(mine @ there.T, 1e-9)
            apart = (value**2 @ there.T + mine @ (plain**2).T - 2 * value @ plain.T) / common
            nearest_row = apart.argmin(axis=1)
            distance = apart[np.arange(len(apart)), nearest_row]
            closer = distance < best
            best = np.where(closer, distance, best)
            release = np.where(closer, at, release)
            place = np.where(closer, part[nearest_row], place)
    linked = release >= 0
    return rows[linked], release[linked], place[linked]


def _people_behind(
    case: Case, history: History, rows: np.ndarray, releases: np.ndarray, earlier: np.ndarray
) -> np.ndarray:
    """Count who is in one of the two groups only; of unchanged members those who changed, or one unknown person."""
    own = history.own_sets[rows]
    other = np.full(len(rows), -1, np.int64)
    for at in np.unique(releases):
        inside = releases == at
        other[inside] = history.set_of_rows(at)[earlier[inside]]
    members, sizes = history.sets.members, history.sets.sizes
    other = np.maximum(other, 0)
    common = np.asarray(members[own].multiply(members[other]).sum(axis=1)).ravel()
    apart = sizes[own] + sizes[other] - 2 * common
    same = np.unique(rows[apart == 0])
    whole = same[reissued(case, history, same)]
    return np.where(apart > 0, apart, np.where(np.isin(rows, whole), sizes[own], 1))


def _attack(case: Case, history: History, found: Differences) -> tuple[Outcome | None, str]:
    """Look for the nearest person behind each difference, those with the fewest people first."""
    chosen = np.argsort(found.people, kind="stable")[:MOST_ATTACKED]
    if not len(chosen):
        return None, ""
    items = history.own.facts.items
    vectors, noise = np.empty((len(chosen), len(items)), np.float32), np.empty(len(chosen))
    own, step = history.own.profiles(found.rows[chosen], items), history.own.release.step
    for at in np.unique(found.releases[chosen]):
        inside = np.flatnonzero(found.releases[chosen] == at)
        one = history.earlier[at]
        before = one.profiles(found.earlier_rows[chosen][inside], items)
        sizes = (
            history.own.facts.sizes[found.rows[chosen][inside]],
            one.facts.sizes[found.earlier_rows[chosen][inside]],
        )
        vectors[inside] = _scaled(own[inside], before, *sizes)
        noise[inside] = _rounding(step, *sizes)
    who = nearest(case, vectors, _noise(case, noise))
    person = np.full(case.truth.users, -1, np.int64)
    person[np.flatnonzero(history.own.listed)] = history.persons[-1]
    own_sets, other_sets = _sets(history, found, chosen)
    hits, behind = _who_joined(history.sets.members, own_sets, other_sets, person[who])
    baseline = float(behind.mean()) / max(1, case.truth.users)
    risk = Risk(int(hits.sum()), len(chosen), baseline)
    words = (
        f"The nearest of all people is one of them in {risk.rate:.0%} of {len(chosen):,} "
        f"(guessing: {baseline:.1%})."
    )
    return Outcome("every release, everybody's ratings", risk), words


def _scaled(own: np.ndarray, before: np.ndarray, sizes: np.ndarray, earlier_sizes: np.ndarray) -> np.ndarray:
    """Return n₁P₁ − n₂P₂ per person more: what the joined people have on average; of equal sizes P₁ + n (P₁ − P₂)."""
    n, m = sizes.astype(np.float32)[:, None], earlier_sizes.astype(np.float32)[:, None]
    more = n - m
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(more != 0, (n * own - m * before) / more, own + n * (own - before))


def _rounding(step: float, sizes: np.ndarray, earlier_sizes: np.ndarray) -> np.ndarray:
    """Return the standard deviation that rounding gives the values of `_scaled`."""
    n, m = sizes.astype(np.float64), earlier_sizes.astype(np.float64)
    apart = np.abs(n - m)
    return ROUNDING * step * np.where(apart > 0, np.hypot(n, m) / np.maximum(apart, 1), np.hypot(n + 1, n))


def _noise(case: Case, rounding: np.ndarray) -> np.ndarray:
    """Return the noise of differences, in units of the spread of ratings."""
    return np.maximum(NOISE, rounding / spread_of_ratings(case))


def _sets(history: History, found: Differences, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sets of members of the two groups of each chosen pair."""
    other = np.zeros(len(chosen), np.int64)
    for at in np.unique(found.releases[chosen]):
        inside = found.releases[chosen] == at
        other[inside] = history.set_of_rows(at)[found.earlier_rows[chosen][inside]]
    return history.own_sets[found.rows[chosen]], np.maximum(other, 0)


def _who_joined(
    members: sp.csr_array, own: np.ndarray, other: np.ndarray, person: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether this person is in the first set and not in the second (of equal sets: in it), and how many are."""
    sizes = np.diff(members.indptr)
    behind = sizes[own] - np.asarray(members[own].multiply(members[other]).sum(axis=1)).ravel()
    equal = behind == 0
    known = np.maximum(person, 0)
    inside, before = (np.asarray(members[side, known]).ravel() > 0 for side in (own, other))
    return (person >= 0) & inside & (equal | ~before), np.where(equal, sizes[own], behind)


def _control(case: Case, history: History) -> tuple[bool, str]:
    """Take a person out of copies of this release's groups and look for them in the difference: rounded as published,
    and where that hides them, without rounding."""
    items: pa.StringArray = history.own.facts.items
    draw = case.draw("differencing", "control")
    rated = np.diff(case.truth.ratings.indptr)
    rows = case.truth.row_of_user
    able = np.flatnonzero((rows >= 0) & (rated > 0) & (history.own.facts.sizes[np.maximum(rows, 0)] > 1))
    if not len(able):
        return False, "nobody can be taken out of a group"
    people = np.sort(draw.permutation(able[rated[able] >= np.median(rated[able])])[:CONTROLS])
    groups = rows[people]
    profiles = history.own.profiles(groups, items)
    size = history.own.facts.sizes[groups].astype(np.float32)[:, None]
    held = records(case, people)
    before = size * np.where(np.isnan(profiles), held, profiles)
    left = (before - held) / (size - 1)
    step = history.own.release.step
    rounded = np.round(left / step) * step if step else left
    rounding = ROUNDING * step * (size.ravel() - 1)

    def find(after: np.ndarray, noise: np.ndarray) -> float:
        vectors = (before - (size - 1) * after).astype(np.float32)
        return float(found_first(case, vectors, people, _noise(case, noise)).mean())

    share = find(rounded, rounding)
    text = f"whoever is taken out of a group is found in {share:.0%} of the differences"
    if share >= CONTROL_RATE or not step:
        return share >= CONTROL_RATE, text
    exact = find(left, np.zeros_like(rounding))
    return exact >= CONTROL_RATE, f"{text}, before rounding in {exact:.0%}"
