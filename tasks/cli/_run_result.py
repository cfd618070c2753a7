"""Assemble the answer of `murmur run` for a published or refused release (docs/release-format.md)."""

import datetime
from pathlib import Path
from typing import Any

from checks.result import CheckResult, Verdict
from checks.utility.utility import summary
from tasks.config import ReleaseConfig
from tasks.data.approval import AwaitsApproval
from tasks.errors import Refused
from tasks.series.ledger import Ledger
from tasks.series.refusal import KEPT
from tasks.store import Store, read_json


def _refused_cohort(verdict: dict[str, Any], private: Path, refusal: Refused | None) -> dict[str, Any] | None:
    """Return which newcomers the gate refused while it let the other groups pass, and where its report on them is."""
    facts = verdict.get(KEPT)
    if facts is None:
        return None
    place = private if refusal is None else private / "work" / "validate" / "private"
    return {**facts, "report": str(place / KEPT / "report.html")}


def _current_directory(config: ReleaseConfig, snapshot: datetime.date, store: Store) -> str:
    """Return the directory in which a published snapshot is offered now: after an erasure `<snapshot>-rN`."""
    found = None
    if Ledger.exists(store, config.population):
        with Ledger.open(store, config.population) as ledger:
            found = ledger.find(config.release.name, snapshot.isoformat())
    if found is None:
        return snapshot.isoformat()
    if found.state == "withdrawn":
        raise Refused(
            "this snapshot was published and is withdrawn now; it still counts, and is not published again",
            where=str(store.root / "published" / found.name / found.directory),
            remedy="publish a later snapshot",
        )
    return found.directory


def _has_figures(utility: Path) -> bool:
    return any((utility / name).exists() for name in ("heldout.parquet", "ranking.parquet"))


def describe(
    config: ReleaseConfig, snapshot: datetime.date, store: Store, refusal: Refused | None, *, judged: bool
) -> dict[str, Any]:
    """Return paths, checks, utility and counts; `judged` states whether the gate reached a verdict."""
    directory = snapshot.isoformat() if refusal else _current_directory(config, snapshot, store)
    private = store.root / "private" / config.release.name / directory
    published = store.root / "published" / config.release.name / directory
    validated = private / "work" / "validate"
    where: Path | None = validated / "candidate" if judged else None
    utility: Path | None = validated / "private" / "utility" if judged else None
    if refusal is None:
        where, utility = published, private / "utility"
    manifest = read_json(where / "manifest.json") if where and (where / "manifest.json").exists() else {}
    checks = manifest.get("checks", [])
    owner = private if refusal is None else validated / "private"
    judgement = owner / "verdict.json"
    judged_as = read_json(judgement) if checks and judgement.exists() else None
    if config.privacy.budget is not None and judged_as is not None:
        # The public has neither figures nor an outcome of utility of such a release; whoever runs it is its owner.
        checks, where = judged_as["checks"], owner
    attempts = None if judged_as is None else judged_as.get("attempts", 1)
    verdict = Verdict([CheckResult.from_json(line) for line in checks], attempts or 1)
    return {
        "status": "refused" if refusal else "published",
        "verdict": verdict.headline if checks else None,
        "attempts": attempts,
        "why": refusal.what if refusal else None,
        "refused_cohort": None if judged_as is None else _refused_cohort(judged_as, private, refusal),
        "published": None if refusal else str(published),
        "candidate": str(where) if isinstance(refusal, AwaitsApproval) else None,
        "private": str(private),
        # What was refused concerns the owner alone; the public edition says nothing of remedies.
        "report": None
        if where is None
        else str((validated / "private" if refusal else where) / "report.html"),
        "checks": checks,
        # Where nobody is released for the first time, no utility is measured.
        "utility": summary(utility) if utility and _has_figures(utility) else {},
        "counts": manifest.get("counts", {}),
    }
