"""Hold the people who may approve releases, with their public keys, and the rule of each release.

    private/keys/approvers.json     people: name, public key, accounts, times, revoked; rules: approvers, approvals

A private key of an approver is never here: it stays with that person. `MURMUR_APPROVERS` names such a file outside the
store, for example one that is mounted read-only, so that whoever may write to the store cannot change the rule.
"""

import base64
import binascii
import datetime
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)

from tasks.errors import UsageError
from tasks.signatures.envelope import key_id
from tasks.store import Store, make_private, owner_only, read_json, write_bytes, write_json

RECORD = "approvers.json"
LARGEST_FILE = 2**20
EMPTY: dict[str, Any] = {"people": [], "rules": {}}


@dataclass(frozen=True)
class Rule:
    """Hold who may approve a release (names or ids of keys), and how many of them must."""

    approvers: tuple[str, ...]
    approvals: int

    def same_as(self, other: "Rule") -> bool:
        """Return whether two rules ask for the same."""
        return (set(self.approvers), self.approvals) == (set(other.approvers), other.approvals)

    def __str__(self) -> str:
        return f"{self.approvals} of {', '.join(sorted(self.approvers))}"


@dataclass(frozen=True)
class Approver:
    """Represent a key of a person who may approve; `accounts` are the names under which that person may start runs."""

    name: str
    keyid: str
    public: Ed25519PublicKey
    accounts: tuple[str, ...]
    valid_from: datetime.datetime
    valid_until: datetime.datetime | None
    revoked: bool

    def is_one_of(self, names: Sequence[str]) -> bool:
        """Return whether one of these names or accounts is this person's, in upper or lower case."""
        own = {one.casefold() for one in (self.name, *self.accounts)}
        return not own.isdisjoint(one.casefold() for one in names)

    def why_not(self, moment: datetime.datetime) -> str | None:
        """Return why a signature of this key from then does not count; None: it does."""
        if self.revoked:
            return "was revoked"
        if moment < self.valid_from:
            return "was not valid yet"
        if self.valid_until is not None and moment > self.valid_until:
            return "had expired"
        return None


