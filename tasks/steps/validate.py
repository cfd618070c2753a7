"""Validate: build the candidate release and let the gate attack it; a release that fails a check stops here."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.expectations import validate_verdict
from checks.gate import judge
from checks.report import MethodWords, write_readme, write_report
from checks.stats import corrected_for
from tasks import methods
from tasks.config import Release, ReleaseConfig
from tasks.config.base import Settings
from tasks.data import attempts, candidate
from tasks.data.change_notice import change_in_words
from tasks.data.ratings import Ratings
from tasks.errors import Refused
from tasks.pipeline import Job
from tasks.series.assembly import Cohort, Request, assemble
from tasks.series.repeated import source_state
from tasks.store import digest, read_json, write_json

RESULT = "judged"


class Params(Settings):
    """Hold all settings of the release but those of its schedule: a verdict may depend on any of them."""

    config: ReleaseConfig


@dataclass(frozen=True)
class Inputs:
    """Hold the directories this step reads; the ratings are ingest's, unless a step has changed them."""

    ingest: Path
    groups: Path
    profiles: Path
    utility: Path
    suppression: Path | None = None
    obfuscation: Path | None = None

    @property
    def ratings(self) -> Path:
        """Return the ratings that the release is made of."""
        return self.suppression or self.obfuscation or self.ingest


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(config=config.model_copy(update={"release": Release(name=config.release.name)}))


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Judge the candidate; the verdict is kept either way, a refused candidate stays private."""
    config = job.params.config
    made = candidate.Candidate(job.out / "candidate", job.out / "private")
    declared = candidate.Declaration.of(config)
    released = assemble(
        Request(
            store=job.store,
            population=config.population,
            release=config.release.name,
            snapshot=job.snapshot,
            declared=declared,
            source=source_state(config, job.snapshot),
        ),
        job.inputs.ingest,
        Cohort.read(job.inputs.ratings, job.inputs.groups, job.inputs.profiles),
        job.out,
        job.rng("numbering"),
    )
    members = candidate.Membership(released.ids, job.pseudonyms(released.ids), released.labels)
    candidate.write_release(made, declared, job.snapshot, released.contents, members)
    candidate.add_owner_files(made, Ratings(job.inputs.ratings), job.inputs.utility)
    released.write_entry(made.private)
    # A run that cannot publish (a trial of another k) is no attempt: a release is drawn anew with its own streams.
    counts, published = job.purpose == "release", (job.published / "manifest.json").exists()
    asked = {"gate": config.gate, "protect": list(config.protected_attributes)}
    attempt = attempts.attempt_key(made.public, asked)
    number = attempts.count_attempts(job.private, attempt, published=published) if counts else 1
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
    write_json(made.public / "checks.json", [check.to_json() for check in verdict.checks])
    words = MethodWords(
        **methods.method(config).words.given(), changed=change_in_words(config, job.inputs.ratings)
    )
    write_report(made.public, verdict, made.private / "utility", words)
    write_readme(made.public, words)
    manifest = read_json(made.public / "manifest.json")
    manifest["checks"] = read_json(made.public / "checks.json")
    manifest["files"] |= {
        name: digest(made.public / name) for name in ("checks.json", "report.html", "README.md")
    }
    write_json(made.public / "manifest.json", manifest)
    verdict_json = {**verdict.to_json(), "protect": list(config.protected_attributes)}
    kept = {"verdict.json": verdict_json, "validation.json": validate_verdict(manifest["checks"])}
    for name, content in kept.items():
        write_json(made.private / name, content)
        if counts and not published:  # else those there are the published release's
            write_json(job.private / name, content)
    if counts:
        attempts.record_attempt(job.private, attempt, number, verdict_json)
    if not verdict.passed:
        failed = [check for check in verdict.checks if not check.passed and check.severity == "gate"]
        raise Refused(
            "the gate refused this release:\n"
            + "\n".join(f"  {check.name}: {check.detail}" for check in failed),
            where=f"report {made.public / 'report.html'}",
            remedy=_remedy_in_series(released.newcomers)
            if released.carried
            else f"{_remedy(config, verdict.failed)}; the report says more"
            f"{_next_k(config, verdict.failed, job.snapshot)}",
        )
    return {"checks": len(verdict.checks), **manifest["counts"]}


def _remedy_in_series(newcomers: int) -> str:
    """Say what the owner can change where other groups are published already: k and method cannot change any more."""
    wait = f"raise series.min_cohort above {newcomers:,}, so that they wait for others and give the gate more evidence"
    return f"{wait if newcomers else 'find out what changed the published groups'}; the report says more"


def _next_k(config: ReleaseConfig, failed: list[str], snapshot: datetime.date) -> str:
    """Say how to find out which k would pass, where larger groups may help, and which limit is tighter for them."""
    if methods.method(config).publishes_persons or not methods.depends_on_k(failed):
        return ""
    command = f"`murmur run CONFIG --snapshot {snapshot} --find-k`"
    tighter = sorted(set(failed) & methods.TIGHTER_WITH_K)
    note = f" (the limit of {' and '.join(tighter)} is tighter for larger k)" if tighter else ""
    return f"; {command} measures which larger k would pass{note}"


def _remedy(config: ReleaseConfig, failed: list[str]) -> str:
    """Say what the owner can change. Where only attribute inference fails, larger groups help little: tastes reveal
    nearly as much of large groups as of small ones."""
    if failed == ["attribute-inference"]:
        neutral = [
            name
            for name, other in methods.registered().items()
            if "padding.neutral" not in other.incompatible
        ]
        hide = f"use method {' or '.join(neutral)} with padding.neutral"
        if config.padding.neutral:
            hide = (
                "use a larger privacy.k, a smaller padding.rank, or fewer classes (source.attributes.groups)"
            )
        return f"{hide}, or remove the attribute from privacy.protect"
    return methods.method(config).remedy
