"""Run a command while the tests run, show what it said after them, and fail where it failed: `-p tests.beside`."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--beside", metavar="COMMAND", help="run this beside the tests and fail if it fails")


def pytest_configure(config: pytest.Config) -> None:
    command = config.getoption("--beside")
    if command and not hasattr(config, "workerinput"):  # once, not in every process of pytest-xdist
        config.pluginmanager.register(Beside(command), "beside")


class Beside:
    """Hold a command, and what it said."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._said = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Count a failure as a failed test, as pytest-cov does with too little coverage."""
        unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        with (
            tempfile.TemporaryFile() as said,
            subprocess.Popen(
                shlex.split(self._command), stdout=said, stderr=subprocess.STDOUT, env=unmeasured
            ) as process,
        ):
            try:
                result = yield
            except BaseException:
                process.terminate()
                raise
            code = process.wait()
            said.seek(0)
            self._said = said.read().decode(errors="replace")
        session.testsfailed += code != 0
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show it last, where nobody overlooks it."""
        terminalreporter.section(self._command)
        terminalreporter.write_line(self._said)
