"""Back up the owner's part of a store, verify a backup, or restore one."""

import argparse
from pathlib import Path

from tasks.cli._command import DONE, REFUSED, CommandResult, add_store, local_store

HELP = "back up the private part of a store (ledgers, keys, memberships), or restore it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what is to be done, the file and the store."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = commands.add_parser("create", help="write a backup; it holds who is in every release")
    restore = commands.add_parser("restore", help="put a backup in the place of a private part that is gone")
    check = commands.add_parser("check", help="verify that a backup is whole")
    for one in (create, restore, check):
        one.add_argument("file", metavar="FILE", help="the backup, a tar archive")
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    for one in (create, restore):
        add_store(one)


def run(options: argparse.Namespace) -> CommandResult:
    """Do what was asked; a restored ledger that is older than the store ends with exit code 3."""
    from tasks.series import backup

    file = Path(options.file)
    if options.action == "check":
        return CommandResult(backup.check(file))
    if options.action == "create":
        return CommandResult(backup.create(local_store(options.store), file))
    answer = backup.restore(local_store(options.store), file)
    return CommandResult(answer, REFUSED if answer["forgotten"] else DONE)
