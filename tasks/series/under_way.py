"""Keep runs and erasures apart: while people are erased, no run of their population is under way.

What a run leaves in the owner's directories names people by their source ids, and it was planned with people who may be
leaving. So a run holds a lock together with the other runs of its population, and an erasure holds it alone: every run
ends before the erasure, whose cleaning then finds all of its files as they are, or begins after it and reads a
ledger that keeps the erased people out. Both pass a gate first, which the erasure keeps: else runs that begin one after
the other could keep it waiting for ever.

The locks go with the process that holds them, so a killed run keeps nobody waiting. They come before the store's
lock, which a run takes to publish: taken the other way round, a run and an erasure would wait for each other.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tasks.errors import MurmurError
from tasks.series.database import directory_of_ledgers
from tasks.store import Store, make_private

ERASURE_WAITS = 3600.0  # seconds, unless its command says otherwise
RUN_WAITS = 6 * 3600.0  # behind erasures, one after the other
REPORTED_EVERY = 10.0  # seconds

Report = Callable[[float, float], None]  # called with the seconds that were waited, and how many may be

log = logging.getLogger("murmur")


@contextlib.contextmanager
def under_way(store: Store, population: str) -> Iterator[None]:
    """Keep erasures waiting while a run is under way; wait for the end of one that came first.

    It cannot be entered twice by one process: an erasure that came in between would wait for the outer one, and the
    inner one for the erasure.
    """
    with contextlib.ExitStack() as run:
        with contextlib.ExitStack() as passing:
            try:
                _enter(passing, store, _gate(store, population), RUN_WAITS, _log_waiting_run)
            except TimeoutError:
                raise MurmurError(
                    f"erasures in population '{population}' have been under way for {RUN_WAITS:,.0f} s",
                    where=str(store.root),
                    remedy="see why they do not end, and run this again",
                ) from None
            run.enter_context(store.storage.share(_lock(store, population)))
        yield


@contextlib.contextmanager
def alone(store: Store, population: str, seconds: float, report: Report) -> Iterator[None]:
    """Wait until no run of a population is under way, and let none begin; raise an error after this time."""
    with contextlib.ExitStack() as stack:
        try:
            waited = _enter(stack, store, _gate(store, population), seconds, report)
            _enter(stack, store, _lock(store, population), seconds, report, waited)
        except TimeoutError:
            raise MurmurError(
                f"runs of population '{population}' are still under way after {seconds:,.0f} s; nothing was changed",
                where=str(store.root),
                remedy="wait until they have ended, or stop them, and repeat the command; --wait-minutes N lets it "
                "wait longer",
            ) from None
        yield


def _enter(
    stack: contextlib.ExitStack, store: Store, path: Path, most: float, report: Report, waited: float = 0.0
) -> float:
    """Take a lock, and report now and then how long it was waited for; return the seconds, with those of before."""
    make_private(path.parent, below=store.root)
    begun = time.monotonic() - waited
    limit = 0.0  # the first attempt shows whether anything is to be reported
    while True:
        try:
            stack.enter_context(store.storage.lock(path, limit))
            return waited
        except TimeoutError:
            waited = time.monotonic() - begun
            if waited >= most:
                raise
            report(waited, most)
            limit = min(REPORTED_EVERY, most - waited)


def _log_waiting_run(waited: float, most: float) -> None:
    log.info("an erasure comes first; this run has waited for %.0f of at most %.0f s", waited, most)


def log_waiting_erasure(waited: float, most: float) -> None:
    """Log that an erasure waits for runs."""
    words = "runs of this population are under way: the erasure has waited for %.0f of at most %.0f s, new runs wait"
    log.warning(words, waited, most)


def _lock(store: Store, population: str) -> Path:
    return directory_of_ledgers(store) / f".{population}.runs.lock"


def _gate(store: Store, population: str) -> Path:
    return directory_of_ledgers(store) / f".{population}.gate.lock"
