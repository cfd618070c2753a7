"""Hold the prior of an item model on disk, and compute it from published releases of the same population.

    prior.npz       beside the ratings (data/ratings.py): levels, factors and known by item column; people of cohorts

Only published files are read: groups.parquet, items.parquet and manifest.json of each release. So a prior is
post-processing of public data.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.data import profiles
from tasks.data.ratings import Ratings, places
from tasks.errors import MurmurError
from tasks.kernels.public_prior import Block, Prior, find_prior, nothing_known
from tasks.store import read_published_json

FILE = "prior.npz"
CELLS_PER_BLOCK = 8_000_000  # as float32: 32 MB
SEED = 0  # of the directions that the search starts with; the result hardly depends on it


def write_prior(out_dir: Path, item_ids: Sequence[str], releases: Sequence[Path], rank: int) -> Prior:
    """Compute the prior of these items from published releases and write it beside ratings with these columns.

    `releases` are in the order of publication. Profiles are repeated from release to release, and each group counts
    once: with the cohort of the first release that has it. Each cohort's items replace what older ones said of them.
    """
    prior = nothing_known(len(item_ids), rank)
    opened = [PublishedRelease.open(directory, item_ids) for directory in releases]
    for _, _, blocks in cohorts(opened, first_of_each(opened)):
        prior = prior.followed_by(find_prior(blocks, len(item_ids), rank, np.random.default_rng(SEED)))
    save_prior(out_dir, prior)
    return prior


def save_prior(out_dir: Path, prior: Prior) -> None:
    """Write a prior beside ratings."""
    people = np.array(prior.cohorts, np.int64)
    np.savez(out_dir / FILE, levels=prior.levels, factors=prior.factors, known=prior.known, cohorts=people)


def read_prior(ratings: Ratings) -> Prior | None:
    """Return the prior of the items' columns; None where there is none."""
    path = ratings.directory / FILE
    if not path.exists():
        return None
    with np.load(path) as held:
        people = tuple(held["cohorts"].tolist())
        prior = Prior(held["levels"], held["factors"], held["known"], people)
    if len(prior.levels) != ratings.n_items:
        raise MurmurError(
            f"the prior has {len(prior.levels):,} items, the ratings have {ratings.n_items:,}",
            where=str(path),
            remedy="write the prior for the items of these ratings",
        )
    return prior


def copy_prior(ratings: Ratings, out: Path, columns: np.ndarray | None = None) -> None:
    """Copy the prior of some ratings to others; `columns` are their items' columns here (−1: a new item), None: the
    same."""
    prior = read_prior(ratings)
    if prior is not None:
        save_prior(out, prior if columns is None else prior.with_columns(columns))


class PublishedRelease:
    """Read the profiles of one published release, with the items as wanted."""

    def __init__(self, path: Path, coding: profiles.Coding, column: np.ndarray, n_items: int) -> None:
        self._path, self._coding = path, coding
        self._column, self._n_items = column, n_items  # wanted column of each published item, −1: none

    @classmethod
    def open(cls, directory: Path, item_ids: Sequence[str]) -> "PublishedRelease":
        """Open a release whose values are ratings."""
        manifest = read_published_json(directory / "manifest.json")
        if manifest["unit"] != "rating":
            raise MurmurError(
                f"a prior needs published ratings, this release has values of unit {manifest['unit']!r}",
                where=str(directory / "manifest.json"),
                remedy="leave the release out",
            )
        coding = profiles.Coding(
            manifest["rating_encoding"], manifest["rating_scale"][0], manifest["rating_step"]
        )
        published = pq.read_table(directory / "items.parquet").column("item").combine_chunks()
        column = places(published, pa.array(item_ids, pa.string()))
        return cls(directory / "groups.parquet", coding, column, len(item_ids))

    def parts(self) -> Iterator[profiles.Profiles]:
        """Yield all profiles in blocks of bounded size."""
        most = max(1, CELLS_PER_BLOCK // max(self._n_items, 1))
        for block in profiles.blocks(self._path, self._coding.dtype):
            for start in range(0, len(block.sizes), most):
                yield block.rows(start, min(start + most, len(block.sizes)))

    def blocks(self, kept: np.ndarray | None) -> Iterator[Block]:
        """Yield values by wanted column and sizes of groups; `kept` says which groups (None: all)."""
        first = 0
        for block in self.parts():
            here = slice(first, first + len(block.sizes))
            first = here.stop
            if kept is None:
                yield self.table(block), block.sizes
            elif kept[here].any():
                yield self.table(block)[kept[here]], block.sizes[kept[here]]

    def digests(self) -> Iterator[bytes]:
        """Yield what identifies the profile of each group: its size, the wanted items it holds and their values."""
        for block in self.parts():
            yield from self.digests_of(block)

    def digests_of(self, block: profiles.Profiles) -> Iterator[bytes]:
        """Yield what identifies the profiles of a block."""
        for size, values in zip(block.sizes.tolist(), self.table(block), strict=True):
            yield hashlib.sha256(size.to_bytes(8, "big") + values.tobytes()).digest()

    def table(self, block: profiles.Profiles) -> np.ndarray:
        """Return values by wanted column, NaN where a group does not hold the item."""
        values = np.full((len(block.sizes), self._n_items), np.nan, np.float32)
        decoded = self._coding.values(block.codes)
        if block.items is None:
            wanted = self._column >= 0
            values[:, self._column[wanted]] = decoded.reshape(len(values), -1)[:, wanted]
            return values
        row, column = np.repeat(np.arange(len(values)), block.lengths), self._column[block.items]
        wanted = column >= 0
        values[row[wanted], column[wanted]] = decoded[wanted]
        return values


def first_of_each(releases: Sequence[PublishedRelease]) -> list[np.ndarray | None]:
    """Return which groups of each release no earlier one has; None: all of them."""
    if len(releases) < 2:
        return [None] * len(releases)
    seen: set[bytes] = set()
    kept: list[np.ndarray | None] = []
    for release in releases:
        own = list(release.digests())  # equal profiles within one release are two groups
        kept.append(np.array([digest not in seen for digest in own], bool))
        seen.update(own)
    return kept


def cohorts(
    releases: Sequence[PublishedRelease], new_in: Sequence[np.ndarray | None]
) -> Iterator[tuple[PublishedRelease, np.ndarray | None, Callable[[], Iterator[Block]]]]:
    """Yield each release with groups that are new in it, which these are, and a pass over their profiles."""
    for release, rows in zip(releases, new_in, strict=True):
        if rows is None or rows.any():
            yield release, rows, functools.partial(release.blocks, rows)
