"""Hold profiles of many groups in plain files, so that they can be written in another order than they were read in.

At Netflix size all profiles are some gigabytes. They are appended to one file as they are read; rows are then gathered
through a mapping, block by block.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.data import profiles

BYTES_PER_BLOCK = 32 * 2**20


class RowStore:
    """Hold appended profiles: codes, sizes and, for each row, the positions of its items in the catalogue.

    Positions 0 … n − 1 are kept as the number n: most groups hold all items that there were when they were published.
    """

    def __init__(self, directory: Path, code_type: np.dtype) -> None:
        directory.mkdir(parents=True)
        self._directory, self._type = directory, code_type
        self._files = {name: (directory / name).open("wb") for name in ("codes", "items")}
        self._lengths: list[np.ndarray] = []
        self._sizes: list[np.ndarray] = []
        self._prefixes: list[np.ndarray] = []

    def add_published(self, release: Path, wanted: np.ndarray) -> np.ndarray:
        """Append these groups (numbers, ascending) of a published release; return the numbers in the order appended."""
        n_items = pq.read_metadata(release / "items.parquet").num_rows
        read = [np.empty(0, np.int32)]
        for block in profiles.blocks(release / "groups.parquet", self._type):
            chosen = np.flatnonzero(np.isin(block.groups, wanted))
            if len(chosen):
                read.append(block.groups[chosen])
                self._append(block, chosen, None, n_items)
        return np.concatenate(read)

    def add_cohort(self, groups: Path, position: np.ndarray) -> None:
        """Append all groups of a cohort; item c of their profiles is at `position[c]` of the catalogue."""
        for block in profiles.blocks(groups, self._type):
            self._append(block, np.arange(len(block.sizes)), position, len(position))

    def _append(
        self, block: profiles.Profiles, chosen: np.ndarray, position: np.ndarray | None, n_items: int
    ) -> None:
        if block.items is None:
            self._append_whole(block, chosen, position)
            return
        lengths = block.lengths[chosen]
        starts = np.cumsum(lengths) - lengths
        cells = np.repeat(block.indptr[chosen] - starts, lengths) + np.arange(lengths.sum())
        row = np.repeat(np.arange(len(chosen)), lengths)
        items = block.items[cells]
        if position is not None:
            items = position[items]
            order = np.lexsort((items, row))
            cells, items = cells[order], items[order]
        within = np.arange(len(items)) - np.repeat(starts, lengths)
        differs = np.bincount(row, weights=items != within, minlength=len(chosen)) > 0
        self._files["codes"].write(np.ascontiguousarray(block.codes[cells]).data)
        self._files["items"].write(np.ascontiguousarray(items[differs[row]], np.int32).data)
        self._lengths.append(lengths)
        self._sizes.append(block.sizes[chosen])
        self._prefixes.append(~differs)

    def _append_whole(
        self, block: profiles.Profiles, chosen: np.ndarray, position: np.ndarray | None
    ) -> None:
        """Append profiles that hold every item of their release: items and their order are the same for all of them."""
        rows = block.codes.reshape(len(block.sizes), -1)
        if len(chosen) < len(rows):
            rows = rows[chosen]
        width, differs = rows.shape[1], False
        if position is not None:
            order = np.argsort(position, kind="stable")
            items = np.ascontiguousarray(position[order], np.int32)
            if (order != np.arange(width)).any():
                rows = rows[:, order]
            differs = bool((items != np.arange(width)).any())
        self._files["codes"].write(np.ascontiguousarray(rows).data)
        if differs:
            for _ in rows:
                self._files["items"].write(items.data)
        self._lengths.append(np.full(len(rows), width))
        self._sizes.append(block.sizes[chosen])
        self._prefixes.append(np.full(len(rows), not differs))

    def tables(self, order: np.ndarray, n_items: int) -> Iterator[pa.Table]:
        """Yield the rows in this order as tables of groups.parquet, numbered from 0."""
        for file in self._files.values():
            file.close()
        empty = np.empty(0, np.int64)
        lengths = np.concatenate([empty, *self._lengths])
        sizes, prefix = (np.concatenate([empty, *parts]) for parts in (self._sizes, self._prefixes))
        prefix = prefix.astype(bool)
        start = np.cumsum(lengths) - lengths
        listed = np.where(prefix, 0, lengths)
        item_start = np.cumsum(listed) - listed
        codes, items = self._mapped("codes", self._type), self._mapped("items", np.dtype("<i4"))
        rows_at_once = max(1, BYTES_PER_BLOCK // max(1, n_items * self._type.itemsize))
        for first in range(0, len(order), rows_at_once):
            some = order[first : first + rows_at_once]
            yield profiles.table_of(
                first,
                sizes[some],
                [
                    None
                    if prefix[r] and lengths[r] == n_items
                    else np.arange(lengths[r], dtype=np.int32)
                    if prefix[r]
                    else items[item_start[r] : item_start[r] + listed[r]]
                    for r in some
                ],
                [codes[start[r] : start[r] + lengths[r]] for r in some],
            )

    def _mapped(self, name: str, kind: np.dtype) -> np.ndarray:
        file = self._directory / name  # an empty file cannot be mapped
        return np.memmap(file, kind, "r") if file.stat().st_size else np.empty(0, kind)
