"""How far steps are: in the log in quarters, on a terminal as bars (tasks/display.py)."""

import logging
import time
from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # step, done, total

log = logging.getLogger("murmur")


class StepProgress:
    """Tells how far one step is. A step that says nothing itself is still seen to begin and to end."""

    def __init__(self, step: str, tell: Progress) -> None:
        self._step, self._tell = step, tell
        self._told = (0, 1)
        tell(step, 0, 1)

    def __call__(self, done: int, total: int) -> None:
        """So much of so much is done."""
        self._told = done, total
        self._tell(self._step, done, total)

    def finish(self) -> None:
        """All of it is done."""
        done, total = self._told
        if done < total:
            self(total, total)


class LogProgress:
    """Progress for logs: a line when a step begins and at each quarter, with the time left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When the clock was started, and how much was done by then.
        self._since: dict[str, tuple[float, int]] = {}
        self._quarters: dict[str, int] = {}

    def __call__(self, step: str, done: int, total: int) -> None:
        """Log a beginning, or a quarter that is newly reached.

        0 starts the clock anew: when a step begins, and when it comes to what it counts (time spent on something else
        before tells nothing about it).
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
