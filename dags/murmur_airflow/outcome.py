"""End a task with a message that people can read.

Airflow logs an exception with a stack of file names that says nothing about a refusal, and tries again. A `Stopped` is
a SystemExit: Airflow logs one line for it, and `NO_RETRY` makes that attempt the last one. So a log without a stack is
a refusal or an input that cannot be used; a log with one is a fault.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from urllib.parse import quote

from airflow.sdk.configuration import conf
from airflow.sdk.definitions.retry_policy import ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.exceptions import AirflowException

from tasks.errors import MurmurError, Refused, UsageError, is_full, no_space_left, place_of

log = logging.getLogger("murmur")

PAGES = "murmur"  # where the plugin's pages are


class Stopped(SystemExit):
    """End a task that no retry can help; the exit codes are those of `murmur`."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(self.exit_code)
        self.message = message

    def __str__(self) -> str:
        return self.message


class InputUnusable(Stopped):
    """End a task whose settings or source cannot be used as they are."""

    exit_code = 2


class ReleaseRefused(Stopped):
    """End a task because the gate refused the release, or a promise cannot be kept."""

    exit_code = 3


class NotApproved(Stopped):
    """End a task because a person rejected the release, or nobody answered in time."""

    exit_code = 3


NO_RETRY = ExceptionRetryPolicy(
    rules=[RetryRule(exception=Stopped, action=RetryAction.FAIL, reason="trying again cannot change this")]
)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn errors into Airflow's: what no retry can change (bad input, a refusal) ends the task at once.

    Airflow logs messages and tracebacks. Those of an unexpected exception may quote a source user id, so only its type
    and place are passed on, unless MURMUR_TRACEBACK is set (as for `murmur`).
    """
    try:
        yield
    except (UsageError, Refused) as error:
        raise stopped(error) from None
    except (
        MurmurError
    ) as error:  # its own text has no id; that of the exception it was raised from may have one
        raise error from None
    except Exception as problem:
        if os.environ.get("MURMUR_TRACEBACK"):
            raise
        if isinstance(problem, OSError) and is_full(problem):
            raise no_space_left(str(problem.filename or "")) from None
        raise AirflowException(
            f"unexpected {place_of(problem)}\n"
            "  to do: set MURMUR_TRACEBACK=1 to see the traceback (it may contain private data)"
        ) from None


def stopped(error: MurmurError, lines: list[str] | None = None) -> Stopped:
    """Log an error line by line, with `lines` in place of its own words, and return what ends the task."""
    words = lines if lines is not None else str(error).splitlines()
    return logged(ReleaseRefused if isinstance(error, Refused) else InputUnusable, words)


def logged(kind: type[Stopped], lines: list[str]) -> Stopped:
    """Log lines, and return what ends the task."""
    for line in lines:
        log.error("%s", line)
    return kind("\n".join(lines))


def airflow_page(*parts: str) -> str:
    """Return the address of a page of Airflow; relative where Airflow's own address is not configured."""
    base = conf.get("api", "base_url", fallback="") or ""
    return "/".join((base.rstrip("/"), *(quote(part, safe="") for part in parts)))


def page(*parts: str) -> str:
    """Return the address of a page of the plugin."""
    return airflow_page(PAGES, *parts)


def report_page(name: str, snapshot: str) -> str:
    """Return the address of a release's report in the Airflow UI."""
    return page("releases", name, snapshot, "report")
