"""The gate: runs every registered check and fails closed.

A check that is missing, skipped, crashed, planned more than it ran, or whose positive control is dead has
failed. Nothing here raises because a release is bad; it returns a verdict that says so.
"""

import contextlib
import datetime
import logging
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from checks.case import Case
from checks.registry import Check, registered
from checks.release import Release
from checks.result import CheckResult, Finding, Verdict
from checks.truth import Truth
from tasks.config import Source
from tasks.config.gate import check_names
from tasks.engine import Engine, single_threaded
from tasks.errors import DiskFull, MurmurError, Refused, UsageError, room_in
from tasks.store import read_json

log = logging.getLogger("murmur.gate")


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
    """Run the whole gate on a candidate. A source that cannot be read is a usage error, and a disk that is full ends
    the judge without a verdict; anything else is one. `protect`: the attributes that must not be told."""
    private = Path(private_dir)
    try:
        with readable("the published files or the membership", private):
            release = Release(release_dir, private)
            truth = Truth.read(release, private, source, snapshot, engine)
    except Refused as problem:
        return _nothing_to_judge(problem, thresholds)
    with contextlib.closing(Case(release, truth, private, snapshot, engine, protect)) as case:
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
    """The whole gate on an existing release, as `murmur audit` runs it; changes nothing."""
    when = snapshot or snapshot_of(published)
    return judge(published, private, source, when, thresholds or {}, engine, progress, protect)


def verify(published: Path) -> Verdict:
    """What can be told from the published files alone: digests, schema, k and l."""
    offline = {name: check for name, check in registered().items() if check.offline}
    try:
        with readable("the published files"):
            case = Case(Release(published))
    except Refused as problem:
        return Verdict([_failed(check, check.threshold, problem.what) for check in offline.values()])
    return Verdict([run_check(check, case, check.threshold) for check in offline.values()])


def judge_case(
    case: Case, thresholds: dict[str, float], progress: Callable[[int, int], None] | None = None
) -> Verdict:
    """Run every registered check on a case; every file under checks/ must have answered."""
    checks = registered()
    if unknown := sorted(set(thresholds) - set(checks)):
        raise UsageError(
            f"there is no check {', '.join(unknown)}",
            where="[gate]",
            remedy=f"the checks are: {', '.join(sorted(checks))}",
        )
    with single_threaded():  # an audit gives the figures of the run, whatever machine it is on
        results = []
        for name, check in checks.items():
            results.append(run_check(check, case, thresholds.get(name, check.threshold)))
            if progress:
                progress(len(results), len(checks))
            case.forget()  # what the next one does not need need not be in memory
    answered = {result.name for result in results}
    silent = [
        CheckResult(
            name,
            False,
            None,
            None,
            None,
            None,
            0,
            "gate",
            "there is a file for this check but it did not run",
        )
        for name in check_names()
        if name not in answered
    ]
    return Verdict(results + silent)


@contextlib.contextmanager
def readable(what: str, private: Path | None = None) -> Iterator[None]:
    """Damaged files raise whatever their reader meets first; for the gate they are all one thing. No room for the
    working files (in `private`) is another."""
    try:
        with room_in(_scratch(private)):
            yield
    except MurmurError:
        raise
    except Exception as problem:
        raise Refused(
            f"{what} cannot be read ({type(problem).__name__}); they are damaged or not a release"
        ) from None


def _scratch(private: Path | None) -> Path:
    return private or Path(tempfile.gettempdir())


def run_check(check: Check, case: Case, threshold: float) -> CheckResult:
    """One check, and the reasons for failing that no check may decide about itself."""
    try:
        with room_in(_scratch(case.private)):
            finding = check.run(case if check.as_published else case.as_ratings, threshold)
    except DiskFull:  # neither passed nor failed
        raise
    except MurmurError as problem:
        return _failed(check, threshold, problem.what)
    except Exception as problem:
        # The message of a foreign exception may quote a source id; its kind and place never do.
        frame = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{type(problem).__name__} in {Path(frame.filename).name}, line {frame.lineno}"
        log.error("check %s crashed: %s", check.name, place)
        return _failed(
            check, threshold, f"the check crashed ({place}); a check that cannot finish has failed"
        )
    return _settle(check, finding, threshold)


def _settle(check: Check, finding: Finding, threshold: float) -> CheckResult:
    """Add the reasons for failing that no check may decide about itself."""
    passed, detail = finding.passed, finding.detail
    if check.controlled and not finding.control:
        passed = False
        detail = f"VOID: the positive control did not succeed, so a low figure means nothing. {detail}"
    if finding.planned is not None and finding.planned != finding.n:
        passed = False
        detail = f"VOID: {finding.planned:,} trials were planned and {finding.n:,} were run. {detail}"
    if check.loosened(threshold):
        detail = (
            f"LOOSENED by the owner: the threshold is {threshold:g} instead of {check.threshold:g}. {detail}"
        )
    return CheckResult(
        check.name,
        bool(passed),
        finding.observed,
        threshold if finding.threshold is None else finding.threshold,
        finding.ci_low,
        finding.ci_high,
        finding.n,
        check.severity,
        detail,
        finding.outcomes,
    )


def _failed(check: Check, threshold: float, why: str) -> CheckResult:
    return CheckResult(check.name, False, None, threshold, None, None, 0, check.severity, why)


def _nothing_to_judge(problem: Refused, thresholds: dict[str, float]) -> Verdict:
    checks = registered().values()
    return Verdict(
        [_failed(c, thresholds.get(c.name, c.threshold), f"not run: {problem.what}") for c in checks]
    )


def snapshot_of(published: Path) -> datetime.date:
    """The snapshot a release says it is of."""
    try:
        return datetime.date.fromisoformat(str(read_json(published / "manifest.json")["snapshot"]))
    except (OSError, ValueError, KeyError, TypeError):
        return datetime.date(1970, 1, 1)  # judge() then says what is wrong with the manifest
