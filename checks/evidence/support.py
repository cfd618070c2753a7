"""Read support.parquet: how many members of a group really rated an item, rounded, where that is published."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.errors import Refused
from tasks.formats import read_published


@dataclass(frozen=True)
class Support:
    """Hold published cells as parallel arrays: the group's number and row (−1: no such group), the item's position,
    and the published count."""

    group: np.ndarray
    row: np.ndarray
    item: np.ndarray
    raters: np.ndarray

    @classmethod
    def read(cls, path: Path, groups: np.ndarray) -> "Support":
        """Read the file; `groups` are the numbers of the release's groups, by row."""
        table = read_published(path)
        if any(column.null_count for column in table.columns):
            raise Refused("a count of raters is null", where=str(path), remedy="publish the release anew")
        group, item, raters = (table.column(name).to_numpy() for name in ("group", "item", "raters"))
        order = np.argsort(groups, kind="stable")
        place = np.minimum(np.searchsorted(groups, group, sorter=order), max(0, len(groups) - 1))
        row = order[place] if len(order) else np.full(len(group), -1)
        found = np.where(groups[row] == group, row, -1) if len(order) else row
        return cls(group, found.astype(np.int64), item, raters)

    def selected(self, place: np.ndarray, position: np.ndarray) -> "Support":
        """Return the cells of some groups and items, by their new rows and positions (−1: left out); cells of no
        group or no item are left out, too."""
        known = (self.row >= 0) & (self.item >= 0) & (self.item < len(position))
        row, item = place[self.row[known]], position[self.item[known]]
        kept = (row >= 0) & (item >= 0)
        return Support(
            self.group[known][kept], row[kept].astype(np.int64), item[kept], self.raters[known][kept]
        )
