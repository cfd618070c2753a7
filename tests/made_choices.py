"""Make data in which tastes decide what people rate, releases of them, and the evidence about ranking."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks.data import profiles
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.engine import Engine
from tasks.pipeline import StepContext
from tasks.shadow.interactions import SUPPORT
from tasks.shadow.placement import Placement
from tasks.shadow.recommendation import ShadowRelease, write_ranking

CODING = profiles.Coding.in_steps((1.0, 5.0), 0.1)
TASTES, PEOPLE, ITEMS = 4, 400, 80


def taste_of(people: int = PEOPLE) -> np.ndarray:
    return np.arange(people) % TASTES


def choices(people: int = PEOPLE, seed: int = 0, *, tastes: bool = True) -> sp.csr_array:
    """Ratings of 4 or 5; people choose mostly among a quarter of the items, popular ones more often. Without tastes
    each item is as often chosen, by anybody."""
    draw = np.random.default_rng(seed)
    popular = 1 / np.sqrt(1 + np.arange(ITEMS) // TASTES)
    fits = np.arange(ITEMS)[None, :] % TASTES == taste_of(people)[:, None]
    liking = np.where(fits, 0.7, 0.08)
    chosen = draw.random(fits.shape) < (liking if tastes else liking.mean()) * popular
    chosen[np.arange(people), draw.integers(0, ITEMS, people)] = True
    matrix = sp.csr_array(np.where(chosen, draw.integers(4, 6, fits.shape), 0).astype(np.float32))
    matrix.sort_indices()
    return matrix


def uniform(people: int = PEOPLE, seed: int = 0) -> sp.csr_array:
    """Rows of random items."""
    return shuffled(choices(people, seed), seed)


def shuffled(rows: sp.csr_array, seed: int = 0) -> sp.csr_array:
    """The same numbers of cells in every row, with other items."""
    draw = np.random.default_rng(seed)
    matrix = sp.csr_array(draw.permuted(rows.toarray(), axis=1))
    matrix.sort_indices()
    return matrix


def split(
    ratings: sp.csr_array, seed: int = 1
) -> tuple[sp.csr_array, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Hold out a tenth: what is left, and (row, item, rating)."""
    aside = np.random.default_rng(seed).random(ratings.nnz) < 0.1
    cells = ratings.tocoo()
    row, item = cells.coords
    left = sp.csr_array((cells.data[~aside], (row[~aside], item[~aside])), shape=ratings.shape)
    left.sort_indices()
    return left, (row[aside], item[aside], cells.data[aside])


def write_rows(path: Path, rows: sp.csr_array | np.ndarray, sizes: np.ndarray | None = None) -> None:
    """Write groups.parquet: sparse rows list their items, dense ones hold every item."""
    sizes = np.ones(rows.shape[0], np.int32) if sizes is None else sizes
    if isinstance(rows, np.ndarray):
        codes = np.rint((rows - 1) / 0.1).astype(np.uint8)
        table = profiles.table_of(0, sizes, [None] * len(codes), list(codes))
    else:
        ends = rows.indptr[1:-1]
        codes = np.rint((rows.data - 1) / 0.1).astype(np.uint8)
        table = profiles.table_of(0, sizes, np.split(rows.indices, ends), np.split(codes, ends))
    profiles.write_tables(path, [table])


def write_support(path: Path, counts: np.ndarray) -> None:
    group, item = np.nonzero(counts)
    columns = zip(("group", "item", "raters"), (group, item, counts[group, item]), strict=True)
    pq.write_table(pa.table({name: pa.array(values, pa.int32()) for name, values in columns}), path)


def counted(ratings: sp.csr_array, group_of: np.ndarray, c: int = 3) -> np.ndarray:
    """How many members rated each item, rounded down, where that is c to half of the group."""
    groups = group_of.max() + 1
    member = sp.csr_array((np.ones(len(group_of)), (group_of, np.arange(len(group_of)))))
    counts = (member @ (ratings > 0).astype(np.int64)).toarray()
    assert counts.shape[0] == groups
    counts[2 * counts > np.bincount(group_of)[:, None]] = 0
    return counts // c * c


def write_evidence(
    directory: Path,
    ratings: sp.csr_array,
    rows: sp.csr_array | np.ndarray,
    record_of_user: np.ndarray,
    *,
    sizes: np.ndarray | None = None,
    counts: np.ndarray | None = None,
    columns: np.ndarray | None = None,
    engine: Engine | None = None,
) -> str:
    """Hold out a tenth of the ratings and write what `evaluate` writes about ranking; `columns` are those released."""
    left, held_out = split(ratings)
    place = directory / "made"
    place.mkdir(parents=True)
    write_ids(place, "user", [str(number) for number in range(left.shape[0])])
    write_ids(place, "item", [f"item {number}" for number in range(left.shape[1])])
    write_matrix(place, left)
    write_rows(place / "groups.parquet", rows, sizes)
    profiles.unpack(place / "groups.parquet", place / "profiles", CODING.dtype)
    column = np.arange(left.shape[1])
    if columns is not None:
        column = np.full(left.shape[1], -1)
        column[columns] = np.arange(len(columns))
    if counts is not None:
        write_support(place / SUPPORT, counts)
    release = ShadowRelease(
        place / "profiles",
        CODING,
        Placement(record_of_user, column),
        rows.shape[1],
        place / SUPPORT if counts is not None else None,
    )
    streams = np.random.default_rng
    noise: Any = None
    context = StepContext(None, directory, engine or Engine(), lambda *_: streams(0), noise, lambda *_: None)
    users = pa.array([f"person {number}" for number in range(left.shape[0])])
    return write_ranking(context, Ratings(place), held_out, release, (1.0, 5.0), users)
