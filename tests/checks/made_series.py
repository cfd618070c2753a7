"""Make stores with several releases about the same people, by hand: clean series and planted violations.

A `Series` holds the source and what is carried over; `publish` writes a release into the store, `judge` opens the next
one as a candidate. Nothing of tasks/series is used: the rules are written here a second time.
"""

import datetime
import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.membership import Membership
from checks.evidence.release import Release
from checks.evidence.truth import Truth
from tasks.store import write_json

K = 5
STEP = 0.1


@dataclass(frozen=True)
class Group:
    """A group: source rows of its members, and a code per item it holds."""

    members: tuple[int, ...]
    items: tuple[int, ...]
    codes: bytes

    def but(self, **changes: object) -> "Group":
        return replace(self, **changes)  # type: ignore[arg-type]

    def nudged(self, *cells: int, by: int = 1) -> "Group":
        """The same group with some codes changed."""
        codes = np.frombuffer(self.codes, np.uint8).copy()
        codes[list(cells)] = np.where(
            codes[list(cells)] < 40 - by, codes[list(cells)] + by, codes[list(cells)] - by
        )
        return self.but(codes=codes.tobytes())


@dataclass
class Series:
    """A store, its source (everybody who will ever be there) and the groups that are carried over."""

    root: Path
    ratings: sp.csr_array
    name: str = "films"
    k: int = K
    groups: list[Group] = field(default_factory=list)
    n_items: int = 0
    published: int = 0
    gone: set[int] = field(default_factory=set)
    erased: dict[int, str] = field(default_factory=dict)
    first: dict[Group, str] = field(
        default_factory=dict
    )  # the snapshot for which each group was first published

    @classmethod
    def start(
        cls, root: Path, people: int = 320, items: int = 60, seed: int = 0, **changes: object
    ) -> "Series":
        ratings = made.synthetic(users=people, items=items, density=0.3, seed=seed)
        return cls(root, ratings, n_items=items, **changes)  # type: ignore[arg-type]

    # Groups

    def cohort(self, people: Iterable[int], *, n_items: int | None = None, seed: int = 0) -> list[Group]:
        """Groups among these people by a model of their own ratings, holding every item so far."""
        rows = np.array(sorted(people))
        size = self.n_items if n_items is None else n_items
        release = made.grouped(self.ratings[rows][:, :size], self.k, rank=3, reg=0.3, rare=0)
        codes = made._codes(release)
        return [
            Group(tuple(rows[release.group_of == group].tolist()), tuple(range(size)), codes[group].tobytes())
            for group in range(release.n_groups)
        ]

    def pooled(self, withdrawn: list[Group], number: int) -> list[Group]:
        """New groups that take one survivor of each withdrawn group, by the members' own ratings."""
        survivors = [[m for m in group.members if m not in self.erased] for group in withdrawn]
        return [self.mean_of([own[place] for own in survivors]) for place in range(number)]

    def mean_of(self, members: Iterable[int]) -> Group:
        rows = np.array(sorted(members))
        own = self.ratings[rows].toarray()[:, : self.n_items]
        count = (own > 0).sum(axis=0)
        mean = np.where(count > 0, own.sum(axis=0) / np.maximum(count, 1), 3.5)
        codes = np.rint((mean - 1) / STEP).clip(0, 40).astype(np.uint8)
        return Group(tuple(rows.tolist()), tuple(range(self.n_items)), codes.tobytes())

    # Releases

    def publish(self, groups: list[Group] | None = None, directory: str | None = None, **how: Any) -> str:
        """Publish the groups (default: those carried over) as the next release; they are carried over from then on."""
        self.groups = self.groups if groups is None else groups
        directory = directory or self.next_directory
        name = str(how.pop("name", self.name))
        published, private = (self.root / side / name / directory for side in ("published", "private"))
        published.mkdir(parents=True)
        private.mkdir(parents=True)
        self._write(self.groups, published, private, name, directory, **how)
        for group in self.groups:
            self.first.setdefault(group, directory[:10])
        self.published += 1
        return directory

    def judge(self, groups: list[Group] | None = None, directory: str | None = None, **how: Any) -> Case:
        """Open the next release as the gate does: not yet published, its private files below the step's."""
        name = str(how.pop("name", self.name))
        directory = directory or self.next_directory
        place = self.root / "private" / name / directory / "work" / "validate"
        shutil.rmtree(place, ignore_errors=True)
        published, private = place / "candidate", place / "private"
        published.mkdir(parents=True)
        private.mkdir(parents=True)
        groups = self.groups if groups is None else groups
        self._write(groups, published, private, name, directory, candidate=True, **how)
        return self.open(published, private)

    def audit(self, directory: str, name: str | None = None) -> Case:
        """Open a published release again."""
        return self.open(
            *(self.root / side / (name or self.name) / directory for side in ("published", "private"))
        )

    def open(self, published: Path, private: Path) -> Case:
        release = Release(published)
        present = np.setdiff1d(np.arange(self.ratings.shape[0]), [*self.gone, *self.erased])
        source = made.Made(
            self.ratings[present], np.zeros(len(present), int), np.zeros((1, 1)), self.k,
            user_ids=[self.user(row) for row in present],
        )  # fmt: skip
        truth = Truth.build(release, Membership.read(private), made.blocks(source))
        return Case(release, truth, private, made.SNAPSHOT)

    @property
    def next_directory(self) -> str:
        return (
            (datetime.date(2026, 1, 1) + datetime.timedelta(days=31 * self.published))
            .replace(day=1)
            .isoformat()
        )

    def withdraw(self, directory: str, name: str | None = None) -> None:
        """Take a release back: tombstone, files moved to private."""
        published, private = (
            self.root / side / (name or self.name) / directory for side in ("published", "private")
        )
        shutil.move(published, private / "withdrawn")
        published.mkdir()
        write_json(published / "tombstone.json", {"reason": "test"})

    def erase(self, person: int) -> Group:
        """Remove a person everywhere and return the group that is withdrawn with them."""
        token = "erased:" + hashlib.blake2b(str(person).encode(), digest_size=16).hexdigest()
        for file in self.root.glob("private/*/*/membership.parquet"):
            table = pq.read_table(file)
            users = [
                token if user == self.user(person) else user for user in table.column("user").to_pylist()
            ]
            pq.write_table(table.set_column(0, "user", pa.array(users, pa.string())), file)
        self.erased[person] = token
        group = next(group for group in self.groups if person in group.members)
        self.groups = [other for other in self.groups if other is not group]
        return group

    def user(self, row: int) -> str:
        return self.erased.get(row, f"person {row}")

    def _write(
        self, groups: list[Group], published: Path, private: Path, name: str, directory: str,
        *, candidate: bool = False, n_items: int | None = None, item_ids: list[str] | None = None,
        manifest: dict | None = None,
    ) -> None:  # fmt: skip
        size = self.n_items if n_items is None else n_items
        items = item_ids or [f"item {number}" for number in range(size)]
        draw = np.random.default_rng(self.published + 7)
        numbers = draw.permutation(len(groups))
        order = np.argsort(numbers)
        columns = {
            "group": pa.array(numbers[order], pa.int32()),
            "size": pa.array([len(groups[g].members) for g in order], pa.int32()),
            "items": pa.array(
                [None if len(groups[g].items) == len(items) else groups[g].items for g in order],
                pa.list_(pa.int32()),
            ),
            "ratings": pa.array([groups[g].codes for g in order], pa.binary()),
        }
        people = np.array([member for group in groups for member in group.members])
        group_of = np.repeat(numbers, [len(group.members) for group in groups])
        key = f"{name}/{directory}".encode()[:64]
        names = np.array(
            [hashlib.blake2b(str(p).encode(), key=key, digest_size=8).hexdigest() for p in people]
        )
        rows = np.argsort(names)
        pq.write_table(pa.table(columns), published / "groups.parquet")
        members = {"user": pa.array(names[rows]), "group": pa.array(group_of[rows], pa.int32())}
        pq.write_table(pa.table(members), published / "members.parquet")
        pq.write_table(pa.table({"item": pa.array(items, pa.string())}), published / "items.parquet")
        ids = pa.array([self.user(p) for p in people[rows]], pa.string())
        pq.write_table(
            pa.table({"user": ids, "pseudonym": members["user"], "group": members["group"]}),
            private / "membership.parquet",
        )
        waiting = (
            self.ratings.shape[0] - len(self.gone | set(self.erased)) - len(set(people.tolist()) - self.gone)
        )
        newest = max(self.first.get(group, directory[:10]) for group in groups)
        written = {
            "schema_version": 1,
            "release": name,
            "snapshot": directory[:10],
            "method": "predictive-padded",
            "privacy": {"k": self.k, "l": 2, "b": 1, "min_contributors": 3},
            "counts": {
                "users": len(people),
                "items": len(items),
                "groups": len(groups),
                "ratings": sum(len(group.members) * len(group.items) for group in groups),
            },
            "rating_scale": [1.0, 5.0],
            "rating_step": STEP,
            "rating_encoding": "uint8",
            "unit": "rating",
            "series": "checked",
            "as_of": newest if newest > directory[:10] else None,
            "withheld": {"users": max(waiting, 0) // self.k * self.k, "items": 0, "why": ""},
            "code_version": "test",
        }
        if not candidate:
            moment = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC) + datetime.timedelta(
                days=self.published
            )
            written["created_at"] = moment.isoformat()
        written |= json.loads(json.dumps(manifest or {}))
        write_json(published / "manifest.json", written | {"files": {}})
        made.seal(published)


FIRST, SECOND = range(140), range(140, 200)  # the people of the first two cohorts; the rest never appear


def clean(root: Path) -> Series:
    """A series with one published release: the next may carry it over."""
    series = Series.start(root)
    series.publish(series.cohort(FIRST))
    return series
