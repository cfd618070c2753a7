"""The source's ratings, read anew: what the release is measured against.

Built with its own code from the source and the private membership: a judge that shared the release's arrays
would confirm their mistakes.
"""

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from checks.release import Release
from tasks.config import Source
from tasks.errors import Refused

if TYPE_CHECKING:
    from tasks.formats import RatingBlock

COMMON_LEVEL = 0.005  # share of all ratings from which a value counts as a level of the scale
MOST_LEVELS = 21  # with more, the scale is continuous
STRETCH = 4_000_000  # ratings looked at together

_ABOUT_RATINGS = ("item_totals", "value_counts", "half_level")  # what does not depend on who is listed where

_COLUMNS = {"user": pa.string(), "pseudonym": pa.string(), "group": pa.int32()}


@dataclass(frozen=True)
class Membership:
    """The owner's table of who is who. Secret."""

    users: pa.StringArray
    pseudonyms: pa.StringArray
    groups: np.ndarray

    @classmethod
    def read(cls, private: Path) -> "Membership":
        """Read membership.parquet; refuses anything but the contract's columns."""
        path = private / "membership.parquet"
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException):
            raise Refused(
                "there is no readable membership",
                where=str(path),
                remedy="name the private directory of this release",
            ) from None
        if {field.name: field.type for field in table.schema} != _COLUMNS:
            raise Refused(
                "the membership's columns are not user, pseudonym, group",
                where=str(path),
                remedy="publish the release anew",
            )
        if any(column.null_count for column in table.columns):
            raise Refused("the membership has nulls", where=str(path), remedy="publish the release anew")
        users, pseudonyms = (table.column(name).combine_chunks() for name in ("user", "pseudonym"))
        return cls(users, pseudonyms, table.column("group").to_numpy().astype(np.int32))


@dataclass(frozen=True)
class Truth:
    """Accepted, de-duplicated ratings as a matrix: rows as in the membership, columns as in items.parquet.

    `row_of_user` is the row of groups.parquet where the release lists the user (−1: nowhere);
    `raters` counts each item's raters in the whole source, people who are not in the release included;
    `seen` tells who of the membership is in the source at all; `days` is when each rating was given, in days
    since 1970, where the source says so; `items` are the columns' names; `salt` is the
    release's fingerprint, from which the judge draws whom to attack and with what.
    """

    membership: Membership
    ratings: sp.csr_array
    row_of_user: np.ndarray
    raters: np.ndarray
    seen: np.ndarray
    unlisted_users: int
    unlisted_items: int
    days: np.ndarray | None = None
    items: pa.StringArray | None = None
    salt: str = ""

    @property
    def users(self) -> int:
        """Number of users in the membership."""
        return self.ratings.shape[0]

    @property
    def source_users(self) -> int:
        """Number of people in the source, those who are not in the release included."""
        return int(self.seen.sum()) + self.unlisted_users

    @cached_property
    def pattern(self) -> sp.csr_array:
        """1 where a user rated an item (a rating of 0 is a rating)."""
        r = self.ratings
        return sp.csr_array((np.ones(r.nnz, dtype=np.float32), r.indices, r.indptr), shape=r.shape)

    def close(self) -> None:
        """Remove the working files."""

    def listed_at(self, row_of_user: np.ndarray) -> "Truth":
        """The same ratings where people are listed elsewhere; what is known about the ratings stays known."""
        other = replace(self, row_of_user=row_of_user)
        other.__dict__.update({name: self.__dict__[name] for name in _ABOUT_RATINGS if name in self.__dict__})
        return other

    @cached_property
    def item_totals(self) -> tuple[np.ndarray, np.ndarray]:
        """How many ratings each item has (of the people here), and their sum."""
        items = self.ratings.shape[1]
        count, total = np.zeros(items, np.int64), np.zeros(items)
        for part in self.stretches():
            own = self.ratings.indices[part]
            count += np.bincount(own, minlength=items)
            total += np.bincount(own, weights=self.ratings.data[part], minlength=items)
        return count, total

    @cached_property
    def value_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """The different ratings that are given, ascending, and how often each."""
        values, counts = np.zeros(0, np.float32), np.zeros(0, np.int64)
        for part in self.stretches():
            code, own = pd.factorize(self.ratings.data[part])
            values, place = np.unique(np.concatenate([values, own]), return_inverse=True)
            counts = np.bincount(place, weights=np.concatenate([counts, np.bincount(code)])).astype(np.int64)
        return values, counts

    def stretches(self, entries: int = STRETCH) -> Iterator[slice]:
        """All ratings, a few million at a time: nothing that is computed from them need be as long as they are."""
        return (slice(start, start + entries) for start in range(0, self.ratings.nnz, entries))

    @cached_property
    def half_level(self) -> float:
        """Half the distance between two ratings people can give: nearer than this is 'the same rating'.

        Of the levels that people commonly give: a stray 3.33 must not blind every comparison. On continuous
        scales, a fortieth of the scale's width.
        """
        values, counts = self.value_counts
        if len(values) < 2:
            return 0.5
        usual = counts >= COMMON_LEVEL * counts.sum()
        if not 2 <= usual.sum() <= MOST_LEVELS or counts[usual].sum() < counts.sum() / 2:
            return float(values[-1] - values[0]) / 40
        return float(np.diff(values[usual]).min()) / 2

    @classmethod
    def read(cls, release: Release, private: Path, source: Source, snapshot: datetime.date) -> "Truth":
        """Read the whole source again."""
        from tasks.formats import read_all

        return cls.build(release, Membership.read(private), read_all(source, snapshot))

    @classmethod
    def alone(cls, source: Source, snapshot: datetime.date) -> "Truth":
        """The source by itself, where there is no release: everybody and everything in it, in order of their ids."""
        from tasks.formats import read_all

        users, items = _ids(read_all(source, snapshot))
        names = pa.array([str(number) for number in range(len(users))], pa.string())
        everybody = Membership(users, names, np.arange(len(users), dtype=np.int32))
        return cls.build(_Nothing(items, names), everybody, read_all(source, snapshot))

    @classmethod
    def build(
        cls, release: "Release | _Nothing", membership: Membership, blocks: Iterable["RatingBlock"]
    ) -> "Truth":
        """Put blocks of ratings (in the order of the source) into the matrix."""
        shape = (len(membership.users), release.n_items)
        table = _gather(blocks, membership.users, release.items)
        table.keep(_last_of_each(table, release.n_items))  # now in order of user, then item
        raters = np.bincount(table.items[table.items >= 0], minlength=release.n_items)
        listed = table.users < len(membership.users)
        seen = np.bincount(table.users[listed], minlength=len(membership.users)) > 0
        table.keep(np.flatnonzero(listed & (table.items >= 0)))  # the rows of the matrix as they are
        per_user = np.bincount(table.users, minlength=len(membership.users))
        indptr = np.concatenate([[0], np.cumsum(per_user)])
        matrix = sp.csr_array((table.ratings, table.items, indptr), shape=shape)
        days = None if table.times is None else _days(table.times)
        strangers = table.unlisted_users, table.unlisted_items
        rows, names = _rows(release, membership), (release.items, release.fingerprint)
        return cls(membership, matrix, rows, raters, seen, *strangers, days, *names)


