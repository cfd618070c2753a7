"""Turn the records of a release into posting lists: per item, the records that have it and their ratings of it.

They lie in files of a scratch directory and are memory-mapped, so that all workers share one copy and none holds more
than one array of scores. Records are *different* published profiles: inside a group all members tie, so an attack that
ranks members would always look harmless.
"""

import hashlib
import json
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from checks.evidence.case import Case
from checks.evidence.release_view import ReleaseView
from checks.evidence.working_files import create as create_file
from tasks.errors import room_in

MOST_LEVELS = 65_536
ALIGNED = 64  # bytes
ROWS_IN_CACHE = 256
COARSE_LEVELS = 4_096  # continuous ratings beyond MOST_LEVELS different ones are compared on this many


@dataclass(frozen=True)
class Postings:
    """Represent opened posting lists; every array is part of one memory map (every block of targets opens it anew)."""

    directory: Path

    @cached_property
    def facts(self) -> dict[str, Any]:
        """`records`, `items`, `dense`, `dated`, and where each array lies (`arrays`)."""
        return json.loads((self.directory / "facts.json").read_text(encoding="utf-8"))

    @cached_property
    def _everything(self) -> np.ndarray:
        return np.asarray(np.memmap(self.directory / "arrays.bin", mode="r"))

    def array(self, name: str) -> np.ndarray:
        """Return one of the arrays by its name."""
        return _part(self._everything, *self.facts["arrays"][name])

    @cached_property
    def people(self) -> np.ndarray:
        """Number of real people behind each record."""
        return self.array("people")

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of items of each record."""
        return self.array("lengths")

    @cached_property
    def levels(self) -> np.ndarray:
        """The rating each code stands for."""
        return self.array("levels")

    @property
    def records(self) -> int:
        """Number of different records."""
        return int(self.facts["records"])

    def keep(self, array: np.ndarray) -> Path:
        """Save an array beside the posting lists for the workers to map, under a name that follows from its content."""
        digest = hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()
        path = self.directory / f"kept-{digest}-{array.dtype.name}.npy"
        if not path.exists():
            with room_in(self.directory, scratch=True):
                np.save(path, array)
        return path

    def inverse_norms(self, weight: np.ndarray) -> np.ndarray:
        """Return 1 / length of every record's vector, for the cosine; `weight` is the square of an item's entry in it.

        Computed once for all blocks of targets with the same weights.
        """
        digest = hashlib.blake2b(weight.astype(np.float64).tobytes(), digest_size=8).hexdigest()
        path = self.directory / f"norms-{digest}.npy"
        if not path.exists():
            # Several workers may come here at once: each writes the same bytes, under a name of its own.
            norms = self._inverse_norms(weight.astype(np.float64))
            with room_in(self.directory, scratch=True):
                with tempfile.NamedTemporaryFile(dir=self.directory, suffix=".npy", delete=False) as file:
                    np.save(file, norms)
                Path(file.name).rename(path)
        return np.load(path)

    def _inverse_norms(self, weight: np.ndarray) -> np.ndarray:
        squares = np.zeros(self.records)
        if self.facts["dense"]:
            squares += weight.sum()
        else:
            _add_by_row(squares, self.array("indptr"), self.array("rows"), weight)
        return (1 / np.sqrt(np.maximum(squares, 1e-12))).astype(np.float32)

    @classmethod
    def build(
        cls, release: ReleaseView, record_of_group: np.ndarray, people: np.ndarray, directory: Path
    ) -> "Postings":
        """Build the posting lists of a release.

        `record_of_group` numbers the different profiles by first appearance; `people` counts the real people behind
        each.
        """
        with room_in(directory, scratch=True):
            directory.mkdir(parents=True)
        first = np.zeros(release.n_groups, dtype=bool)
        first[np.unique(record_of_group, return_index=True)[1]] = True
        levels, coded = _levels(release)
        dense, dated = release.complete, release.dated
        lengths = np.full(len(people), release.n_items, dtype=np.int32)
        counts = np.full(release.n_items, len(people), dtype=np.int64)
        if not dense:
            counts[:] = 0
            for block in release.long_blocks():
                chosen = first[block.rows_slice]
                lengths[record_of_group[block.rows_slice][chosen]] = np.diff(block.indptr)[chosen]
                own = block.columns if chosen.all() else block.columns[chosen[block.row_numbers()]]
                counts += np.bincount(own, minlength=release.n_items)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        kind = np.uint8 if len(levels) <= 256 else np.uint16
        cells = int(indptr[-1])
        facts = {"records": len(people), "items": release.n_items, "dense": bool(dense), "dated": bool(dated)}
        arrays = cls.create(
            directory,
            facts,
            indptr=(np.int64, len(indptr)),
            levels=(np.float32, len(levels)),
            lengths=(np.int32, len(people)),
            people=(np.int32, len(people)),
            codes=(kind, cells),
            rows=(np.int32, 0 if dense else cells),
            days=(np.float32, cells if dated else 0),
        )
        arrays["indptr"][:], arrays["levels"][:] = indptr, levels
        arrays["lengths"][:], arrays["people"][:] = lengths, people
        codes, rows, days = arrays["codes"], arrays["rows"], arrays["days"]
        where = indptr[:-1].copy()
        for block in release.long_blocks():
            numbers = np.where(first[block.rows_slice], record_of_group[block.rows_slice], -1)
            own = coded(block).astype(kind, copy=False)
            if dense:
                table = own.reshape(block.rows, release.n_items)
                _transpose(table, numbers, codes.reshape(release.n_items, len(people)))
            else:
                columns = np.ascontiguousarray(block.columns)
                block_days = np.zeros(0, np.float32) if block.days is None else block.days.astype(np.float32)
                _fill(where, block.indptr, columns, own, block_days, numbers, rows, codes, days)
        return cls(directory)

    @staticmethod
    def create(
        directory: Path, facts: dict[str, Any], **arrays: tuple[type[np.generic], int]
    ) -> dict[str, np.ndarray]:
        """Create the files with space for arrays of these types and lengths, and return the arrays to fill."""
        places: dict[str, tuple[str, int, int]] = {}
        end = 0
        for name, (dtype, length) in arrays.items():
            places[name] = (np.dtype(dtype).str, end, length)
            end += -(-np.dtype(dtype).itemsize * length // ALIGNED) * ALIGNED
        everything = create_file(directory / "arrays.bin", max(end, 1))
        text = json.dumps({**facts, "arrays": places})
        with room_in(directory, scratch=True):
            (directory / "facts.json").write_text(text, encoding="utf-8")
        return {name: _part(np.asarray(everything), *place) for name, place in places.items()}


def postings_of(case: Case) -> Postings:
    """Return the posting lists of the different profiles of a case, for attacks that search them."""
    place = Path(case.scratch.name) / "postings"
    return case.cached(
        "postings", lambda: Postings.build(case.release, case.release.profile_of_group, case.people, place)
    )


def _part(everything: np.ndarray, dtype: str, start: int, length: int) -> np.ndarray:
    return everything[start : start + np.dtype(dtype).itemsize * length].view(dtype)


def _levels(release: ReleaseView) -> tuple[np.ndarray, Any]:
    """Return the ratings that occur and a function that codes a block's values by them."""
    if release.dtype != np.float32:
        grid = (release.low + np.arange(release.levels) * release.step).astype(np.float32)
        return grid, lambda block: block.codes
    seen, whole = release.distinct_values(MOST_LEVELS)
    if not len(seen):
        return np.zeros(1, np.float32), lambda block: np.zeros(0)
    if whole:
        return seen, lambda block: np.searchsorted(seen, block.codes)
    low, high = float(seen[0]), float(seen[-1])
    grid = np.linspace(low, high, COARSE_LEVELS, dtype=np.float32)
    scale = (COARSE_LEVELS - 1) / (high - low)
    return grid, lambda block: np.rint((block.codes - low) * scale)


