"""Hold support.parquet: beside the profile of a group, how many of its members really rated an item, rounded.

Counted from the ratings themselves: predicted, topped-up and decoy cells are no ratings, and made-up ratings
(tasks/steps/obfuscation.py) are taken out. What a cell shows is decided in tasks/kernels/support.py.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks.data.ratings import Ratings
from tasks.kernels.support import Counts, shown_counts

FILE = "support.parquet"
SCHEMA = pa.schema([pa.field(name, pa.int32(), nullable=False) for name in ("group", "item", "raters")])
RATINGS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Support:
    """Hold published cells: parallel arrays."""

    group: np.ndarray
    item: np.ndarray
    raters: np.ndarray

    @classmethod
    def empty(cls) -> "Support":
        """Return no cells."""
        return cls(*(np.empty(0, np.int32) for _ in range(3)))

    @classmethod
    def read(cls, path: Path) -> "Support":
        """Read a published file."""
        table = pq.read_table(path)
        return cls(*(table.column(name).to_numpy() for name in SCHEMA.names))

    @classmethod
    def of_cohort(cls, ratings: Ratings, labels: np.ndarray, c: int) -> "Support":
        """Return the cells of newly formed groups, numbered as in `labels`, items by column."""
        counts = count_raters(ratings, labels)
        shown = shown_counts(counts, c)
        there = shown > 0
        return cls(counts.group[there], counts.item[there], shown[there])

    def placed(self, number: np.ndarray, position: np.ndarray) -> "Support":
        """Return the same cells with other numbers of groups (−1: left out) and positions of items."""
        group = number[self.group]
        kept = group >= 0
        return Support(group[kept], position[self.item[kept]], self.raters[kept])

    def joined(self, other: "Support") -> "Support":
        """Return the cells of both."""
        return Support(
            *(np.concatenate([getattr(self, name), getattr(other, name)]) for name in SCHEMA.names)
        )

    def write(self, path: Path) -> None:
        """Write the cells in the order of groups and items, which says nothing else."""
        order = np.lexsort((self.item, self.group))
        columns = [pa.array(getattr(self, name)[order], pa.int32()) for name in SCHEMA.names]
        pq.write_table(pa.table(columns, schema=SCHEMA), path, compression="zstd")

    def by_group(self, groups: int, n_items: int) -> sp.csr_array:
        """Return the published counts as a matrix of groups × items; 0 where a cell is blank."""
        return sp.csr_array((self.raters, (self.group, self.item)), shape=(groups, n_items))


def count_raters(ratings: Ratings, labels: np.ndarray) -> Counts:
    """Count the real raters of each item in each group, a block of groups at a time."""
    sizes = np.bincount(labels)
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    running = np.concatenate([[0], np.cumsum(ratings.by_user.counts()[order])])[starts]
    parts: list[sp.coo_array] = []
    first = 0
    while first < len(sizes):
        fits = int(np.searchsorted(running, running[first] + RATINGS_AT_ONCE, side="right")) - 1
        last = min(max(fits, first + 1), len(sizes))
        users = order[starts[first] : starts[last]]
        member = sp.csr_array(
            (np.ones(len(users), np.int32), np.arange(len(users)), starts[first : last + 1] - starts[first]),
            shape=(last - first, len(users)),
        )
        counted = member @ _marks(ratings.by_user.take(users))
        if (made_up := ratings.made_up_of(users)) is not None:
            counted = counted - member @ _marks(made_up)
            counted.eliminate_zeros()
        counted.sort_indices()
        part = counted.tocoo()
        part.coords = (part.coords[0] + first, part.coords[1])
        parts.append(part)
        first = last
    group, item = (np.concatenate([part.coords[side] for part in parts]).astype(np.int32) for side in (0, 1))
    raters = np.concatenate([part.data for part in parts]).astype(np.int32)
    return Counts(group, item, raters, sizes, ratings.n_items)


def _marks(rated: sp.csr_array) -> sp.csr_array:
    """Return 1 in every cell that is there, a rating of 0 included."""
    return sp.csr_array((np.ones(rated.nnz, np.int32), rated.indices, rated.indptr), shape=rated.shape)
