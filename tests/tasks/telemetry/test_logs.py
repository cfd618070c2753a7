"""Test log lines as JSON: one object a line, whatever a message holds."""

import json
import logging

import pytest

from tasks.telemetry.logs import chosen_formatter


def formatted(message, *, problem=None):
    info = (type(problem), problem, None) if problem else None
    record = logging.LogRecord("murmur", logging.WARNING, "file.py", 1, message, (), info)
    return chosen_formatter("%(message)s").format(record)


@pytest.fixture
def _json(monkeypatch):
    monkeypatch.setenv("MURMUR_LOG", "json")


@pytest.mark.usefixtures("_json")
def test_one_object_a_line():
    line = formatted('two\nlines \x1b[31m"quoted"')
    assert "\n" not in line
    assert "\x1b" not in line
    found = json.loads(line)
    assert found["message"] == 'two\nlines \x1b[31m"quoted"'
    assert (found["level"], found["logger"]) == ("warning", "murmur")


@pytest.mark.usefixtures("_json")
def test_the_text_of_an_exception_is_left_out(monkeypatch):
    monkeypatch.delenv("MURMUR_TRACEBACK", raising=False)
    line = formatted("failed", problem=ValueError("person-7"))
    assert json.loads(line)["exception"] == "ValueError"
    assert "person-7" not in line
    monkeypatch.setenv("MURMUR_TRACEBACK", "1")
    assert "person-7" in formatted("failed", problem=ValueError("person-7"))


def test_plain_lines_are_the_default(monkeypatch):
    monkeypatch.delenv("MURMUR_LOG", raising=False)
    assert formatted("as it is") == "as it is"
