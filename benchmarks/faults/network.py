"""Cut the network between Dask workers and their scheduler: two network namespaces, joined by one cable.

The scheduler, `murmur run` and one worker are on the near side, another worker on the far side. A worker that gives up
is started again, as by `restart: unless-stopped` in compose.yaml or by Kubernetes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.faults.ground import REPOSITORY, STEPS, Ground, Trial, wait_for_step
from tasks.engine import NO_PAGES, ONE_THREAD, make_certificate

NEAR, FAR, PORT = "10.213.7.1", "10.213.7.2", 8786
LONG_SECONDS = 90.0
PATIENCE_SECONDS = (
    240.0  # of the scheduler with a cluster without workers; ten minutes where it is not a trial
)
DASK_STEPS = [one for one in STEPS if one not in ("publish", "sampling")]


@dataclass
class Cluster:
    """Hold two namespaces and what runs in them."""

    near: str
    far: str
    certificate: Path
    key: Path
    environment: dict[str, str]
    directory: Path

    def start(self, side: str, program: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a program of Dask on one side."""
        host = NEAR if side == self.near else FAR
        files = ["--tls-ca-file", self.certificate, "--tls-cert", self.certificate, "--tls-key", self.key]
        command = [
            sys.executable,
            "-m",
            f"distributed.cli.{program}",
            *words,
            "--host",
            host,
            "--protocol",
            "tls",
        ]
        command += ["--no-dashboard", "--dashboard-address", f"{host}:0", *map(str, files)]
        with (self.directory / "dask.log").open("ab") as log:
            return subprocess.Popen(
                ["ip", "netns", "exec", side, *command],
                env=self.environment,
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
            )

    def cable(self, state: str) -> None:
        subprocess.run(["ip", "-n", self.far, "link", "set", "cable", state], check=True)


@contextlib.contextmanager
def joined(name: str) -> Iterator[tuple[str, str]]:
    """Make two namespaces with a cable between them."""
    near, far = f"{name}-near", f"{name}-far"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    try:
        for side in (near, far):
            ip("netns", "add", side)
            ip("-n", side, "link", "set", "lo", "up")
        ip("-n", near, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", far)
        for side, address in ((near, NEAR), (far, FAR)):
            ip("-n", side, "addr", "add", f"{address}/24", "dev", "cable")
            ip("-n", side, "link", "set", "cable", "up")
        yield near, far
    finally:
        for side in (near, far):
            subprocess.run(["ip", "netns", "del", side], check=False)


@contextlib.contextmanager
def kept_running(start: Callable[[], subprocess.Popen[bytes]]) -> Iterator[None]:
    """Start a process, and again where it ends; stop it at the end."""
    ended = threading.Event()

    def supervise() -> None:
        process = start()
        while not ended.wait(1.0):
            if process.poll() is not None:
                process = start()
        stop(process)

    thread = threading.Thread(target=supervise)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def cluster(ground: Ground, temp: Path, near_workers: int) -> Iterator[Cluster]:
    """Start a scheduler, a worker on the far side, and workers on the near one."""
    certificate, key = temp.with_name(f"{temp.name}.crt"), temp.with_name(f"{temp.name}.key")
    for file, text in zip((certificate, key), make_certificate(), strict=True):
        file.write_text(text)
        file.chmod(0o600)
    pages = {f"DASK_{routes.replace('.', '__').upper()}": "[]" for routes in NO_PAGES}
    environment = ground.environment(
        temp,
        **ONE_THREAD,
        **pages,
        DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT=f"{PATIENCE_SECONDS:.0f}s",
        MURMUR_DASK=f"tls://{NEAR}:{PORT}",
        MURMUR_DASK_CA=str(certificate),
        MURMUR_DASK_CERT=str(certificate),
        MURMUR_DASK_KEY=str(key),
    )
    with joined(f"murmur{os.getpid()}") as (near, far):
        made = Cluster(near, far, certificate, key, environment, temp.parent)
        worker = [f"tls://{NEAR}:{PORT}", "--nthreads", "1", "--memory-limit", "0"]
        local = ["--local-directory", str(temp / "dask")]
        with contextlib.ExitStack() as last_first:
            last_first.callback(stop, made.start(near, "dask_scheduler", "--port", str(PORT)))
            for side in (far, *[near] * near_workers):
                begin = partial(made.start, side, "dask_worker", *worker, *local)
                last_first.enter_context(kept_running(begin))
            time.sleep(12)
            yield made


# How many workers are on the near side, and for how long the far one is cut off; None: for good.
CUTS: dict[str, tuple[int, float | None]] = {
    "for 3 s, the only worker": (0, 3.0),
    f"for {LONG_SECONDS:.0f} s, the only worker": (0, LONG_SECONDS),
    "for good, another worker left": (1, None),
    "for good, the only worker": (0, None),
}


def campaign(ground: Ground, rounds: int, steps: Sequence[str] = tuple(CUTS)) -> None:
    """Cut for a moment, for a minute and a half, and for good, with another worker and without."""
    for _ in range(rounds):
        for name in steps:
            near_workers, seconds = CUTS[name]
            cut(ground, f"network cut {name}", near_workers=near_workers, seconds=seconds)


def cut(ground: Ground, fault: str, *, near_workers: int, seconds: float | None) -> None:
    temp = ground.temp()
    store, step = ground.new_store(), ground.rng.choice(DASK_STEPS)
    with cluster(ground, temp, near_workers) as made:
        command = ["ip", "netns", "exec", made.near, *ground.command(store)]
        with subprocess.Popen(
            command,
            env=made.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        ) as running:
            wait_for_step(store, step, running, ground.rng.random() / 2)
            made.cable("down")
            begun = time.monotonic()
            if seconds is not None:
                time.sleep(seconds)
                made.cable("up")
            try:
                _, words = running.communicate(timeout=900)
            except subprocess.TimeoutExpired:
                running.kill()
                _, words = running.communicate()
        trial = Trial(fault, step, "itself", time.monotonic() - begun)
        if running.returncode:
            trial.recovered_by = "a rerun"
            print(words[-1500:])
            if "Dask" not in words:
                trial.wrong_end.append("the message does not name Dask: " + words.strip()[-300:])
            if "Traceback" in words:
                trial.wrong_end.append("a traceback: " + words.strip().splitlines()[-1][:200])
    if running.returncode:
        begun = time.monotonic()
        again = ground.run(store, ground.environment(temp))
        trial.seconds = time.monotonic() - begun
        if again.returncode:
            trial.wrong_end.append(again.stderr[-300:])
    ground.look(trial, store, temp)
