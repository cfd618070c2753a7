"""Define what a check may read of a release, whichever view of it the check is given.

Four classes implement `ReleaseView`: the published files (release.py), the raw data, a sample of the groups, and
z-scores read as ratings (views/). A view supplies its blocks; every derived fact is computed here, once for all views.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from checks.evidence.profiles import Profiles
from checks.evidence.stored_profiles import digests_of
from checks.evidence.support import Support

BLOCK_CELLS = 2_000_000
LONG_BLOCK_CELLS = 16_000_000
CACHE_BYTES = 96 * 2**20


@dataclass(frozen=True)
class Listing:
    """Hold what a release lists: items by position; one row per group; one row per member with the group's number."""

    items: pa.StringArray
    groups: np.ndarray
    sizes: np.ndarray
    pseudonyms: pa.StringArray
    member_group: np.ndarray


class ReleaseView(ABC):
    """Represent published records: what the manifest states, what is listed, and the records in blocks of groups.

    `step` is the distance between two published values (0: any number) and `dtype` the type of their codes; with a
    `private` directory, working files lie there.
    """

    def __init__(
        self,
        manifest: dict[str, Any],
        listing: Listing,
        *,
        step: float,
        dtype: np.dtype,
        private: Path | None = None,
    ) -> None:
        self.manifest = manifest
        privacy = manifest["privacy"]
        # Synthetic rows promise epsilon instead: they are shared by nobody, and their cells by no real rating.
        self.k, self.l, self.b = (int(privacy.get(name, 1)) for name in ("k", "l", "b"))
        self.min_contributors = int(privacy.get("min_contributors", 1))
        self.low, self.high = (float(v) for v in manifest["rating_scale"])
        self.step, self.dtype, self.private = step, dtype, private
        self.items, self.groups, self.sizes = listing.items, listing.groups, listing.sizes
        self.pseudonyms, self.member_group = listing.pseudonyms, listing.member_group

    @property
    def support(self) -> Support | None:
        """The published counts of raters; None: there are none, or the view does not show them."""
        return None

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray:
        """Number of published items of every group."""

    @abstractmethod
    def blocks(self) -> Iterator[Profiles]:
        """Yield the groups in blocks of at most BLOCK_CELLS cells of a full table."""

    @abstractmethod
    def long_blocks(self) -> Iterable[Profiles]:
        """Return the groups in longer blocks where that costs little, for callers that do not decode a whole block."""

    @abstractmethod
    def close(self) -> None:
        """Remove the working files."""

    @property
    def unit(self) -> str:
        """What the published numbers are: "rating", or "z-score" of the person's own ratings."""
        return self.manifest.get("unit", "rating")

    @property
    def dated(self) -> bool:
        """Whether cells carry the day of the rating: never in what is published."""
        return False

    @property
    def n_items(self) -> int:
        """Number of items, published or not, in position order."""
        return len(self.items)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.groups)

    @property
    def levels(self) -> int:
        """Number of codes the scale has at this step (0 for float32)."""
        return 0 if self.dtype == np.float32 else math.floor((self.high - self.low) / self.step + 1e-6) + 1

    @property
    def cells(self) -> int:
        """Number of published (group, item) cells."""
        return int(self.lengths.sum())

    @property
    def complete(self) -> bool:
        """True when every group has every item, so that which items a group has reveals nothing."""
        return self.cells == self.n_groups * self.n_items

    @property
    def small(self) -> bool:
        """Whether all codes are decoded once and held in memory."""
        per_cell = self.dtype.itemsize + (0 if self.complete else 4)
        return self.cells * per_cell <= CACHE_BYTES

    @cached_property
    def row_of_member(self) -> np.ndarray:
        """The row of every member's group; −1 where no group has the number, the first row where several have it."""
        order = np.argsort(self.groups, kind="stable")
        place = np.searchsorted(self.groups[order], self.member_group)
        place = np.minimum(place, max(len(order) - 1, 0))
        if not len(order):
            return np.full(len(self.member_group), -1, dtype=np.int32)
        found = self.groups[order][place] == self.member_group
        return np.where(found, order[place], -1).astype(np.int32)

    @cached_property
    def listed(self) -> np.ndarray:
        """Number of members listed per group."""
        rows = self.row_of_member
        return np.bincount(rows[rows >= 0], minlength=self.n_groups).astype(np.int64)

    @cached_property
    def profile_of_group(self) -> np.ndarray:
        """A number per group, by first appearance: groups with equal published content have equal numbers."""
        digests = self._digests
        if not len(digests):
            return np.empty(0, np.int64)
        _, first, number = np.unique(digests, return_index=True, return_inverse=True)
        order = np.empty(len(first), np.int64)
        order[np.argsort(first)] = np.arange(len(first))
        return order[number]

    @property
    def _digests(self) -> np.ndarray:
        return np.array([digest for block in self.blocks() for digest in digests_of(block)], dtype="S16")

    def ranges(self, cells: int = 0) -> list[tuple[int, int]]:
        """Return the first group of each block and the one after its last: workers that read files get these."""
        rows = self.rows_per_block(cells)
        return [(start, min(start + rows, self.n_groups)) for start in range(0, self.n_groups, rows)]

    def rows_per_block(self, cells: int = 0) -> int:
        """Return how many groups fill a block of so many cells of a full table."""
        return max(1, (cells or BLOCK_CELLS) // max(1, self.n_items))

    def distinct_values(self, most: int) -> tuple[np.ndarray, bool]:
        """Return the different published values, ascending, and whether these are all of them.

        Where there are more than `most`, at least the lowest and the highest are returned. For releases that publish
        numbers, not codes.
        """
        seen, whole = np.zeros(0, np.float32), True
        for block in self.blocks():
            seen = np.union1d(seen, block.codes)
            if len(seen) > most:
                seen, whole = seen[[0, -1]], False
        return seen, whole
