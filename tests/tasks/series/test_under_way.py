"""Test that an erasure waits for the runs of its population, and they for it: no id comes back, no file is torn."""

import multiprocessing
import os
import signal
import threading

import pytest

from benchmarks.find_ids import IdFinder
from tasks.errors import MurmurError
from tasks.series import under_way
from tasks.series.erasure import erase
from tasks.store import Store
from tests.tasks.series.small_series import NAME, POPULATION, SmallSeries, people

FIRST, SECOND = "2026-01-01", "2026-02-01"
VICTIM = people(0, 1)[0]


@pytest.fixture
def series(tmp_path):
    made = SmallSeries(tmp_path)
    made.publish(FIRST, people(0, 6))
    return made


def test_an_erasure_waits_for_a_run(series, monkeypatch):
    """The run writes the person's id while the erasure waits; the certificate comes when both are done."""
    monkeypatch.setattr(under_way, "REPORTED_EVERY", 0.05)
    waits, reports = threading.Event(), []

    def report(waited, most):
        reports.append((waited, most))
        waits.set()

    def erase_person():
        erase(series.store, POPULATION, NAME, series.maker(), ids=[VICTIM], wait_seconds=20, report=report)

    erasing = threading.Thread(target=erase_person)
    with under_way.under_way(series.store, POPULATION):
        erasing.start()
        assert waits.wait(20)
        series.add_work(SECOND, [VICTIM])
        assert list(IdFinder([VICTIM]).below(series.private(SECOND)))
        assert erasing.is_alive()
        assert not list((series.store.root / "private" / NAME).glob("erasures/*"))
    erasing.join(20)
    assert not erasing.is_alive()
    assert {most for _, most in reports} == {20}
    assert [one.name for one in (series.store.root / "private" / NAME).glob("erasures/*")] == ["1.json"]
    assert list(IdFinder([VICTIM]).below(series.store.root)) == []


def test_after_its_time_an_erasure_has_changed_nothing(series):
    """The message says what to do, and the next attempt succeeds."""
    with series.ledger() as ledger:
        head = ledger.head
    with under_way.under_way(series.store, POPULATION), pytest.raises(MurmurError) as problem:
        erase(series.store, POPULATION, NAME, series.maker(), ids=[VICTIM], wait_seconds=0)
    assert "still under way after 0 s; nothing was changed" in problem.value.what
    assert "--wait-minutes" in (problem.value.remedy or "")
    with series.ledger() as ledger:
        assert ledger.head == head
    erase(series.store, POPULATION, NAME, series.maker(), ids=[VICTIM], wait_seconds=0)
    assert list(IdFinder([VICTIM]).below(series.store.root)) == []


def test_runs_share_and_begin_after_an_erasure(series, monkeypatch):
    """Two runs go on together; a third one, of a process that comes while an erasure waits, begins after it."""
    monkeypatch.setattr(under_way, "REPORTED_EVERY", 0.05)
    waits, order = threading.Event(), []

    def erase_person():
        with under_way.alone(series.store, POPULATION, 20, lambda *_: waits.set()):
            order.append("erasure")

    def run_late():
        with under_way.under_way(series.store, POPULATION):
            order.append("late run")

    threads = [threading.Thread(target=erase_person), threading.Thread(target=run_late)]
    with under_way.under_way(series.store, POPULATION):
        with under_way.under_way(Store(series.store.root), POPULATION):
            order.append("second run")
        threads[0].start()
        assert waits.wait(20)
        threads[1].start()
        threads[1].join(0.3)
        order.append("first run")
    for thread in threads:
        thread.join(20)
    assert order == ["second run", "first run", "erasure", "late run"]


def test_other_populations_go_on(series):
    """A lock is of one population."""
    with under_way.under_way(series.store, "others"):
        erase(series.store, POPULATION, NAME, series.maker(), ids=[VICTIM], wait_seconds=0)


def hold(root, began):
    with under_way.under_way(Store(root), POPULATION):
        began.send(None)
        signal.pause()


def test_a_killed_run_keeps_nobody_waiting(series):
    """The lock goes with the process."""
    ours, theirs = multiprocessing.Pipe()
    run = multiprocessing.get_context("fork").Process(target=hold, args=(series.store.root, theirs))
    run.start()
    try:
        assert ours.poll(20)
        with pytest.raises(MurmurError, match="still under way"):
            erase(series.store, POPULATION, NAME, series.maker(), ids=[VICTIM], wait_seconds=0)
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.join()
    erase(series.store, POPULATION, NAME, series.maker(), ids=[VICTIM], wait_seconds=5)
