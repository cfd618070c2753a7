"""Parse the command line, run one command, and turn errors into messages and exit codes.

Results go to stdout (a table, or one JSON object with --json), progress, logs and errors to stderr.
"""

import argparse
import errno
import importlib
import io
import json
import logging
import os
import pkgutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, cast

from tasks.cli._command import DONE, FAILED, REFUSED, Command, CommandResult
from tasks.errors import MurmurError, UsageError, is_full, no_space_left, place_of, printable
from tasks.store import addressed
from tasks.telemetry.logs import chosen_formatter

FILE_ERRORS = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
)
FIRST_STEPS = """Publish rating data without disclosing who rated what. Begin with these three:

  murmur attack scoreboard-rh --source ratings.csv --format csv --scale 1,5
      how exposed are these data today, with only the names removed?
  murmur init NAME
      write a commented release file; `murmur check FILE` examines it
  murmur run FILE --snapshot YYYY-MM-DD
      make the release, attack it, and publish it only if the attacks fail

`murmur --help` lists all commands, `murmur COMMAND --help` explains one."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 2 bad usage or input, 3 refused, 1 anything else."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        print(FIRST_STEPS)  # noqa: T201 - what a newcomer needs
        return DONE
    _exit_normally_on_sigterm()
    _print_what_the_terminal_lacks_as_escapes()
    try:
        options = make_parser().parse_args(_join_scale(given))
        _configure_logging(verbose=options.verbose)
        result = options.run(options)
    except (Exception, KeyboardInterrupt) as problem:
        result = _explain(problem)
    answer, end, plain = addressed([result.answer, result.end, result.plain])
    result = CommandResult(answer, result.exit_code, end, plain)
    if "--json" in given:
        print(json.dumps(result.answer, allow_nan=False))  # noqa: T201 - the command's answer
    elif result.plain is not None:
        print(result.plain, end="")  # noqa: T201 - text for another program
    elif result.answer.get("status") != "error":
        from tasks.cli._display import show, show_end

        if not result.end or "--verbose" in given:
            show(_for_a_terminal(result.answer))
        show_end(_for_a_terminal(result.end), refused=result.exit_code == REFUSED)
    return result.exit_code


def _for_a_terminal(value: Any) -> Any:
    """Return an answer with what a terminal would obey escaped: item ids, reasons and names of files are in it."""
    if isinstance(value, str):
        return printable(value, 10**6, breaks=True)
    if isinstance(value, dict):
        return {_for_a_terminal(key): _for_a_terminal(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_for_a_terminal, value))
    return value


def find_commands() -> dict[str, Command]:
    """Return every command by name, from the files of this package."""
    names = sorted(
        m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.name.startswith("_")
    )
    return {name: cast(Command, importlib.import_module(f"tasks.cli.{name}")) for name in names}


class _Parser(argparse.ArgumentParser):
    """Raise an error for wrong arguments instead of printing it, so that it is reported like any other."""

    late_epilog: Callable[[], str] | None = None  # made only where it is shown

    def format_help(self) -> str:
        """Return the help, with the part that is made late."""
        if self.late_epilog is not None:
            self.epilog, self.formatter_class = self.late_epilog(), argparse.RawDescriptionHelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise UsageError(message, where=self.prog, remedy=f"run `{self.prog} --help` for the arguments")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(prog="murmur", description="Publish rating data without disclosing who rated what.")
    parser.add_argument("--version", action="version", version=f"murmur {version('murmuration')}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in find_commands().items():
        subparser = subparsers.add_parser(name, help=command.HELP, description=_sentence(command.HELP))
        subparser.late_epilog = getattr(command, "EPILOG", None)
        command.add_arguments(subparser)
        subparser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
        verbose = "log every step to stderr, and print every figure"
        subparser.add_argument("--verbose", action="store_true", help=verbose)
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
    if isinstance(problem, OSError) and is_full(problem):  # it names no file where an open one was written
        problem = no_space_left(str(problem.filename or ""))
    if isinstance(problem, MurmurError):
        problem.what, problem.where, problem.remedy = addressed([problem.what, problem.where, problem.remedy])
        _print_error(str(problem))
        return _error_result(problem.what, problem.where, problem.remedy, problem.exit_code)
    where = ""
    if isinstance(problem, KeyboardInterrupt):
        what, remedy = "interrupted", ""
    elif isinstance(problem, OSError) and problem.filename and problem.errno in FILE_ERRORS:
        # A path is named by the owner or by us, and holds no source id.
        what, where = f"a file cannot be read or written: {problem.strerror}", str(problem.filename)
        remedy = "check the path, its rights and the disk, then run it again"
    else:
        # The text of a foreign exception may contain a source id: show its type and place only.
        if os.environ.get("MURMUR_TRACEBACK"):
            traceback.print_exception(problem)
        what = f"unexpected {place_of(problem)}"
        remedy = "set MURMUR_TRACEBACK=1 to see the traceback (it may contain private data)"
    _print_error(str(MurmurError(what, where=where, remedy=remedy)))
    return _error_result(what, where, remedy, FAILED)


def _error_result(what: str, where: str, remedy: str, exit_code: int) -> CommandResult:
    """Return the JSON object of an error; a place or a remedy that is not known is null."""
    error = {"what": what, "where": where or None, "remedy": remedy or None}
    return CommandResult({"status": "error", "error": error}, exit_code)


def _print_error(message: str) -> None:
    """Print what is wrong, on a terminal in red, and below it where and what to do."""
    what, newline, rest = message.partition("\n")
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        what = f"\033[1;31m{what}\033[0m"
    print(f"{what}{newline}{rest}", file=sys.stderr)  # noqa: T201 - errors go to stderr


def _print_what_the_terminal_lacks_as_escapes() -> None:
    """Print characters that the terminal's encoding does not have as escapes: names of files may hold any byte."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _exit_normally_on_sigterm() -> None:
    """Exit on SIGTERM as after an error, so that working files are removed; ignore further signals meanwhile."""

    def leave(number: int, frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():  # only this thread may set a handler
        signal.signal(signal.SIGTERM, leave)


def _configure_logging(*, verbose: bool) -> None:
    """Log to stderr: of our own steps everything if asked to, of libraries errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(chosen_formatter("%(message)s"))
    logging.basicConfig(level=logging.ERROR, handlers=[handler], force=True)
    logging.getLogger("murmur").setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger("distributed").setLevel(
        logging.CRITICAL
    )  # its errors are raised here (tasks/engine.py)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
