"""Re-estimate the profiles of a published release from the releases of the series before it (kernels/refinement.py).

Only published files are read. Which groups are new in a release shows which cohort they belong to.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tasks.data import profiles
from tasks.data.earlier_releases import Opened, open_series
from tasks.data.public_prior import SEED, PublishedRelease
from tasks.errors import UsageError
from tasks.kernels.padded import encode
from tasks.kernels.public_prior import Prior, find_prior, nothing_known
from tasks.kernels.refinement import Refinement

MOST_COHORTS = 6  # between two given releases
RANK = 8  # the default of padding.rank; further directions of a profile are rounding errors


@dataclass(frozen=True)
class Refiner:
    """Hold what the cohorts of a series say about the items of its newest release."""

    newest: PublishedRelease
    cohort: dict[bytes, int]  # of each profile
    steps: tuple[Refinement | None, ...]  # of each cohort; None: its profiles stay as they are
    scale: tuple[float, float]
    rating_step: float | None

    @classmethod
    def of(cls, earlier: Sequence[Path], newest: Path, rank: int = RANK) -> "Refiner":
        """Read a release and earlier ones of its series, in any order; refuse those that are not earlier ones."""
        item_ids = pq.read_table(newest / "items.parquet").column("item").to_pylist()
        series = open_series(earlier, newest, item_ids)
        cohort: dict[bytes, int] = {}
        found: list[Prior] = []
        everybody = nothing_known(len(item_ids), rank)
        listed = 0  # items in the catalogue of the release before
        for opened in series:
            for rows in _cohorts(opened, cohort, listed):
                blocks = functools.partial(opened.release.blocks, rows)
                own = find_prior(blocks, len(item_ids), rank, np.random.default_rng(SEED))
                everybody = everybody.followed_by(own)
                cohort |= {opened.digests[row]: len(found) for row in np.flatnonzero(rows).tolist()}
                found.append(own)
            listed = opened.n_items
        steps = [Refinement.between(own, everybody) for own in found[:-1]]
        manifest = series[-1].manifest
        low, high = manifest["rating_scale"]
        return cls(series[-1].release, cohort, (*steps, None), (low, high), manifest["rating_step"])

    @property
    def changes(self) -> bool:
        """Return whether the release has groups of more than one cohort: those of the newest stay as they are."""
        return len(self.steps) > 1

    def refined(self, block: profiles.Profiles) -> profiles.Profiles:
        """Return the profiles of a block with new ratings for the items that they hold, in the release's steps."""
        table = self.newest.table(block)
        numbers = np.array([self.cohort[digest] for digest in self.newest.digests_of(block)])
        for number in np.unique(numbers).tolist():
            step, here = self.steps[number], numbers == number
            if step is not None:
                new = step.values(table[here])
                table[here] = np.where(np.isnan(table[here]) | np.isnan(new), table[here], new)
        if block.items is None:
            values = table.reshape(-1)
        else:
            row = np.repeat(np.arange(len(table)), block.lengths)
            values = table[row, block.items]
        if self.rating_step is None:
            return replace(block, codes=np.clip(values, *self.scale).astype(block.codes.dtype))
        codes = encode(values, self.scale, self.rating_step)
        return replace(block, codes=codes.astype(block.codes.dtype))


def _cohorts(opened: Opened, known: dict[bytes, int], listed: int) -> list[np.ndarray]:
    """Return which groups are new in a release, by cohort, the oldest first.

    Where a release before it is not given, groups of several cohorts are new. All groups of a cohort hold the same
    items. `listed` items were in the catalogue of the given release before.
    """
    new = np.array([digest not in known for digest in opened.digests], bool)
    sets = list(dict.fromkeys(opened.held[row] for row in np.flatnonzero(new).tolist()))
    if len(sets) > 1:
        sets = _oldest_first(opened, sets, listed)
    return [new & np.array([held == one for held in opened.held], bool) for one in sets]


def _oldest_first(opened: Opened, sets: list[bytes], listed: int) -> list[bytes]:
    """Return the item sets of cohorts in the order of publication; refuse where several orders are possible.

    A cohort appends to the catalogue the items that it holds and no earlier one listed, and nothing else.
    """
    possible = []
    if len(sets) <= MOST_COHORTS:
        for order in itertools.permutations(sets):
            end = listed
            for one in order:
                held = opened.item_sets[one]
                last = int(np.flatnonzero(held)[-1]) + 1 if held.any() else 0
                if not held[end:last].all():
                    break
                end = max(end, last)
            else:
                possible.append(order)
    if len(possible) != 1:
        raise UsageError(
            f"its new groups are of {len(sets)} cohorts, so a release before it is not given, and their items do not "
            "show which of them are older",
            where=str(opened.place),
            remedy="give the releases between as well; where one of them was withdrawn, leave --earlier out",
        )
    return list(possible[0])
