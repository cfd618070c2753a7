"""Show a sample of the groups of a release, for attacks whose cost would grow with all of it.

A sample of the groups is enough where the figure is a share with an interval, and to fit the items' factors. It is
drawn by the release's fingerprint: nobody can know before publishing which groups will be examined, and every audit
examines the same ones. What is promised to every person is never sampled, nor is a figure that rests on the few cells
that deviate most: a leak in few groups would miss the sample (checks/attacks/recovery.py). For fits the sample must
have several times more groups than the release has directions: with too few, whatever they do not explain looks like a
deviation.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from checks.evidence.case import Case
from checks.evidence.profiles import Profiles
from checks.evidence.release_view import Listing, ReleaseView

MOST_CELLS = 24_000_000  # groups × items: about 6,500 groups of MovieLens 1M, 1,350 of Netflix


class SampledRelease(ReleaseView):
    """Represent some groups of a release (ascending), as if nothing else had been published."""

    def __init__(self, whole: ReleaseView, chosen: np.ndarray) -> None:
        place = np.full(whole.n_groups + 1, -1, dtype=np.int32)  # the last entry: members of no group
        place[chosen] = np.arange(len(chosen), dtype=np.int32)
        rows = place[whole.row_of_member]
        inside = rows >= 0
        listing = Listing(
            whole.items,
            whole.groups[chosen],
            whole.sizes[chosen],
            whole.pseudonyms.filter(pa.array(inside)),
            whole.member_group[inside],
        )
        super().__init__(whole.manifest, listing, step=whole.step, dtype=whole.dtype)
        self._rows = rows[inside]
        self._blocks = _gathered(whole, chosen)

    @property
    def row_of_member(self) -> np.ndarray:  # type: ignore[override]
        """The row of every member's group among those chosen, as in the whole release."""
        return self._rows

    @property
    def lengths(self) -> np.ndarray:
        """Number of published items of every group."""
        return np.concatenate([np.diff(block.indptr) for block in self._blocks])

    def blocks(self) -> Iterator[Profiles]:
        """Yield the groups in blocks, numbered among those chosen."""
        yield from self._blocks

    def long_blocks(self) -> Iterable[Profiles]:
        """Return the same blocks: they are in memory."""
        return self.blocks()

    def close(self) -> None:
        """Do nothing: a sample is held in memory."""


def sampled(case: Case, name: str, cells: int = 0) -> Case:
    """Return the case with a sample of its groups and the people in them; all source ratings stay known.

    A small release (fewer than MOST_CELLS, or than `cells`) is taken whole.
    """
    release, truth = case.release, case.truth
    most = max(1, (cells or MOST_CELLS) // max(1, release.n_items))
    if release.n_groups <= most:
        return case
    chosen = np.sort(case.draw("groups", name).choice(release.n_groups, most, replace=False))
    place = np.full(release.n_groups + 1, -1, dtype=np.int32)  # the last entry: people who are in no group
    place[chosen] = np.arange(most, dtype=np.int32)
    part = truth.listed_at(place[truth.row_of_user])
    return case.with_release(SampledRelease(release, chosen), part)


def sample_text(part: Case, case: Case) -> str:
    """Return the part of a detail sentence that names the examined groups; empty where all were examined."""
    if part is case:
        return ""
    some, whole = part.release.n_groups, case.release.n_groups
    return f" Examined: {some:,} of {whole:,} groups, drawn by the release's fingerprint."


def _gathered(whole: ReleaseView, chosen: np.ndarray) -> list[Profiles]:
    """Collect the chosen groups into blocks of the usual size."""
    blocks: list[Profiles] = []
    waiting: list[Profiles] = []
    rows = whole.rows_per_block()
    start = 0
    for block in whole.blocks():
        inside = select_rows(block, chosen)
        if inside.rows:
            waiting.append(inside)
        if sum(part.rows for part in waiting) >= rows:
            blocks.append(_joined(waiting, start))
            start, waiting = start + blocks[-1].rows, []
    return [*blocks, _joined(waiting, start)] if waiting else blocks


def select_rows(block: Profiles, chosen: np.ndarray) -> Profiles:
    """Return those of the chosen groups (ascending) that lie in this block."""
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
