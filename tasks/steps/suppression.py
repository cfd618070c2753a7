"""Suppression: items that few people rated are left out, and with them who rated nothing else (paper 002, section 5).

How many is said by `suppression.share`, or searched for: the smallest share that the gate's attacks let pass. Every
share tried is made into a release like the one to come, and judged by every check that gates and needs no shadow run;
what the others say is known when the release is judged as a whole. Two attacks that read ratings are tried at every
share, whatever else refuses it: they draw the curve that tells an owner how far suppression helps (curve.json).
Such attacks need no rare items, so the answer may well be that no share passes.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from checks.exposure import released_case
from checks.gate import run_check
from checks.registry import Check, registered
from checks.result import CheckResult
from tasks import methods
from tasks.candidate import Candidate, pseudonyms, write_release
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.engine import single_threaded
from tasks.errors import Refused, UsageError
from tasks.pipeline import Job, execute
from tasks.progress import StepProgress
from tasks.ratings import Ratings
from tasks.store import digest_of, files_below, remove, write_json
from tasks.suppressed import fewest_ratings, write_without

SHARES = (0.0, 0.25, 0.5, 0.75, 0.88, 0.92, 0.96, 0.98, 0.99, 0.995)
CURVE = ("scoreboard-rh", "exact-rating")
NEED_A_SHADOW = ("membership-inference", "utility")


class Params(Settings):
    """The share that is left out; where it is searched for, all that the verdict depends on."""

    share: float | None
    judged: dict[str, Any] | None


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    share, judged = config.suppression.share, None
    if share is None:
        tables = {name: getattr(config, name).model_dump(mode="json") for name in ("privacy", "source")}
        judged = {**tables, "gate": config.gate}
    return Params(share=share, judged=judged)


def run(job: Job) -> dict[str, Any]:
    """Leave out the items with the fewest ratings: as many as asked for, or as few as pass."""
    ratings = Ratings(job.ratings)
    counts = ratings.by_item.counts()
    share = job.params.share
    if share is None:
        share = _search(job, ratings, counts)
    fewest = fewest_ratings(counts, share)
    if not (counts >= fewest).any():
        raise UsageError(
            f"with {share:.1%} of the {len(counts):,} items left out none stays",
            where="suppression.share",
            remedy="lower it, or remove it: then the smallest share that passes is searched for",
        )
    made = write_without(ratings, counts >= fewest, job.out)
    found = {"searched": job.params.share is None, "share": share, "fewest_ratings": fewest}
    return {**made, **found, "source_ratings": int(counts.sum())}


# The search


@dataclass(frozen=True)
class Trial:
    """One share left out: what stayed, and what the checks said, until the first that failed."""

    share: float
    counts: dict[str, int]
    results: list[CheckResult]

    @property
    def refused_by(self) -> list[str]:
        """The checks that failed; the first of them ended the trial, once the curve had its figures."""
        return [found.name for found in self.results if not found.passed]

    def to_json(self) -> dict[str, Any]:
        """As in curve.json."""
        checks = [found.to_json() for found in self.results]
        return {"share": self.share, **self.counts, "refused_by": self.refused_by, "checks": checks}

    def __str__(self) -> str:
        curve = ", ".join(f"{f.name} {_bound(f)}" for f in self.results if f.name in CURVE)
        stays = f"{self.counts['items']:,} items with {self.counts['ratings']:,} ratings stay"
        failed = [found for found in self.results if not found.passed]
        named = [f"{f.name}{' (nothing shown)' if f.detail.startswith('VOID') else ''}" for f in failed]
        return f"{self.share:.1%} left out, {stays}: {curve}; refused by {', '.join(named) or 'none'}"


def _search(job: Job, ratings: Ratings, counts: np.ndarray) -> float:
    """The smallest share that passes; the curve is kept for the owner, whatever comes of it."""
    shares = _different_shares(counts)
    trials: dict[float, Trial] = {}

    def passes(place: int) -> bool:
        share = shares[place]
        trials[share] = _trial(job, ratings, share, counts >= fewest_ratings(counts, share))
        job.progress(len(trials), len(shares))
        return not trials[share].refused_by

    place = smallest(len(shares), passes)
    chosen = None if place is None else shares[place]
    tried = [trials[share] for share in sorted(trials)]
    where = _keep(job, {"k": job.config.privacy.k, "chosen": chosen, "trials": [t.to_json() for t in tried]})
    if chosen is None:
        raise Refused(
            f"no suppression passes: at k = {job.config.privacy.k} each of the {len(tried)} shares of rarely rated "
            "items that were tried is refused (risk: upper bound of naming a person):\n"
            + "\n".join(f"  {trial}" for trial in tried),
            where=str(where),
            remedy="choose a method that publishes groups, such as predictive-padded",
        )
    return chosen


def smallest(count: int, passes: Callable[[int], bool]) -> int | None:
    """The first of the places 0, 1, … that passes, by bisection: what passes at one is taken to pass beyond it. Where
    the last does not, that is not taken for granted: all are tried."""
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
    """The shares that leave different items, and any at all: of few items several shares are the same."""
    fewest = {
        share: fewest_ratings(counts, share) for share in reversed(SHARES)
    }  # of equal ones the smallest counts
    first = {number: share for share, number in fewest.items() if number <= counts.max()}
    return sorted(first.values())


def _trial(job: Job, ratings: Ratings, share: float, stay: np.ndarray) -> Trial:
    """Make the release there would be, up to its candidate, and judge it."""
    place = job.out / "trial"
    try:
        changed = place / "suppression"
        changed.mkdir(parents=True)
        counts = write_without(ratings, stay, changed)
        return Trial(share, counts, list(_judge(job, _made(job, place, changed))))
    finally:
        remove(place)


def _made(job: Job, place: Path, changed: Path) -> Candidate:
    """The release of these ratings, as the steps make it."""
    reference = {"path": str(changed), "digest": digest_of(files_below(changed)), "counts": {}}
    ingest = {"path": str(job.ratings), "digest": "", "counts": {}}
    run = replace(job.run, work=place, given={"ingest": ingest, "suppression": reference}, purpose="trial")
    silent = replace(run, progress=lambda *_: None)
    made = {name: Path(execute(name, silent)["path"]) for name in methods.data_steps(job.config)}
    candidate = Candidate(place / "candidate", place / "private")
    inside = replace(job, run=run, inputs=made, progress=StepProgress("trial", lambda *_: None))
    labels, ids = np.load(made["clustering"] / "labels.npy"), Ratings(changed).user_ids()
    groups = made[next(reversed(made))] / "groups.parquet"
    write_release(inside, candidate, groups, ids, pseudonyms(inside, ids), labels)
    return candidate


def _judge(job: Job, made: Candidate) -> Iterator[CheckResult]:
    """The curve's attacks, then every other check until one fails."""
    config = job.config
    case = released_case(
        made.public, made.private, config.source, job.snapshot, job.engine, config.protected_attributes
    )
    failed = False
    with single_threaded(), contextlib.closing(case):
        for check in _checks():
            if failed and check.name not in CURVE:
                return
            found = run_check(check, case, config.gate.get(check.name, check.threshold))
            failed |= not found.passed
            yield found
            case.forget()


def _checks() -> list[Check]:
    """Those that gate and need no shadow: the curve's first, then attacks that are held to 1/k before the others."""
    checks = [c for c in registered().values() if c.severity == "gate" and c.name not in NEED_A_SHADOW]
    return sorted(checks, key=lambda check: (check.name not in CURVE, check.threshold < 1))


def _bound(found: CheckResult) -> str:
    return "not measured" if found.ci_high is None else f"{found.ci_high:.3f}"


def _keep(job: Job, curve: dict[str, Any]) -> Path:
    """The curve, beside what is left, and where the owner looks for it unless a published release has it there."""
    write_json(job.out / "curve.json", curve)
    if job.run.purpose != "release" or (job.run.published / "manifest.json").exists():
        return job.out / "curve.json"
    write_json(job.run.private / "curve.json", curve)
    return job.run.private / "curve.json"
