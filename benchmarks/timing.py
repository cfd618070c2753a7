"""Measure CPU time, and compare several functions fairly on a noisy machine."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import psutil


def cpu_seconds(function: Callable[[], object]) -> float:
    """Return the CPU seconds of one call in this process."""
    start = time.process_time()
    function()
    return time.process_time() - start


def best_of(rounds: int, *functions: Callable[[], object]) -> list[float]:
    """Return the best CPU time of each, taken in turn so that all see the same noise."""
    times = [[cpu_seconds(function) for function in functions] for _ in range(rounds)]
    return [min(each) for each in zip(*times, strict=True)]


class Bystanders:
    """Measure how busy other processes kept the cores during a `with` block: a wall time counts only on quiet cores."""

    def __enter__(self) -> Bystanders:
        self._start = time.monotonic(), _busy_seconds(), family_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        wall, busy, ours = self._start
        wall = time.monotonic() - wall
        theirs = (_busy_seconds() - busy) - (family_seconds() - ours)
        cores = psutil.cpu_count() or 1
        self.share = max(0.0, theirs / max(wall, 1e-9) / cores)


def family_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _busy_seconds() -> float:
    """Return the CPU time of all processes of this machine, and the time its host took away."""
    times = psutil.cpu_times()
    return sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))
