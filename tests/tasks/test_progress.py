"""Test how progress is reported in the log and at a terminal."""

import io
import logging

import pytest
from rich.console import Console

from tasks import pipeline
from tasks.cli import _display as display
from tasks.progress import LogProgress, StepProgress
from tasks.store import Store
from tests.conftest import SNAPSHOT


@pytest.fixture
def lines(caplog):
    """What the log has got so far."""
    caplog.set_level(logging.INFO, "murmur")
    return lambda: [record.getMessage() for record in caplog.records]


def test_log_has_quarters_and_time_left(lines):
    now = iter(range(0, 1000, 10))
    report = LogProgress(lambda: float(next(now)))
    for done in range(101):
        report("padding", done, 100)
    assert lines() == [
        "padding: 0 of 100",
        "padding: 25 of 100, about 30 s left",
        "padding: 50 of 100, about 20 s left",
        "padding: 75 of 100, about 10 s left",
        "padding: 100 of 100",
    ]


def test_time_left_is_of_the_counted_part(lines):
    """A hundred seconds of something else, then a block in ten."""
    now = iter([0.0, 100.0, 110.0])
    report = LogProgress(lambda: next(now))
    for done, total in ((0, 1), (0, 4), (1, 4), (4, 4)):
        report("evaluate", done, total)
    assert lines() == [
        "evaluate: begins",
        "evaluate: 0 of 4",
        "evaluate: 1 of 4, about 30 s left",
        "evaluate: 4 of 4",
    ]


def test_no_time_left_where_unknown(lines):
    """What nobody saw begin: the first report starts the clock."""
    now = iter([0.0, 10.0])
    report = LogProgress(lambda: next(now))
    for done in (5, 10, 20):
        report("audit", done, 20)
    assert lines() == ["audit: 5 of 20", "audit: 10 of 20, about 20 s left", "audit: 20 of 20"]


@pytest.mark.parametrize(
    ("reports", "logged"),
    [
        ([(1, 1)], ["1 of 1"]),
        ([(1, 3), (2, 3), (3, 3)], ["1 of 3", "2 of 3", "3 of 3"]),
        ([(7, 10), (10, 10)], ["7 of 10", "10 of 10"]),  # quarters may be passed over
        ([(0, 5), (4, 5)], ["0 of 5", "4 of 5"]),
        ([(0, 1), (1, 1), (0, 1), (1, 1)], ["begins", "1 of 1"] * 2),  # the same step again
        ([(0, 1), (0, 1), (1, 1)], ["begins", "begins", "1 of 1"]),  # again, after a failure
        ([(0, 1), (0, 2), (1, 2), (2, 2)], ["begins", "0 of 2", "1 of 2", "2 of 2"]),  # it knows how much now
        ([(0, 0)], ["begins"]),
    ],
)
def test_step_reports_are_logged(lines, reports, logged):
    report = LogProgress(lambda: 0.0)
    for done, total in reports:
        report("step", done, total)
    assert [line.removeprefix("step: ").split(",")[0] for line in lines()] == logged


def test_silent_steps_begin_and_end():
    reported = []
    StepProgress("silent", lambda *step: reported.append(step)).finish()
    talkative = StepProgress("talkative", lambda *step: reported.append(step))
    talkative(2, 3)
    talkative.finish()
    complete = StepProgress("complete", lambda *step: reported.append(step))
    complete(3, 3)
    complete.finish()
    assert reported == [
        ("silent", 0, 1),
        ("silent", 1, 1),
        ("talkative", 0, 1),
        ("talkative", 2, 3),
        ("talkative", 3, 3),
        ("complete", 0, 1),
        ("complete", 3, 3),
    ]


def test_run_step_logs_progress(lines, config, tmp_path):
    pipeline.run_step("sampling", config(), SNAPSHOT, Store(tmp_path))
    assert "sampling: begins" in lines()
    assert "sampling: 1 of 1" in lines()
    assert any(line.startswith("ingest: ") and "of" in line for line in lines())


def test_bars(monkeypatch):
    """A terminal shows a bar with the time left."""
    terminal = io.StringIO()
    monkeypatch.setattr(display, "ERR", Console(file=terminal, force_terminal=True, width=100))
    with display.progress_bars() as report:
        report("padding", 0, 1)
        report("padding", 3, 12)
        report("shadow binning", 0, 1)
    shown = terminal.getvalue()
    assert "padding" in shown
    assert "3/12" in shown
    assert "shadow binning" in shown
    assert "-:--:--" in shown  # the time left, not known yet


def test_progress_goes_to_the_log_without_terminal(lines, monkeypatch):
    monkeypatch.setattr(display, "ERR", Console(file=io.StringIO(), force_terminal=False))
    with display.progress_bars() as report:
        report("expand", 0, 4)
        report("expand", 4, 4)
    assert lines() == ["expand: 0 of 4", "expand: 4 of 4"]
