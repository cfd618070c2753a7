"""Represent rating vectors for clustering, dense only in the blocks a kernel asks for ([Chang2009], section 4.1).

A row of the padded matrix at Netflix's width takes 71 KB, its factors 72 bytes. Where observed ratings are left out,
rows, means and Euclidean distances all follow from the factors; where they are kept, dense rows are held.

Most items of a long catalogue show a level only: users differ on each of them by their own levels' difference, the same
on all. These items are counted (`repeats`) and not multiplied out; a user's own level stands for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tasks.kernels.metrics import distances, distances_of_pairs, with_levels
from tasks.kernels.partition_search import group_means

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Index = slice | npt.NDArray[np.integer]

_SKETCH = 32
_EPSILON = float(np.finfo(np.float32).eps)
_LEVEL = -2  # the place of the own level among a user's factors


@dataclass(frozen=True)
class RatingVectors(ABC):
    """Define what bounded t-means and the search for nearest centres need from rating vectors.

    `array` is the array from which everything follows. `segments` gives items on which users differ in the same way
    the same number; it is needed only for bounds on distances. `repeats` items show a level only and are no columns.
    """

    array: Float32
    segments: Int32 | None
    repeats: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self.array)

    @property
    @abstractmethod
    def width(self) -> int:
        """Return the number of columns: of items that show more than a level."""

    @property
    def cells(self) -> int:
        """Return the number of items."""
        return self.width + self.repeats

    @abstractmethod
    def levels(self, index: Index) -> Float32 | None:
        """Return what stands for the items that show a level only; None: there are none."""

    @abstractmethod
    def rows(self, index: Index, out: Float32 | None = None) -> Float32:
        """Return some vectors, dense; written into `out` where it is given and they must be computed."""

    def group_means(self, labels: Int32, t: int) -> Self:
        """Return the mean vector of each of t groups: a virtual centre ([Chang2009], section 4.2)."""
        return replace(self, array=group_means(self.array, labels, t))

    @abstractmethod
    def embedding(self, rng: np.random.Generator) -> Float32:
        """Return narrow coordinates around the origin with (nearly) the same Euclidean distances."""

    @abstractmethod
    def squared_pair_distances(self) -> Float32:
        """Return the squared Euclidean distances between all vectors."""

    @property
    @abstractmethod
    def pairs_are_cheap(self) -> bool:
        """Return whether `squared_pair_distances` costs no more than that of the embedding."""

    @abstractmethod
    def squared_distances_to(self, other: Self, part: slice) -> tuple[Float32, float]:
        """Return the squared Euclidean distances of some vectors to all others, and a bound on their error."""

    @abstractmethod
    def segment_sums(self, part: slice) -> Float64:
        """Return the sums of some vectors over each segment of items, divided by the number of items."""

    @property
    @abstractmethod
    def rounding_error(self) -> float:
        """Return a bound on how far float32 rounding moves an entry of `rows` from the values `segment_sums` is made
        of.
        """

    def _segments(self) -> Int32:
        if self.segments is None:
            raise ValueError("bounds need segments of items, but these vectors were made without segments")
        return self.segments


@dataclass(frozen=True)
class DenseVectors(RatingVectors):
    """Hold the vectors themselves; with levels (`of`) only rows and means follow from them."""

    segments: Int32 | None = None
    own_levels: Float32 | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, points: RatingVectors) -> DenseVectors:
        """Return the same vectors, multiplied out."""
        every = slice(None)
        return cls(points.rows(every), repeats=points.repeats, own_levels=points.levels(every))

    def levels(self, index: Index) -> Float32 | None:
        """Return the levels that are held."""
        return None if self.own_levels is None else self.own_levels[index]

    def group_means(self, labels: Int32, t: int) -> DenseVectors:
        """Return the mean vector and the mean level of each group."""
        means = super().group_means(labels, t)
        if self.own_levels is None:
            return means
        return replace(means, own_levels=group_means(self.own_levels[:, None], labels, t)[:, 0])

    @property
    def width(self) -> int:
        """Return the number of items."""
        return self.array.shape[1]

    def rows(self, index: Index, out: Float32 | None = None) -> Float32:
        """Return some vectors."""
        return self.array[index]

    def embedding(self, rng: np.random.Generator) -> Float32:
        """Project onto about the leading principal directions by one step of randomized subspace iteration.

        The padded matrix is nearly of low rank ([Chang2009], section 4.1), so little is lost.
        """
        if self.pairs_are_cheap:
            return self._centred()
        image = self.array @ rng.standard_normal((self.width, _SKETCH), np.float32)
        image -= image.mean(axis=0)
        directions, _ = np.linalg.qr(self.array.T @ image)
        coordinates = self.array @ directions
        coordinates -= coordinates.mean(axis=0)
        return np.ascontiguousarray(coordinates, dtype=np.float32)

    def squared_pair_distances(self) -> Float32:
        """Compute one product of all vectors with all."""
        return squared_pair_distances(self._centred())

    @property
    def pairs_are_cheap(self) -> bool:
        """Return true for narrow vectors, which are their own embedding."""
        return self.width <= _SKETCH

    def squared_distances_to(self, other: Self, part: slice) -> tuple[Float32, float]:
        """Compute one product; the error is that of a sum of as many products as there are items."""
        middle = other.array.mean(axis=0, dtype=np.float64).astype(np.float32)
        return _squared(self.array[part] - middle, other.array - middle)

    def segment_sums(self, part: slice) -> Float64:
        """Sum over the columns of each segment."""
        segments = self._segments()
        order = np.argsort(segments, kind="stable")
        starts = np.flatnonzero(np.diff(segments[order], prepend=-1))
        return np.add.reduceat(self.array[part][:, order], starts, axis=1, dtype=np.float64) / self.width

    @property
    def rounding_error(self) -> float:
        """Return 0: the rows are held exactly."""
        return 0.0

    def _centred(self) -> Float32:
        return self.array - self.array.mean(axis=0, dtype=np.float64).astype(np.float32)


@dataclass(frozen=True)
class LowRankVectors(RatingVectors):
    """Hold the factors of predictions: mean + factors @ items.T."""

    segments: Int32 | None
    items: Float32
    mean: float

    @classmethod
    def without_levels(
        cls, array: Float32, segments: Int32 | None, items: Float32, mean: float, fewest: int
    ) -> LowRankVectors:
        """Return vectors whose items that show a level only are counted, if there are at least `fewest`.

        The last two factors are (own level, 1) of users and (1, level) of items, as in kernels/als.py.
        """
        is_level = (items[:, _LEVEL] == 1) & ~items[:, :_LEVEL].any(axis=1)
        if int(is_level.sum()) < fewest or not (array[:, -1] == 1).all():
            return cls(array, segments, items, mean)
        kept = None if segments is None else segments[~is_level]
        return cls(array, kept, np.ascontiguousarray(items[~is_level]), mean, repeats=int(is_level.sum()))

    def levels(self, index: Index) -> Float32 | None:
        """Return the users' own levels."""
        return np.ascontiguousarray(self.array[index][:, _LEVEL]) if self.repeats else None

    @property
    def width(self) -> int:
        """Return the number of items."""
        return len(self.items)

    def rows(self, index: Index, out: Float32 | None = None) -> Float32:
        """Return the predictions of some users."""
        dense = np.matmul(self.array[index], self.items.T, out=out)
        dense += np.float32(self.mean)
        return dense

    def embedding(self, rng: np.random.Generator) -> Float32:
        """Return coordinates in the space of the factors, which have exactly the same distances."""
        return (self._coordinates - self._coordinates.mean(axis=0)).astype(np.float32)

    def squared_pair_distances(self) -> Float32:
        """Compute the distances from the coordinates."""
        return squared_pair_distances((self._coordinates - self._coordinates.mean(axis=0)).astype(np.float32))

    @property
    def pairs_are_cheap(self) -> bool:
        """Return true: there are only as many coordinates as factors."""
        return True

    def squared_distances_to(self, other: Self, part: slice) -> tuple[Float32, float]:
        """Compute the distances from the coordinates; the error is that of a sum of as many products as there are
        factors.
        """
        middle = other._coordinates.mean(axis=0)
        x, y = ((side - middle).astype(np.float32) for side in (self._coordinates[part], other._coordinates))
        return _squared(x, y)

    def segment_sums(self, part: slice) -> Float64:
        """Multiply the factors with the sums of the items' factors; the mean, equal on both sides, is left out."""
        return self.array[part].astype(np.float64) @ self._segment_items.T

    @cached_property
    def rounding_error(self) -> float:
        """Bound the error of a sum of as many products as there are factors."""
        if not len(self):
            return 0.0
        highest = np.abs(self.items).max(axis=0, initial=0).astype(np.float64)
        largest = np.abs(self.array).astype(np.float64) @ highest
        return (self.items.shape[1] + 2) * _EPSILON * (float(largest.max()) + abs(self.mean))

    @cached_property
    def _coordinates(self) -> Float64:
        """Return the factors in a basis in which their Euclidean distances are those of the dense rows."""
        items = self.items.astype(np.float64)
        products = items.T @ items
        if self.repeats:
            products[_LEVEL, _LEVEL] += self.repeats
        weights, directions = np.linalg.eigh(products)
        return self.array.astype(np.float64) @ (directions * np.sqrt(np.maximum(weights, 0)))

    @cached_property
    def _segment_items(self) -> Float64:
        segments = self._segments()
        count = int(segments.max(initial=-1)) + 1
        sums = np.zeros((count + bool(self.repeats), self.items.shape[1]))
        np.add.at(sums, segments, self.items.astype(np.float64))
        if self.repeats:
            sums[count, _LEVEL] = self.repeats
        return sums / self.cells


