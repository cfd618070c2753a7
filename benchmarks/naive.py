"""Implement the papers' text literally in NumPy, as a baseline."""

from __future__ import annotations

import numpy as np


def naive_distances(x: np.ndarray, y: np.ndarray, max_diff: float) -> np.ndarray:
    """Return the metric of [Chang2009], section 4.2, pair by pair in float64."""
    n = x.shape[1]
    result = np.empty((len(x), len(y)))
    for i in range(len(x)):
        for j in range(len(y)):
            result[i, j] = 1 - np.sum((1 - np.abs(x[i] - y[j]) / max_diff) ** 2) / n
    return result


def mdav(points: np.ndarray, k: int) -> np.ndarray:
    """Group by maximum distance to average vector (MDAV, [DomingoFerrer2005]) with fixed group size; return labels.

    While 3k points are left: the one farthest from their mean, r, and the one farthest from r, s, each take
    their k − 1 nearest. With 2k or more left r takes its nearest once more; the rest is the last group.
    """
    labels = np.full(len(points), -1, np.int64)
    left = np.arange(len(points))
    group = 0

    def squared(center: np.ndarray) -> np.ndarray:
        return np.sum((points[left] - center) ** 2, axis=1)

    def take(center: np.ndarray) -> None:
        nonlocal left, group
        nearest = np.argsort(squared(center), kind="stable")[:k]
        labels[left[nearest]] = group
        left = np.delete(left, nearest)
        group += 1

    while len(left) >= 3 * k:
        r = points[left[np.argmax(squared(points[left].mean(axis=0)))]]
        s = points[left[np.argmax(squared(r))]]
        take(r)
        take(s)
    if len(left) >= 2 * k:
        take(points[left[np.argmax(squared(points[left].mean(axis=0)))]])
    labels[left] = group
    return labels


def sum_of_squares(points: np.ndarray, labels: np.ndarray) -> float:
    """Return the sum of squared distances of all points to the means of their groups."""
    points = points.astype(np.float64)
    return float(
        sum(np.sum((points[labels == c] - points[labels == c].mean(0)) ** 2) for c in np.unique(labels))
    )
