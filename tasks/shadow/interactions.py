"""Learn from a release which items go together: one entry of `KINDS` for each kind of thing that releases publish.

A recommender needs to know which items are rated by the same people. What a release says of that depends on its kind;
the first entry of `KINDS` that suits a release is used.

- raters (support.parquet): how many members of a group rated an item. A row is a group's shares of raters, weighted
  with its number of people: in expectation the Gram matrix of the members, if each of them chose by the group's shares.
- values (every record holds every item: padded profiles, disguised records with all entries): nothing says who rated
  what. Values are taken as differences from the item's and from the record's own level, and records count as many times
  as they have people. Without that the level of each item, which says how much everybody likes it, is nearly all of
  every product, and the items that go with any item are those with the highest level.
- lists (everything else: profiles and records that list items, synthetic rows): 1 for each listed item, weighted with
  the number of people.

EASE ([Steck2019]) learns item-to-item weights from these. A person's own history is asked as 1 for each item that the
person rated, whatever the kind. A group is asked with its row: the same shares or list, or, where records hold values
only, its deviations, whose predictions stand beside the items' levels.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks.data import profiles
from tasks.recommenders import ease
from tasks.recommenders._cells import ROWS_AT_ONCE, gram, gram_of_blocks
from tasks.recommenders._support import shares_of_groups

SUPPORT = "support.parquet"


@dataclass(frozen=True)
class Released:
    """Hold what of a release a recommender may use: some of its columns, of all its records."""

    unpacked: Path  # as profiles.unpack wrote them
    coding: profiles.Coding
    columns: np.ndarray  # of the release, in the order in which they are wanted
    n_columns: int
    support: Path | None = None  # support.parquet, where the release has one

    @cached_property
    def sizes(self) -> np.ndarray:
        """Return the number of people of each record."""
        return np.asarray(self.records().sizes)

    @property
    def every_item(self) -> bool:
        """Return whether every record holds every item."""
        return self.records().items is None

    def records(self) -> profiles.Profiles:
        """Open the records, mapped."""
        return profiles.open_unpacked(self.unpacked, self.coding.dtype)

    def values(self, some: slice | np.ndarray) -> np.ndarray:
        """Return the values of some records that hold every item, dense."""
        # Opened anew: pages read from a mapping count as this process' memory until the mapping is closed.
        codes = self.records().codes.reshape(-1, self.n_columns)[some][:, self.columns]
        return np.asarray(self.coding.values(codes), np.float32)

    def blocks(self) -> Iterator[slice]:
        """Yield ranges of records."""
        return (slice(start, start + ROWS_AT_ONCE) for start in range(0, len(self.sizes), ROWS_AT_ONCE))


@dataclass(frozen=True)
class Learned:
    """Hold item-to-item weights, and how to score items by what the release says about a record's people."""

    weights: np.ndarray
    row: Callable[[np.ndarray], np.ndarray]  # records → what they say of each item, dense
    levels: np.ndarray | float = field(default=0.0)

    def by_history(self, histories: np.ndarray) -> np.ndarray:
        """Return scores of every item for people who rated some of them (1 or 0)."""
        return histories @ self.weights

    def by_record(self, records: np.ndarray) -> np.ndarray:
        """Return scores of every item for people of whom the release says what these records say."""
        return self.row(records) @ self.weights + self.levels


@dataclass(frozen=True)
class Kind:
    """Say which releases are of a kind, and how to learn from them."""

    suits: Callable[[Released], bool]
    learn: Callable[[Released], Learned]


def learn(released: Released) -> tuple[str, Learned]:
    """Learn from a release; return its kind, too."""
    name = next(name for name, kind in KINDS.items() if kind.suits(released))
    return name, KINDS[name].learn(released)


def learn_from_ratings(rated: sp.csr_array) -> np.ndarray:
    """Learn from who rated what (stored cells), as EASE is trained where nothing is protected."""
    listed = sp.csr_array((np.ones(rated.nnz, np.float32), rated.indices, rated.indptr), shape=rated.shape)
    return ease.solve(gram(listed, np.ones(listed.shape[0])), ease.RIDGE)


def _from_raters(released: Released) -> Learned:
    """Learn from support.parquet: group, item (position) and raters."""
    assert released.support is not None
    table = pq.read_table(released.support, columns=["group", "item", "raters"])
    group, item, raters = (table.column(name).to_numpy() for name in table.column_names)
    shape = (len(released.sizes), released.n_columns)
    counts = sp.csr_array((raters, (group, item)), shape=shape)[:, released.columns].toarray()
    c = int(raters.min()) if len(raters) else 1
    shares = shares_of_groups(counts, released.sizes, c)
    blocks = ((shares[some], released.sizes[some].astype(np.float64)) for some in released.blocks())
    weights = ease.solve(gram_of_blocks(blocks, len(released.columns)), ease.RIDGE)
    return Learned(weights, lambda records: shares[records])


def _from_listed(released: Released) -> Learned:
    records = released.records()
    ones = np.ones(len(records.codes), np.float32)
    listed = records.matrix(ones, released.n_columns)
    return _from_lists(sp.csr_array(listed[:, released.columns]), released.sizes)


def _from_lists(rows: sp.csr_array, sizes: np.ndarray) -> Learned:
    weights = ease.solve(gram(rows, sizes.astype(np.float64)), ease.RIDGE)
    return Learned(weights, lambda records: rows[records].toarray())


def _from_values(released: Released) -> Learned:
    people, width = released.sizes.astype(np.float64), len(released.columns)
    total = np.zeros(width)
    for some in released.blocks():
        total += people[some] @ released.values(some)
    levels = (total / max(people.sum(), 1)).astype(np.float32)
    around = levels - levels.mean() if width else levels

    def deviations(rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows - rows.mean(axis=1, keepdims=True) - around, np.float32)

    blocks = ((deviations(released.values(some)), people[some]) for some in released.blocks())
    weights = ease.solve(gram_of_blocks(blocks, width), ease.RIDGE_OF_RATINGS)

    return Learned(weights, lambda records: deviations(released.values(records)), levels)


KINDS = {
    "raters": Kind(lambda released: released.support is not None, _from_raters),
    "values": Kind(lambda released: released.every_item, _from_values),
    "lists": Kind(lambda released: not released.every_item, _from_listed),
}