def distances_between(
    x: RatingVectors, x_rows: Float32, x_part: Index, y: RatingVectors, y_rows: Float32, **measure: Any
) -> Float32:
    """Return the distances of some vectors of x (their dense rows are given) to all of y, whose rows are given."""
    found = distances(x_rows, y_rows, **measure)
    own, other = x.levels(x_part), y.levels(slice(None))
    if own is None or other is None:
        return found
    return with_levels(found, own[:, None], other[None, :], x.width, x.repeats, **measure)


def distances_of_some(
    x: RatingVectors,
    x_rows: Float32,
    x_part: Index,
    y: RatingVectors,
    y_rows: Float32,
    indptr: npt.NDArray[np.int64],
    columns: Int32,
    **measure: Any,
) -> Float32:
    """Return the distances of given pairs, as `metrics.distances_of_pairs` does."""
    found = distances_of_pairs(x_rows, y_rows, indptr, columns, **measure)
    own, other = x.levels(x_part), y.levels(slice(None))
    if own is None or other is None:
        return found
    own = np.repeat(own, np.diff(indptr))
    return with_levels(found, own, other[columns], x.width, x.repeats, **measure)


def squared_pair_distances(centred: Float32) -> Float32:
    """Return the squared Euclidean distances between all rows, which should lie around the origin to limit rounding."""
    gram = centred @ centred.T
    squares = np.diag(gram).copy()
    gram *= -2
    gram += squares[:, None]
    gram += squares[None, :]
    np.maximum(gram, 0, out=gram)
    np.fill_diagonal(gram, 0)
    return gram


