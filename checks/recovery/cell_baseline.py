"""Model how often a published cell holds a real rating anyway, by the item's popularity and the group's activity."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checks.evidence.case import Case
from checks.evidence.profiles import Profiles
from checks.recovery.real_cells import RealCells

ROUNDS = 30
CERTAIN = 0.9


@dataclass(frozen=True)
class CellBaseline:
    """Hold a model of the chance that a published cell holds a real rating, 1 − exp(−activity · popularity).

    It is fitted to both margins. Per item, `share` is the share of the publishing groups in which a member really rated
    it, and `open_cells` counts the published cells where a real rating is not nearly certain; `overall` is the share of
    all published cells with a real rating.
    """

    activity: np.ndarray
    popularity: np.ndarray
    share: np.ndarray
    open_cells: np.ndarray
    overall: float

    def of(self, keys: np.ndarray) -> np.ndarray:
        """Return the chance of some cells, given as group · items + item."""
        groups, items = np.divmod(keys, len(self.popularity))
        return -np.expm1(-self.activity[groups] * self.popularity[items])

    def in_doubt(self, start: int, count: int) -> np.ndarray:
        """Mark the cells of consecutive groups (groups × items) whose chance is at most CERTAIN, so that an attack can
        reveal something."""
        return np.outer(self.activity[start : start + count], self.popularity) <= -np.log1p(-CERTAIN)

    def in_doubt_of(self, groups: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Mark the same for some groups and some items (groups × items)."""
        likely = np.outer(self.activity[groups], self.popularity[items])
        return likely <= -np.log1p(-CERTAIN)

    @classmethod
    def kept(cls, case: Case, part: Case, cells: RealCells) -> "CellBaseline":
        """Return the model of a sample of a case (or of all of it); it is fitted once for all checks."""
        return case.cached(("cell baseline", part.release.n_groups), lambda: cls.fitted(part, cells))

    @classmethod
    def fitted(cls, case: Case, cells: RealCells) -> "CellBaseline":
        """Fit the model: Newton steps on groups and items in turn until rows and columns add up to the real ratings."""
        by_group = np.bincount(cells.groups[cells.is_published], minlength=case.release.n_groups)
        by_item = np.bincount(cells.items[cells.is_published], minlength=case.release.n_items)
        published = np.zeros(case.release.n_items, dtype=np.int64)
        for block in case.release.blocks():
            published += (
                block.rows if block.items is None else np.bincount(block.items, minlength=block.n_items)
            )
        share = by_item / np.maximum(published, 1)
        activity, popularity = np.ones(len(by_group)), -np.log1p(-np.minimum(share, 1 - 1e-6))
        for turn in range(ROUNDS):
            if turn % 2:
                popularity = newton_step(popularity, by_item, *_by_item(case, activity, popularity))
            else:
                activity = newton_step(activity, by_group, *_by_group(case, activity, popularity))
        overall = float(by_item.sum() / max(1, published.sum()))
        model = cls(activity, popularity, share, np.zeros(len(by_item), dtype=np.int64), overall)
        for block in case.release.blocks():
            open_cells = model.in_doubt(block.start, block.rows)
            if block.items is not None:
                open_cells &= ~np.isnan(block.table())
            model.open_cells[:] += open_cells.sum(axis=0)
        return model


def _by_group(case: Case, activity: np.ndarray, popularity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected real cells per group, with their slope."""
    expected, slopes = np.zeros(len(activity)), np.zeros(len(activity))
    for block, absent, _ in _absent(case, activity, popularity):
        expected[block.rows_slice] = np.diff(block.indptr) - absent.sum(axis=1, dtype=np.float64)
        slopes[block.rows_slice] = absent @ popularity.astype(np.float32)
    return expected, slopes


def _by_item(case: Case, activity: np.ndarray, popularity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected real cells per item, with their slope."""
    expected, slopes = np.zeros(len(popularity)), np.zeros(len(popularity))
    for block, absent, there in _absent(case, activity, popularity):
        published = block.rows if there is None else there.sum(axis=0)
        expected += published - absent.sum(axis=0, dtype=np.float64)
        slopes += activity[block.rows_slice].astype(np.float32) @ absent
    return expected, slopes


def _absent(
    case: Case, activity: np.ndarray, popularity: np.ndarray
) -> Iterator[tuple[Profiles, np.ndarray, np.ndarray | None]]:
    """Yield the blocks of the release, for every cell the chance that it is published and holds no real rating, and
    which are published (None: all)."""
    for block in case.release.blocks():
        own = activity[block.rows_slice]
        absent = np.outer(-own.astype(np.float32), popularity.astype(np.float32))
        np.exp(absent, out=absent)
        there = None if block.items is None else block.pattern().toarray()
        if there is not None:
            absent *= there
        yield block, absent, there


def newton_step(now: np.ndarray, wanted: np.ndarray, expected: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return one Newton step, at most to the half or the double: far from the root the slope is too steep a guide."""
    step = (wanted - expected) / np.maximum(slope, 1e-9)
    return np.maximum(now + np.clip(step, -now / 2, now), 1e-9)
