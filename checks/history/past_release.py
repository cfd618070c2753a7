"""Represent one release of a series: who was in which group, and what each group published."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from checks.evidence.case import Case
from checks.evidence.membership import Membership
from checks.evidence.profiles import Profiles
from checks.evidence.release import Release
from checks.evidence.release_view import ReleaseView
from checks.evidence.support import Support
from checks.history.places import MANIFEST, Place, refuse_gap
from tasks.errors import Refused
from tasks.store import read_json

ERASED = "erased:"  # what stands in a past membership for the id of a person who was erased


@dataclass(frozen=True)
class SeriesRelease:
    """Represent a release with its private membership; `opened` is kept for the one that is judged.

    Files of past releases are opened for each pass and not kept: a history of twelve does not fit into memory.
    """

    name: str
    directory: str
    membership: Membership
    manifest: dict[str, Any]
    withdrawn: bool = False
    place: Place | None = None
    opened: ReleaseView | None = field(default=None, repr=False)

    @classmethod
    def past(cls, place: Place, manifest: dict[str, Any]) -> "SeriesRelease":
        """Read who was in an earlier release; its other files are read when they are asked for."""
        try:
            membership = Membership.read(place.private)
        except Refused:
            raise refuse_gap("the membership", place) from None
        return cls(place.name, place.directory, membership, manifest, place.withdrawn, place)

    @classmethod
    def judged(cls, case: Case, name: str, directory: str) -> "SeriesRelease":
        """Return the release of a case."""
        release = case.as_published.release
        return cls(name, directory, case.truth.membership, release.manifest, opened=release)

    @property
    def release(self) -> ReleaseView:
        """The published files."""
        if self.opened is not None:
            return self.opened
        assert self.place is not None, "a past release has a place"
        try:
            return Release(self.place.files)
        except Refused:
            raise refuse_gap("a public file", self.place) from None

    @property
    def k(self) -> int:
        """The promised k; 2, the least there is, where the manifest does not say."""
        k = (self.manifest.get("privacy") or {}).get("k")
        return k if type(k) is int else 2

    @property
    def snapshot(self) -> str:
        """The date it is about, by its directory; a claim of the manifest outside a store."""
        return self.directory[: len("2026-01-01")] or str(self.manifest.get("snapshot", ""))

    @cached_property
    def facts(self) -> "GroupFacts":
        """What is compared between releases, read once."""
        return GroupFacts.read(self.release)

    @cached_property
    def listed(self) -> np.ndarray:
        """Which rows of the membership are in a group."""
        return self.membership.groups >= 0

    def rows_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the row in groups.parquet of each group number; −1 where there is none."""
        groups = self.facts.numbers
        order = np.argsort(groups, kind="stable")
        if not len(order):
            return np.full(len(numbers), -1)
        place = np.minimum(np.searchsorted(groups[order], numbers), len(order) - 1)
        return np.where(groups[order][place] == numbers, order[place], -1)

    def profiles(self, rows: np.ndarray, items: pa.StringArray) -> np.ndarray:
        """Return the values of some groups as a dense table with these items as columns, NaN where not published."""
        release = self.release
        column = pd.Index(release.items.to_numpy(zero_copy_only=False)).get_indexer(
            items.to_numpy(zero_copy_only=False)
        )
        there = column >= 0
        table = np.full((len(rows), len(items)), np.nan, np.float32)
        for block in release.blocks():
            inside = np.flatnonzero((rows >= block.start) & (rows < block.start + block.rows))
            if len(inside):
                own = block.table()[rows[inside] - block.start]
                table[np.ix_(inside, np.flatnonzero(there))] = own[:, column[there]]
        return table


@dataclass(frozen=True)
class GroupFacts:
    """Hold what a release publishes of each group, in the order of its rows: number, size, a digest of the profile
    (size, item ids, codes and what the codes mean) and one of the item ids alone; and its items by position."""

    numbers: np.ndarray
    sizes: np.ndarray
    profiles: np.ndarray
    item_lists: np.ndarray
    items: pa.StringArray

    @classmethod
    def read(cls, release: ReleaseView) -> "GroupFacts":
        """Read all groups once."""
        names = pd.util.hash_array(release.items.to_numpy(zero_copy_only=False).astype(object))
        counts = None if release.support is None else _counts_of_rows(release.support, names)
        unit = f"{release.low}/{release.step}/{release.dtype}/{release.unit}".encode()
        seen: dict[bytes, bytes] = {}  # most groups of a release hold the same items
        lists: list[bytes] = []
        profiles: list[bytes] = []
        for block in release.blocks():
            for row, positions, codes in _rows(block):
                key = b"" if positions is None else positions.tobytes()
                if key not in seen:
                    seen[key] = _digest(names if positions is None else names[positions])
                size = int(release.sizes[block.start + row])
                lists.append(seen[key])
                profile = _digest(codes, unit + size.to_bytes(8, "big") + seen[key])
                if (
                    counts is not None
                ):  # a group without a published count differs from one that never had any
                    profile = _digest(codes, profile + b"support" + counts.get(block.start + row, b""))
                profiles.append(profile)
        return cls(
            release.groups, release.sizes, np.array(profiles, "S16"), np.array(lists, "S16"), release.items
        )


def _counts_of_rows(support: Support, names: np.ndarray) -> dict[int, bytes]:
    """Return a digest of each row's published counts of raters, by the items' ids."""
    order = np.lexsort((names[support.item], support.row))
    row, found = (
        support.row[order],
        np.column_stack([names[support.item], support.raters.astype(np.uint64)])[order],
    )
    rows, first = np.unique(row, return_index=True)
    return {int(one): _digest(part) for one, part in zip(rows, np.split(found, first[1:]), strict=True)}


def _rows(block: Profiles) -> Iterator[tuple[int, np.ndarray | None, np.ndarray]]:
    """Yield each group of a block: over groups, not people."""
    for row in range(block.rows):
        cells = slice(block.indptr[row], block.indptr[row + 1])
        whole = block.items is None or cells.stop - cells.start == block.n_items
        yield row, None if whole or block.items is None else block.items[cells], block.codes[cells]


def _digest(values: np.ndarray, beside: bytes = b"") -> bytes:
    content = hashlib.blake2b(beside, digest_size=16)
    content.update(np.ascontiguousarray(values).tobytes())
    return content.digest()


def read_manifest(place: Place) -> dict[str, Any]:
    """Read the manifest of a past release, wherever it lies now."""
    try:
        manifest = read_json(place.files / MANIFEST)
    except (OSError, ValueError):
        raise refuse_gap("the manifest", place) from None
    if not isinstance(manifest, dict):
        raise refuse_gap("the manifest", place)
    return manifest
