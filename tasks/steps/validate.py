"""Validate: build the candidate release and let the gate attack it; a release that fails a check stops here."""

import datetime
import logging
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checks.expectations import validate_verdict
from checks.gate import judge
from checks.registry import registered
from checks.report import (
    MethodWords,
    OwnerFacts,
    Past,
    PastRelease,
    write_owner_report,
    write_readme,
    write_report,
    write_synthetic_reports,
)
from checks.result import Verdict
from checks.stats import corrected_for
from tasks import methods
from tasks.config import Alerts, Release, ReleaseConfig
from tasks.config.base import Settings
from tasks.data import attempts, candidate
from tasks.data.change_notice import change_in_words
from tasks.data.croissant import FILE as CROISSANT
from tasks.data.croissant import write_croissant
from tasks.data.ratings import Ratings
from tasks.data.remedies import in_series, of_settings
from tasks.errors import Refused
from tasks.pipeline import Job, code_version
from tasks.series.assembly import Cohort, Released, Request, assemble
from tasks.series.past_releases import describe_past, describe_past_to_owner
from tasks.series.refusal import (
    KEPT,
    Refusal,
    earlier_refusal,
    enter_refusal,
    keep_files,
    times_refused,
    write_plan,
)
from tasks.series.repeated import source_state
from tasks.series.synthetic import SPENT, synthetic_release
from tasks.store import digest, link, read_json, remove, write_json

RESULT = "judged"
SEE_REPORT = "; the report says more"
ASIDE = "refused"  # where a refused candidate waits while the one without its cohort is judged

log = logging.getLogger("murmur")


class Params(Settings):
    """Hold all settings of the release but its schedule and alerts: a verdict may depend on any of them."""

    config: ReleaseConfig


@dataclass(frozen=True)
class Inputs:
    """Hold the directories this step reads; the ratings are ingest's, unless a step has changed them."""

    ingest: Path
    profiles: Path
    utility: Path
    groups: Path | None = None
    statistics: Path | None = None
    suppression: Path | None = None
    obfuscation: Path | None = None

    @property
    def ratings(self) -> Path:
        """Return the ratings that the release is made of."""
        return self.suppression or self.obfuscation or self.ingest


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    unrelated = {"release": Release(name=config.release.name), "alerts": Alerts()}
    return Params(config=config.model_copy(update=unrelated))


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Judge the candidate; the verdict is kept either way, a refused candidate stays private.

    Where the gate refuses the newcomers of a series by themselves, they wait, and the carried-over groups are judged
    and published without them (tasks/series/refusal.py).
    """
    config = job.params.config
    inputs, cohort = job.inputs, None
    if inputs.groups is not None:
        cohort = Cohort.read(inputs.ratings, inputs.groups, inputs.profiles)
    kept = job.out / KEPT
    refusal = _decided_before(job, kept)
    judged = _judge(job, cohort if refusal is None else None, refusal)
    if refusal is None and (refusal := _refused_cohort(job, judged)):
        aside = judged.set_aside(job.out)
        judged = _judge(job, None, refusal)
        outcome = "published without them" if judged.verdict.passed else "without them it is refused, too"
        aside.write_owner_report(config, job.snapshot, {"Newcomers": refusal.in_words(outcome)})
        keep_files(aside.made.public, aside.made.private, kept)
        remove(job.out / ASIDE)
    if not judged.verdict.passed:
        raise _refused(config, judged, refusal, job.snapshot)
    counts = {
        "checks": len(judged.verdict.checks),
        **read_json(judged.made.public / "manifest.json")["counts"],
    }
    if refusal is None:
        return counts
    log.warning("%s %s: %s", config.release.name, job.snapshot, refusal.in_words())
    if kept.exists():
        kept.rename(judged.made.private / KEPT)
    return {**counts, KEPT: refusal.to_json()}


@dataclass(frozen=True)
class Judged:
    """Hold a candidate and the gate's verdict on it."""

    made: candidate.Candidate
    released: Released
    verdict: Verdict
    words: MethodWords
    public_verdict: Verdict | None = (
        None  # where the public gets another one: without figures measured on the data
    )

    @property
    def owner_report(self) -> Path:
        """Return the owner's edition of the report."""
        return self.made.private / "report.html"

    def set_aside(self, out: Path) -> "Judged":
        """Move the candidate, so that another one can be made in its place."""
        place = candidate.Candidate(out / ASIDE / "candidate", out / ASIDE / "private")
        (out / ASIDE).mkdir()
        self.made.public.rename(place.public)
        self.made.private.rename(place.private)
        for name in ("groups.parquet", "support.parquet"):
            (out / name).unlink(missing_ok=True)
        return replace(self, made=place)

    def write_public_report(self) -> None:
        """Write the public edition of report.html; of synthetic rows the owner's as well."""
        if self.public_verdict is not None:
            write_synthetic_reports(
                self.made.public, self.made.private, self.verdict, self.public_verdict, self.words
            )
            return
        past = _past(describe_past(self.released)) if self.released.mode == "sticky" else None
        write_report(self.made.public, self.verdict, self.made.private / "utility", self.words, past)

    def write_owner_report(
        self, config: ReleaseConfig, snapshot: datetime.date, notes: dict[str, str] | None = None
    ) -> None:
        """Write the owner's edition: with remedies, settings, people who wait, and the version of the program."""
        if self.public_verdict is not None:
            return
        past = None
        if self.released.mode == "sticky":
            plan = self.made.private / "series.json"
            waiting = read_json(plan)["waiting"] if plan.exists() else None
            past = _past(describe_past_to_owner(self.released, waiting))
        owner = OwnerFacts(
            # The remedy is in this very report.
            remedy="" if self.verdict.passed else _remedy(config, self, snapshot).replace(SEE_REPORT, ""),
            notes=notes or {},
            settings=_settings(config),
            code=code_version(),
            past=past,
        )
        utility = self.made.private / "utility"
        write_owner_report(self.made.private, self.made.public, self.verdict, utility, self.words, owner)


