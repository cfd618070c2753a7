"""The ordered steps of a release; `run_step` serves the DAG, `run` serves `murmur run`. One way, two drivers.

A step reads its inputs from the store, writes into its own directory and closes with `step.json`. The same
inputs, parameters, code and secret give the same key: then the step is not run again but its result is used.
"""

import contextlib
import datetime
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.engine import Engine, engine
from tasks.errors import UsageError, is_full, room_in
from tasks.keys import OwnerKey
from tasks.progress import Progress, StepProgress, log_progress
from tasks.store import (
    Store,
    digest,
    digest_of,
    files_below,
    owner_only,
    read_json,
    remove,
    restrict,
    write_json,
)

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger("murmur")

Watch = Callable[[str], contextlib.AbstractContextManager[object]]


@dataclass(frozen=True)
class Run:
    """One release being made: what, when, where, with which secret and workers."""

    config: ReleaseConfig
    snapshot: datetime.date
    store: Store
    key: OwnerKey
    engine: Engine
    work: Path
    progress: Progress
    seconds: dict[str, float] = field(default_factory=dict)
    given: dict[str, dict] = field(default_factory=dict)  # results this run has, made by it or handed to it
    purpose: str = "release"
    watch: Watch = contextlib.nullcontext  # entered with a step's name while that step runs

    @property
    def private(self) -> Path:
        """The owner's directory of this release."""
        return self.store.private(self.config.release.name, self.snapshot)

    @property
    def published(self) -> Path:
        """The public directory of this release."""
        return self.store.published(self.config.release.name, self.snapshot)

    def rng(self, *names: object) -> "np.random.Generator":
        """A keyed random stream for this release and snapshot."""
        return self.key.rng(
            self.purpose, self.config.release.name, self.snapshot, self.config.clustering.seed, *names
        )

    def title(self, step: str) -> str:
        """What a step is called where several runs are told apart."""
        return step if self.purpose == "release" else f"{self.purpose} {step}"

    def shadow(self, work: Path, given: dict[str, dict]) -> "Run":
        """The same release made from other ratings, elsewhere: for measuring utility, never published. `given` are
        the results it begins with."""
        return replace(self, work=work, given=given, purpose="shadow")


@dataclass(frozen=True)
class Job:
    """What a step is given."""

    run: Run
    name: str
    params: Any
    inputs: dict[str, Path]
    out: Path
    progress: StepProgress  # called with (done, total)

    @property
    def config(self) -> ReleaseConfig:
        """The release's settings."""
        return self.run.config

    @property
    def snapshot(self) -> datetime.date:
        """The snapshot the release is about."""
        return self.run.snapshot

    @property
    def engine(self) -> Engine:
        """Runs functions over blocks."""
        return self.run.engine

    @property
    def ratings(self) -> Path:
        """The ratings this step works on: as ingested, or as a step before it changed them (methods.CHANGES)."""
        changed = next((name for name in methods.CHANGES if name in self.inputs), "ingest")
        return self.inputs[changed]

    def rng(self, *names: object) -> "np.random.Generator":
        """The keyed random stream of this step (and block)."""
        return self.run.rng(self.name, *names)


def open_run(
    config: ReleaseConfig, snapshot: datetime.date, store: Store, workers: Engine, progress: Progress
) -> Run:
    """Bring together what a run needs; the secret is created where the embedded default has none."""
    with owner_only():
        work = store.private(config.release.name, snapshot) / "work"
        key = OwnerKey.load(store.root)
    return Run(config, snapshot, store, key, workers, work, progress)


def run_step(name: str, config: ReleaseConfig, snapshot: datetime.date, store: Store) -> dict[str, Any]:
    """Run one step of a release, as an Airflow task does; inputs that are gone are recomputed first."""
    with engine() as workers:
        return execute(name, open_run(config, snapshot, store, workers, log_progress))


def run(
    config: ReleaseConfig,
    snapshot: datetime.date,
    store: Store,
    *,
    progress: Progress | None = None,
    seconds: dict[str, float] | None = None,
) -> dict[str, Any]:
    """All steps in order, as `murmur run` does; `seconds` collects CPU time by step.

    Raises Refused when the gate does.
    """
    with engine() as workers:
        release = open_run(config, snapshot, store, workers, progress or log_progress)
        if seconds is not None:
            release = replace(release, seconds=seconds)
        with _alone(release):
            references = [execute(name, release) for name in methods.graph(config)]
        return references[-1]


