"""Run every registered check on a release and fail closed.

A check has failed when it is missing, skipped or crashed, when it ran fewer trials than planned, or when its positive
control did not succeed. A bad release raises nothing here: the verdict reports it.
"""

import contextlib
import datetime
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.evidence.case import Case
from checks.evidence.method_rules import Unit, rules_of
from checks.evidence.opened_cases import (
    candidate_case,
    manifest_snapshot,
    refuse_unreadable,
    working_directory,
)
from checks.evidence.release import Release
from checks.evidence.views.new_groups import new_groups_view
from checks.evidence.views.raw import RawRelease
from checks.history.history import History
from checks.reconstruction.estimated_ratings import ratings_view
from checks.registry import Check, registered
from checks.result import NO_RECORDS, CheckResult, Finding, Verdict
from checks.stats import attempts_so_far
from tasks.config import Source
from tasks.config.gate import check_names
from tasks.engine import Engine, single_threaded
from tasks.errors import DiskFull, MurmurError, Refused, UsageError, place_of, room_in

log = logging.getLogger("murmur.gate")

ATTRIBUTES = "attribute-inference"
NO_BUDGET = "This check examines releases that spend a privacy budget; this one promises groups or a risk, not epsilon."


def judge(
    release_dir: Path,
    private_dir: Path,
    source: Source,
    snapshot: datetime.date,
    thresholds: dict[str, float],
    engine: Engine | None = None,
    progress: Callable[[int, int], None] | None = None,
    protect: tuple[str, ...] = (),
) -> Verdict:
    """Run the whole gate on a candidate and return its verdict.

    A source that cannot be read is a usage error, and a full disk ends the gate without a verdict; everything else is
    part of the verdict. `protect` names the attributes that the release must not reveal. Intervals are widened for the
    attempts at this snapshot inside `corrected_for(attempts)` (checks/stats.py).
    """
    try:
        case = candidate_case(release_dir, Path(private_dir), source, snapshot, engine, protect)
    except Refused as problem:
        return _unreadable_candidate(problem, thresholds)
    with contextlib.closing(case):
        return judge_case(case, thresholds, progress)


def audit(
    published: Path,
    private: Path,
    source: Source,
    snapshot: datetime.date | None = None,
    thresholds: dict[str, float] | None = None,
    engine: Engine | None = None,
    progress: Callable[[int, int], None] | None = None,
    protect: tuple[str, ...] = (),
) -> Verdict:
    """Run the whole gate on an existing release, for `murmur audit`; changes nothing."""
    when = snapshot or manifest_snapshot(published)
    return judge(published, private, source, when, thresholds or {}, engine, progress, protect)


def verify(published: Path) -> Verdict:
    """Run the checks that need only the published files: digests, schema, k and l."""
    offline = {name: check for name, check in registered().items() if check.offline}
    try:
        with refuse_unreadable("the published files"):
            case = Case(Release(published))
    except Refused as problem:
        return Verdict([_unfinished(check, check.threshold, problem.what) for check in offline.values()])
    return Verdict([run_check(check, case, check.threshold) for check in offline.values()])


def judge_case(
    case: Case, thresholds: dict[str, float], progress: Callable[[int, int], None] | None = None
) -> Verdict:
    """Run every registered check on a case; a check file without a result is a failed check."""
    checks = registered()
    if unknown := sorted(set(thresholds) - set(checks)):
        raise UsageError(
            f"there is no check {', '.join(unknown)}",
            where="[gate]",
            remedy=f"the checks are: {', '.join(sorted(checks))}",
        )
    with single_threaded():  # an audit must give the same figures as the run, whatever the machine
        results = []
        new_groups = case.cached("new groups", lambda: _new_groups(case))
        for name, check in checks.items():
            threshold = thresholds.get(name, check.threshold)
            judged = case if check.whole else new_groups
            results.append(
                _judged_before(check, threshold) if judged is None else run_check(check, judged, threshold)
            )
            if progress:
                progress(len(results), len(checks))
            case.forget()  # frees what the next check does not need
    finished = {result.name for result in results}
    missing = "there is a file for this check but it did not run"
    silent = [
        CheckResult(name, False, None, None, None, None, 0, "gate", missing, void=True)
        for name in check_names()
        if name not in finished
    ]
    return Verdict(results + silent, attempts_so_far())


def _new_groups(case: Case) -> Case | None:
    """Return the case of the new groups; of files in which they cannot be found, the whole release: the checks of the
    series fail on these. Synthetic rows have no groups that were published before."""
    if rules_of(case.release.manifest["method"]).is_synthetic:
        return case
    try:
        return new_groups_view(case, ~History.of(case).carried)
    except DiskFull:
        raise
    except Exception as problem:
        log.error("the new groups cannot be found: %s", place_of(problem))
        return case


