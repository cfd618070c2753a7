"""Implement microaggregation plainly in NumPy: the reference for tasks/kernels/mdav.py, record by record."""

import numpy as np


def squared(points: np.ndarray, center: np.ndarray) -> np.ndarray:
    return np.sum((points - center) ** 2, axis=1)


def plain_mdav(points: np.ndarray, k: int) -> np.ndarray:
    """Run MDAV with the leftover rule of [Casino2015], section 3."""
    labels = np.full(len(points), -1)
    left = np.arange(len(points))
    groups = 0

    def farthest_from(center):
        return left[np.argmax(squared(points[left], center))]

    def form_group(record):
        nonlocal left, groups
        nearest = np.argsort(squared(points[left], points[record]), kind="stable")[:k]
        labels[left[nearest]] = groups
        left = np.delete(left, nearest)
        groups += 1

    while len(left) >= 3 * k:
        r = farthest_from(points[left].mean(axis=0))
        form_group(r)
        s = farthest_from(points[r])  # of those left: a tie must not put it into r's group
        form_group(s)
    if len(left) >= 2 * k:
        form_group(farthest_from(points[left].mean(axis=0)))
    if groups == 0:
        labels[left] = 0
        return labels
    means = np.array([points[labels == group].mean(axis=0) for group in range(groups)])
    to_own = squared(points[left], points[left].mean(axis=0))
    to_others = np.array([squared(means, points[record]) for record in left])
    if np.sum(to_own < to_others.min(axis=1)) > len(left) / 2:
        labels[left] = groups
    else:
        labels[left] = to_others.argmin(axis=1)
    return labels


def plain_v_mdav(points: np.ndarray, k: int, gamma: float) -> np.ndarray:
    """Run V-MDAV ([Solanas2006]): groups of k to 2k − 1, the last few records join their nearest group."""
    labels = np.full(len(points), -1)
    left = np.arange(len(points))
    groups = 0
    apart = np.array([squared(points, point) for point in points])
    from_mean = squared(points, points.mean(axis=0))
    while len(left) >= k:
        start = left[np.argmax(from_mean[left])]
        nearest = np.argsort(squared(points[left], points[start]), kind="stable")[:k]
        group = list(left[nearest])
        left = np.delete(left, nearest)
        while len(group) < 2 * k - 1 and len(left):
            to_group = apart[np.ix_(left, group)].min(axis=1)
            place = np.argmin(to_group)
            others = np.delete(left, place)
            outward = apart[left[place], others].min() if len(others) else np.inf
            if gamma == 0 or not np.sqrt(to_group[place]) < gamma * np.sqrt(outward):
                break
            group.append(left[place])
            left = others
        labels[group] = groups
        groups += 1
    means = np.array([points[labels == group].mean(axis=0) for group in range(groups)])
    for record in left:
        labels[record] = squared(means, points[record]).argmin()
    return labels
