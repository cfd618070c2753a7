"""Keep a decoded release in working files, from which blocks of groups are read.

The checks of a gate pass over a release a hundred times; decompressing it every time would cost more than the checks
do. Blocks are read, not mapped, so that a pass holds one block whatever the size; workers read the same files.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from checks.evidence.profiles import Profiles


@dataclass(frozen=True)
class StoredProfiles:
    """Represent the files with the codes (and the items, where not every group has all) of all groups in order."""

    directory: Path
    dtype: np.dtype
    n_items: int
    origin: float
    step: float
    dense: bool

    @cached_property
    def indptr(self) -> np.ndarray:
        """The position of the first cell of each group."""
        return np.load(self.directory / "indptr.npy")

    def block(self, start: int, stop: int) -> Profiles:
        """Read the groups from `start` to `stop`."""
        indptr = self.indptr[start : stop + 1]
        codes = self._read("codes.bin", self.dtype, indptr)
        items = None if self.dense else self._read("items.bin", np.dtype(np.int32), indptr)
        return Profiles(start, indptr - indptr[0], items, codes, self.n_items, self.origin, self.step)

    def _read(self, name: str, dtype: np.dtype, indptr: np.ndarray) -> np.ndarray:
        count, offset = int(indptr[-1] - indptr[0]), int(indptr[0]) * dtype.itemsize
        return np.fromfile(self.directory / name, dtype, count, offset=offset)

    def write(self, blocks: Iterable[Profiles]) -> np.ndarray:
        """Fill the files and return a digest of every group's content, both in one pass."""
        lengths: list[np.ndarray] = [np.zeros(1, np.int64)]
        digests: list[bytes] = []
        with (
            (self.directory / "codes.bin").open("wb") as codes,
            (self.directory / "items.bin").open("wb") as items,
        ):
            for block in blocks:
                block.codes.tofile(codes)
                if not self.dense:
                    block.columns.tofile(items)
                lengths.append(np.diff(block.indptr))
                digests += digests_of(block)
        np.save(self.directory / "indptr.npy", np.cumsum(np.concatenate(lengths)))
        return np.array(digests, dtype="S16")


def digests_of(block: Profiles) -> Iterator[bytes]:
    """Yield a digest of what each group publishes; a group that lists all items equals one that states "all"."""
    for row in range(block.rows):  # over groups, not people: a hash each
        cells = slice(block.indptr[row], block.indptr[row + 1])
        content = hashlib.blake2b(block.codes[cells].tobytes(), digest_size=16)
        if block.items is None or cells.stop - cells.start == block.n_items:
            content.update(b"all")
        else:
            content.update(block.items[cells].tobytes())
        yield content.digest()
