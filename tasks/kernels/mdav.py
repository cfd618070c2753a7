"""Form groups of at least k similar records by distance alone (microaggregation).

`mdav`: maximum distance to average vector, with the leftover rule of [Casino2015], section 3. `v_mdav`: groups of
variable size ([Solanas2006], named as future work in [Casino2015]).

Both give the partition of the reference arithmetic: float64 sums of (x − y)² in NumPy's order, ties to the lowest
record (tests/tasks/kernels/plain_mdav.py is that reference). The optimizations only rule records out: see
`UngroupedRecords`.
"""

import numpy as np

from tasks.kernels.ungrouped_records import UngroupedRecords, squared_distances


def mdav(points: np.ndarray, k: int) -> np.ndarray:
    """Return labels of groups of at least k records ([Casino2015], section 3; MDAV, [DomingoFerrer2005]).

    While 3k records are left: r, the one farthest from their mean, and its k − 1 nearest form a group; so do s, the
    one farthest from r, and its k − 1 nearest. With 2k or more left r's group is formed once more. Then
    `_place_leftover`.
    """
    points = _checked(points, k)
    labels = np.full(len(points), -1, np.int32)
    left = UngroupedRecords(points)
    groups = 0

    def form(record: int) -> None:
        nonlocal groups
        labels[left.remove(left.nearest(record, k))] = groups
        groups += 1

    while left.count >= 3 * k:
        form(left.farthest_from_mean())
        form(left.farthest())
    if left.count >= 2 * k:
        form(left.farthest_from_mean())
    _place_leftover(points, labels, groups)
    return labels


def v_mdav(points: np.ndarray, k: int, gamma: float) -> np.ndarray:
    """Return labels of groups of k to 2k − 1 records, extended by near neighbours ([Solanas2006]).

    A group takes in its nearest record while that record is nearer to it, by the factor gamma, than to any record
    outside (gamma 0: never). The next group begins with the record farthest from the mean of all. Fewer than k
    records that are left over join the groups with the nearest means, whatever the size of these.
    """
    points = _checked(points, k)
    labels = np.full(len(points), -1, np.int32)
    left = UngroupedRecords(points)
    groups = 0
    outside_in = np.argsort(-squared_distances(points, points.mean(axis=0)), kind="stable")
    for record in outside_in.tolist():
        if left.count < k:
            break
        if labels[record] >= 0:
            continue
        members = left.nearest(left.position(record), k)
        if gamma > 0:
            members = left.extend_group(members, most=2 * k - 1, gamma=gamma)
        labels[left.remove(members)] = groups
        groups += 1
    over = np.flatnonzero(labels < 0)
    means = _means(points, labels, groups)
    for record in over.tolist():  # fewer than k
        labels[record] = squared_distances(means, points[record]).argmin()
    return labels


def _checked(points: np.ndarray, k: int) -> np.ndarray:
    points = np.ascontiguousarray(points, np.float64)
    if k < 1 or len(points) < k:
        raise ValueError(f"{len(points)} records cannot form a group of {k}")
    return points


def _place_leftover(points: np.ndarray, labels: np.ndarray, groups: int) -> None:
    """Place the k to 2k − 1 last records ([Casino2015], section 3).

    They form their own group where more than half of them are nearer to its mean than to the mean of any other group;
    else each joins its nearest group.
    """
    over = np.flatnonzero(labels < 0)
    if groups == 0:
        labels[over] = 0
        return
    means = _means(points, labels, groups)
    to_own = squared_distances(points[over], points[over].mean(axis=0))
    nearest, to_others = np.empty(len(over), np.int32), np.empty(len(over))
    for place, record in enumerate(over.tolist()):  # fewer than 2k
        apart = squared_distances(means, points[record])
        nearest[place], to_others[place] = apart.argmin(), apart.min()
    stays_together = 2 * np.count_nonzero(to_own < to_others) > len(over)
    labels[over] = groups if stays_together else nearest


def _means(points: np.ndarray, labels: np.ndarray, groups: int) -> np.ndarray:
    """Return the mean of each group, its records added in their order."""
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(groups + 1))
    return np.array([points[order[edges[g] : edges[g + 1]]].mean(axis=0) for g in range(groups)])
