"""Compute a prior for an item model from published group profiles: item levels and item factors.

In a series each cohort has a model of its own, fitted on the cohort's ratings alone. Earlier releases of the same
population show what items have in common. Whatever is computed from them is post-processing of public data: it costs no
privacy, and nobody's ratings are used twice. The cohort's model is shrunk towards this prior instead of towards zero.

Profiles are groups × items, read in blocks. Each value is modelled as

    value(g, i) = mean + level of g + level of i + coordinates of g · factors of i,

with groups weighted by their sizes: the truncated SVD of the profiles after rows and columns were centred, by subspace
iteration over blocks. Cells that a group does not hold (it is older than the item) are filled with what the model
of the round before says of them.

*Scale.* Alternating least squares penalizes users by λ(n + PRIOR)|p|² and items likewise (kernels/als.py), so in a
solution both sides' penalties are equal in every direction. The factors of the prior are scaled to that balance.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tasks.kernels.als import PRIOR

Float32 = npt.NDArray[np.float32]
Block = tuple[Float32, npt.NDArray[np.integer]]  # values (groups, items), NaN: not held; sizes of the groups

OVERSAMPLING = 10  # further directions that are iterated and dropped in the end
PASSES = (
    8  # over profiles without gaps; each shrinks a direction's error by the squared ratio of singular values
)
PASSES_WITH_GAPS = 24
# How many ratings a person has is not published. It is only needed for the balance of penalties, as a fourth root.
RATINGS_PER_PERSON = 100.0
_LEAST_STRENGTH = 1e-5  # of the strongest direction: weaker ones are rounding errors
_LEAST_RIDGE = 1e-6  # of the strength of all older factors
_ENTRIES_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Prior:
    """Hold what is publicly known of items before a cohort is looked at; zeros where nothing is known."""

    levels: Float32  # (items,), relative to the mean of all items
    factors: Float32  # (items, rank), strongest direction first
    known: npt.NDArray[np.bool_]  # (items,)
    cohorts: tuple[int, ...] = ()  # people of each earlier cohort: how much stands behind the prior

    def with_rank(self, rank: int) -> "Prior":
        """Return the strongest `rank` directions; further ones are zeros."""
        kept = self.factors[:, :rank]
        padded = np.pad(kept, ((0, 0), (0, rank - kept.shape[1])))
        return replace(self, factors=np.ascontiguousarray(padded, np.float32))

    def stretched(self, by: npt.NDArray[np.floating]) -> "Prior":
        """Return the prior with each direction multiplied."""
        return replace(self, factors=(self.factors * by).astype(np.float32))

    def followed_by(self, newer: "Prior") -> "Prior":
        """Return what a newer cohort says of its items, and what was known before of the others.

        A cohort's model is shrunk towards the prior as far as its own ratings are less certain than that. So it sums up
        what all earlier cohorts say. Items that the newer cohort lacks are moved to its directions and its mean level,
        as those are that both have.
        """
        if not self.known.any():
            return replace(newer, cohorts=self.cohorts + newer.cohorts)
        both, older = self.known & newer.known, self.known & ~newer.known
        levels, factors = newer.levels.copy(), newer.factors.copy()
        shift = float((newer.levels - self.levels)[both].mean()) if both.any() else 0.0
        levels[older] = self.levels[older] + np.float32(shift)
        factors[older] = self.factors[older] @ _between(self.factors[both], newer.factors[both])
        known = self.known | newer.known
        levels = np.where(known, levels - levels[known].mean(), 0).astype(np.float32)
        return Prior(levels, factors, known, self.cohorts + newer.cohorts)

    def with_columns(self, columns: npt.NDArray[np.integer]) -> "Prior":
        """Return the prior of other columns, given by their place here; −1: nothing is known of the item."""
        there = columns >= 0
        return Prior(
            np.where(there, self.levels[columns], np.float32(0)),
            np.where(there[:, None], self.factors[columns], np.float32(0)),
            there & self.known[columns],
            self.cohorts,
        )


def _between(older: Float32, newer: Float32) -> Float32:
    """Return the matrix by which older factors come nearest to newer ones of the same items."""
    moments = older.T.astype(np.float64) @ older
    ridge = _LEAST_RIDGE * max(float(np.trace(moments)), 1e-30) * np.eye(len(moments))
    return np.linalg.solve(moments + ridge, older.T.astype(np.float64) @ newer).astype(np.float32)


def nothing_known(n_items: int, rank: int) -> Prior:
    """Return the prior of items that nobody published anything about."""
    return Prior(
        np.zeros(n_items, np.float32), np.zeros((n_items, rank), np.float32), np.zeros(n_items, bool)
    )


def find_prior(
    blocks: Callable[[], Iterator[Block]], n_items: int, rank: int, rng: np.random.Generator
) -> Prior:
    """Return the prior that published profiles give; `blocks()` passes once over all groups, in the same order."""
    count, people, groups = np.zeros(n_items, np.int64), 0, 0
    for values, sizes in blocks():
        there = ~np.isnan(values)
        count += there.sum(axis=0)
        people, groups = people + int(sizes.sum()), groups + len(sizes)
    known = count > 0
    gaps = bool((count[known] < groups).any())
    levels, factors = np.zeros(n_items, np.float32), np.zeros((n_items, rank), np.float32)
    if known.any():
        levels[known], found = _fit(blocks, known, (groups, people), rank, gaps=gaps, rng=rng)
        factors[np.flatnonzero(known), : found.shape[1]] = found
    return Prior(levels, factors, known, (people,) if groups else ())


def _fit(
    blocks: Callable[[], Iterator[Block]],
    known: npt.NDArray[np.bool_],
    totals: tuple[int, int],
    rank: int,
    *,
    gaps: bool,
    rng: np.random.Generator,
) -> tuple[Float32, Float32]:
    """Return levels and scaled factors of the known items; `totals` are the numbers of groups and of people."""
    (groups, people), n_items = totals, int(known.sum())
    width = min(rank + OVERSAMPLING, groups, n_items)
    directions = _orthonormal(rng.standard_normal((n_items, width)))
    levels = np.zeros(n_items, np.float32)
    own_level, coordinates = np.zeros(groups, np.float32), np.zeros((groups, width), np.float32)
    main = np.zeros((n_items, width), np.float32)  # what fills gaps: coordinates · main
    for _ in range(PASSES_WITH_GAPS if gaps else PASSES):
        product, sums = np.zeros((n_items, width)), np.zeros(n_items)
        gram, projected, start = np.zeros((width, width)), np.zeros((groups, width), np.float32), 0
        for values, sizes in blocks():
            here = slice(start, start + len(sizes))
            start = here.stop
            rest = (values if known.all() else values[:, known]) - levels
            if gaps:
                missing = np.isnan(rest)
                rest[missing] = (own_level[here, None] + coordinates[here] @ main.T)[missing]
            own_level[here] = rest.mean(axis=1)
            rest -= own_level[here, None]
            weight = sizes.astype(np.float32)
            sums += weight @ rest
            projected[here] = rest @ directions
            weighted = projected[here] * weight[:, None]
            product += rest.T @ weighted
            gram += projected[here].T.astype(np.float64) @ weighted
        squares, axes = np.linalg.eigh(gram)  # ascending: the last ones carry most
        axes = axes[:, ::-1][:, :rank]
        main = (directions @ axes).astype(np.float32)
        coordinates = (projected @ axes).astype(np.float32)
        levels = (levels + sums / people).astype(np.float32)
        directions = _orthonormal(product)
    strength = np.sqrt(np.maximum(squares[::-1][:rank], 0))
    strength[strength <= _LEAST_STRENGTH * max(float(strength[0]), 1e-30)] = 0
    sign = np.where(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])] < 0, -1.0, 1.0)
    return levels - levels.mean(), (main * (sign * _lengths(strength, people, n_items))).astype(np.float32)


def _lengths(strength: np.ndarray, people: int, n_items: int) -> np.ndarray:
    """Return how long each direction is over all items, so that the penalties of people and of items are equal.

    People's factors have the length strength / length: length² · items' penalty = (strength / length)² · people's.
    """
    person = PRIOR + RATINGS_PER_PERSON
    item = PRIOR + RATINGS_PER_PERSON * people / n_items
    return np.sqrt(strength) * (person / item) ** 0.25


def _orthonormal(columns: np.ndarray) -> Float32:
    return np.linalg.qr(columns)[0].astype(np.float32)


def predicted(
    indptr: npt.NDArray[np.integer],
    indices: npt.NDArray[np.integer],
    features: Float32,
    factors: Float32,
    levels: Float32,
) -> Float32:
    """Return level + factors · features for the entries of a block of items (CSR): what the prior says of ratings."""
    row = np.repeat(np.arange(len(levels)), np.diff(indptr))
    out = np.empty(len(indices), np.float32)
    for start in range(0, len(indices), _ENTRIES_AT_ONCE):
        part = slice(start, start + _ENTRIES_AT_ONCE)
        out[part] = np.einsum("cf,cf->c", features[indices[part]], factors[row[part]])
    return out + levels[row]
