"""Test the tables of checks that `murmur run`, `audit` and `verify` print."""

import io

import pytest
from rich.console import Console

from checks.result import CheckResult, Verdict
from tasks.cli import _display as display


@pytest.fixture
def printed(monkeypatch):
    def show(result):
        out = io.StringIO()
        monkeypatch.setattr(display, "OUT", Console(file=out, width=160, highlight=False, soft_wrap=True))
        display.show(result)
        return out.getvalue()

    return show


def line(name, *, passed=True, severity="gate", **facts):
    return CheckResult(name, passed, 0.1, 0.2, None, None, 7, severity, "why", **facts).to_json()


LINES = [
    line("recovery"),
    line("homogeneity", passed=False),
    line("label-based", passed=False, void=True),
    line("series", passed=False, severity="advisory"),
    line("scoring", applicable=False),
]


def test_checks_not_applicable_have_their_own_table(printed):
    text = printed({"status": "refused", "checks": LINES})
    applicable, apart = text.split("not applicable to this release")
    rows = {row.split()[0]: row for row in text.splitlines() if row.split()[-1:] == ["0.2"]}
    assert "scoring" in apart
    assert "scoring" not in applicable
    words = {
        "recovery": "passed",
        "homogeneity": "FAILED ",
        "label-based": "FAILED (void)",
        "series": "advisory",
    }
    for name, verdict in {**words, "scoring": "not applicable"}.items():
        assert verdict in rows[name]
    assert "homogeneity: why" in applicable
    assert max(map(len, text.splitlines())) <= 80


def test_the_headline_is_printed(printed):
    verdict = Verdict([CheckResult.from_json(one) for one in LINES])
    text = printed({"status": "refused", "verdict": verdict.headline, "checks": LINES})
    assert "Refused: 2 of 3 gating checks failed: homogeneity, label-based (void)." in text
    assert "1 check is not applicable to this release." in text


def test_lines_of_older_releases_are_printed(printed):
    old = [{key: value for key, value in one.items() if key not in ("applicable", "void")} for one in LINES]
    text = printed({"checks": old})
    assert "not applicable" not in text
    assert text.count("FAILED") == 2


def test_runs_inside_a_step_are_summed():
    seconds = {"ingest": 1.0, "shadow padding": 0.25, "shadow 2 padding": 0.5, "shadow 2 centers": 0.125}
    assert display._sum_inner_runs(seconds) == {"ingest": 1.0, "shadow": 0.25, "shadow 2": 0.625}
