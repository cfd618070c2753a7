"""Looking for processes that a stack left behind."""

import contextlib
import os
import time
from pathlib import Path

import pytest


def _mentions(process: Path, places: list[bytes]) -> bool:
    """Does a process work in, write to, map or name one of these places? Titles alone may lie."""
    evidence = []
    with contextlib.suppress(OSError):  # gone meanwhile
        evidence += [(process / file).read_bytes() for file in ("cmdline", "environ", "maps")]
        evidence += [os.fsencode(link.readlink()) for link in (process / "cwd", *(process / "fd").iterdir())]
    return any(place in text for place in places for text in evidence)


@pytest.fixture(scope="session")
def left_behind():
    """Processes that belong to these directories, this test aside; given a moment to go away."""

    def find(*directories: Path, patience: float = 0.0) -> list[str]:
        places = [os.fsencode(directory) for directory in directories]
        deadline = time.monotonic() + patience
        while True:
            found = [
                process.name
                for process in Path("/proc").iterdir()
                if process.name.isdigit() and int(process.name) != os.getpid() and _mentions(process, places)
            ]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.2)

    return find
