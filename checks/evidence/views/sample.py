"""Some of the groups of a release, for attacks whose cost would grow with the whole of it.

Where a figure is a share with an interval, a sample of the groups is enough, and to fit the items' factors. It is drawn
by the release's fingerprint, so that nobody can know before publishing which groups will be looked at, and every audit
looks at the same. What is promised to everybody is never sampled, nor is what is judged by the few cells that stand out
most: a leak in few groups would miss the sample (checks/attacks/recovery.py). For fits the sample must have several
times more groups than the release has directions: of too few, what stands out is what they do not explain.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from checks.case import Case
from checks.release import BLOCK_CELLS, Profiles, Release

MOST_CELLS = 24_000_000  # groups × items: about 6,500 groups of MovieLens 1M, 1,350 of Netflix


class SampledRelease(Release):
    """Some groups of a release (ascending), as if nothing else had been published."""

    def __init__(self, whole: Release, chosen: np.ndarray) -> None:
        self.manifest = whole.manifest
        self.k, self.l, self.b, self.min_contributors = whole.k, whole.l, whole.b, whole.min_contributors
        self.low, self.high, self.step = whole.low, whole.high, whole.step
        self.dtype, self.items = whole.dtype, whole.items
        self.groups, self.sizes = whole.groups[chosen], whole.sizes[chosen]
        self._listed = whole.listed[chosen]
        self._blocks = _gathered(whole, chosen)

    @property
    def listed(self) -> np.ndarray:  # type: ignore[override]
        """Members listed per group."""
        return self._listed

    @property
    def lengths(self) -> np.ndarray:  # type: ignore[override]
        """Published items of every group."""
        return np.concatenate([np.diff(block.indptr) for block in self._blocks])

    def blocks(self) -> Iterator[Profiles]:
        """The groups in blocks, numbered among those chosen."""
        yield from self._blocks


def sampled(case: Case, name: str, cells: int = 0) -> Case:
    """The case with a sample of its groups and the people in them; everybody's ratings stay known. Small releases
    (fewer than MOST_CELLS, or so many) are taken whole."""
    release, truth = case.release, case.truth
    most = max(1, (cells or MOST_CELLS) // max(1, release.n_items))
    if release.n_groups <= most:
        return case
    chosen = np.sort(case.draw("groups", name).choice(release.n_groups, most, replace=False))
    place = np.full(release.n_groups + 1, -1, dtype=np.int32)  # the last entry: people who are in no group
    place[chosen] = np.arange(most, dtype=np.int32)
    part = truth.listed_at(place[truth.row_of_user])
    return replace(case, release=SampledRelease(release, chosen), given_truth=part)


def said_of(part: Case, case: Case) -> str:
    """For the detail of a check: which groups it looked at, where these are not all."""
    if part is case:
        return ""
    return f" Looked at: {part.release.n_groups:,} of {case.release.n_groups:,} groups, drawn by what is published."


def _gathered(whole: Release, chosen: np.ndarray) -> list[Profiles]:
    """The chosen groups, put together to blocks of the usual size."""
    blocks: list[Profiles] = []
    waiting: list[Profiles] = []
    rows = max(1, BLOCK_CELLS // max(1, whole.n_items))
    start = 0
    for block in whole.blocks():
        inside = rows_of(block, chosen)
        if inside.rows:
            waiting.append(inside)
        if sum(part.rows for part in waiting) >= rows:
            blocks.append(_joined(waiting, start))
            start, waiting = start + blocks[-1].rows, []
    return [*blocks, _joined(waiting, start)] if waiting else blocks


def rows_of(block: Profiles, chosen: np.ndarray) -> Profiles:
    """Those of the chosen groups (ascending) that lie in this block, put together."""
    rows = chosen[slice(*np.searchsorted(chosen, [block.start, block.start + block.rows]))] - block.start
    lengths = np.diff(block.indptr)[rows]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    cells = np.repeat(block.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
    items = None if block.items is None else block.items[cells]
    return replace(block, start=0, indptr=indptr, items=items, codes=block.codes[cells])


def _joined(parts: list[Profiles], start: int) -> Profiles:
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    whole = all(part.items is None for part in parts)
    items = None if whole else np.concatenate([part.columns for part in parts])
    codes = np.concatenate([part.codes for part in parts])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return replace(parts[0], start=start, indptr=indptr, items=items, codes=codes)
