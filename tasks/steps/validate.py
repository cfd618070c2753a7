"""Validate: build the candidate and let the gate attack it; a release that cannot be proved safe stops here."""

from typing import Any

import numpy as np

from checks.expectations import validate_verdict
from checks.gate import judge
from checks.report import write_readme, write_report
from tasks import candidate, methods
from tasks.changed import in_words
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.errors import Refused
from tasks.pipeline import Job
from tasks.store import digest, read_json, write_json


class Params(Settings):
    """The promises, the thresholds, and where the truth is read from."""

    privacy: dict[str, Any]
    source: dict[str, Any]
    thresholds: dict[str, float]


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(
        privacy=config.privacy.model_dump(mode="json"),
        source=config.source.model_dump(mode="json"),
        thresholds=config.gate,
    )


def run(job: Job) -> dict[str, Any]:
    """Judge the candidate; the verdict is kept either way, a refused candidate stays private."""
    last = next(reversed(methods.data_steps(job.config)))
    labels = np.load(job.inputs["clustering"] / "labels.npy")
    made = candidate.build(job, job.inputs[last] / "groups.parquet", labels, job.inputs["evaluate"])
    verdict = judge(
        made.public,
        made.private,
        job.config.source,
        job.snapshot,
        job.config.gate,
        job.engine,
        job.progress,
        job.config.protected_attributes,
    )
    write_json(made.public / "checks.json", [check.to_json() for check in verdict.checks])
    changed = in_words(job)
    write_report(made.public, verdict, made.private / "utility", changed)
    write_readme(made.public, changed)
    manifest = read_json(made.public / "manifest.json")
    manifest["checks"] = read_json(made.public / "checks.json")
    manifest["files"] |= {
        name: digest(made.public / name) for name in ("checks.json", "report.html", "README.md")
    }
    write_json(made.public / "manifest.json", manifest)
    told = {**verdict.to_json(), "protect": list(job.config.protected_attributes)}
    kept = {"verdict.json": told, "validation.json": validate_verdict(manifest["checks"])}
    for name, content in kept.items():
        write_json(made.private / name, content)
        if not (job.run.published / "manifest.json").exists():  # else those there are the published release's
            write_json(job.run.private / name, content)
    if not verdict.passed:
        failed = [check for check in verdict.checks if not check.passed and check.severity == "gate"]
        raise Refused(
            "the gate refused this release:\n"
            + "\n".join(f"  {check.name}: {check.detail}" for check in failed),
            where=f"report {made.public / 'report.html'}",
            remedy=f"{_remedy(job.config, verdict.failed)}; the report says more",
        )
    return {"checks": len(verdict.checks), **manifest["counts"]}


def _remedy(config: ReleaseConfig, failed: list[str]) -> str:
    """What can be changed: where single people are published, a greater k only asks for more; and tastes tell of large
    groups nearly what they tell of small ones."""
    if failed == ["attribute-inference"]:
        hide = "use method predictive-padded with padding.neutral"
        if config.padding.neutral:
            hide = (
                "use a larger privacy.k, a smaller padding.rank, or fewer classes (source.attributes.groups)"
            )
        return f"{hide}, or remove the attribute from privacy.protect"
    if config.privacy.method == "perturbation":
        return "disguise more (with noise: perturbation.amount), or choose another method"
    if methods.method(config).SINGLE:
        return "choose a method that publishes groups, such as predictive-padded"
    return "raise privacy.k or privacy.min_contributors, or choose another method"
