"""State what must hold on the simulated machine, in words and code of its own: it shares none with what it judges.

`Watcher` looks at published/ after every change, as any reader may. `final_problems` looks when all is done.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.simulation.file_system import Directory, File, FileSystem, Node
from tests.simulation.machine import STORE, Machine
from tests.simulation.mount import parsed
from tests.tasks.series.small_series import NAME, K

PUBLISHED, PRIVATE = f"{STORE}/published", f"{STORE}/private"
ROUNDING = 1e-9


class Violation(AssertionError):
    """Report that something happened which must never happen."""


@dataclass
class Seen:
    """Hold a release as its readers have it."""

    files: dict[str, bytes]
    groups: dict[str, tuple[int, bytes]]  # of each person: the group's number and its profile
    rho: float = 0.0  # what it spent of the privacy budget
    most_rho: float = 0.0  # what releases of its year may spend together


@dataclass
class Watcher:
    """Remember everything that was ever public, by name and directory, and refuse what readers must never see."""

    machine: Machine
    seen: dict[str, Seen] = field(default_factory=dict)

    def __call__(self, path: str) -> None:
        """Look at the release that a change belongs to."""
        if path.startswith(PUBLISHED + "/"):
            parts = path[len(PUBLISHED) + 1 :].split("/")
            if len(parts) > 1:
                self.look_at("/".join(parts[:2]))
            else:
                self.look()
        elif path in (STORE, PUBLISHED):
            self.look()

    def look(self) -> None:
        """Look at all releases."""
        for name in all_entries(self.machine.disk).keys() | set(self.seen):
            self.look_at(name)

    def look_at(self, name: str) -> None:
        place = self.machine.disk.get(f"{PUBLISHED}/{name}")
        if not isinstance(place, Directory) or "/." in name or not place.mode & 0o005:
            return  # nobody but the owner can read it
        files = {one: node.data for one, node in place.entries.items() if isinstance(node, File)}
        if name in self.seen:
            self._require_unchanged(name, files)
        elif "manifest.json" in files and "tombstone.json" not in files:
            self.seen[name] = self._first_look(name, files)
            if problems := self.overspent():
                raise Violation(problems[0])

    def _require_unchanged(self, name: str, files: dict[str, bytes]) -> None:
        before = self.seen[name].files
        files = {one: data for one, data in files.items() if not one.startswith(".")}  # being written
        if "tombstone.json" not in files and files.keys() != before.keys():
            raise Violation(f"{name}: files of a published release came or went without a tombstone")
        if any(before[one] != data for one, data in files.items() if one in before):
            raise Violation(f"{name}: published bytes have changed")

    def _first_look(self, name: str, files: dict[str, bytes]) -> Seen:
        manifest = json.loads(files["manifest.json"])
        if files.keys() != {"manifest.json", *manifest["files"]}:
            raise Violation(f"{name}: public, and not with the files of its manifest")
        for one, expected in manifest["files"].items():
            if hashlib.sha256(files[one]).hexdigest() != expected:
                raise Violation(f"{name}: {one} is public with other bytes than its manifest says")
        owner = self.machine.disk.get(f"{PRIVATE}/{name}/membership.parquet")
        if not isinstance(owner, File):
            raise Violation(f"{name}: public before the owner knows who is in it")
        if not name.startswith(f"{NAME}/"):
            privacy = manifest["privacy"]
            return Seen(dict(files), {}, privacy["rho"], privacy["rho"] * privacy["budget"]["releases"])
        rows = table(files["groups.parquet"]).to_pylist()
        profile = {row["group"]: (row["size"], bytes(row["ratings"])) for row in rows}
        members = Counter(table(files["members.parquet"]).column("group").to_pylist())
        if members != {number: size for number, (size, _) in profile.items()} or min(members.values()) < K:
            raise Violation(f"{name}: groups of other sizes than stated, or below k")
        people = table(owner.data).to_pylist()
        return Seen(
            dict(files),
            {
                row["user"]: (row["group"], repr(profile[row["group"]]).encode())
                for row in people
                if row["group"] >= 0
            },
        )

    def overspent(self) -> list[str]:
        """Return in which years releases that were ever public spent more than one of them allows."""
        years: dict[str, list[Seen]] = {}
        for name, one in self.seen.items():
            if one.rho:
                years.setdefault(name.split("/")[1][:4], []).append(one)
        return [
            f"the releases of {year} spent more than the budget"
            for year, all_seen in years.items()
            if sum(one.rho for one in all_seen) > min(one.most_rho for one in all_seen) * (1 + ROUNDING)
        ]

    def smallest_class(self) -> int | None:
        """Return k_eff: the fewest people who look alike to somebody who holds all releases that were ever public.

        Pseudonyms differ from release to release, so all that connects them is a group's profile: people look alike
        when they are in groups of the same bytes, or absent, in every release.
        """
        releases = sorted(name for name, one in self.seen.items() if one.groups)
        everybody = {person for one in self.seen.values() for person in one.groups}
        views = Counter(
            tuple(self.seen[name].groups.get(person, (0, b""))[1] for name in releases)
            for person in everybody
        )
        return min(views.values(), default=None)


def all_entries(disk: FileSystem) -> dict[str, Node]:
    """Return what is in the directories of all releases, by name and directory."""
    place = disk.get(PUBLISHED)
    below = place.entries if isinstance(place, Directory) else {}
    return {
        f"{name}/{directory}": node
        for name, one in below.items()
        if isinstance(one, Directory)
        for directory, node in one.entries.items()
    }


def table(data: bytes) -> pa.Table:
    return parsed(data)


def final_problems(machine: Machine, watcher: Watcher, erased: set[str]) -> list[str]:
    """Return what is wrong when every process has done its work."""
    disk = machine.disk
    return [
        *_wrong_places(disk, watcher),
        *_disagreements(machine, disk),
        *_wrong_spending(machine, watcher),
        *_wrong_people(watcher),
        *left_of_erased(disk, watcher, erased),
        *_open_to_others(disk),
    ]


def _wrong_places(disk: FileSystem, watcher: Watcher) -> list[str]:
    found, entries = [], all_entries(disk)
    for name, node in entries.items():
        files = set(node.entries) if isinstance(node, Directory) else {"?"}
        if "/." in name:
            found.append(f"{name} is left in public")
        elif files != {"tombstone.json"} and name not in watcher.seen:
            found.append(f"{name} is in public, and no reader can have it whole")
    for name, seen in watcher.seen.items():
        there = entries.get(name)
        files = set(there.entries) if isinstance(there, Directory) else set()
        if files not in ({"tombstone.json"}, set(seen.files)):
            found.append(f"{name} was public, and is neither there nor withdrawn")
    return found


def _disagreements(machine: Machine, disk: FileSystem) -> list[str]:
    """Compare the rows of the ledger with the directories, one by one."""
    cursor = machine.ledger.connection.execute("SELECT name FROM sqlite_master WHERE name = 'releases'")
    rows: list[Any] = []
    if cursor.fetchone():
        rows = machine.ledger.connection.execute(
            "SELECT name, snapshot, revision, state FROM releases"
        ).fetchall()
    known = {
        f"{name}/{day}-r{number}" if number else f"{name}/{day}": state for name, day, number, state in rows
    }
    found = [f"{name} is prepared for ever" for name, state in known.items() if state == "prepared"]
    entries = all_entries(disk)
    for name in known.keys() | entries.keys():
        node = entries.get(name)
        files = node.entries if isinstance(node, Directory) else {}
        state = (
            "withdrawn" if "tombstone.json" in files else "published" if "manifest.json" in files else None
        )
        if known.get(name) != state:
            found.append(f"{name} is {state} in the store and {known.get(name)} in the ledger")
    return found


def _wrong_spending(machine: Machine, watcher: Watcher) -> list[str]:
    """Compare what the ledger entered with what releases that were ever public say."""
    cursor = machine.ledger.connection.execute("SELECT name FROM sqlite_master WHERE name = 'budget'")
    entered: list[float] = []
    if cursor.fetchone():
        entered = [row[0] for row in machine.ledger.connection.execute("SELECT rho FROM budget")]
    said = [one.rho for one in watcher.seen.values() if one.rho]
    wrong = (
        [] if sorted(entered) == sorted(said) else ["the ledger has entered another spending than was public"]
    )
    return [*wrong, *watcher.overspent()]


def _wrong_people(watcher: Watcher) -> list[str]:
    smallest = watcher.smallest_class()
    return [f"k_eff is {smallest}"] if smallest is not None and smallest < K else []


def left_of_erased(disk: FileSystem, watcher: Watcher, erased: set[str]) -> list[str]:
    """Return which private files name an erased person, and which releases offer that person's group."""
    found = []
    for path, node in disk.walk(PRIVATE):
        if isinstance(node, File) and any(_holds(node.data, person) for person in erased):
            found.append(f"{path} names an erased person")
    for name, seen in watcher.seen.items():
        is_offered = disk.get(f"{PUBLISHED}/{name}/manifest.json") is not None
        if is_offered and erased & seen.groups.keys():
            found.append(f"{name} offers the group of an erased person")
    return found


def _holds(data: bytes, person: str) -> bool:
    try:
        columns = table(data).columns if data.startswith(b"PAR1") else []
    except pa.ArrowException:  # cut off
        columns = []
    if columns:
        return any(person in one.to_pylist() for one in columns if pa.types.is_string(one.type))
    return person.encode() in data


def _open_to_others(disk: FileSystem) -> list[str]:
    wrong = {
        path
        for path, node in disk.walk(PRIVATE)
        if node.mode & 0o077 and (isinstance(node, Directory) or not path.endswith(".lock"))
    }
    return [f"{path} can be read by others" for path in sorted(wrong)][:3]