def _judge(job: Job[Params, Inputs], cohort: Cohort | None, refusal: Refusal | None) -> Judged:
    """Make the candidate, let the gate judge it, and write what is published and kept with it.

    `refusal`: the newcomers that were planned are left out, and nothing about them may be in any published file.
    """
    config = job.params.config
    made = candidate.Candidate(job.out / "candidate", job.out / "private")
    declared = candidate.Declaration.of(config)
    request = Request(
        store=job.store,
        population=config.population,
        release=config.release.name,
        snapshot=job.snapshot,
        declared=declared,
        source=source_state(config, job.snapshot),
    )
    released = _assemble(job, request, cohort)
    members = candidate.Membership(released.ids, job.pseudonyms(released.ids), released.labels)
    candidate.write_release(made, declared, job.snapshot, released.contents, members)
    if job.inputs.statistics is not None:
        link(job.inputs.statistics / SPENT, made.private / SPENT)
    if refusal is None:
        candidate.add_owner_files(made, Ratings(job.inputs.ratings), job.inputs.utility)
    else:
        (made.private / "utility").mkdir()
        write_plan(job.inputs.ingest, made.private / "series.json", refusal)
    released.write_entry(made.private)
    verdict, verdict_json = _ask_gate(job, made, released, refusal)
    redacted = None
    if config.privacy.budget is not None:
        applying = [name for name, check in registered().items() if "synthetic" in check.units]
        redacted = verdict.redacted(_thresholds(config), applying)
    write_json(made.public / "checks.json", [check.to_json() for check in (redacted or verdict).checks])
    changed = change_in_words(config, job.inputs.ratings) if refusal is None else ""
    words = MethodWords(**methods.method(config).words.given(), changed=changed)
    judged = Judged(made, released, verdict, words, redacted)
    judged.write_public_report()
    write_readme(made.public, judged.words)
    write_croissant(made.public, judged.words.about)
    manifest = read_json(made.public / "manifest.json")
    manifest["checks"] = read_json(made.public / "checks.json")
    manifest["files"] |= {
        name: digest(made.public / name) for name in ("checks.json", "report.html", "README.md", CROISSANT)
    }
    write_json(made.public / "manifest.json", manifest)
    lines = [check.to_json() for check in verdict.checks]
    kept = {"verdict.json": verdict_json, "validation.json": validate_verdict(lines)}
    for name, content in kept.items():
        write_json(made.private / name, content)
        if job.purpose == "release" and not _is_published(
            job
        ):  # else those there are the published release's
            write_json(job.private / name, content)
    judged.write_owner_report(config, job.snapshot)
    if job.purpose == "release" and not _is_published(job):
        shutil.copyfile(judged.owner_report, job.private / "report.html")
        (job.private / "report.html").chmod(0o600)
    return judged


def _assemble(job: Job[Params, Inputs], request: Request, cohort: Cohort | None) -> Released:
    """Make the contents of the release: of synthetic rows, of groups of a series, or as the steps made it."""
    inputs, budget = job.inputs, job.params.config.privacy.budget
    if inputs.statistics is not None and budget is not None:
        return synthetic_release(request, inputs.ingest, inputs.statistics, inputs.profiles, budget)
    return assemble(request, inputs.ingest, cohort, job.out, job.rng("numbering"))