@njit(cache=True, nogil=True)
def _transpose(table, numbers, transposed):  # type: ignore[no-untyped-def]
    """Transpose a table, taking of each record the row that comes first (the others have no number)."""
    for start in range(0, len(numbers), ROWS_IN_CACHE):
        stop = min(start + ROWS_IN_CACHE, len(numbers))
        for item in range(table.shape[1]):
            for row in range(start, stop):
                if numbers[row] >= 0:
                    transposed[item, numbers[row]] = table[row, item]


@njit(cache=True, nogil=True)
def _fill(where, indptr, columns, own, own_days, numbers, rows, codes, days):  # type: ignore[no-untyped-def]
    """Add the cells of a block to the lists of their items.

    They are sorted by counting first: the lists lie far apart, and one cell at a time would touch another page each.
    """
    record = np.empty(len(columns), np.int32)
    ends = np.zeros(len(where) + 1, np.int64)
    for row in range(len(numbers)):
        for cell in range(indptr[row], indptr[row + 1]):
            record[cell] = numbers[row]
            if numbers[row] >= 0:
                ends[columns[cell] + 1] += 1
    for item in range(len(where)):
        ends[item + 1] += ends[item]
    order = np.empty(ends[-1], np.int32)
    for cell in range(len(columns)):
        if record[cell] >= 0:
            order[ends[columns[cell]]] = cell
            ends[columns[cell]] += 1
    start = 0
    for item in range(len(where)):
        place = where[item]
        for p in range(start, ends[item]):
            cell = order[p]
            rows[place] = record[cell]
            codes[place] = own[cell]
            if len(own_days):
                days[place] = own_days[cell]
            place += 1
        where[item] = place
        start = ends[item]


@njit(cache=True, nogil=True)
def _add_by_row(sums, indptr, rows, weight):  # type: ignore[no-untyped-def]
    for item in range(len(indptr) - 1):
        for place in range(indptr[item], indptr[item + 1]):
            sums[rows[place]] += weight[item]
