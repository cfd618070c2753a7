"""Print a script that completes commands, options and their values in bash, zsh or fish."""

import argparse

from tasks.cli._command import CommandResult

HELP = 'print the completion script of a shell: eval "$(murmur completion bash)"'
SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of: {', '.join(SHELLS)}")


def run(options: argparse.Namespace) -> CommandResult:
    """Write the script from the arguments that the commands declare."""
    from tasks.cli._completion_scripts import script

    text = script(options.shell)
    return CommandResult({"status": "done", "shell": options.shell, "script": text}, plain=text)