@contextlib.contextmanager
def _alone(release: Run) -> Iterator[None]:
    """Two runs of one snapshot with different settings would overwrite each other's intermediates."""
    lock = FileLock(release.private / ".run.lock", timeout=0, mode=0o600)
    try:
        with lock:
            yield
    except Timeout:
        raise UsageError(
            "another run of this release and snapshot is under way",
            where=str(release.private),
            remedy="wait for it to finish",
        ) from None


def execute(name: str, release: Run) -> dict[str, Any]:
    """Run a step, or return what an equal earlier run of it left."""
    if name not in release.given:
        with owner_only(), room_in(release.work / name):
            release.given[name] = _execute(name, release)
    return release.given[name]


def _execute(name: str, release: Run) -> dict[str, Any]:
    module = import_module(f"tasks.steps.{name}")
    out = release.work / name
    out.parent.mkdir(parents=True, exist_ok=True)
    inputs = {needed: execute(needed, release) for needed in methods.inputs(name, release.config)}
    params = module.params(release.config)
    key = digest_of(
        {
            "step": name,
            "purpose": release.purpose,
            "params": params.model_dump(mode="json"),
            "inputs": {needed: reference["digest"] for needed, reference in inputs.items()},
            "external": _external(module, release),
            "release": release.config.release.name,
            "snapshot": release.snapshot.isoformat(),
            "seed": release.config.clustering.seed,
            "secret": release.key.fingerprint,
            "code": code_version(),
        }
    )
    # Two runs of one step at once (a cleared task beside its successor) must not write the same files.
    with FileLock(out.parent / f".{name}.lock", mode=0o600):
        # Publication looks at what is published each time; every other step is its inputs' consequence.
        reference = None if name == "publish" else _finished(out, key)
        if reference is None:
            remove(out)
            places = {n: Path(r["path"]) for n, r in inputs.items()}
            with measured(name, release), _gone_if_full(out):
                out.mkdir(parents=True)
                progress = StepProgress(release.title(name), release.progress)
                counts = module.run(Job(release, name, params, places, out, progress))
                progress.finish()
                restrict(out)
                files = files_below(out)
                write_json(out / "step.json", {"step": name, "key": key, "counts": counts, "files": files})
            reference = _finished(out, key)
            assert reference is not None
    return reference


def _external(module: Any, release: Run) -> Any:
    """What a step reads from outside the store (the source), in a form that changes when that does."""
    return module.external(release.config, release.snapshot) if hasattr(module, "external") else None


def _finished(out: Path, key: str) -> dict[str, Any] | None:
    """The reference to a finished step: paths, digests and counts, never data."""
    closing = out / "step.json"
    if not closing.exists():
        return None
    step = read_json(closing)
    if step["key"] != key or not all((out / file).exists() for file in step["files"]):
        return None
    return {
        "step": step["step"],
        "path": str(out),
        "digest": digest_of(step["files"]),
        "counts": step["counts"],
    }


@contextlib.contextmanager
def _gone_if_full(out: Path) -> Iterator[None]:
    """What a step could not finish for want of space must not take any."""
    try:
        yield
    except Exception as problem:
        if is_full(problem):
            remove(out)
        raise


@contextlib.contextmanager
def measured(step: str, release: Run) -> Iterator[None]:
    """Log a step and add up its CPU seconds, those of the Dask workers included."""
    name = release.title(step)
    cpu, wall = release.engine.cpu_seconds(), time.monotonic()
    try:
        with release.watch(name):
            yield
    finally:
        cpu = release.engine.cpu_seconds() - cpu
        release.seconds[name] = round(release.seconds.get(name, 0.0) + cpu, 3)
        log.info("%s: %.1f s, %.1f CPU-s", name, time.monotonic() - wall, cpu)


@cache
def code_version() -> str:
    """Version and a digest of all code, the judge's too: no result or verdict of other code is taken for ours."""
    roots = [Path(__file__).parent, Path(__file__).parent.with_name("checks")]
    kinds = {".py", ".toml", ".html", ".css"}
    sources = {
        f"{root.name}/{file.relative_to(root)}": digest(file)
        for root in roots
        for file in sorted(root.rglob("*"))
        if file.suffix in kinds
    }
    return f"{version('murmuration')}+{digest_of(sources)[:12]}"
