"""Read the source ratings anew: what the release is measured against.

They are built with the judge's own code from the source and the private membership: a judge that shared the release's
arrays would confirm their faults.
"""

import contextlib
import datetime
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from checks.evidence.membership import Membership
from checks.evidence.release import Release
from checks.evidence.source_matrix import IdArrays, IdFiles, Matrix, join, read_matrix, write_runs
from checks.evidence.working_files import forget, working_files
from tasks.config import Source
from tasks.engine import Engine

if TYPE_CHECKING:
    from tasks.formats import RatingBlock

COMMON_LEVEL = 0.005  # share of all ratings from which a value counts as a level of the scale
MOST_LEVELS = 21  # with more, the scale is continuous
MOST_VALUES = 1_000_000  # different ratings that are counted exactly
RARE_VALUE = 1e-5  # share of all ratings; far below a level's
STRETCH = 4_000_000  # ratings processed together
BLOCKS_TOGETHER = 64  # blocks whose ids are made unique together

_ABOUT_RATINGS = (
    "item_totals",
    "value_counts",
    "common_levels",
    "half_level",
)  # facts that do not depend on the rows in which people are listed


@dataclass(frozen=True)
class Truth:
    """Hold accepted, de-duplicated ratings as a matrix: rows as in the membership, columns as in items.parquet.

    `row_of_user` is the row of groups.parquet in which the release lists the user (−1: none); `raters` counts each
    item's raters in the whole source, people who are not in the release included; `seen` marks who of the membership is
    in the source at all; `days` is when each rating was given, in days since 1970, where the source has it;
    `attributes` is what the source knows of people beside their ratings, a row per user and null where it knows
    nothing; `items` are the names of the columns; `salt` is the release's fingerprint, from which the judge draws whom
    to attack and with which knowledge; `files` are the working files from which the ratings are mapped, if any;
    `first_rows` and `first_item_rows` are the rows of the source in which each person and item first occurs.
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
    files: tempfile.TemporaryDirectory | None = None
    attributes: dict[str, pa.DictionaryArray] = field(default_factory=dict)
    first_rows: np.ndarray | None = None
    first_item_rows: np.ndarray | None = None

    @property
    def users(self) -> int:
        """Number of users in the membership."""
        return self.ratings.shape[0]

    @property
    def source_users(self) -> int:
        """Number of people in the source, those who are not in the release included."""
        return int(self.seen.sum()) + self.unlisted_users

    def close(self) -> None:
        """Remove the working files."""
        if self.files is not None:
            self.files.cleanup()

    def forget(self) -> None:
        """Release the memory of the pages touched so far; they are read again when they are needed."""
        forget(self.ratings.indices, self.ratings.data, self.days)

    def listed_at(self, row_of_user: np.ndarray) -> "Truth":
        """Return the same ratings with people listed in other rows; facts about the ratings stay cached."""
        other = replace(self, row_of_user=row_of_user)
        other.__dict__.update({name: self.__dict__[name] for name in _ABOUT_RATINGS if name in self.__dict__})
        return other

    @cached_property
    def item_totals(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of ratings of each item (by the people here), and their sum."""
        items = self.ratings.shape[1]
        count, total = np.zeros(items, np.int64), np.zeros(items)
        for part in self.stretches():
            own = self.ratings.indices[part]
            count += np.bincount(own, minlength=items)
            total += np.bincount(own, weights=self.ratings.data[part], minlength=items)
        return count, total

    def mean_of_others(
        self, items: np.ndarray, ratings: np.ndarray, number: np.ndarray | int = 1
    ) -> np.ndarray:
        """Return the mean of all other people's ratings of each item, those with this sum by so many people left out;
        the mean of all ratings where nobody else rated it."""
        count, total = self.item_totals
        others, rest = count[items] - number, total[items] - ratings
        return np.where(others > 0, rest / np.maximum(others, 1), total.sum() / max(1, count.sum()))

    @cached_property
    def value_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """The different ratings that occur, ascending, and how often each does.

        Where there are very many, those that hardly ever occur are left out (except the lowest and the highest), and
        the counts do not add up to all ratings.
        """
        values, counts = np.zeros(0, np.float32), np.zeros(0, np.int64)
        for part in self.stretches():
            code, own = pd.factorize(self.ratings.data[part])
            values, place = np.unique(np.concatenate([values, own]), return_inverse=True)
            counts = np.bincount(place, weights=np.concatenate([counts, np.bincount(code)])).astype(np.int64)
            if len(values) > MOST_VALUES:
                common = counts > RARE_VALUE * counts.sum()
                common[[0, -1]] = True
                values, counts = values[common], counts[common]
        return values, counts

    def stretches(self, entries: int = STRETCH) -> Iterator[slice]:
        """Yield slices over all ratings, a few million at a time, so that no intermediate result is as long as the
        ratings."""
        return (slice(start, start + entries) for start in range(0, self.ratings.nnz, entries))

    @cached_property
    def common_levels(self) -> np.ndarray:
        """The ratings that people commonly give, where the scale has levels; none where it is continuous.

        A stray 3.33 is no level, and must not widen every comparison.
        """
        values, counts = self.value_counts
        usual = counts >= COMMON_LEVEL * self.ratings.nnz
        if not 2 <= usual.sum() <= MOST_LEVELS or counts[usual].sum() < self.ratings.nnz / 2:
            return values[:0]
        return values[usual]

    @cached_property
    def half_level(self) -> float:
        """Half the distance between two ratings people can give: values nearer than this are the same rating.

        On continuous scales, a fortieth of the scale's width.
        """
        values = self.value_counts[0]
        if len(values) < 2:
            return 0.5
        if not len(self.common_levels):
            return float(values[-1] - values[0]) / 40
        return float(np.diff(self.common_levels).min()) / 2

    @classmethod
    def read(
        cls,
        release: Release,
        private: Path,
        source: Source,
        snapshot: datetime.date,
        engine: Engine | None = None,
    ) -> "Truth":
        """Read the whole source again."""
        membership = Membership.read(private)
        ids, files = IdArrays(membership.users, release.items), IdFiles(private, release.directory)
        with _removed_on_failure(working_files(private)) as place:
            matrix = read_matrix(source, snapshot, ids, files, Path(place.name), engine)
            return cls._of(release, membership, matrix, place, _attributes(source, snapshot, membership))

    @classmethod
    def from_source_only(cls, source: Source, snapshot: datetime.date) -> "Truth":
        """Read a source without a release: all its people and items, in order of their ids."""
        from tasks.formats import read_all

        users, items = _ids(read_all(source, snapshot))
        names = pa.array([str(number) for number in range(len(users))], pa.string())
        all_people = Membership(users, names, np.arange(len(users), dtype=np.int32))
        with _removed_on_failure(working_files(None)) as place:
            matrix = read_matrix(source, snapshot, IdArrays(users, items), None, Path(place.name), None)
            known = _attributes(source, snapshot, all_people)
            return cls._of(_SourceAlone(items, names), all_people, matrix, place, known)

    @classmethod
    def build(cls, release: Release, membership: Membership, blocks: Iterable["RatingBlock"]) -> "Truth":
        """Build the matrix from blocks of ratings in the order of the source."""
        ids = IdArrays(membership.users, release.items)
        with _removed_on_failure(working_files(None)) as place:
            runs = list(write_runs(blocks, ids, Path(place.name), "run"))
            return cls._of(release, membership, join(runs, ids, Path(place.name)), place)

    @classmethod
    def _of(
        cls,
        release: "Release | _SourceAlone",
        membership: Membership,
        matrix: Matrix,
        files: tempfile.TemporaryDirectory,
        attributes: dict[str, pa.DictionaryArray] | None = None,
    ) -> "Truth":
        return cls(
            membership,
            matrix.ratings,
            _rows(release, membership),
            matrix.raters,
            matrix.seen,
            matrix.unlisted_users,
            matrix.unlisted_items,
            matrix.days,
            release.items,
            release.fingerprint,
            files,
            attributes or {},
            matrix.first_rows,
            matrix.first_item_rows,
        )