@dataclass(frozen=True)
class _Nothing:
    """Stands for a release where there is none: everybody is their own record."""

    items: pa.StringArray
    pseudonyms: pa.StringArray

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def row_of_member(self) -> np.ndarray:
        return np.arange(len(self.pseudonyms), dtype=np.int32)

    @property
    def fingerprint(self) -> str:
        return ""


def _ids(blocks: Iterable["RatingBlock"]) -> tuple[pa.StringArray, pa.StringArray]:
    """All users and all items of the source, each once, sorted."""
    users, items = pa.array([], pa.string()), pa.array([], pa.string())
    for block in blocks:
        users = pc.unique(pa.concat_arrays([users, block.users.cast(pa.string())]))
        items = pc.unique(pa.concat_arrays([items, block.items.cast(pa.string())]))
    return users.sort(), items.sort()


def _rows(release: "Release | _Nothing", membership: Membership) -> np.ndarray:
    place = pc.index_in(membership.pseudonyms, value_set=release.pseudonyms)
    found = pc.fill_null(place, -1).to_numpy().astype(np.int64)
    if not len(release.row_of_member):
        return np.full(len(found), -1, dtype=np.int32)
    return np.where(found >= 0, release.row_of_member[found], -1).astype(np.int32)


@dataclass
class _Table:
    """Ratings as numbers, a column each. People who are not in the release have numbers after all others, items
    that are not in it −1. Narrow, and thinned out column by column: this is the most the judge ever holds."""

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    times: np.ndarray | None
    unlisted_users: int
    unlisted_items: int

    def keep(self, places: np.ndarray) -> None:
        """Only these rows, in this order."""
        self.users, self.items = self.users[places], self.items[places]
        self.ratings = self.ratings[places]
        self.times = None if self.times is None else self.times[places]


def _gather(blocks: Iterable["RatingBlock"], users: pa.StringArray, items: pa.StringArray) -> _Table:
    """All blocks, in their order."""
    columns: dict[str, list[np.ndarray]] = {"users": [], "items": [], "ratings": [], "times": []}
    strangers: dict[str, int] = {}  # source ids of people withheld: few, and gone with this function
    missing_items: set[str] = set()
    timed = True
    for block in blocks:
        user, item = _numbers(block.users, users), _numbers(block.items, items)
        for value in pc.unique(block.users.filter(pa.array(user < 0))).to_pylist():
            strangers.setdefault(value, len(users) + len(strangers))
        if (user < 0).any():
            user[user < 0] = [strangers[v] for v in block.users.filter(pa.array(user < 0)).to_pylist()]
        missing_items.update(pc.unique(block.items.filter(pa.array(item < 0))).to_pylist())
        timed = timed and block.timestamps is not None
        times = np.asarray(block.timestamps, np.int64) if timed else np.zeros(0, np.int64)
        ratings = np.asarray(block.ratings, np.float32)
        parts = {"users": user, "items": item, "ratings": ratings, "times": times}
        for name, part in parts.items():
            columns[name].append(part)
    if not columns["users"]:
        raise Refused(
            "the source has no ratings", where="source", remedy="name the source this release was made from"
        )
    whole = {name: np.concatenate(columns.pop(name)) for name in list(columns)}  # parts go as they are joined
    when = whole.pop("times") if timed else None
    return _Table(whole["users"], whole["items"], whole["ratings"], when, len(strangers), len(missing_items))


def _numbers(ids: pa.Array, known: pa.StringArray) -> np.ndarray:
    place = pc.index_in(ids.cast(pa.string()), value_set=known)
    return np.array(pc.fill_null(place, -1), dtype=np.int32)


def _last_of_each(table: _Table, n_items: int) -> np.ndarray:
    """Positions of the rating that counts for each (user, item), in their order: the last by time, else the last
    in the file."""
    cells = table.users * np.int64(n_items + 1) + table.items
    order = np.argsort(cells, kind="stable") if table.times is None else np.lexsort((table.times, cells))
    cells = cells[order]
    return order[np.append(cells[1:] != cells[:-1], True)]


def _days(seconds: np.ndarray) -> np.ndarray:
    return (seconds // 86_400).astype(np.int32)
