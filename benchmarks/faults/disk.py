"""Fill the disk, or make it read-only, at each step of `murmur run`: a small tmpfs, mounted for the campaign.

At each step three faults: no byte is free when it begins, half of what it writes is free, the disk is read-only. Each
time `murmur run` must end with a message that names the disk (no traceback, nothing public), and once the fault is
lifted a rerun must publish the bytes of the undisturbed release.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.faults.ground import NAME, SNAPSHOT, STEPS, Ground, Trial, comparable, public
from tasks.store import Store, restrict

SIZE = "256m"
PAGE = 4096


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """Mount a tmpfs."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "murmur-faults", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextlib.contextmanager
def full(disk: Path, left: int) -> Iterator[None]:
    """Leave only so many bytes free."""
    filler = disk / "filler"
    state = os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(PAGE, state.f_bavail * state.f_frsize - left // PAGE * PAGE))
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Let nobody write."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def bytes_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def written_by(ground: Ground, step: str) -> int:
    """Return how much a step writes, by the undisturbed release."""
    if step == "publish":
        return bytes_of(public(ground.whole))
    return bytes_of(ground.whole.root / "private" / NAME / SNAPSHOT / "work" / step)


def campaign(ground: Ground, rounds: int, steps: Sequence[str] = STEPS) -> None:
    """Disturb every step; what the steps before it made is taken from the undisturbed release."""
    for number in range(rounds):
        for step in steps:
            with small_disk(ground.root / f"disk-{step}-{number}") as disk:
                store = Store(disk / "store")
                take_over(ground, store, STEPS[: STEPS.index(step)])
                half = written_by(ground, step) // 2
                disturb(ground, store, step, "disk full, no byte free", full(disk, 0))
                disturb(ground, store, step, "disk full, half of what the step writes free", full(disk, half))
                disturb(ground, store, step, "store read-only", read_only(disk))
                finish(ground, store, step)


def take_over(ground: Ground, store: Store, steps: Sequence[str]) -> None:
    """Copy the results of steps; ledger and published files begin from nothing."""
    place = store.private(NAME, datetime.date.fromisoformat(SNAPSHOT)) / "work"
    place.mkdir(mode=0o700)
    done = ground.whole.root / "private" / NAME / SNAPSHOT / "work"
    for name in steps:
        shutil.copytree(done / name, place / name)
    restrict(place)


def finish(ground: Ground, store: Store, step: str) -> None:
    """Run to the end with room enough: the same bytes as undisturbed, and that is the recovery of the three faults."""
    temp, begun = ground.temp(), time.monotonic()
    done = ground.run(store, ground.environment(temp))
    for trial in ground.trials[-3:]:
        trial.seconds = round(time.monotonic() - begun, 1)
        trial.wrong_bytes += comparable(public(store)) != ground.expected
        if done.returncode:
            trial.wrong_end.append(f"the rerun ended with {done.returncode}: {done.stderr[-300:]}")
        if not trial.is_clean:
            print(trial)


def disturb(
    ground: Ground,
    store: Store,
    step: str,
    fault: str,
    injected: contextlib.AbstractContextManager[None],
) -> None:
    """Run under a fault, then look."""
    temp = ground.temp()
    environment = ground.environment(temp, MURMUR_WORKERS="1" if "half" in fault else "0")
    before = public(store).exists()
    with injected:
        ended = ground.run(store, environment)
    trial = Trial(fault, step, "a rerun", 0.0)
    is_public = (public(store) / "manifest.json").exists()
    if ended.returncode == 0 and is_public:
        trial.recovered_by = "not disturbed"  # there was room enough
    elif ended.returncode not in (1, 2):
        trial.wrong_end.append(f"exit code {ended.returncode}")
    if "Traceback" in ended.stderr:
        trial.wrong_end.append("a traceback: " + ended.stderr.strip().splitlines()[-1][:200])
    if ended.returncode and not any(sign in ended.stderr for sign in ("no space left", "read-only", "disk")):
        trial.wrong_end.append("the message does not name the disk: " + ended.stderr.strip()[-300:])
    if is_public and not before and ended.returncode:
        trial.wrong_end.append("public, though the run failed")
    ground.look(trial, store, temp, is_published=False)
