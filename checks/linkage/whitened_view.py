"""View a release through its whitened spectrum, in which its weakest directions count as much as its strongest.

A padded release is low rank, and an item's factors are combinations of its raters' factors: the fewer raters an item
has, the more of them is any one rater's. That shows best in the weak directions, which few people bend. So the
published table, less the items' means and the groups' levels, is decomposed, all singular values are set to 1, and
items are scaled to the same length: what remains of a group is a direction, and of an item the direction of those who
rated it.

Only directions above the noise of rounding are kept. Subspace iteration reads the release in blocks; nothing but the
factors is held. Cells that are not published count as the mean.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.profiles import Profiles
from checks.evidence.release_view import ReleaseView
from checks.evidence.seeds import seeded
from checks.recovery.subspace import iterate, random_basis, strongest

MOST_DIRECTIONS = 20
OVERSAMPLE = 8
ROUNDS = 12
LEAST_NORM = 1e-9  # of an item's or a group's direction: shorter ones have none

Residuals = Callable[[], Iterator[tuple[int, np.ndarray | sp.csr_array]]]


@dataclass(frozen=True)
class WhitenedView:
    """Hold the directions of a release: `groups` (groups × directions, columns of length 1), `items` (items ×
    directions, orthonormal columns) and the singular value of each direction."""

    groups: np.ndarray
    items: np.ndarray
    values: np.ndarray

    @property
    def unit_items(self) -> np.ndarray:
        """The items' directions, each scaled to length 1 (0 where an item has none)."""
        length = np.linalg.norm(self.items, axis=1, keepdims=True)
        return np.divide(self.items, length, out=np.zeros_like(self.items), where=length > LEAST_NORM)


def whitened_view(case: Case) -> WhitenedView:
    """Return the whitened view of a case's release; computed once."""
    return case.cached("whitened", lambda: _decompose(case.release))


def _decompose(release: ReleaseView) -> WhitenedView:
    residuals = _residuals(release)
    shape = (release.n_groups, release.n_items)
    width = min(MOST_DIRECTIONS + OVERSAMPLE, *shape)

    def multiply(basis: np.ndarray) -> np.ndarray:
        turned = np.zeros(basis.shape)
        for _, block in residuals():
            turned += block.T @ (block @ basis.astype(np.float32))
        return turned

    basis = iterate(multiply, random_basis(seeded("whitened"), shape[1], width), ROUNDS)
    scores = np.zeros((shape[0], width))
    for start, block in residuals():
        scores[start : start + block.shape[0]] = block @ basis.astype(np.float32)
    squares, turn = strongest(scores.T @ scores, MOST_DIRECTIONS)
    values = np.sqrt(np.maximum(squares, 0))
    kept = values > max(_noise(release), LEAST_NORM)
    values, turn = values[kept], turn[:, kept]
    return WhitenedView(scores @ turn / values, basis @ turn, values)


def _noise(release: ReleaseView) -> float:
    """Return the largest singular value that rounding alone would give: errors are uniform within a step."""
    return release.step / math.sqrt(12) * (math.sqrt(release.n_groups) + math.sqrt(release.n_items))


def _residuals(release: ReleaseView) -> Residuals:
    """Return a function that reads the release in blocks, less the items' means and the groups' levels."""
    total, count = np.zeros(release.n_items), np.zeros(release.n_items)
    for block in release.blocks():
        total += np.bincount(block.columns, weights=block.values, minlength=release.n_items)
        count += np.bincount(block.columns, minlength=release.n_items)
    means = (total / np.maximum(count, 1)).astype(np.float32)
    return lambda: ((block.start, _centred(block, means)) for block in release.blocks())


def _centred(block: Profiles, means: np.ndarray) -> np.ndarray | sp.csr_array:
    if block.items is None:
        table = block.table() - means
        return table - table.mean(axis=1, keepdims=True)
    rows, rest = block.row_numbers(), block.values - means[block.items]
    number = np.maximum(np.diff(block.indptr), 1)
    rest = rest - (np.bincount(rows, rest, minlength=block.rows) / number)[rows].astype(np.float32)
    return sp.csr_array((rest, block.items, block.indptr), shape=(block.rows, block.n_items))
