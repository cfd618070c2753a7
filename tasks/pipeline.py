"""Run the steps of a release in order: `run_step` serves the DAG, `run` serves `murmur run`.

A step reads its inputs from the store, writes into its own directory and closes with `step.json`. The same inputs,
parameters, code and secret give the same key: then the step is not run again but its earlier result is used.

The key of a step is complete because a step sees nothing that is not in it. `params(config)` of the step picks its
settings; `run(job)` gets these parameters and never the configuration. A step that runs other steps (the shadow run,
the search for the share to suppress) carries their parameters in its own, as a `Plan`, and hands that plan to them; of
the configuration the run inside it has the release's name and seed only, which are in every key.
"""

import contextlib
import datetime
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import SerializeAsAny

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.approval import awaits_approval, is_approved, require_same
from tasks.engine import Engine, workers_for
from tasks.errors import room_in
from tasks.keys import NoiseKey, OwnerKey
from tasks.progress import Progress, StepProgress, log_progress
from tasks.store import (
    STEP_TIMES,
    Storage,
    Store,
    code_digest,
    digest_of,
    errors_addressed,
    exclusive,
    files_below,
    kept_for_owner,
    owner_only,
    read_json,
    remove,
    removed_if_full,
    restrict,
    write_json,
)
from tasks.telemetry.lineage import reported

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

log = logging.getLogger("murmur")

NOTHING_TO_DO = "nothing_to_do"  # a step's count: why the steps after it have no work

Watch = Callable[[str], contextlib.AbstractContextManager[object]]
ParamsT = TypeVar("ParamsT")
InputsT = TypeVar("InputsT")


class PlannedStep(Settings):
    """Represent one step of a plan: the steps whose results it reads, and its parameters."""

    inputs: tuple[str, ...]
    params: SerializeAsAny[Settings]


class Plan(Settings):
    """Hold the steps of a run inside a step, with all their parameters: they are part of the outer step's key."""

    steps: dict[str, PlannedStep]


def plan(config: ReleaseConfig, names: tuple[str, ...]) -> Plan:
    """Return the plan of some steps of a release."""
    return Plan(
        steps={
            name: PlannedStep(inputs=methods.inputs(name, config), params=step_module(name).params(config))
            for name in names
        }
    )


@dataclass(frozen=True)
class Run:
    """Represent one release being made: its settings, snapshot and store, the owner's secret and the workers."""

    config: ReleaseConfig
    snapshot: datetime.date
    store: Store
    key: OwnerKey
    engine: Engine
    work: Path
    progress: Progress
    seconds: dict[str, float] = field(default_factory=dict)
    given: dict[str, dict] = field(default_factory=dict)  # references this run has made or was handed
    purpose: str = "release"
    watch: Watch = contextlib.nullcontext  # entered with a step's name while that step runs
    plan: Plan | None = None  # of a run inside a step; None: the steps' parameters follow from `config`

    @property
    def private(self) -> Path:
        """Return the owner's directory of this release."""
        return self.store.private(self.config.release.name, self.snapshot)

    @property
    def published(self) -> Path:
        """Return the public directory of this release."""
        return self.store.published(self.config.release.name, self.snapshot)

    def rng(self, *names: object) -> "np.random.Generator":
        """Return a keyed random stream of this release and snapshot."""
        return self.key.rng(
            self.purpose, self.config.release.name, self.snapshot, self.config.clustering.seed, *names
        )

    def noise(self, *names: object) -> NoiseKey:
        """Return the key of noise that does not depend on the release and the snapshot, only on `names`."""
        return self.key.noise(self.purpose, *names)

    def pseudonyms(self, ids: "pa.Array") -> "pa.Array":
        """Return the names that users have in this run; a shadow run uses others, so that the two cannot be joined."""
        import pyarrow as pa

        name = self.config.release.name
        known_as = name if self.purpose == "release" else f"{self.purpose} of {name}"
        return pa.array(
            self.key.pseudonyms(known_as, self.snapshot.isoformat(), ids.to_pylist()), pa.string()
        )

    def title(self, step: str) -> str:
        """Return the name of a step in logs and progress, where the steps of several runs appear."""
        return step if self.purpose == "release" else f"{self.purpose} {step}"

    def planned(self, name: str) -> PlannedStep:
        """Return what a step of this run reads and its parameters."""
        if self.plan is not None:
            return self.plan.steps[name]
        return plan(self.config, (name,)).steps[name]


@dataclass(frozen=True)
class StepContext(Generic[ParamsT]):
    """Hold what a computation needs beside its inputs: parameters, a directory, workers, keyed randomness, progress."""

    params: ParamsT
    out: Path
    engine: Engine
    rng: Callable[..., "np.random.Generator"]
    noise: Callable[..., NoiseKey]
    progress: Callable[[int, int], None]  # called with (done, total)


