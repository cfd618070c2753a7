"""Make, list, export and revoke the keys that sign releases; make the certificate of Dask's processes."""

import argparse
from pathlib import Path

from tasks.cli._command import CommandResult, add_store, require_directory
from tasks.errors import UsageError

HELP = "make, rotate, list, export or revoke the keys that sign releases; make the certificate for a Dask cluster"

DASK_FILES = {"certificate": "dask_certificate", "key": "dask_key"}  # as docker/compose.yaml names them


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
    dask = commands.add_parser(
        "dask",
        help="write a certificate and its key, with which all processes of a Dask cluster know each other",
    )
    dask.add_argument("directory", metavar="DIR", help="where dask_certificate and dask_key are written")
    dask.add_argument("--days", type=int, default=None, metavar="N", help="valid for N days (default: 365)")
    dask.add_argument("--replace", action="store_true", help="replace files that are there")
    for one in (new, export, revoke, listed):
        add_store(one)
    for one in (new, export, revoke, listed, dask):
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> CommandResult:
    """Do what was asked; private keys are never printed."""
    from tasks.signatures.owner_keys import OwnerKeys
    from tasks.store import Store, write_json

    if getattr(options, "days", None) is not None and options.days < 1:
        raise UsageError("a key must be valid for a day or more", where=f"--days {options.days}")
    if options.action == "dask":
        directory = require_directory(options.directory, "DIR")
        files = make_dask_files(directory, days=options.days, replace=options.replace)
        return CommandResult({"status": "made", **{kind: str(file) for kind, file in files.items()}})
    keys = OwnerKeys(Store(options.store))
    if options.action == "new":
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


def make_dask_files(directory: Path, *, days: int | None = None, replace: bool = False) -> dict[str, Path]:
    """Write a certificate that is its own authority, and its key, for their owner alone; return the files.

    Whoever has the key can run code on the workers, so files that are there are replaced on request only: all
    processes of a cluster must get the new ones together.
    """
    from tasks.engine import CERTIFICATE_DAYS, make_certificate
    from tasks.store import owner_only, write_bytes

    files = {kind: directory / name for kind, name in DASK_FILES.items()}
    there = [str(file) for file in files.values() if file.exists()]
    if there and not replace:
        raise UsageError(
            "a certificate for Dask is there already",
            where=", ".join(there),
            remedy="keep it, or replace it with --replace and restart scheduler, workers and clients together",
        )
    with owner_only():
        for file, text in zip(files.values(), make_certificate(days or CERTIFICATE_DAYS), strict=True):
            write_bytes(file, text.encode())
    return files
