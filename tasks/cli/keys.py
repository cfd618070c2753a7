"""Make, list, export and revoke the keys that sign releases."""

import argparse
from pathlib import Path

from tasks.cli._command import CommandResult, add_store
from tasks.errors import UsageError

HELP = "make, rotate, list, export or revoke the keys that sign releases"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what is to be done, and the store."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = commands.add_parser("new", help="make a key that signs from now on; the key before it is retired")
    new.add_argument("--days", type=int, default=None, metavar="N", help="the key expires after N days")
    export = commands.add_parser("export", help="write the public keys, for readers of releases")
    export.add_argument("out", metavar="OUT", help="file to write, for example trusted-keys.json")
    revoke = commands.add_parser("revoke", help="nothing that this key ever signed counts any more")
    revoke.add_argument("key", metavar="KEYID", help="the key's id, or the beginning of it")
    revoke.add_argument("--reason", required=True, metavar="TEXT", help="why, for your own record")
    listed = commands.add_parser("list", help="all keys with their times")
    for one in (new, export, revoke, listed):
        add_store(one)
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> CommandResult:
    """Do what was asked; private keys are never printed."""
    from tasks.signatures.owner_keys import OwnerKeys
    from tasks.store import Store, write_json

    keys = OwnerKeys(Store(options.store))
    if options.action == "new":
        if options.days is not None and options.days < 1:
            raise UsageError("a key must be valid for a day or more", where=f"--days {options.days}")
        return CommandResult({"status": "made", **keys.make(days=options.days)})
    if options.action == "revoke":
        return CommandResult({"status": "revoked", **keys.revoke(options.key, options.reason)})
    if options.action == "export":
        out = Path(options.out)
        if not out.absolute().parent.is_dir():
            raise UsageError("there is no such directory", where=str(out.parent), remedy="create it first")
        write_json(out, keys.export())
        out.chmod(0o644)
        return CommandResult({"status": "written", "file": str(out), "keys": len(keys.listed())})
    return CommandResult({"status": "done", "keys": keys.listed()})
