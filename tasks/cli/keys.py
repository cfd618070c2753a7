"""Make, list, export and revoke keys that sign or approve releases; make the certificate of Dask's processes."""

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.cli._command import CommandResult, add_store, require_directory
from tasks.errors import UsageError

if TYPE_CHECKING:
    from tasks.store import Store

HELP = "make, rotate, list, export or revoke the keys that sign releases; say who may approve; certify Dask"

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
    person = commands.add_parser("person", help="make a key for yourself, to approve releases with")
    person.add_argument("out", metavar="FILE", help="private key to write; the public one is FILE.pub")
    trust = commands.add_parser("trust", help="add the public key of a person who may approve releases")
    trust.add_argument("name", metavar="NAME", help="the person's name, as in release.approvers")
    trust.add_argument("public", metavar="FILE", help="public key in PEM form (FILE.pub)")
    text = "name under which this person triggers runs in Airflow or on the command line; may be repeated"
    trust.add_argument("--account", action="append", default=[], metavar="NAME", help=text)
    trust.add_argument("--days", type=int, default=None, metavar="N", help="the key expires after N days")
    rule = commands.add_parser("rule", help="make the approvers in a release file the rule of the store")
    rule.add_argument("config", metavar="CONFIG", help="release file (TOML)")
    listed = commands.add_parser("list", help="all keys with their times, and who must approve which release")
    dask = commands.add_parser(
        "dask",
        help="write a certificate and its key, with which all processes of a Dask cluster know each other",
    )
    dask.add_argument("directory", metavar="DIR", help="where dask_certificate and dask_key are written")
    dask.add_argument("--days", type=int, default=None, metavar="N", help="valid for N days (default: 365)")
    dask.add_argument("--replace", action="store_true", help="replace files that are there")
    for one in (new, export, revoke, trust, rule, listed):
        add_store(one)
    for one in (new, export, revoke, person, trust, rule, listed, dask):
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> CommandResult:
    """Do what was asked; private keys are never printed."""
    from tasks.signatures.approvers import Approvers, Rule, make_personal_key, read_public
    from tasks.signatures.owner_keys import OwnerKeys
    from tasks.store import Store

    if getattr(options, "days", None) is not None and options.days < 1:
        raise UsageError("a key must be valid for a day or more", where=f"--days {options.days}")
    if options.action == "dask":
        directory = require_directory(options.directory, "DIR")
        files = make_dask_files(directory, days=options.days, replace=options.replace)
        return CommandResult({"status": "made", **{kind: str(file) for kind, file in files.items()}})
    if options.action == "person":
        _require_parent(Path(options.out))
        return CommandResult({"status": "made", **make_personal_key(Path(options.out))})
    store = Store(options.store)
    keys, approvers = OwnerKeys(store), Approvers(store)
    if options.action == "new":
        return CommandResult({"status": "made", **keys.make(days=options.days)})
    if options.action == "revoke":
        return _revoke(store, options.key, options.reason)
    if options.action == "trust":
        made = approvers.trust(
            options.name, read_public(Path(options.public)), accounts=options.account, days=options.days
        )
        return CommandResult({"status": "trusted", **made})
    if options.action == "rule":
        from tasks.config import load

        release = load(options.config).release
        rule = Rule(tuple(release.approvers), release.approvals) if release.approvers else None
        approvers.set_rule(release.name, rule)
        return CommandResult({"status": "set", "release": release.name, "rule": str(rule or "none")})
    if options.action == "export":
        return _export(keys.export(), Path(options.out))
    rules = approvers.rules()
    return CommandResult(
        {
            "status": "done",
            "keys": keys.listed(),
            "approvers": approvers.listed(),
            "rules": {name: str(one) for name, one in rules.items()},
        }
    )


def _revoke(store: "Store", beginning: str, reason: str) -> CommandResult:
    """Revoke the only key, the owner's or a person's, whose id begins so."""
    from tasks.signatures.approvers import Approvers
    from tasks.signatures.owner_keys import OwnerKeys

    keys, approvers = OwnerKeys(store), Approvers(store)
    own = [one["keyid"] for one in keys.listed() if one["keyid"].startswith(beginning)]
    others = [one["keyid"] for one in approvers.listed() if one["keyid"].startswith(beginning)]
    if len(own) + len(others) != 1 or not beginning:
        raise UsageError(
            f"{len(own) + len(others)} keys have an id that begins so",
            where=beginning,
            remedy="see murmur keys list for the ids",
        )
    now = datetime.datetime.now(datetime.UTC)
    found = keys.revoke(own[0], reason, now=now) if own else approvers.revoke(others[0], reason, now=now)
    return CommandResult({"status": "revoked", **(found or {})})


def _export(public: dict[str, list[dict[str, str]]], out: Path) -> CommandResult:
    from tasks.store import write_json

    _require_parent(out)
    write_json(out, public)
    out.chmod(0o644)
    return CommandResult({"status": "written", "file": str(out), "keys": len(public["keys"])})


def _require_parent(out: Path) -> None:
    if not out.absolute().parent.is_dir():
        raise UsageError("there is no such directory", where=str(out.parent), remedy="create it first")


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
