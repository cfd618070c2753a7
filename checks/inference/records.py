"""Store the records an attacker learns from: those of the people tested, in files that all workers map.

They are sparse where records differ in their items (a missing item counts 0, as in [RFPP]) and dense where every record
has every item. With each come features in which no attribute plays a part, so that they are made once: the leading
components (components.py) and a few plain numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.profiles import Profiles
from checks.evidence.views.sample import select_rows
from checks.inference.components import Components, Matrix, leading
from tasks.errors import room_in

SPARSE_COMPONENTS = 32
DENSE_COMPONENTS = 64
NEAR = 1e-4


@dataclass(frozen=True)
class Records:
    """Represent opened files of some records (`directory`), one row each; people who share a record share a row."""

    directory: Path

    def __reduce__(self) -> tuple[type["Records"], tuple[Path]]:
        """Let workers open the files themselves."""
        return Records, (self.directory,)

    @cached_property
    def matrix(self) -> Matrix:
        """Records × items."""
        return _load(self.directory, "matrix")

    @property
    def dense(self) -> bool:
        """Whether every record has every item."""
        return not sp.issparse(self.matrix)

    @property
    def marked(self) -> bool:
        """Whether some values, and not all, are ones that no person gives: additions that can be recognized."""
        return (self.directory / "marked.npy").exists()

    @cached_property
    def unmarked_values(self) -> sp.csr_array:
        """The records without marked values."""
        return self._select_cells(self._is_marked == 0)

    @cached_property
    def marked_values(self) -> sp.csr_array:
        """Only the marked values of the records."""
        return self._select_cells(self._is_marked != 0)

    @cached_property
    def _is_marked(self) -> np.ndarray:
        return np.load(self.directory / "marked.npy", mmap_mode="r")

    def _select_cells(self, keep: np.ndarray) -> sp.csr_array:
        whole = self.matrix
        assert sp.issparse(whole)
        counts = np.add.reduceat(np.append(keep, False), whole.indptr[:-1], dtype=np.int32)
        counts[np.diff(whole.indptr) == 0] = 0
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return sp.csr_array((whole.data[keep], whole.indices[keep], indptr), shape=whole.shape)

    @cached_property
    def summaries(self) -> np.ndarray:
        """Per record: how many items (logarithm), mean and deviation of the values, the share of values that no person
        gives, and how many people are listed with it."""
        return np.load(self.directory / "summaries.npy")

    @cached_property
    def components(self) -> Components:
        """The leading components of these records."""
        return Components.load(self.directory)

    @cached_property
    def record_of(self) -> np.ndarray:
        """The record of each of the people for whom these were stored."""
        return np.load(self.directory / "record-of.npy")


def records_of(case: Case, people: np.ndarray) -> Records:
    """Return the published records of these people (rows of the truth), written to working files once."""
    known = case.cached("records", dict[bytes, Records])
    key = people.tobytes()
    if key not in known:
        known[key] = store_records(case, people, Path(case.scratch.name) / f"records-{len(known)}")
    return known[key]


def store_records(case: Case, people: np.ndarray, place: Path) -> Records:
    """Write the records of these people (rows of the truth) to working files."""
    rows = case.truth.row_of_user[people]
    chosen, record_of = np.unique(rows, return_inverse=True)
    listed = case.release.listed[chosen] if len(chosen) else np.zeros(0, np.int64)
    levels = case.truth.common_levels if case.single and case.release.unit == "rating" else None
    with room_in(place.parent, scratch=True):
        place.mkdir()
        blocks = (select_rows(block, chosen) for block in case.release.long_blocks())
        if case.release.complete:
            matrix: Matrix = _dense(blocks, place, (len(chosen), case.release.n_items))
        else:
            matrix = _sparse(blocks, case.release.n_items)
        return write_records(matrix, place, record_of, listed, levels)


def write_records(
    matrix: Matrix,
    place: Path,
    record_of: np.ndarray,
    listed: np.ndarray,
    levels: np.ndarray | None = None,
) -> Records:
    """Write a matrix of records and what follows from it; `levels` are the values people give, where records are single
    people's ratings."""
    marked = _mark_impossible_values(matrix, levels)
    share = np.zeros(matrix.shape[0])
    if marked is not None and sp.issparse(matrix):
        owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        share = np.bincount(owner, marked, matrix.shape[0]) / np.maximum(np.diff(matrix.indptr), 1)
        if marked.any() and not marked.all():
            np.save(place / "marked.npy", marked.astype(np.uint8))
    _save(place, "matrix", matrix)
    np.save(place / "summaries.npy", np.column_stack([*_moments(matrix), share, listed]).astype(np.float32))
    np.save(place / "record-of.npy", record_of.astype(np.int64))
    leading(matrix, SPARSE_COMPONENTS if sp.issparse(matrix) else DENSE_COMPONENTS).save(place)
    return Records(place)


