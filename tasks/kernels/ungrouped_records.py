"""Hold the records that microaggregation has not grouped yet, and find the exact nearest and farthest ones fast.

Distances to one record come from cached squared norms and dot products in float32: a pass over half the memory. Their
error has a known bound, so they only determine which records *may* be among the nearest or the farthest; where more
candidates remain than are wanted, those few are compared in float64, as `squared_distances` does. The mean is kept as
a running sum, and as long as it has moved little, old distances to it determine which records may be the farthest
from it.
"""

import numpy as np
from numba import njit

EPSILON = float(np.finfo(np.float64).eps)
CELLS_AT_ONCE = 1_000_000  # cells converted to float32 together
FEWEST_COMPARED = 64  # candidates for the farthest from the mean: this many always cost less than a new pass
FLOOR = 1e-30  # of squared norms below 1, for values that float32 cannot distinguish from 0
SHARE_COMPARED = 8  # one in this many records may be compared before a new pass is cheaper


def squared_distances(points: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Return the squared Euclidean distances of all points to one, by the reference arithmetic, which decides ties."""
    return np.sum((points - center) ** 2, axis=1)


class UngroupedRecords:
    """Hold the records not yet in a group, at positions 0..count−1, which change whenever records are removed."""

    def __init__(self, points: np.ndarray) -> None:
        self.points = points
        self.count, width = points.shape
        self.ids = np.arange(self.count)  # the record at each position
        self._position = np.arange(self.count)  # the position of each record
        self._rows = np.empty(points.shape, np.float32)
        self._squares = np.empty(self.count)
        # |fl(x·y) − x·y| ≤ (d + 2)·2⁻²⁴·|x||y| in any order of summation, float32's rounding of x and y included, and
        # |x||y| ≤ (|x|² + |y|²)/2: this is twice as much, and has room for what float64 loses.
        self._slack = (width + 16) * float(np.finfo(np.float32).eps)
        self._bring_into_range()
        self._query_distances = np.zeros(
            self.count
        )  # from the last argument of `nearest`, squared, up to the slack
        self._query, self._query_square = 0, 0.0
        self._from_mean = np.zeros(self.count)  # distance to the mean as it was when `_counted` were left
        self._recompute_mean()

    def position(self, record: int) -> int:
        """Return the position of a record that is not grouped yet."""
        return int(self._position[record])

    def nearest(self, position: int, count: int) -> np.ndarray:
        """Return the positions of the `count` records nearest to the one at this position, itself included."""
        most = self._measure(position, count)
        found = _at_most(most, *self._query_state())
        if len(found) == count:
            return found
        found = found[np.argsort(self.ids[found])]
        distances = squared_distances(self.points[self.ids[found]], self.points[self._query])
        return found[np.argsort(distances, kind="stable")[:count]]

    def farthest(self) -> int:
        """Return the position of the record farthest from the last argument of `nearest` (which may be removed by
        now).
        """
        found = _farthest(*self._query_state())
        return int(found[0]) if len(found) == 1 else self._first_farthest(found, self.points[self._query])

    def farthest_from_mean(self) -> int:
        """Return the position of the record farthest from the mean of all that are left."""
        mean = self._total / self.count
        found = self._may_be_farthest(mean)
        if len(found) > max(FEWEST_COMPARED, self.count // SHARE_COMPARED) or 2 * self.count < self._counted:
            self._recompute_mean()
            mean = self._total / self.count
            found = self._may_be_farthest(mean)
        distances = np.sqrt(squared_distances(self.points[self.ids[found]], mean))
        found = found[distances >= distances.max() - 2 * self._rounding_bound(distances.max())]
        rows = self.points[self.ids[found]]
        if (rows == rows[0]).all():  # one record, or copies of one
            return int(found[np.argmin(self.ids[found])])
        return self._first_farthest(found, self.points[np.sort(self.ids[: self.count])].mean(axis=0))

    def extend_group(self, members: np.ndarray, *, most: int, gamma: float) -> np.ndarray:
        """Extend a group as V-MDAV does: by its nearest record outside, while d_in < gamma · d_out ([Solanas2006])."""
        outside = np.ones(self.count, bool)
        outside[members] = False
        group = members.tolist()
        low, high = self._bounds(members)
        while len(group) < most and outside.any():
            new, inward = self._nearest_to_any(group, np.where(outside, low, np.inf), high[outside].min())
            outside[new] = False
            if not inward < gamma * self._to_nearest(new, outside):
                break
            group.append(new)
            low, high = (np.minimum(*both) for both in zip((low, high), self._bounds([new]), strict=True))
        return np.asarray(group)

    def remove(self, positions: np.ndarray) -> np.ndarray:
        """Remove the records at these positions and return their numbers; the last records move to the free
        positions.
        """
        taken = self.ids[positions]
        self._total -= self.points[taken].sum(axis=0)
        per_position = (self._rows, self._squares, self._query_distances, self._from_mean, self.ids)
        _fill_gaps(np.sort(positions)[::-1], self.count, *per_position, self._position)
        self.count -= len(taken)
        return taken

    def _bring_into_range(self) -> None:
        """Convert the rows to float32, about their middle and below 1, and compute their squared norms."""
        points, rows = self.points, max(1, CELLS_AT_ONCE // max(1, self.points.shape[1]))
        blocks = [slice(start, start + rows) for start in range(0, len(points), rows)]
        low, high = points.min(axis=0), points.max(axis=0)
        middle = low + (high - low) / 2
        scale = 2.0 ** -np.ceil(np.log2(max(float((high - low).max()), np.finfo(np.float64).tiny)))
        for block in blocks:
            near = (points[block] - middle) * scale
            self._rows[block] = near
            self._squares[block] = np.einsum("rc,rc->r", near, near)
        self._largest = float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))

    def _measure(self, position: int, count: int) -> float:
        """Fill `_query_distances`; return a bound that `count` of the distances to this record do not exceed."""
        self._query, self._query_square = int(self.ids[position]), float(self._squares[position])
        row = self._rows[position].copy()
        rows, squares, distances = (
            a[: self.count] for a in (self._rows, self._squares, self._query_distances)
        )
        return _measure(rows, squares, row, self._query_square, self._slack, distances, count)

    def _query_state(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        return (
            self._query_distances[: self.count],
            self._squares[: self.count],
            self._query_square,
            self._slack,
        )

    def _first_farthest(self, found: np.ndarray, center: np.ndarray) -> int:
        """Return of some positions the one farthest from a point, by the reference arithmetic; ties: the first
        record.
        """
        found = found[np.argsort(self.ids[found])]
        return int(found[squared_distances(self.points[self.ids[found]], center).argmax()])

    def _recompute_mean(self) -> None:
        """Sum the remaining records and measure their distances from the mean."""
        ids = self.ids[: self.count]
        self._total, self._counted = np.zeros(self.points.shape[1]), self.count
        _add_rows(self.points, ids, self._total)
        self._old_mean = self._total / self.count
        _distances(self.points, ids, self._old_mean, self._from_mean)

    def _may_be_farthest(self, mean: np.ndarray) -> np.ndarray:
        """Return the positions of the records that may be farthest: no distance changed by more than the mean moved."""
        old = self._from_mean[: self.count]
        moved = float(np.linalg.norm(mean - self._old_mean)) + self._rounding_bound(float(old.max()))
        return np.flatnonzero(old >= old.max() - 2 * moved)

    def _rounding_bound(self, distance: float) -> float:
        """Bound how far rounding can move a distance to the running mean from the distance to the exact mean."""
        width = self.points.shape[1]
        return EPSILON * (8 * (self._counted + width) * self._largest + 4 * (width + 4) * distance)

    def _bounds(self, positions: np.ndarray | list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds on every record's squared distance to the nearest of these positions."""
        squares = self._squares[: self.count, None] + self._squares[positions]
        distances = squares - 2 * (self._rows[: self.count] @ self._rows[positions].T)
        margin = self._slack * (squares + FLOOR)
        return (distances - margin).min(axis=1), (distances + margin).min(axis=1)

    def _nearest_to_any(self, group: list[int], low: np.ndarray, least: float) -> tuple[int, float]:
        """Return the record outside a group that is nearest to any of its members, and the distance."""
        found = np.flatnonzero(low <= least)
        found = found[np.argsort(self.ids[found])]
        rows = self.points[self.ids[found]]
        distances = np.array(
            [squared_distances(rows, self.points[self.ids[member]]) for member in group]
        ).min(0)
        return int(found[distances.argmin()]), float(np.sqrt(distances.min()))

    def _to_nearest(self, position: int, candidates: np.ndarray) -> float:
        """Return the distance of a record to the nearest of some others; infinite where there are none."""
        if not candidates.any():
            return np.inf
        low, high = self._bounds([position])
        found = candidates & (low <= high[candidates].min())
        rows = self.points[self.ids[: self.count][found]]
        return float(np.sqrt(squared_distances(rows, self.points[self.ids[position]]).min()))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(left, right):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for place in range(len(left)):
        total += left[place] * right[place]
    return total


@njit(cache=True, nogil=True)
def _measure(rows, squares, row, square, slack, distances, count):  # type: ignore[no-untyped-def]
    """Compute squared distances of all rows to one; return the `count`-th smallest of their upper bounds, from a
    heap.
    """
    heap = np.full(count, np.inf)
    for place in range(len(rows)):
        both = squares[place] + square
        distances[place] = both - 2.0 * _dot(rows[place], row)
        bound = distances[place] + slack * (both + FLOOR)
        if bound < heap[0]:
            above = 0
            while True:
                below = 2 * above + 1
                if below + 1 < count and heap[below + 1] > heap[below]:
                    below += 1
                if below >= count or heap[below] <= bound:
                    break
                heap[above] = heap[below]
                above = below
            heap[above] = bound
    return heap[0]


@njit(cache=True, nogil=True)
def _at_most(most, distances, squares, square, slack):  # type: ignore[no-untyped-def]
    """Return the positions of the records that may be as near as this."""
    found = np.empty(len(distances), np.int64)
    count = 0
    for place in range(len(distances)):
        if distances[place] - slack * (squares[place] + square + FLOOR) <= most:
            found[count] = place
            count += 1
    return found[:count].copy()


@njit(cache=True, nogil=True)
def _farthest(distances, squares, square, slack):  # type: ignore[no-untyped-def]
    """Return the positions of the records that may be the farthest."""
    most = -np.inf
    for place in range(len(distances)):
        most = max(most, distances[place] - slack * (squares[place] + square + FLOOR))
    found = np.empty(len(distances), np.int64)
    count = 0
    for place in range(len(distances)):
        if distances[place] + slack * (squares[place] + square + FLOOR) >= most:
            found[count] = place
            count += 1
    return found[:count].copy()


@njit(cache=True, nogil=True)
def _fill_gaps(gaps, count, rows, squares, distances, from_mean, ids, position_of):  # type: ignore[no-untyped-def]
    """Move the last records to the positions that become free, from the last of these to the first."""
    for gap in gaps:
        count -= 1
        rows[gap, :] = rows[count, :]
        squares[gap], distances[gap], from_mean[gap] = squares[count], distances[count], from_mean[count]
        ids[gap] = ids[count]
        position_of[ids[gap]] = gap


@njit(cache=True, nogil=True)
def _add_rows(points, ids, total):  # type: ignore[no-untyped-def]
    for record in ids:
        row = points[record]
        for column in range(len(total)):
            total[column] += row[column]


@njit(cache=True, nogil=True)
def _distances(points, ids, center, distances):  # type: ignore[no-untyped-def]
    for place in range(len(ids)):
        row = points[ids[place]]
        total = 0.0
        for column in range(len(center)):
            total += (row[column] - center[column]) ** 2
        distances[place] = np.sqrt(total)
