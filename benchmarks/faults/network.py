"""Cut the network between Dask workers and their scheduler: two network namespaces, joined by one cable.

The scheduler, `murmur run` and one worker are on the near side, another worker on the far side.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.ground import REPOSITORY, STEPS, Ground, Trial, wait_for_step
from tasks.engine import NO_PAGES, ONE_THREAD, make_certificate
from tasks.store import Store

NEAR, FAR, PORT = "10.213.7.1", "10.213.7.2", 8786
LONG_SECONDS = 90.0
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
def cluster(ground: Ground, temp: Path, near_workers: int) -> Iterator[Cluster]:
    """Start a scheduler and a worker on the far side, and workers on the near one."""
    certificate, key = temp.with_name(f"{temp.name}.crt"), temp.with_name(f"{temp.name}.key")
    for file, text in zip((certificate, key), make_certificate(), strict=True):
        file.write_text(text)
        file.chmod(0o600)
    pages = {f"DASK_{routes.replace('.', '__').upper()}": "[]" for routes in NO_PAGES}
    environment = ground.environment(
        temp,
        **ONE_THREAD,
        **pages,
        MURMUR_DASK=f"tls://{NEAR}:{PORT}",
        MURMUR_DASK_CA=str(certificate),
        MURMUR_DASK_CERT=str(certificate),
        MURMUR_DASK_KEY=str(key),
    )
    with joined(f"murmur{os.getpid()}") as (near, far):
        made = Cluster(near, far, certificate, key, environment, temp.parent)
        worker = [f"tls://{NEAR}:{PORT}", "--nthreads", "1", "--memory-limit", "0"]
        local = ["--local-directory", str(temp / "dask")]
        running = [made.start(near, "dask_scheduler", "--port", str(PORT))]
        try:
            running.append(made.start(far, "dask_worker", *worker, *local))
            if near_workers:
                running.append(made.start(near, "dask_worker", *worker, *local))
            time.sleep(12)
            yield made
        finally:
            for process in running:
                process.terminate()
            for process in running:
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            shutil.rmtree(temp / "dask", ignore_errors=True)


CUTS = {"short": (0, 3.0), "long": (0, LONG_SECONDS), "for good": (1, None)}


def campaign(ground: Ground, rounds: int, steps: Sequence[str] = tuple(CUTS)) -> None:
    """Cut for a moment, for a minute and a half, and for good while another worker is there."""
    for _ in range(rounds):
        for name in steps:
            near_workers, seconds = CUTS[name]
            length = (
                "for good, another worker left"
                if seconds is None
                else f"for {seconds:.0f} s, the only worker"
            )
            cut(ground, f"network cut {length}", near_workers=near_workers, seconds=seconds)


def cut(ground: Ground, fault: str, *, near_workers: int, seconds: float | None) -> None:
    temp = ground.temp()
    store, step = Store(temp / "store"), ground.rng.choice(DASK_STEPS)
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
            if "Traceback" in words:
                trial.wrong_end.append("a traceback: " + words.strip().splitlines()[-1][:200])
    if running.returncode:
        begun = time.monotonic()
        again = ground.run(store, ground.environment(temp))
        trial.seconds = time.monotonic() - begun
        if again.returncode:
            trial.wrong_end.append(again.stderr[-300:])
    ground.look(trial, store, temp)
