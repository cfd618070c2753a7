"""Run `make demo`, `make ui` and the stack's part of `make clean`: `python -m tasks.stack demo|ui|clean`."""

import argparse
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

from rich.console import Console

from tasks.errors import MurmurError
from tasks.stack import demo
from tasks.stack.settings import RELEASES_PAGE, UI_PORT, UI_USER, ui_password
from tasks.stack.supervisor import Stack

console = Console(highlight=False, markup=False, soft_wrap=True)


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three commands and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tasks.stack", description=__doc__)
    parser.add_argument("command", choices=["demo", "ui", "clean"])
    parser.add_argument("--port", type=int, default=UI_PORT, help="port of the user interface (ui only)")
    chosen = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        if chosen.command == "demo":
            demo.publish(console)
        elif chosen.command == "ui":
            serve(chosen.port)
        else:
            Stack().clean()
    except MurmurError as error:
        console.print(str(error))
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        console.print("stopped; no process is left running")
        # Ctrl-C is how `ui` ends: make would call any other code an error.
        return 0 if chosen.command == "ui" and number == signal.SIGINT else 128 + number
    return 0


def serve(port: int) -> None:
    """Keep the stack running until Ctrl-C."""
    stack = Stack(port=port)
    console.print(f"starting PostgreSQL, Airflow and Dask ({stack.workers} workers); logs in {stack.logs}")
    with stack:
        console.print(f"open     {stack.url}{RELEASES_PAGE}   (Ctrl-C stops everything)")
        console.print(
            f"sign in  {UI_USER}, password {ui_password(stack.state)}   (made for this machine alone)"
        )
        console.print(f"store    {stack.store.address}")
        while True:
            stack.check()
            time.sleep(1)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    sys.exit(main())
