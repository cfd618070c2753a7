"""Show a release of z-scores as the ratings an attacker estimates from it, so that attacks on ratings can run on it.

How ratings are estimated is up to the reconstruction room (checks/reconstruction/estimation.py); this view only keeps
the result like a decoded release: in memory while small, otherwise in working files.
"""

import tempfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from checks.evidence.profiles import Profiles
from checks.evidence.release_view import LONG_BLOCK_CELLS, Listing, ReleaseView
from checks.evidence.stored_profiles import StoredProfiles
from checks.evidence.working_files import working_files


class RatingsRelease(ReleaseView):
    """Represent the records of `whole` with other cells: `estimated`, blocks of ratings in the same order.

    `dense`: every record keeps every item.
    """

    def __init__(self, whole: ReleaseView, estimated: Iterable[Profiles], *, dense: bool) -> None:
        listing = Listing(whole.items, whole.groups, whole.sizes, whole.pseudonyms, whole.member_group)
        super().__init__(whole.manifest, listing, step=0.0, dtype=np.dtype("<f4"), private=whole.private)
        self._whole = whole
        self._held: list[Profiles] | None = None
        if whole.small:
            self._held = list(estimated)
            self._lengths = np.concatenate([np.zeros(0, np.int64), *(np.diff(b.indptr) for b in self._held)])
        else:
            place = Path(self._files.name)
            self._stored = StoredProfiles(place, self.dtype, self.n_items, self.low, self.step, dense)
            self._stored.write(estimated)
            self._lengths = np.diff(self._stored.indptr)

    @cached_property
    def _files(self) -> tempfile.TemporaryDirectory:
        return working_files(self.private)

    def close(self) -> None:
        """Remove the working files, and those of the release behind the view."""
        if "_files" in self.__dict__:
            self._files.cleanup()
        self._whole.close()

    @property
    def profile_of_group(self) -> np.ndarray:  # type: ignore[override]
        """Numbers by what is published: two records with equal estimates remain two records."""
        return self._whole.profile_of_group

    @property
    def unit(self) -> str:
        """Always ratings."""
        return "rating"

    @property
    def lengths(self) -> np.ndarray:
        """Number of entries of every record that are taken as rated."""
        return self._lengths

    def blocks(self) -> Iterator[Profiles]:
        """Yield the records with their estimated ratings."""
        if self._held is not None:
            yield from self._held
        else:
            for start, stop in self.ranges():
                yield self._stored.block(start, stop)

    def long_blocks(self) -> Iterable[Profiles]:
        """Return longer blocks where they are read from working files."""
        if self._held is not None:
            return self.blocks()
        return (self._stored.block(start, stop) for start, stop in self.ranges(LONG_BLOCK_CELLS))
