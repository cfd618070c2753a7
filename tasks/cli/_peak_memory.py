"""Measure the peak memory of a run: this process and all its children, Dask workers included."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import psutil

MIN_PAUSE_FACTOR = 50  # pause between samples ≥ this × the CPU time of a sample: at most 2 % of a core


class PeakMemory:
    """Sample the proportional set size of the process tree: shared pages count once, not once per worker."""

    def __init__(self, interval_seconds: float = 0.2) -> None:
        self.peak_bytes = 0
        self.peaks: dict[str, int] = {}  # peak of each activity named with `during`
        self._activities: list[str] = []
        self._lock = threading.Lock()
        self._interval = interval_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    @contextlib.contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Record the peak of the enclosed block under this name as well; blocks may be nested."""
        with self._lock:
            self._activities.append(name)
        self._sample()  # a short block may lie between two samples
        try:
            yield
        finally:
            self._sample()
            with self._lock:
                self._activities.remove(name)

    def _watch(self) -> None:
        while True:
            start = time.thread_time()
            self._sample()
            # A sample walks over all mapped pages: with many pages, sample less often instead of using up a core.
            if self._stop.wait(max(self._interval, MIN_PAUSE_FACTOR * (time.thread_time() - start))):
                return

    def _sample(self) -> None:
        this = psutil.Process(os.getpid())
        with self._lock, contextlib.suppress(psutil.Error):
            family = [this, *this.children(recursive=True)]
            now = sum(_proportional_bytes(member.pid) for member in family)
            self.peak_bytes = max(self.peak_bytes, now)
            for name in self._activities:
                self.peaks[name] = max(self.peaks.get(name, 0), now)


def _proportional_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        pass
    try:
        return psutil.Process(pid).memory_info().rss  # systems without smaps have no better figure
    except psutil.Error:
        return 0
