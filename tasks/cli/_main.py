"""Parse the command line, run one command, and turn errors into messages and exit codes.

Results go to stdout (a table, or one JSON object with --json), progress, logs and errors to stderr.
"""

import argparse
import importlib
import json
import logging
import os
import pkgutil
import signal
import sys
import threading
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn, cast

from tasks.cli._command import FAILED, Command, CommandResult
from tasks.errors import MurmurError, UsageError, place_of


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 2 bad usage or input, 3 refused, 1 anything else."""
    given = sys.argv[1:] if arguments is None else arguments
    _exit_normally_on_sigterm()
    try:
        options = _make_parser().parse_args(_join_scale(given))
        _configure_logging(verbose=options.verbose)
        result = options.run(options)
    except (Exception, KeyboardInterrupt) as problem:
        result = _explain(problem)
    if "--json" in given:
        print(json.dumps(result.answer, allow_nan=False))  # noqa: T201 - the command's answer
    elif result.answer.get("status") != "error":
        from tasks.cli._display import show

        show(result.answer)
    return result.exit_code


def find_commands() -> dict[str, Command]:
    """Return every command by name, from the files of this package."""
    names = sorted(
        m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.name.startswith("_")
    )
    return {name: cast(Command, importlib.import_module(f"tasks.cli.{name}")) for name in names}


class _Parser(argparse.ArgumentParser):
    """Raise an error for wrong arguments instead of printing it, so that it is reported like any other."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise UsageError(message, where=self.prog, remedy=f"run `{self.prog} --help` for the arguments")


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="murmur", description="Publish rating data without disclosing who rated what.")
    parser.add_argument("--version", action="version", version=f"murmur {version('murmuration')}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in find_commands().items():
        subparser = subparsers.add_parser(name, help=command.HELP, description=_sentence(command.HELP))
        command.add_arguments(subparser)
        subparser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
        subparser.add_argument("--verbose", action="store_true", help="log every step to stderr")
        subparser.set_defaults(run=command.run)
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _join_scale(arguments: list[str]) -> list[str]:
    """Rewrite `--scale -10,10` as `--scale=-10,10`: argparse reads a value that starts with − as an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] == "--scale":
            joined[-1] = f"--scale={argument}"
        else:
            joined.append(argument)
    return joined


def _explain(problem: BaseException) -> CommandResult:
    """Print an error to stderr and return its answer and exit code."""
    if isinstance(problem, MurmurError):
        _print_error(str(problem))
        return _error_result(problem.what, problem.where, problem.remedy, problem.exit_code)
    if isinstance(problem, KeyboardInterrupt):
        what, remedy = "interrupted", ""
    else:
        # The text of a foreign exception may contain a source id: show its type and place only.
        if os.environ.get("MURMUR_TRACEBACK"):
            traceback.print_exception(problem)
        what = f"unexpected {place_of(problem)}"
        remedy = "set MURMUR_TRACEBACK=1 to see the traceback (it may contain private data)"
    _print_error(str(MurmurError(what, remedy=remedy)))
    return _error_result(what, "", remedy, FAILED)


def _error_result(what: str, where: str, remedy: str, exit_code: int) -> CommandResult:
    """Return the JSON object of an error; a place or a remedy that is not known is null."""
    error = {"what": what, "where": where or None, "remedy": remedy or None}
    return CommandResult({"status": "error", "error": error}, exit_code)


def _print_error(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201 - errors go to stderr


def _exit_normally_on_sigterm() -> None:
    """Exit on SIGTERM as after an error, so that working files are removed; ignore further signals meanwhile."""

    def leave(number: int, frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():  # only this thread may set a handler
        signal.signal(signal.SIGTERM, leave)


def _configure_logging(*, verbose: bool) -> None:
    """Log to stderr: of our own steps everything if asked to, of libraries errors only."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("murmur").setLevel(logging.INFO if verbose else logging.WARNING)
    for name in ("distributed", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)
