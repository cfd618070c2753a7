"""Kill -9 a process of the real stack in the middle of a release: PostgreSQL, Airflow and Dask of tasks/stack.

The moment is random: a step, and up to two seconds more. Where the stack goes on, Airflow or Dask must finish the
release; where it cannot (PostgreSQL, a scheduler), its supervisor must stop all the rest, and a second start with the
run cleared must finish it.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import psutil
from distributed import Client, Security

from benchmarks.faults.ground import MARK, NAME, SNAPSHOT, STEPS, Ground, Trial, orphans
from benchmarks.faults.page import VICTIMS
from tasks.stack import Stack, StackError
from tasks.store import remove

DAG = f"release_{NAME}"
DAGS = Path(__file__).parents[2] / "dags"
LOGICAL_DATE = datetime.datetime.fromisoformat(f"{SNAPSHOT}T03:00:00+00:00")
LONGEST_SECONDS = 900.0
MOMENTS = [
    one for one in STEPS if one not in ("sampling", "centers", "binning")
]  # the others take a moment only


def dask_worker(stack: Stack) -> int:
    ca, certificate, key = (stack.environment[f"MURMUR_DASK_{name}"] for name in ("CA", "CERT", "KEY"))
    security = Security(
        tls_ca_file=ca, tls_client_cert=certificate, tls_client_key=key, require_encryption=True
    )
    with Client(stack.environment["MURMUR_DASK"], set_as_default=False, security=security) as client:
        return sorted(client.run(os.getpid).values())[0]


def component(name: str) -> Callable[[Stack], int]:
    """Return what finds the process of a component."""

    def find(stack: Stack) -> int:
        (one,) = (one for one in stack._components if one.name == name)
        assert one.process is not None
        return one.process.pid

    return find


def airflow_task(stack: Stack) -> int:
    """Return the process in which a task runs; the one that watches it is called `LocalExecutor: …`."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for process in psutil.Process(component("scheduler")(stack)).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                title = " ".join(process.cmdline())
                if title.startswith("airflow worker -- ") and "LocalExecutor" not in title:
                    return process.pid
        time.sleep(0.05)
    raise StackError("no task of Airflow was found")


# In the order of page.VICTIMS.
FINDERS = (
    dask_worker,
    component("dask-worker"),
    component("dask-scheduler"),
    airflow_task,
    component("scheduler"),
    component("postgres"),
)


class Disturbed:
    """Hold a stack that is started again where a fault has ended it."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.temp = ground, ground.temp()
        self.dags = ground.root / "dags"
        unwanted = shutil.ignore_patterns("*.toml", "__pycache__")
        shutil.copytree(DAGS, self.dags, ignore=unwanted, dirs_exist_ok=True)
        (self.dags / "releases").mkdir(exist_ok=True)
        shutil.copyfile(ground.config, self.dags / "releases" / ground.config.name)
        own = ground.environment(self.temp)
        for name in (MARK, "TMPDIR", "MURMUR_SECRET_FILE"):
            os.environ[name] = own[name]
        del os.environ[
            MARK
        ]  # this process is no orphan; Stack passes on what is set when it starts a component
        self.stack = self._new()

    def _new(self) -> Stack:
        return Stack(
            self.ground.root / "state", store=self.ground.root / "stack-store", dags=self.dags, workers=2
        )

    def start(self) -> None:
        os.environ[MARK] = str(self.temp)
        try:
            self.stack.start()
        finally:
            del os.environ[MARK]
        self.stack.wait_for_dag(DAG)

    def restart(self) -> int:
        """Stop what is left, count orphans, start again."""
        self.stack.stop()
        found = len(orphans(self.temp))
        self.stack = self._new()
        self.start()
        return found

    def forget(self) -> None:
        """Remove what the release before has left, so that the next one begins from nothing."""
        for name in ("published", "private"):
            remove(self.stack.store.root / name)


@contextlib.contextmanager
def running_stack(ground: Ground) -> Iterator[Disturbed]:
    world = Disturbed(ground)
    try:
        world.start()
        yield world
    finally:
        world.stack.stop()
        left = orphans(world.temp)
        world.stack.clean()
        if left:
            ground.trials[-1].orphans += len(left)


def campaign(ground: Ground, rounds: int, steps: Sequence[str] = VICTIMS) -> None:
    """Kill each kind of process as many times, in a random order."""
    with running_stack(ground) as world:
        for _ in range(rounds):
            for name in ground.rng.sample(list(steps), len(steps)):
                kill(ground, world, name)


def kill(ground: Ground, world: Disturbed, name: str) -> None:
    world.forget()
    step = ground.rng.choice(MOMENTS)
    trial = Trial(f"kill -9 of {name}", step, "itself", 0.0)
    run_id = world.stack.client.trigger(DAG, LOGICAL_DATE)
    await_step(world.stack, step)
    time.sleep(2 * ground.rng.random())
    find = dict(zip(VICTIMS, FINDERS, strict=True))[name]
    os.kill(find(world.stack), signal.SIGKILL)
    begun = time.monotonic()
    try:
        state = end_of(world.stack, run_id)
    except (StackError, httpx.HTTPError):
        trial.recovered_by = "a restart of the stack, the run cleared"
        trial.orphans += world.restart()
        state = run_again(world.stack)
    if state != "success":
        trial.recovered_by += ", the run cleared" if trial.recovered_by == "itself" else ", and again"
        state = run_again(world.stack)
    if state != "success":
        trial.wrong_end.append(f"the run ended as {state}")
    trial.seconds = time.monotonic() - begun
    trial.secrets_in_temp += ground.secrets_below(world.temp)
    # The stack runs on: its own processes are no orphans.
    ground.look(trial, world.stack.store, ground.temp())


def run_again(stack: Stack) -> str:
    return end_of(stack, stack.client.trigger(DAG, LOGICAL_DATE))


def end_of(stack: Stack, run_id: str) -> str:
    """Wait for the end of a run; a busy machine may leave a request without an answer, which is not the end."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while True:
        try:
            return stack.client.wait(DAG, run_id, LONGEST_SECONDS)
        except StackError:
            time.sleep(1.0)
            stack.check()
            if time.monotonic() > deadline:
                raise


def await_step(stack: Stack, step: str) -> None:
    """Wait until a step is at work, by its directory; a step that was too quick is as good."""
    work = stack.store.root / "private" / NAME / SNAPSHOT / "work"
    deadline = time.monotonic() + LONGEST_SECONDS
    while not (work / step).exists():
        stack.check()
        if time.monotonic() > deadline:
            raise StackError(f"step {step} has not begun")
        time.sleep(0.02)