class Approvers:
    """Hold the approvers and rules of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        named = os.environ.get("MURMUR_APPROVERS")
        self._path = Path(named) if named else store.root / "private" / "keys" / RECORD
        self._is_outside = bool(named)

    def listed(self) -> list[dict[str, Any]]:
        """Return all keys of approvers with their times, the oldest first."""
        return list(self._read()["people"])

    def people(self) -> dict[str, Approver]:
        """Return the approvers by the id of their key."""
        return {one.keyid: one for one in map(_approver, self.listed())}

    def rule_of(self, release: str) -> Rule | None:
        """Return the rule that this store has for a release; None: it has none."""
        return self.rules().get(release)

    def rules(self) -> dict[str, Rule]:
        """Return the rules of all releases that have one."""
        found = self._read()["rules"]
        return {
            name: Rule(tuple(one["approvers"]), int(one["approvals"])) for name, one in sorted(found.items())
        }

    def require_rule(self, release: str, wanted: Rule | None) -> None:
        """Hold a release file to the rule of the store; a release without one gets the file's.

        A file that asks for less, or for other people, is refused: whoever may write a DAG or a release file could
        otherwise let a release out alone.
        """
        rule = self.rule_of(release)
        if rule is None and wanted is None:
            return
        if rule is None and wanted is not None:
            self.set_rule(release, wanted)
        elif rule is not None and (wanted is None or not rule.same_as(wanted)):
            raise UsageError(
                f"this release file asks for {wanted or 'no approval'}, and the store has the rule {rule}",
                where="release.approvers",
                remedy="put the rule back, or let whoever may change it run: murmur keys rule CONFIG",
            )

    def set_rule(self, release: str, rule: Rule | None) -> None:
        """Set or remove the rule of a release; every approver must be known."""
        record = self._read()
        known = {one[field] for one in record["people"] for field in ("name", "keyid")}
        unknown = sorted(set(rule.approvers) - known) if rule else []
        if unknown:
            raise UsageError(
                f"no key is known of: {', '.join(unknown)}",
                where="release.approvers",
                remedy="add each person's public key: murmur keys trust NAME FILE",
            )
        rules = {name: one for name, one in record["rules"].items() if name != release}
        if rule is not None:
            rules[release] = {"approvers": sorted(set(rule.approvers)), "approvals": rule.approvals}
        self._write({**record, "rules": rules})

    def trust(
        self,
        name: str,
        public: Ed25519PublicKey,
        *,
        accounts: Sequence[str] = (),
        days: int | None = None,
        now: datetime.datetime | None = None,
    ) -> dict[str, Any]:
        """Add a public key of a person; a key that is known already, under any name, is refused."""
        record, keyid = self._read(), key_id(public)
        if any(one["keyid"] == keyid for one in record["people"]):
            raise UsageError(
                "this key is known already",
                where=f"key {keyid[:16]}…",
                remedy="every person needs a key of their own; `murmur keys list` shows whose it is",
            )
        if not name.isprintable() or not name.strip() or len(name) > 64:
            raise UsageError("this is no name", where="NAME", remedy="use 1 to 64 printable characters")
        moment = (now or datetime.datetime.now(datetime.UTC)).replace(microsecond=0)
        made = {
            "name": name,
            "keyid": keyid,
            "public_key": base64.b64encode(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode(),
            "accounts": sorted(set(accounts)),
            "valid_from": moment.isoformat(),
            "valid_until": None if days is None else (moment + datetime.timedelta(days=days)).isoformat(),
            "revoked_at": None,
            "reason": None,
        }
        self._write({**record, "people": [*record["people"], made]})
        return made

    def revoke(
        self, keyid: str, reason: str, *, now: datetime.datetime | None = None
    ) -> dict[str, Any] | None:
        """Revoke the key with this id; None: no approver has it."""
        record = self._read()
        found = next((one for one in record["people"] if one["keyid"] == keyid), None)
        if found is not None and found["revoked_at"] is None:
            moment = (now or datetime.datetime.now(datetime.UTC)).replace(microsecond=0)
            found |= {"revoked_at": moment.isoformat(), "reason": reason}
            self._write(record)
        return found

    def _read(self) -> dict[str, Any]:
        if not self._path.exists():
            if self._is_outside:
                raise UsageError(
                    "there is no file of approvers", where="MURMUR_APPROVERS", remedy="mount it, or unset it"
                )
            return {name: type(value)() for name, value in EMPTY.items()}
        try:
            record = read_json(self._path)
            list(map(_approver, record["people"]))
            dict(record["rules"])
        except (OSError, ValueError, LookupError, TypeError, binascii.Error):
            raise UsageError(
                "the file of approvers cannot be read; nothing is published before it is restored",
                where=str(self._path),
                remedy="restore it from a backup",
            ) from None
        return dict(record)

    def _write(self, record: dict[str, Any]) -> None:
        if self._is_outside:
            raise UsageError(
                "approvers and rules are in a file outside the store, which this command does not change",
                where="MURMUR_APPROVERS",
                remedy="unset it, change the store's own file, and mount a copy of that",
            )
        with owner_only():
            make_private(self._path.parent, below=self._store.root)
            write_json(self._path, record)


def make_personal_key(path: Path) -> dict[str, Any]:
    """Write a new private key for a person, and its public half beside it as FILE.pub; never over an existing file."""
    public_path = path.with_name(f"{path.name}.pub")
    for one in (path, public_path):
        if one.exists():
            raise UsageError("this file exists already", where=str(one), remedy="choose another name")
    key = Ed25519PrivateKey.generate()
    with owner_only():
        write_bytes(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    write_bytes(public_path, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    public_path.chmod(0o644)
    return {"keyid": key_id(key.public_key()), "private_key": str(path), "public_key": str(public_path)}


def read_public(path: Path) -> Ed25519PublicKey:
    """Read a public key in PEM form."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(
            "this is no Ed25519 public key in PEM form",
            where=str(path),
            remedy="ask the person for the .pub file that `murmur keys person` wrote",
        )
    return key


def named_by(rule: Rule, people: dict[str, Approver]) -> Iterator[Approver]:
    """Yield the keys that a rule names, by the person's name or by the id of one key."""
    return (one for one in people.values() if {one.name, one.keyid} & set(rule.approvers))


def _approver(one: dict[str, Any]) -> Approver:
    until = one["valid_until"]
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(one["public_key"], validate=True))
    if key_id(public) != one["keyid"]:
        raise ValueError("the id of a key is not that of the key")
    return Approver(
        name=str(one["name"]),
        keyid=one["keyid"],
        public=public,
        accounts=tuple(one["accounts"]),
        valid_from=datetime.datetime.fromisoformat(one["valid_from"]),
        valid_until=None if until is None else datetime.datetime.fromisoformat(until),
        revoked=one["revoked_at"] is not None,
    )
