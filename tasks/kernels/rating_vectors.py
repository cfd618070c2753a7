"""Rating vectors to be compared and averaged, dense only in the blocks a kernel asks for (paper section 4.1).

A row of the padded matrix at Netflix's width takes 71 KB, its factors 72 bytes. Where observed ratings are left out,
rows, means and Euclidean distances all follow from the factors; where they are kept, rows are held as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from tasks.kernels.exchange import means

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Index = slice | npt.NDArray[np.integer]

_SKETCH = 32
_EPSILON = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Points(ABC):
    """What bounded t-means and the search for nearest centres ask of rating vectors.

    `held` is the array from which everything follows; `segments` numbers items that tell users apart alike with the
    same number, and is needed for bounds on distances only.
    """

    held: Float32
    segments: Int32 | None

    def __len__(self) -> int:
        """Number of vectors."""
        return len(self.held)

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of items."""

    @abstractmethod
    def rows(self, index: Index, out: Float32 | None = None) -> Float32:
        """Some vectors, dense; in `out`, where it is given and they are not held as they are."""

    def means(self, labels: Int32, t: int) -> Self:
        """The mean vector of each of t groups: a virtual centre (section 4.2)."""
        return replace(self, held=means(self.held, labels, t))

    @abstractmethod
    def embedding(self, rng: np.random.Generator) -> Float32:
        """Narrow coordinates around the origin with (nearly) the same Euclidean distances."""

    @abstractmethod
    def squared_pairs(self) -> Float32:
        """Squared Euclidean distances between all vectors."""

    @property
    @abstractmethod
    def paired_cheaply(self) -> bool:
        """Whether `squared_pairs` costs no more than their embedding's would."""

    @abstractmethod
    def squared_to(self, other: Self, part: slice) -> tuple[Float32, float]:
        """Squared Euclidean distances of some vectors to all others, and a bound on their error."""

    @abstractmethod
    def coarse(self, part: slice) -> Float64:
        """The sums of some vectors over each segment of items, divided by the number of items."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """A bound on how far float32 arithmetic carries an entry of `rows` from what `coarse` is made of."""

    def _segments(self) -> Int32:
        if self.segments is None:
            raise ValueError("bounds need segments of items, and these points were made without")
        return self.segments


@dataclass(frozen=True)
class DensePoints(Points):
    """Vectors held as they are."""

    segments: Int32 | None = None

    @property
    def width(self) -> int:
        """Number of items."""
        return self.held.shape[1]

    def rows(self, index: Index, out: Float32 | None = None) -> Float32:
        """Some vectors."""
        return self.held[index]

    def embedding(self, rng: np.random.Generator) -> Float32:
        """About the leading principal directions: one step of randomized subspace iteration.

        The padded matrix is nearly of low rank (section 4.1), so little is lost.
        """
        if self.paired_cheaply:
            return self._centred()
        image = self.held @ rng.standard_normal((self.width, _SKETCH), np.float32)
        image -= image.mean(axis=0)
        directions, _ = np.linalg.qr(self.held.T @ image)
        coordinates = self.held @ directions
        coordinates -= coordinates.mean(axis=0)
        return np.ascontiguousarray(coordinates, dtype=np.float32)

    def squared_pairs(self) -> Float32:
        """One product of all vectors with all."""
        return squared_pairs(self._centred())

    @property
    def paired_cheaply(self) -> bool:
        """Narrow vectors are their own embedding."""
        return self.width <= _SKETCH

    def squared_to(self, other: Self, part: slice) -> tuple[Float32, float]:
        """One product; the error is that of a sum of as many products as there are items."""
        middle = other.held.mean(axis=0, dtype=np.float64).astype(np.float32)
        return _squared(self.held[part] - middle, other.held - middle)

    def coarse(self, part: slice) -> Float64:
        """Sums over the columns of each segment."""
        segments = self._segments()
        order = np.argsort(segments, kind="stable")
        starts = np.flatnonzero(np.diff(segments[order], prepend=-1))
        return np.add.reduceat(self.held[part][:, order], starts, axis=1, dtype=np.float64) / self.width

    @property
    def rounding(self) -> float:
        """Rows are what they are."""
        return 0.0

    def _centred(self) -> Float32:
        return self.held - self.held.mean(axis=0, dtype=np.float64).astype(np.float32)


@dataclass(frozen=True)
class LowRankPoints(Points):
    """Predictions alone: mean + factors @ items.T, of which the factors are held."""

    segments: Int32 | None
    items: Float32
    mean: float

    @property
    def width(self) -> int:
        """Number of items."""
        return len(self.items)

    def rows(self, index: Index, out: Float32 | None = None) -> Float32:
        """The predictions of some users."""
        dense = np.matmul(self.held[index], self.items.T, out=out)
        dense += np.float32(self.mean)
        return dense

    def embedding(self, rng: np.random.Generator) -> Float32:
        """Coordinates in the space of the factors: exactly the same distances."""
        return (self._coordinates - self._coordinates.mean(axis=0)).astype(np.float32)

    def squared_pairs(self) -> Float32:
        """Those of the coordinates."""
        return squared_pairs((self._coordinates - self._coordinates.mean(axis=0)).astype(np.float32))

    @property
    def paired_cheaply(self) -> bool:
        """There are as many coordinates as factors."""
        return True

    def squared_to(self, other: Self, part: slice) -> tuple[Float32, float]:
        """Those of the coordinates; the error is that of a sum of as many products as there are factors."""
        middle = other._coordinates.mean(axis=0)
        x, y = ((side - middle).astype(np.float32) for side in (self._coordinates[part], other._coordinates))
        return _squared(x, y)

    def coarse(self, part: slice) -> Float64:
        """The factors times the sums of the items' factors; the mean, equal on both sides, is left out."""
        return self.held[part].astype(np.float64) @ self._segment_items.T

    @cached_property
    def rounding(self) -> float:
        """The error of a sum of as many products as there are factors."""
        if not len(self):
            return 0.0
        largest = np.abs(self.held).astype(np.float64) @ np.abs(self.items).max(axis=0).astype(np.float64)
        return (self.items.shape[1] + 2) * _EPSILON * (float(largest.max()) + abs(self.mean))

    @cached_property
    def _coordinates(self) -> Float64:
        """Factors in a basis in which their Euclidean distances are those of the dense rows."""
        items = self.items.astype(np.float64)
        weights, directions = np.linalg.eigh(items.T @ items)
        return self.held.astype(np.float64) @ (directions * np.sqrt(np.maximum(weights, 0)))

    @cached_property
    def _segment_items(self) -> Float64:
        segments = self._segments()
        sums = np.zeros((int(segments.max()) + 1, self.items.shape[1]))
        np.add.at(sums, segments, self.items.astype(np.float64))
        return sums / self.width


def squared_pairs(centred: Float32) -> Float32:
    """Squared Euclidean distances between all rows; they should lie around the origin, or rounding takes over."""
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


def segments_of(items: Float32, users: Float32, count: int) -> Int32:
    """Number the items 0..count−1 so that those in a segment have similar factors, by halving along the widest axis.

    Axes are weighted with how much users differ along them: two items are similar when what tells two users apart
    on one tells them apart on the other.
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
