"""Write a commented starter configuration."""

import argparse
from pathlib import Path

from tasks.cli._command import CommandResult
from tasks.cli._starter import starter
from tasks.config import parse
from tasks.errors import UsageError

HELP = "write a commented starter configuration"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the name of the release."""
    parser.add_argument(
        "name", metavar="NAME", help="name of the new release; lower-case letters, digits, - and _"
    )


def run(options: argparse.Namespace) -> CommandResult:
    """Write the file into dags/releases/ if there is one, else here; never over an existing file."""
    parse({"release": {"name": options.name}, "source": {"format": "synthetic"}}, "murmur init")
    releases = Path("dags/releases")
    path = (releases if releases.is_dir() else Path()) / f"{options.name}.toml"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter(options.name))
    except FileExistsError:
        raise UsageError(
            "this file exists already", where=str(path), remedy="choose another name, or edit the file"
        ) from None
    next_step = f"edit it, then run: murmur check {path}"
    return CommandResult({"status": "written", "config": str(path), "next": next_step})
