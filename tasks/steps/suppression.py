"""Suppression: leave out items that few users rated, and users who rated nothing else ([Frankowski2006], section 5).

`suppression.share` sets how many items; without it the smallest share that passes the gate's attacks is searched for.
Every share tried is made into a release, and judged by every gating check that needs no shadow run; the other checks
judge the release as a whole later. Two attacks that use rating values are run at every share, whatever else refuses it:
they make the curve that shows an owner how far suppression helps (curve.json). Such attacks need no rare items, so the
result may be that no share passes.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checks.evidence.opened_cases import released_case
from checks.gate import run_check
from checks.registry import Check, registered
from checks.result import CheckResult
from tasks import methods
from tasks.config import ReleaseConfig, Source
from tasks.config.base import Settings
from tasks.data.candidate import Candidate, Contents, Declaration, Membership, write_release
from tasks.data.item_removal import fewest_ratings, write_without
from tasks.data.ratings import Ratings
from tasks.engine import single_threaded
from tasks.errors import Refused, UsageError
from tasks.pipeline import Job, Plan, execute, plan
from tasks.store import remove, write_json

RESULT = "ratings"
SHARES = (0.0, 0.25, 0.5, 0.75, 0.88, 0.92, 0.96, 0.98, 0.99, 0.995)
CURVE = ("scoreboard-rh", "exact-rating")
NEED_A_SHADOW = ("membership-inference", "utility")


class Search(Settings):
    """Hold what the search for a share depends on: how a trial is made and judged."""

    plan: Plan
    declared: Declaration
    source: Source
    gate: dict[str, float]
    protected_attributes: tuple[str, ...]


class Params(Settings):
    """Hold the share of items to leave out, or how to search for it."""

    share: float | None
    search: Search | None


@dataclass(frozen=True)
class Inputs:
    """Hold the directory this step reads."""

    ratings: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    share, search = config.suppression.share, None
    if share is None:
        steps = tuple(name for name in methods.data_steps(config) if name not in ("ingest", "suppression"))
        search = Search(
            plan=plan(config, steps),
            declared=Declaration.of(config),
            source=config.source,
            gate=config.gate,
            protected_attributes=config.protected_attributes,
        )
    return Params(share=share, search=search)


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Leave out the items with the fewest ratings: as many as set, or as few as pass."""
    ratings = Ratings(job.inputs.ratings)
    counts = ratings.by_item.counts()
    share = job.params.share
    if share is None:
        assert job.params.search is not None
        share = _search(job, job.params.search, ratings, counts)
    fewest = fewest_ratings(counts, share)
    if not (counts >= fewest).any():
        raise UsageError(
            f"with {share:.1%} of the {len(counts):,} items left out, no item remains",
            where="suppression.share",
            remedy="lower it, or remove it to search for the smallest share that passes",
        )
    made = write_without(ratings, counts >= fewest, job.out)
    found = {"searched": job.params.share is None, "share": share, "fewest_ratings": fewest}
    return {**made, **found, "source_ratings": int(counts.sum())}


# The search


@dataclass(frozen=True)
class Trial:
    """Represent one share that was tried: what remained, and the results of the checks until the first failure."""

    share: float
    counts: dict[str, int]
    results: list[CheckResult]

    @property
    def refused_by(self) -> list[str]:
        """Return the checks that failed; the first of them ended the trial once the curve's checks had run."""
        return [found.name for found in self.results if not found.passed]

    def to_json(self) -> dict[str, Any]:
        """Return the form of curve.json."""
        checks = [found.to_json() for found in self.results]
        return {"share": self.share, **self.counts, "refused_by": self.refused_by, "checks": checks}

    def __str__(self) -> str:
        curve = ", ".join(f"{f.name} {_bound(f)}" for f in self.results if f.name in CURVE)
        remains = f"{self.counts['items']:,} items with {self.counts['ratings']:,} ratings remain"
        failed = [found for found in self.results if not found.passed]
        named = [f"{f.name}{' (nothing shown)' if f.void else ''}" for f in failed]
        return f"{self.share:.1%} left out, {remains}: {curve}; refused by {', '.join(named) or 'none'}"