def _sparse(blocks: Iterator[Profiles], n_items: int) -> sp.csr_array:
    parts = [block.matrix() for block in blocks if block.rows]
    if not parts:
        return sp.csr_array(np.zeros((0, n_items), np.float32))
    return sp.csr_array(sp.vstack(parts, format="csr"))


def _dense(blocks: Iterator[Profiles], place: Path, shape: tuple[int, int]) -> np.ndarray:
    """Write a mapped file: at Netflix's size eight thousand profiles are half a gigabyte."""
    table = np.lib.format.open_memmap(place / "matrix.npy", mode="w+", dtype=np.float32, shape=shape)
    at = 0
    for block in blocks:
        table[at : at + block.rows] = block.table()
        at += block.rows
    table.flush()
    return table


def _mark_impossible_values(matrix: Matrix, levels: np.ndarray | None) -> np.ndarray | None:
    """Mark the values that are none of these levels."""
    if levels is None or not len(levels) or not sp.issparse(matrix):
        return None
    place = np.clip(np.searchsorted(levels, matrix.data), 1, len(levels) - 1)
    nearest = np.minimum(np.abs(matrix.data - levels[place - 1]), np.abs(matrix.data - levels[place]))
    return nearest > NEAR


def _moments(matrix: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the logarithm of the number of items, mean and standard deviation of every record's values."""
    if sp.issparse(matrix):
        count = np.maximum(np.diff(matrix.indptr), 1).astype(np.float64)
        sums, squares = matrix.sum(axis=1), matrix.power(2).sum(axis=1)
    else:
        count = np.full(matrix.shape[0], max(1, matrix.shape[1]), np.float64)
        sums = matrix.sum(axis=1, dtype=np.float64)
        squares = np.einsum("ij,ij->i", matrix, matrix)
    mean = sums / count
    return np.log(count), mean, np.sqrt(np.maximum(squares / count - mean**2, 0))


def _save(place: Path, name: str, matrix: Matrix) -> None:
    if not sp.issparse(matrix):
        if not isinstance(matrix, np.memmap):  # otherwise it is there already
            np.save(place / f"{name}.npy", np.asarray(matrix, np.float32))
        return
    np.save(place / f"{name}-data.npy", matrix.data.astype(np.float32, copy=False))
    np.save(place / f"{name}-indices.npy", matrix.indices.astype(np.int32, copy=False))
    np.save(place / f"{name}-indptr.npy", matrix.indptr.astype(np.int32, copy=False))
    np.save(place / f"{name}-shape.npy", np.array(matrix.shape))


def _load(place: Path, name: str) -> Matrix:
    if (place / f"{name}.npy").exists():
        return np.load(place / f"{name}.npy", mmap_mode="r")
    data, indices, indptr, shape = (
        np.load(place / f"{name}-{part}.npy") for part in ("data", "indices", "indptr", "shape")
    )
    return sp.csr_array((data, indices, indptr), shape=tuple(shape))
