"""A release of z-scores as an attacker reads it: ratings, which every attack that compares ratings can search.

Read once, block by block (paper 001, section 4), and kept like a decoded release: in memory while small, in working
files else. Of records with every item only the entries are left that stand out of the noise.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from checks.profiles import Profiles
from checks.reconstruction.reading import Kind, claimed, rated_as
from checks.reconstruction.scale import RatingScale
from checks.release import LONG_BLOCK_CELLS, Release
from checks.stored import StoredProfiles


class ReadRelease(Release):
    """The records of a release with the ratings made of them."""

    def __init__(self, whole: Release, kind: Kind, scale: RatingScale) -> None:
        self.directory, self.private = whole.directory, whole.private
        self.manifest = whole.manifest
        self.k, self.l, self.b, self.min_contributors = whole.k, whole.l, whole.b, whole.min_contributors
        self.low, self.high, self.step = whole.low, whole.high, 0.0
        self.dtype = np.dtype("<f4")
        self.items, self.pseudonyms = whole.items, whole.pseudonyms
        self.groups, self.sizes, self.member_group = whole.groups, whole.sizes, whole.member_group
        self._whole = whole
        read = (rated_as(block, whole.unit, scale) for block in claimed(whole, kind))
        self._held: list[Profiles] | None = None
        if whole.small:
            self._held = list(read)
            self._lengths = np.concatenate([np.zeros(0, np.int64), *(np.diff(b.indptr) for b in self._held)])
        else:
            place, dense = Path(self._files.name), kind == "every entry" and whole.complete
            self._stored = StoredProfiles(place, self.dtype, self.n_items, self.low, self.step, dense)
            self._stored.write(read)
            self._lengths = np.diff(self._stored.indptr)

    def close(self) -> None:
        """Remove the working files, and those of what was read."""
        super().close()
        self._whole.close()

    @property
    def profile_of_group(self) -> np.ndarray:  # type: ignore[override]
        """By what is published: two records that read alike are still two."""
        return self._whole.profile_of_group

    @property
    def unit(self) -> str:
        """Ratings, now."""
        return "rating"

    @property
    def lengths(self) -> np.ndarray:  # type: ignore[override]
        """Entries of every record that were taken for rated."""
        return self._lengths

    def blocks(self) -> Iterator[Profiles]:
        """The records in blocks, as read."""
        if self._held is not None:
            yield from self._held
        else:
            for start, stop in self.ranges():
                yield self._stored.block(start, stop)

    def long_blocks(self) -> Iterator[Profiles]:
        """The same, longer where they lie in files."""
        if self._held is not None:
            return self.blocks()
        return (self._stored.block(start, stop) for start, stop in self.ranges(LONG_BLOCK_CELLS))
