"""Report the progress of steps: in the log in quarters, on a terminal as bars (tasks/cli/_display.py)."""

import logging
import time
from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # step, done, total

log = logging.getLogger("murmur")


class StepProgress:
    """Report the progress of one step. A step that reports nothing itself is still shown to begin and to end."""

    def __init__(self, step: str, report: Progress) -> None:
        self._step, self._report = step, report
        self._last = (0, 1)
        report(step, 0, 1)

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` is done."""
        self._last = done, total
        self._report(self._step, done, total)

    def finish(self) -> None:
        """Report that all is done."""
        done, total = self._last
        if done < total:
            self(total, total)


class LogProgress:
    """Log progress: a line when a step begins and at each quarter, with the time left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When the clock was started, and how much was done at that time.
        self._since: dict[str, tuple[float, int]] = {}
        self._quarters: dict[str, int] = {}

    def __call__(self, step: str, done: int, total: int) -> None:
        """Log the start of a step, or a quarter that is newly reached.

        0 restarts the clock: when a step begins, and when it begins the part whose blocks it counts (the time spent
        before does not predict the time left).
        """
        if done == 0 or step not in self._since:
            self._since[step], self._quarters[step] = (self._clock(), done), 0
        if done == 0:
            log.info("%s: %s", step, f"0 of {total}" if total > 1 else "begins")
        quarter = 4 * done // max(total, 1)
        if quarter <= self._quarters[step]:
            return
        self._quarters[step] = quarter
        start, before = self._since[step]
        left = ""
        if before < done < total:
            left = f", about {(self._clock() - start) * (total - done) / (done - before):.0f} s left"
        log.info("%s: %d of %d%s", step, done, total, left)


log_progress = LogProgress()
