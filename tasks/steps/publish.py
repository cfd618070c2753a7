"""Publish: put the candidate under published/, whole or not at all; it never changes again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.retention import sweep
from tasks.pipeline import Job, code_version
from tasks.series.manifests import manifest_digest
from tasks.series.publication import publish
from tasks.store import read_json

RESULT = "publication"


class Params(Settings):
    """Hold the release's name and how long intermediates of its snapshots are kept."""

    release: str
    retention_days: int
    refused_days: int | None


@dataclass(frozen=True)
class Inputs:
    """Hold the directory this step reads."""

    judged: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    asked = config.release
    return Params(release=asked.name, retention_days=asked.retention_days, refused_days=asked.refused_days)


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Publish the validated candidate, or find that it is published already."""
    code = code_version()
    manifest = publish(job.inputs.judged, job.published, job.private, job.store, job.progress, code=code)
    sweep(job.store, job.params.release, job.params.retention_days, job.params.refused_days)
    return {
        **manifest["counts"],
        "published": str(job.published),
        "release_digest": manifest_digest(read_json(job.published / "manifest.json")),
    }