@contextlib.contextmanager
def _removed_on_failure(files: tempfile.TemporaryDirectory) -> Iterator[tempfile.TemporaryDirectory]:
    """Keep working files when the block succeeds and remove them at once when it fails."""
    try:
        yield files
    except BaseException:
        files.cleanup()
        raise


@dataclass(frozen=True)
class _SourceAlone:
    """Stand in for a release where there is none: every person is a record."""

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
    """Return all users and all items of the source, each once, sorted."""
    found: dict[str, list[pa.StringArray]] = {"users": [], "items": []}
    for number, block in enumerate(blocks, start=1):
        for name, parts in found.items():
            parts.append(pc.unique(getattr(block, name).cast(pa.string())))
            if number % BLOCKS_TOGETHER == 0:
                parts[:] = [pc.unique(pa.concat_arrays(parts))]
    users, items = (pc.unique(pa.concat_arrays(found[name])) for name in ("users", "items"))
    return users.sort(), items.sort()


def _attributes(
    source: Source, snapshot: datetime.date, membership: Membership
) -> dict[str, pa.DictionaryArray]:
    """Return what the source knows of the people in the membership, in its order."""
    from tasks.formats import attributes

    table = attributes(source, snapshot)
    if table is None:
        return {}
    row = pc.index_in(membership.users, value_set=table.column("user").combine_chunks())
    return {
        name: table.column(name).combine_chunks().take(row).dictionary_encode()
        for name in table.column_names[1:]
    }


def _rows(release: "Release | _SourceAlone", membership: Membership) -> np.ndarray:
    place = pc.index_in(membership.pseudonyms, value_set=release.pseudonyms)
    found = pc.fill_null(place, -1).to_numpy().astype(np.int64)
    if not len(release.row_of_member):
        return np.full(len(found), -1, dtype=np.int32)
    return np.where(found >= 0, release.row_of_member[found], -1).astype(np.int32)