def _search(job: Job[Params, Inputs], search: Search, ratings: Ratings, counts: np.ndarray) -> float:
    """Return the smallest share that passes; the curve is kept for the owner in any case."""
    shares = _different_shares(counts)
    trials: dict[float, Trial] = {}

    def passes(place: int) -> bool:
        share = shares[place]
        trials[share] = _trial(job, search, ratings, share)
        job.progress(len(trials), len(shares))
        return not trials[share].refused_by

    place = smallest(len(shares), passes)
    chosen = None if place is None else shares[place]
    tried = [trials[share] for share in sorted(trials)]
    k = search.declared.privacy["k"]
    where = _keep(job, {"k": k, "chosen": chosen, "trials": [t.to_json() for t in tried]})
    if chosen is None:
        raise Refused(
            f"no suppression passes: at k = {k} each of the {len(tried)} shares of rarely rated items that were tried "
            "is refused (figures: upper bound of the risk that a user is re-identified):\n"
            + "\n".join(f"  {trial}" for trial in tried),
            where=str(where),
            remedy="choose a method that publishes groups, such as predictive-padded",
        )
    return chosen


def smallest(count: int, passes: Callable[[int], bool]) -> int | None:
    """Return the first of the places 0, 1, … that passes, by bisection, or None.

    Bisection assumes that all places beyond one that passes pass, too. Where the last place does not pass, this
    assumption does not hold, and all places are tried.
    """
    if not passes(count - 1):
        return next((place for place in range(count - 1) if passes(place)), None)
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if passes(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _different_shares(counts: np.ndarray) -> list[float]:
    """Return the shares that leave different items, and at least one: with few items several shares are equal."""
    # Reversed: of equal shares the smallest is kept.
    fewest = {share: fewest_ratings(counts, share) for share in reversed(SHARES)}
    first = {number: share for share, number in fewest.items() if number <= counts.max()}
    return sorted(first.values())


def _trial(job: Job[Params, Inputs], search: Search, ratings: Ratings, share: float) -> Trial:
    """Make the candidate that this share would give, and judge it."""
    place, rated = job.out / "trial", ratings.by_item.counts()
    try:
        changed = place / "suppression"
        changed.mkdir(parents=True)
        counts = write_without(ratings, rated >= fewest_ratings(rated, share), changed)
        candidate = _make_candidate(job, search, place, changed)
        return Trial(share, counts, list(_judge(job, search, candidate)))
    finally:
        remove(place)


def _make_candidate(job: Job[Params, Inputs], search: Search, place: Path, changed: Path) -> Candidate:
    """Run the method's steps on these ratings and write the candidate."""
    inner = job.inner_run(search.plan, {"suppression": changed}, place, "trial", silent=True)
    made = {name: Path(execute(name, inner)["path"]) for name in search.plan.steps}
    groups = made[next(reversed(made))] / "groups.parquet"
    candidate, ratings = Candidate(place / "candidate", place / "private"), Ratings(changed)
    ids, labels = ratings.user_ids(), np.load(made["clustering"] / "labels.npy")
    members = Membership(ids, inner.pseudonyms(ids), labels)
    write_release(candidate, search.declared, job.snapshot, Contents.of(ratings, groups), members)
    return candidate


def _judge(job: Job[Params, Inputs], search: Search, made: Candidate) -> Iterator[CheckResult]:
    """Yield the results of the curve's attacks, then of every other check until one fails."""
    case = released_case(
        made.public, made.private, search.source, job.snapshot, job.engine, search.protected_attributes
    )
    failed = False
    with single_threaded(), contextlib.closing(case):
        for check in _checks():
            if failed and check.name not in CURVE:
                return
            found = run_check(check, case, search.gate.get(check.name, check.threshold))
            failed |= not found.passed
            yield found
            case.forget()


def _checks() -> list[Check]:
    """Return the gating checks that need no shadow: the curve's first, then those with the threshold 1/k."""
    checks = [c for c in registered().values() if c.severity == "gate" and c.name not in NEED_A_SHADOW]
    return sorted(checks, key=lambda check: (check.name not in CURVE, check.threshold < 1))


def _bound(found: CheckResult) -> str:
    return "not measured" if found.ci_high is None else f"{found.ci_high:.3f}"


def _keep(job: Job[Params, Inputs], curve: dict[str, Any]) -> Path:
    """Write the curve beside the ratings, and to the owner's directory unless that has a published release's."""
    write_json(job.out / "curve.json", curve)
    if job.purpose != "release" or (job.published / "manifest.json").exists():
        return job.out / "curve.json"
    write_json(job.private / "curve.json", curve)
    return job.private / "curve.json"
