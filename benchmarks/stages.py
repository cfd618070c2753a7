"""Measure one release through tasks/pipeline.py stage by stage, in a process of its own.

A process of its own, so that nothing a benchmark holds is counted. Peaks are of all processes, the workers'
included, shared pages once. Everything heavy is imported, and the workers are started, before the first stage:
these seconds are the same at every size and would flatten a growth curve (they are reported as `start`).
"""

from __future__ import annotations

import contextlib
import datetime
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import netflix_shaped

ROOT = Path(__file__).parents[1]
SNAPSHOT = datetime.date(2026, 1, 1)
ANONYMIZATION = (
    "ingest", "padding", "sampling", "centers", "binning", "clustering", "homogenization", "diversity",
    "evaluate",
)  # fmt: skip
GATE = ("validate", "publish")  # what is published is copied by the process that judged it
INDEPENDENT_OF_K = ("ingest", "padding", "sampling", "centers")
METRIC_BOUND = ("centers", "binning", "clustering")


def release_config(name: str, data: Path, k: int) -> dict[str, Any]:
    """Return the measured release: padded, the metric of [Chang2009], all other settings default."""
    return {
        "release": {"name": name},
        "source": {"format": "parquet", "path": str(data), "scale": [1.0, 5.0]},
        "privacy": {"method": "predictive-padded", "k": k},
        "clustering": {"metric": "weighted-squared"},
    }


def make_data(directory: Path, users: int, items: int, ratings_per_user: float) -> Path:
    """Return a directory of Netflix-shaped ratings: those in it if their number is as asked, else new ones."""
    parts = list(directory.glob("*.parquet"))
    rows = sum(pq.read_metadata(part).num_rows for part in parts)
    if parts and rows != round(users * ratings_per_user):
        sys.exit(
            f"{directory} holds {rows:,} ratings, not what was asked for: name another directory for --data"
        )
    if not parts:
        directory.parent.mkdir(parents=True, exist_ok=True)
        say(f"making ratings of {users:,} users")
        size = {"users": users, "items": items, "ratings": round(users * ratings_per_user)}
        options = [part for name, value in size.items() for part in (f"--{name}", str(value))]
        command = [sys.executable, "-m", netflix_shaped.__name__, str(directory.resolve()), *options]
        made = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        if made.returncode:
            sys.exit(made.returncode)  # its own message is on stderr
    return directory


def warm_up(scratch: Path, workers: int) -> None:
    """Make a small release that is not counted, so that everything is compiled and imported once."""
    data = make_data(scratch / "warm-up-data", 1_000, 500, 60.0)
    for k in (5, 50):
        measure(release_config("warm-up", data, k), scratch / "warm-up-store" / str(k), workers=workers)


def measure(
    config: dict[str, Any],
    store: Path,
    *,
    workers: int,
    given: dict[str, Any] | None = None,
    steps: list[str] | None = None,
) -> dict[str, Any]:
    """Make a release in a process of its own; `given` are results of steps that are reused, `steps` those that are
    made (None: all)."""
    store.mkdir(parents=True, exist_ok=True)
    plan, answer = store / "plan.json", store / "measured.json"
    plan.write_text(
        json.dumps(
            {
                "config": config,
                "store": str(store),
                "workers": workers,
                "given": given or {},
                "steps": steps,
            }
        ),
        encoding="utf-8",
    )
    # Output of libraries must not mix with the benchmark's own answer.
    command = [sys.executable, "-m", "benchmarks.stages", str(plan), str(answer)]
    subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=True)
    measured = json.loads(answer.read_text(encoding="utf-8"))
    for file in (plan, answer):
        file.unlink()
    return measured


def run_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """Run all steps in this process and return the cost of each."""
    from benchmarks.timing import Bystanders, family_seconds
    from tasks import methods, pipeline
    from tasks.cli._peak_memory import PeakMemory
    from tasks.config import parse
    from tasks.engine import engine
    from tasks.errors import Refused
    from tasks.store import Store

    config, store = parse(plan["config"]), Store(plan["store"])
    references: dict[str, dict] = dict(plan["given"])
    seconds: dict[str, float] = {}
    walls: dict[str, float] = {}
    refusal: str | None = None
    began, cpu = time.monotonic(), family_seconds()
    with Bystanders() as others, PeakMemory(interval_seconds=0.1) as memory:

        @contextlib.contextmanager
        def watch(name: str) -> Iterator[None]:
            start = time.monotonic()
            with memory.during(name):
                try:
                    yield
                finally:
                    walls[name] = walls.get(name, 0.0) + time.monotonic() - start
                    say(f"  {name}: {walls[name]:.1f} s")

        with engine(plan["workers"]) as embedded:
            steps = plan["steps"] or list(methods.graph(config))
            _import_everything(steps)
            starting = embedded.cpu_seconds()
            run = pipeline.open_run(config, SNAPSHOT, store, embedded, lambda *_: None)
            run = replace(run, seconds=seconds, given=references, watch=watch)
            try:
                for name in steps:
                    pipeline.execute(name, run)
            except Refused as problem:
                refusal = problem.what
    name = config.release.name
    published = store.published(name, SNAPSHOT)
    place = run.work / "validate" / "candidate" if refusal else published
    return {
        "k": config.privacy.k,
        "workers": plan["workers"],
        "status": "refused" if refusal else "published",
        "why": refusal,
        "stages": [
            {
                "name": stage,
                "cpu_seconds": seconds[stage],
                "wall_seconds": round(walls[stage], 3),
                "peak_bytes": memory.peaks[stage],
            }
            for stage in walls
        ],
        "start_cpu_seconds": round(starting, 3),
        "cpu_seconds": round(family_seconds() - cpu, 3),
        "wall_seconds": round(time.monotonic() - began, 3),
        "peak_bytes": memory.peak_bytes,
        "others_cpu_share": round(others.share, 4),
        "references": references,
        "output_bytes": sum(file.stat().st_size for file in place.iterdir()) if place.is_dir() else None,
        "output_digests": _digests(place) if place.is_dir() else {},
    }


def _import_everything(steps: list[str]) -> None:
    for module in (*(f"tasks.steps.{step}" for step in steps), "great_expectations.expectations"):
        import_module(module)


def _digests(release: Path) -> dict[str, str]:
    """Return a digest per file, without fields that differ between two runs of the same release."""
    from tasks.store import digest, digest_of, read_json

    found = {file.name: digest(file) for file in sorted(release.iterdir())}
    manifest = read_json(release / "manifest.json")
    kept = {key: value for key, value in manifest.items() if key not in ("created_at", "code_version")}
    return {**found, "manifest.json": digest_of(kept)}


def own(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the stages of the release; those of the runs inside `evaluate` are part of it and would count twice."""
    return [stage for stage in stages if not stage["name"].startswith(("shadow ", "sybil "))]


def total(stages: list[dict[str, Any]], names: tuple[str, ...] | None = None) -> float:
    """Return the sum of the CPU seconds of these stages."""
    return sum(stage["cpu_seconds"] for stage in own(stages) if names is None or stage["name"] in names)


def say(words: str) -> None:
    """Print progress of a long run."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    asked, answered = (Path(argument) for argument in sys.argv[1:])
    answered.write_text(json.dumps(run_plan(json.loads(asked.read_text(encoding="utf-8")))), encoding="utf-8")
