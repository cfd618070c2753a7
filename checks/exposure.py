"""`murmur attack`: one attack, on raw data (how exposed am I today?) or on a release."""

import contextlib
import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.case import Case
from checks.gate import readable, run_check, snapshot_of
from checks.raw import RawRelease
from checks.registry import registered
from checks.release import Release
from checks.truth import Truth
from tasks.config import Source
from tasks.engine import Engine, single_threaded
from tasks.errors import Refused, UsageError

ATTRIBUTES = "attribute-inference"


def raw_case(
    source: Source,
    snapshot: datetime.date,
    engine: Engine | None = None,
    protect: tuple[str, ...] = (),
) -> Case:
    """The source with the names removed, as if it were published."""
    truth = Truth.alone(source, snapshot)
    low, high = source.scale
    release = RawRelease(truth, low=low, high=high)
    return Case(release, truth, snapshot=snapshot, engine=engine, protect=protect)


def released_case(
    published: Path,
    private: Path,
    source: Source,
    snapshot: datetime.date | None = None,
    engine: Engine | None = None,
    protect: tuple[str, ...] = (),
) -> Case:
    """A release with the truth it was made from."""
    when = snapshot or snapshot_of(published)
    try:
        with readable("the published files or the membership", private):
            release = Release(published, private)
            truth = Truth.read(release, private, source, when, engine)
    except Refused as problem:  # nothing is judged here: what cannot be read is wrong input
        raise UsageError(problem.what, where=problem.where, remedy=problem.remedy) from None
    return Case(release, truth, private, when, engine, protect)


def expose(name: str, case: Case) -> dict[str, Any]:
    """Run one attack: what it achieved with each kind of knowledge (the contract's JSON of `attack`).

    `void` says that its figures mean nothing: a dead control, trials that were not run, a crash.
    """
    check = registered()[name]
    target = "raw" if isinstance(case.release, RawRelease) else "release"
    if not len(case.targets("knowledge")):
        raise UsageError(
            "nobody in this source is in the release",
            where="--source",
            remedy="name the source the release was made from",
        )
    if name == ATTRIBUTES and not case.protect:  # asked without saying about what: about all there is
        case = replace(case, protect=tuple(case.truth.attributes))
        if not case.protect:
            raise UsageError(
                "the source knows no attribute of anybody",
                where="--source",
                remedy="name a user table with --users and its columns with --attributes, or give --config",
            )
    with single_threaded(), contextlib.closing(case):
        found = run_check(check, case, check.threshold)
    results = [{"attack": name, "target": target, **outcome.to_json()} for outcome in found.outcomes]
    void = not found.outcomes or found.detail.startswith("VOID")
    return {
        "status": "done",
        "attack": name,
        "target": target,
        "void": void,
        "detail": found.detail,
        "results": results,
    }
