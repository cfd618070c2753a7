"""Measure what a release of data with sybils shows of each one-rater item: the scores an attacker can sort them by.

- `level`: the item's column over all groups, less the groups' own levels. A model that fits an item to few raters moves
  the whole column towards their ratings;
- `own group`: the item in the rater's group, less what all groups show: an attacker who has found the group sees it;
- `direction`: whether groups that resemble the rater's group have higher values of the item than others. The factors of
  an item with few raters point where these raters are.
"""

from dataclasses import dataclass

import numpy as np

from checks.evidence.profiles import Profiles
from checks.evidence.release_view import ReleaseView
from checks.opinions.item_levels import item_levels

SIGNALS = ("level", "own group", "direction")
MOST_COMPARED = 2_000  # items by which groups are compared


@dataclass(frozen=True)
class Deviations:
    """Compute how far the values of groups are from their own level and from the level of each item."""

    level: np.ndarray

    def of(self, block: Profiles) -> np.ndarray:
        """Return groups × items; 0 where an item is not published."""
        table = block.table()
        there = ~np.isnan(table)
        own = np.where(there, table, 0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
        return np.where(there, table - own[:, None] - self.level, 0).astype(np.float32)


def measure_signals(
    release: ReleaseView, item: np.ndarray, group: np.ndarray, draw: np.random.Generator
) -> np.ndarray:
    """Return targets × SIGNALS, for the items (positions) and the raters' groups (rows)."""
    level, _ = item_levels(release)
    deviations = Deviations(level)
    others = np.setdiff1d(np.arange(release.n_items), item)
    compared = np.sort(draw.permutation(others)[:MOST_COMPARED])
    own = np.zeros(len(item))
    taste = np.zeros((len(item), len(compared)), np.float32)
    for block in release.blocks():
        here = np.flatnonzero((group >= block.start) & (group < block.start + block.rows))
        if len(here):
            apart = deviations.of(block)
            own[here] = apart[group[here] - block.start, item[here]]
            taste[here] = apart[group[here] - block.start][:, compared]
    direction = np.zeros(len(item))
    for block in release.blocks():
        apart = deviations.of(block)
        alike = apart[:, compared] @ taste.T  # groups × targets
        direction += np.einsum("gt,gt->t", alike, apart[:, item], dtype=np.float64)
    length = np.linalg.norm(taste, axis=1)
    return np.column_stack([level[item], own, direction / np.where(length > 0, length, 1)])