def _squared(x: Float32, y: Float32) -> tuple[Float32, float]:
    lengths = [np.einsum("rc,rc->r", side, side) for side in (x, y)]
    squared = x @ y.T
    squared *= -2
    squared += lengths[0][:, None]
    squared += lengths[1]
    np.maximum(squared, 0, out=squared)
    longest = sum(float(np.sqrt(length.max(initial=0))) for length in lengths) ** 2
    return squared, (x.shape[1] + 4) * _EPSILON * longest


def segment_items(items: Float32, users: Float32, count: int) -> Int32:
    """Number the items 0..count−1 so that a segment has items with similar factors, by halving along the widest axis.

    Axes are weighted with how much users differ along them: two items are similar when a difference between two users
    on one item is a similar difference on the other.
    """
    centred = users - users.mean(axis=0, dtype=np.float64)
    weights, directions = np.linalg.eigh(centred.T @ centred / len(users))
    weighted = items.astype(np.float64) @ (directions * np.sqrt(np.maximum(weights, 0)))
    order = np.arange(len(items))
    edges = [0, len(items)]
    while len(edges) - 1 < min(count, len(items)):
        halves = [0]
        for first, last in pairwise(edges):
            part = weighted[order[first:last]]
            part = part - part.mean(axis=0)
            _, axes = np.linalg.eigh(part.T @ part)
            order[first:last] = order[first:last][np.argsort(part @ axes[:, -1], kind="stable")]
            halves += [(first + last) // 2, last] if last - first > 1 else [last]
        edges = halves
    segments = np.empty(len(items), np.int32)
    segments[order] = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    return segments
