"""Hold the command line `murmur`: one file per command, helpers with an underscore.

A command is a file here that is named after it and declares `HELP` (one line), `add_arguments(parser)` and
`run(options) -> CommandResult`. It is found by its file; `_main.py` parses, dispatches and turns errors into exit
codes. A command file imports heavy libraries inside `run` only: `murmur --help` must stay fast. Commands may import
all of tasks and, where they judge a release, checks.
"""

from tasks.cli._main import main

__all__ = ["main"]