@dataclass(frozen=True)
class Job(StepContext[ParamsT], Generic[ParamsT, InputsT]):
    """Hold what a step is given. There is no way from here to the configuration: see the module's docstring."""

    inputs: InputsT
    snapshot: datetime.date
    purpose: str  # "release", or the purpose of the run inside a step
    private: Path
    published: Path
    store: Store
    pseudonyms: Callable[["pa.Array"], "pa.Array"]
    inner_run: Callable[..., Run]

    def context(self, params: Any) -> StepContext[Any]:
        """Return this step's context for a part of it that has parameters of its own."""
        return StepContext(params, self.out, self.engine, self.rng, self.noise, self.progress)


def _inner_run(
    outer: Run, steps: Plan, given: dict[str, Path], work: Path, purpose: str, *, silent: bool = False
) -> Run:
    """Return a run of some steps inside a step, from the results in `given`; nothing of it is ever published."""
    references = {
        name: {"path": str(place), "digest": digest_of(files_below(place)), "counts": {}}
        for name, place in given.items()
    }
    return replace(
        outer,
        config=_name_and_seed(outer.config),
        plan=steps,
        given=references,
        work=work,
        purpose=purpose,
        progress=_no_progress if silent else outer.progress,
    )


def _name_and_seed(config: ReleaseConfig) -> Any:
    """Return a configuration without anything else: reading any other key raises AttributeError."""
    return SimpleNamespace(
        release=SimpleNamespace(name=config.release.name),
        clustering=SimpleNamespace(seed=config.clustering.seed),
    )


def _no_progress(step: str, done: int, total: int) -> None:
    return None


def open_run(
    config: ReleaseConfig, snapshot: datetime.date, store: Store, workers: Engine, progress: Progress
) -> Run:
    """Return a run; the owner's secret is created where the embedded default has none."""
    with owner_only():
        work = store.private(config.release.name, snapshot) / "work"
        key = OwnerKey.load(store.root)
    return Run(config, snapshot, store, key, workers, work, progress)


def run_step(
    name: str, config: ReleaseConfig, snapshot: datetime.date, store: Store, *, approved: str | None = None
) -> dict[str, Any]:
    """Run one step of a release, as an Airflow task does; inputs that are gone are recomputed first.

    Where another snapshot was published since the first step, the release is planned anew and all steps run again.
    `approved` is the digest of the candidate that a person let out: only that one is published.
    """
    from tasks.series.repeated import begun
    from tasks.series.replanning import plan_anew

    def attempt() -> dict[str, Any]:
        store.storage.refresh()
        release = open_run(config, snapshot, store, workers, log_progress)
        if approved is not None and not (release.published / "manifest.json").exists():
            require_same(execute("validate", release)["digest"], approved, release.private)
        return execute(name, release)

    with errors_addressed(), begun(config, snapshot, store) as published:
        if published:
            log.info("%s %s is published already; its steps' results stay", config.release.name, snapshot)
        with (
            reported(config, snapshot, store, name),
            workers_for(store.storage.exchange, published) as workers,
        ):
            return plan_anew(attempt, config, snapshot, store)