def _thresholds(config: ReleaseConfig) -> dict[str, float]:
    """Return the threshold that is asked for of every check."""
    return {name: config.gate.get(name, check.threshold) for name, check in registered().items()}


def _ask_gate(
    job: Job[Params, Inputs], made: candidate.Candidate, released: Released, refusal: Refusal | None
) -> tuple[Verdict, dict[str, Any]]:
    """Return the verdict, and verdict.json; the attempt is counted and recorded."""
    config, cohort = job.params.config, released.cohort
    # A run that cannot publish (a trial of another k) is no attempt: a release is drawn anew with its own streams.
    counts, published = job.purpose == "release", _is_published(job)
    asked = {"gate": config.gate, "protect": list(config.protected_attributes)}
    attempt = attempts.attempt_key(made.public, asked, newcomers=cohort is not None)
    in_series = counts and released.mode == "sticky" and cohort is not None
    elsewhere = times_refused(released.request, cohort) if in_series and cohort is not None else 0
    number = 1
    if counts:
        number = attempts.count_attempts(job.private, attempt, published=published, elsewhere=elsewhere)
    with corrected_for(number):
        verdict = judge(
            made.public,
            made.private,
            config.source,
            job.snapshot,
            config.gate,
            job.engine,
            job.progress,
            config.protected_attributes,
        )
    verdict_json = {**verdict.to_json(), "protect": list(config.protected_attributes)}
    if refusal is not None:
        verdict_json[KEPT] = refusal.to_json()
    if counts:
        attempts.record_attempt(job.private, attempt, number, verdict_json)
    if in_series and cohort is not None and not verdict.passed and not published:
        enter_refusal(released.request, cohort, attempt)
    return verdict, verdict_json


def _is_published(job: Job[Params, Inputs]) -> bool:
    return (job.published / "manifest.json").exists()


def _decided_before(job: Job[Params, Inputs], kept: Path) -> Refusal | None:
    """Return the refusal with which this snapshot was published, and copy to `kept` what the owner has of it."""
    config = job.params.config
    if job.purpose != "release" or not _is_published(job):
        return None
    found = earlier_refusal(
        job.store, config.population, config.release.name, job.snapshot, job.inputs.ingest
    )
    if found is not None and (job.private / KEPT).exists():
        shutil.copytree(job.private / KEPT, kept)
    return found


def _refused_cohort(job: Job[Params, Inputs], judged: Judged) -> Refusal | None:
    """Return the refusal of the newcomers by themselves: only checks that judge new groups have failed, and there are
    other groups to publish. What judges the release as a whole (structure, series) refuses all of it."""
    released, failed = judged.released, judged.verdict.failed
    may_wait = job.purpose == "release" and job.params.config.series.refused_cohort == "wait"
    if not may_wait or not failed or released.cohort is None or not released.carried:
        return None
    checks = registered()
    if any(name not in checks or checks[name].whole for name in failed):
        return None
    plan = read_json(job.inputs.ingest / "series.json")
    return Refusal(plan["cohort"], tuple(failed))


def _refused(
    config: ReleaseConfig, judged: Judged, refusal: Refusal | None, snapshot: datetime.date
) -> Refused:
    """Return the error that ends the step: which checks failed, and what the owner can do."""
    verdict = judged.verdict
    failed = [check for check in verdict.checks if not check.passed and check.severity == "gate"]
    lines = [f"  {check.name}: {check.detail}" for check in failed]
    if refusal is not None:
        lines.insert(0, f"  {refusal.in_words('without them it is refused, too')}")
    return Refused(
        "the gate refused this release:\n" + "\n".join(lines),
        where=f"report {judged.owner_report}",
        remedy=_remedy(config, judged, snapshot),
    )


def _remedy(config: ReleaseConfig, judged: Judged, snapshot: datetime.date) -> str:
    """Say what the owner can do after a refusal."""
    released = judged.released
    if released.carried:
        return in_series(released.newcomers)
    return of_settings(config, judged.verdict.failed, snapshot)


def _past(described: dict[str, Any]) -> Past:
    """Return what the report says of the earlier releases."""
    releases = tuple(PastRelease(**one) for one in described.pop("releases"))
    return Past(releases=releases, **described)


def _settings(config: ReleaseConfig) -> dict[str, str]:
    """Return the settings of the method and the limits that the release file gives, for the owner's report."""
    given = config.model_dump(mode="json", exclude_defaults=True)
    tables = ("privacy", "gate", *methods.method(config).tables)
    return {
        f"Setting {table}.{key}": str(value)
        for table in tables
        for key, value in given.get(table, {}).items()
    }
