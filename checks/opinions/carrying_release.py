"""Show a release whose columns carry given opinions: the positive control of attacks on columns.

The column of an item becomes every group's own level plus the opinion's share: what a model without any protection
shows of an item that one person and c − 1 indifferent accounts rated.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from checks.evidence.profiles import Profiles
from checks.evidence.release_view import Listing, ReleaseView


class CarryingRelease(ReleaseView):
    """Represent a release with other columns for some items, in the codes of the release."""

    def __init__(self, whole: ReleaseView, item: np.ndarray, shift: np.ndarray) -> None:
        listing = Listing(whole.items, whole.groups, whole.sizes, whole.pseudonyms, whole.member_group)
        super().__init__(whole.manifest, listing, step=whole.step, dtype=whole.dtype)
        self._whole = whole
        self._shift = np.full(whole.n_items, np.nan)
        self._shift[item] = shift

    @property
    def lengths(self) -> np.ndarray:
        """Number of published items of every group."""
        return self._whole.lengths

    def blocks(self) -> Iterator[Profiles]:
        """Yield the groups in blocks, with the columns replaced."""
        return (self._carrying(block) for block in self._whole.blocks())

    def long_blocks(self) -> Iterable[Profiles]:
        """Return the same blocks."""
        return self.blocks()

    def close(self) -> None:
        """Do nothing: the working files are those of the release."""

    def _carrying(self, block: Profiles) -> Profiles:
        rows, columns = block.row_numbers(), block.columns
        total = np.bincount(rows, weights=block.values, minlength=block.rows)
        level = total / np.maximum(np.diff(block.indptr), 1)
        cells = np.flatnonzero(~np.isnan(self._shift[columns]))
        values = np.clip(level[rows[cells]] + self._shift[columns[cells]], self.low, self.high)
        codes = block.codes.copy()
        if self.levels:
            codes[cells] = np.clip(np.rint((values - self.low) / self.step), 0, self.levels - 1)
        else:
            codes[cells] = values
        return replace(block, codes=codes)