def run(
    config: ReleaseConfig,
    snapshot: datetime.date,
    store: Store,
    *,
    progress: Progress | None = None,
    seconds: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Run all steps in order, as `murmur run` does; `seconds` collects CPU time by step.

    Raises Refused by the gate, without an approval, and where another source or other settings were published."""
    from tasks.series.repeated import begun
    from tasks.series.replanning import plan_anew

    def attempt() -> dict[str, Any]:
        store.storage.refresh()
        opened = open_run(config, snapshot, store, workers, progress or log_progress)
        release = opened if seconds is None else replace(opened, seconds=seconds)
        with exclusive(release.private, store):
            for name in methods.graph(config):
                if name == "publish" and config.release.approval and not config.release.approvers:
                    _require_approval(release)
                reference = execute(name, release)
        return reference

    with begun(config, snapshot, store) as published:
        (progress or log_progress)("workers", 0, 1)  # their start takes seconds; the first step follows
        with reported(config, snapshot, store), workers_for(store.storage.exchange, published) as workers:
            (progress or log_progress)("workers", 1, 1)
            return plan_anew(attempt, config, snapshot, store)


def _require_approval(release: Run) -> None:
    """Refuse to publish what no person has approved. In Airflow the task `approve` stands between the two steps.

    Where the snapshot is published already, the step `publish` only compares.
    """
    judged = release.given["validate"]
    is_published = (release.published / "manifest.json").exists()
    if not is_published and not is_approved(release.private, judged["digest"]):
        raise awaits_approval(release.config.release.name, Path(judged["path"]))


def execute(name: str, release: Run) -> dict[str, Any]:
    """Run a step, or return the reference that an equal earlier run of it left."""
    if name not in release.given:
        with owner_only(), room_in(release.work / name):
            release.given[name] = _execute(name, release)
    return release.given[name]


def _execute(name: str, release: Run) -> dict[str, Any]:
    module, planned = step_module(name), release.planned(name)
    out = release.work / name
    out.parent.mkdir(parents=True, exist_ok=True)
    inputs = {needed: execute(needed, release) for needed in planned.inputs}
    digests = {needed: reference["digest"] for needed, reference in inputs.items()}
    key = step_key(name, release, planned.params, digests)
    # Two runs of one step at once (a cleared task beside its successor) must not write the same files.
    storage = release.store.storage
    with storage.lock(out.parent / f".{name}.lock"):
        # Publication looks at what is published each time; every other step follows from its inputs.
        reference = None if name == "publish" else _finished(out, key, storage)
        if reference is None:
            remove(out)
            places = {needed: Path(reference["path"]) for needed, reference in inputs.items()}
            for place in places.values():
                storage.fetch(place)
            with (
                log_cpu_time(name, release),
                removed_if_full(out),
                kept_for_owner(out, release.private, storage),
            ):
                out.mkdir(parents=True)
                progress = StepProgress(release.title(name), release.progress)
                idle = _nothing_to_do(name, inputs)
                if idle is None:
                    counts = module.run(job_of(release, name, planned.params, places, out, progress))
                else:
                    log.info("%s: nothing to do: %s", release.title(name), idle)
                    counts = {NOTHING_TO_DO: idle}
                progress.finish()
                restrict(out)
                files = files_below(out)
                closing = {"step": name, "key": key, "code": code_version(), "counts": counts, "files": files}
                write_json(out / "step.json", closing)
            write_json(out / STEP_TIMES, {"step": name, "cpu_seconds": release.seconds[release.title(name)]})
            storage.save(out)
            reference = _finished(out, key, storage)
            assert reference is not None
    return reference


def _nothing_to_do(name: str, inputs: Mapping[str, dict[str, Any]]) -> str | None:
    """Return why a step between ingest and validate has nothing to do: no newcomer is released (tasks/series)."""
    reasons = [reference["counts"].get(NOTHING_TO_DO) for reference in inputs.values()]
    return None if name in ("validate", "publish") else next(filter(None, reasons), None)


def step_module(name: str) -> ModuleType:
    """Return the module of a step: `Params`, `params(config)`, `Inputs`, `RESULT` and `run(job)`."""
    return import_module(f"tasks.steps.{name}")


def step_key(name: str, release: Run, params: Settings, digests: Mapping[str, str]) -> str:
    """Return the digest of everything that the result of a step depends on."""
    module = step_module(name)
    # What a step reads from outside the store (the source), in a form that changes when that does.
    external = (
        module.external(params, release.snapshot, release.store) if hasattr(module, "external") else None
    )
    return digest_of(
        {
            "step": name,
            "purpose": release.purpose,
            "params": params.model_dump(mode="json"),
            "inputs": dict(digests),
            "external": external,
            "release": release.config.release.name,
            "snapshot": release.snapshot.isoformat(),
            "seed": release.config.clustering.seed,
            "secret": release.key.fingerprint,
            "code": code_version(),
        }
    )


def job_of(
    release: Run,
    name: str,
    params: Any,
    places: Mapping[str, Path],
    out: Path,
    progress: Callable[[int, int], None],
) -> Job[Any, Any]:
    """Return what a step is given."""
    return Job(
        params=params,
        out=out,
        engine=release.engine,
        rng=partial(release.rng, name),
        noise=release.noise,
        progress=progress,
        inputs=_open_inputs(step_module(name).Inputs, places),
        snapshot=release.snapshot,
        purpose=release.purpose,
        private=release.private,
        published=release.published,
        store=release.store,
        pseudonyms=release.pseudonyms,
        inner_run=partial(_inner_run, release),
    )


def _open_inputs(kind: type, places: Mapping[str, Path]) -> Any:
    """Return a step's `Inputs`; a field is named after the step it comes from, or after what that step makes."""
    names = {one.name for one in fields(kind)}
    return kind(**{n if n in names else step_module(n).RESULT: place for n, place in places.items()})


def _finished(out: Path, key: str, storage: Storage) -> dict[str, Any] | None:
    """Return the reference to a finished step (paths, digests and counts, never data), None where there is none."""
    closing = out / "step.json"
    storage.fetch(out, whole=False)
    if not closing.exists():
        return None
    step = read_json(closing)
    if step["key"] != key or not step["files"].keys() <= storage.names(out):
        return None
    return {
        "step": step["step"],
        "path": str(out),
        "digest": digest_of(step["files"]),
        "counts": step["counts"],
    }


@contextlib.contextmanager
def log_cpu_time(step: str, release: Run) -> Iterator[None]:
    """Log a step and add up its CPU seconds, including those of the Dask workers."""
    name = release.title(step)
    before, wall = release.engine.cpu_seconds(), time.monotonic()
    try:
        with release.watch(name):
            yield
    finally:
        cpu = release.engine.cpu_seconds() - before
        release.seconds[name] = round(release.seconds.get(name, 0.0) + cpu, 3)
        log.info("%s: %.1f s, %.1f CPU-s", name, time.monotonic() - wall, cpu)


@cache
def code_version() -> str:
    """Return the version and a digest of all code, checks included: no result or verdict of other code is reused."""
    here = Path(__file__).parent
    return f"{version('murmuration')}+{code_digest(here, here.with_name('checks'))}"
