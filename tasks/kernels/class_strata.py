"""Divide users of several classes into small strata, each with the population's share of every class.

All classes are halved repeatedly, each at its own median along a direction they share, until a stratum would have too
few of some class. The lower half of the women is thereby put beside the lower half of the men, whatever lies between
the two medians: a coupling of the classes' distributions (a Rosenblatt transform, by a tree). Membership of a stratum
does not reveal the class, and within a stratum users differ as little as the tree allows.
"""

import numpy as np
import numpy.typing as npt

FEWEST = 2  # users of each class in a stratum


def assign_strata(points: np.ndarray, labels: np.ndarray, fewest: int = FEWEST) -> npt.NDArray[np.int64]:
    """Return the stratum of each user (0, 1, …), with at least `fewest` users of every class in each, where there are
    that many.
    """
    numbers = np.unique(labels)
    strata = np.zeros(len(labels), np.int64)
    waiting = [[np.flatnonzero(labels == number) for number in numbers]]
    found = 0
    while waiting:
        classes = waiting.pop()
        if min(map(len, classes)) < 2 * fewest:
            strata[np.concatenate(classes)] = found
            found += 1
            continue
        along = _direction([points[people] for people in classes])
        halves = [_halves(people, points[people] @ along) for people in classes]
        waiting.append([lower for lower, _ in halves])
        waiting.append([upper for _, upper in halves])
    return strata


def _direction(parts: list[np.ndarray]) -> np.ndarray:
    """Return the direction in which users of the same class differ most."""
    centred = [part - part.mean(axis=0) for part in parts]
    within = sum(np.asarray(part.T @ part, np.float64) for part in centred)
    return np.linalg.eigh(within)[1][:, -1]


def _halves(people: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = people[np.argsort(places, kind="stable")]
    return order[: len(order) // 2], order[len(order) // 2 :]


def draw_partners(strata: np.ndarray, labels: np.ndarray, draws: np.ndarray) -> npt.NDArray[np.int64]:
    """Draw for each user a partner of another class in the same stratum; −1 where there is none.

    `draws` (one per user, in (0, 1)) selects the partner.
    """
    order = np.lexsort((labels, strata))
    starts = np.searchsorted(strata[order], np.arange(strata.max() + 2))
    size = np.diff(starts)[strata]
    key = strata * (labels.max() + 1) + labels
    first = np.searchsorted(key[order], key)  # where the own class begins in the stratum
    own = np.searchsorted(key[order], key, side="right") - first
    others = size - own
    place = np.minimum((draws * others).astype(np.int64), np.maximum(others - 1, 0))
    before = first - starts[strata]  # users of the stratum who stand before the own class
    place = np.where(place >= before, place + own, place)
    chosen = order[np.minimum(starts[strata] + place, len(order) - 1)]
    return np.where(others > 0, chosen, -1)
