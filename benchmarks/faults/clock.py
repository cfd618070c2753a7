"""Move the clock back, between two runs and in the middle of one (libfaketime).

Without Dask's workers: its event loops, with this library loaded, spin and get nothing done, moved clock or not.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.ground import REPOSITORY, STEPS, Ground, Trial, comparable, public, wait_for_step

LIBRARIES = tuple(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
BACK = {"an hour": "-1h", "a day": "-1d", "400 days": "-400d"}


def faked(ground: Ground, temp: Path, offset: Path, **more: str) -> dict[str, str]:
    """Return an environment in which the clock follows what the file `offset` says at any moment."""
    own = {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_CACHE_DURATION": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    return ground.environment(temp, **own, **more)


def campaign(ground: Ground, rounds: int, steps: Sequence[str] = tuple(BACK)) -> None:
    """Move the clock in the middle of runs, and between two runs of one series."""
    for _ in range(rounds):
        for words in steps:
            in_the_middle(ground, words, BACK[words])
            between(ground, words, BACK[words])


def in_the_middle(ground: Ground, words: str, offset: str) -> None:
    temp = ground.temp()
    store, file = ground.new_store(), temp / "offset"
    file.write_text("+0")
    step = ground.rng.choice(STEPS[1:])
    environment = faked(ground, temp, file)
    with subprocess.Popen(
        ground.command(store),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    ) as running:
        wait_for_step(store, step, running, ground.rng.random())
        file.write_text(offset)
        moved = time.monotonic()
        _, words_of_run = running.communicate()
    trial = Trial(f"clock moved back by {words}, during a run", step, "itself", 0.0)
    if running.returncode:
        trial.recovered_by = "a rerun"
        again = ground.run(store, faked(ground, temp, file))
        if again.returncode:
            trial.wrong_end.append(f"{words_of_run[-300:]} … {again.stderr[-300:]}")
    trial.seconds = time.monotonic() - moved
    ground.look(trial, store, temp)


def between(ground: Ground, words: str, offset: str) -> None:
    """Publish, move the clock back, publish the next snapshot of the series; then both again."""
    temp = ground.temp()
    store, file = ground.new_store(), temp / "offset"
    file.write_text("+0")
    environment = faked(ground, temp, file)
    trial = Trial(f"clock moved back by {words}, between two snapshots", "before ingest", "itself", 0.0)
    first = ground.run(store, environment)
    file.write_text(offset)
    moved = time.monotonic()
    second = ground.run(store, environment, "2026-03-01")
    trial.seconds = time.monotonic() - moved
    before = comparable(public(store, "2026-03-01"))
    again = [ground.run(store, environment, day) for day in ("2026-02-01", "2026-03-01")]
    trial.wrong_bytes += comparable(public(store, "2026-03-01")) != before
    codes = [one.returncode for one in (first, second, *again)]
    if codes != [0, 0, 0, 0]:
        trial.wrong_end.append(f"exit codes {codes}: {second.stderr[-300:]}")
    ground.look(trial, store, temp)