def _judged_before(check: Check, threshold: float) -> CheckResult:
    """Return the result of a check that judges new groups, where there are none."""
    detail = "All groups were published and judged before, with the same bytes; nobody is released for the first time."
    return _not_applicable(check, threshold, detail)


def _not_of(unit: Unit) -> str:
    """Say why a check does not apply to releases of this unit."""
    return NO_RECORDS if unit == "synthetic" else NO_BUDGET


def _not_applicable(check: Check, threshold: float, why: str) -> CheckResult:
    """Return the result of a check that leaves nothing to find in this release, whatever its content."""
    return CheckResult(
        check.name, True, None, threshold, None, None, 0, check.severity, why, applicable=False
    )


def run_attack(name: str, case: Case) -> dict[str, Any]:
    """Run one attack, for `murmur attack`: what it achieved with each kind of attacker knowledge.

    `void` is True when the figures show nothing: a positive control without success, missing trials, a crash.
    """
    check = registered()[name]
    target = "raw" if isinstance(case.release, RawRelease) else "release"
    if (unit := rules_of(case.release.manifest["method"]).unit) not in check.units:
        raise UsageError(
            _not_of(unit).rstrip("."),
            where=f"attack {name}",
            remedy="run `murmur audit`: it shows which checks apply to this release",
        )
    if unit != "synthetic" and not len(case.targets("knowledge")):
        raise UsageError(
            "no user of this source is in the release",
            where="--source",
            remedy="name the source the release was made from",
        )
    if name == ATTRIBUTES and not case.protect:  # no attribute was named: attack all of them
        case = replace(case, protect=tuple(case.truth.attributes))
        if not case.protect:
            raise UsageError(
                "the source has no attribute of any user",
                where="--source",
                remedy="name a user table with --users and its columns with --attributes, or give --config",
            )
    with single_threaded(), contextlib.closing(case):
        found = run_check(check, case, check.threshold)
    results = [{"attack": name, "target": target, **outcome.to_json()} for outcome in found.outcomes]
    return {
        "status": "done",
        "attack": name,
        "target": target,
        "void": found.void or not found.outcomes,
        "applicable": found.applicable,
        "detail": found.detail,
        "results": results,
    }


def run_check(check: Check, case: Case, threshold: float) -> CheckResult:
    """Run one check; whatever it raises, except a full disk, is a failure of the check."""
    if (unit := rules_of(case.release.manifest["method"]).unit) not in check.units:
        return _not_applicable(check, threshold, _not_of(unit))
    try:
        with room_in(working_directory(case.private)):
            finding = check.run(case if check.as_published else ratings_view(case), threshold)
    except DiskFull:  # neither passed nor failed
        raise
    except MurmurError as problem:
        return _unfinished(check, threshold, problem.what)
    except Exception as problem:
        # The message of a foreign exception may quote a source id; its type and place never do.
        place = place_of(problem)
        log.error("check %s crashed: %s", check.name, place)
        return _unfinished(
            check, threshold, f"the check crashed ({place}); a check that cannot finish has failed"
        )
    return _settle(check, finding, threshold)


def _settle(check: Check, finding: Finding, threshold: float) -> CheckResult:
    """Apply the reasons for failing that no check may decide about itself."""
    reasons = []
    if check.controlled and not finding.control:
        reasons.append("the positive control did not succeed, so a low figure shows nothing")
    if finding.planned is not None and finding.planned != finding.n:
        reasons.append(f"{finding.planned:,} trials were planned and {finding.n:,} were run")
    loosened = check.loosened(threshold)
    passed = bool(finding.passed) and not reasons
    detail = finding.detail
    if reasons:
        detail = f"Void: {'; '.join(reasons)}. {detail}"
    if loosened:
        detail = f"The owner loosened the threshold to {threshold:g} (default {check.threshold:g}). {detail}"
    return CheckResult(
        check.name,
        passed,
        finding.observed,
        threshold if finding.threshold is None else finding.threshold,
        finding.ci_low,
        finding.ci_high,
        finding.n,
        check.severity,
        detail,
        finding.outcomes,
        void=bool(reasons),
        loosened=loosened,
        applicable=finding.applicable or not passed,  # what failed could fail
        control=finding.control,
        control_share=finding.control_share,
        subject=finding.subject,
        attempts=attempts_so_far(),
    )


def _unfinished(check: Check, threshold: float, why: str) -> CheckResult:
    """Return the result of a check that has no figures: failed and void."""
    return CheckResult(
        check.name,
        False,
        None,
        threshold,
        None,
        None,
        0,
        check.severity,
        why,
        void=True,
        loosened=check.loosened(threshold),
    )


def _unreadable_candidate(problem: Refused, thresholds: dict[str, float]) -> Verdict:
    """Return a verdict in which every check has failed because there is nothing to examine."""
    checks = registered().values()
    return Verdict(
        [_unfinished(c, thresholds.get(c.name, c.threshold), f"not run: {problem.what}") for c in checks],
        attempts_so_far(),
    )
