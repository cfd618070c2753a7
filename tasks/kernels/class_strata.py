"""People of several classes put beside their likes: every small crowd has of each class its share of all people.

All classes are cut in halves again and again, each by its own median along a direction they share, until a crowd would
have too few of some class. So the lower half of the women stands beside the lower half of the men, whatever lies
between the two medians: a coupling of the classes' distributions (the Rosenblatt way, by a tree). Who is in whose
crowd does not tell the class, and within a crowd people differ as little as the tree allows.
"""

import numpy as np
import numpy.typing as npt

FEWEST = 2  # people of each class in a crowd


def crowds(points: np.ndarray, labels: np.ndarray, fewest: int = FEWEST) -> npt.NDArray[np.int64]:
    """The crowd of each person (0, 1, …): at least `fewest` of every class in each, where there are so many."""
    numbers = np.unique(labels)
    crowd = np.zeros(len(labels), np.int64)
    waiting = [[np.flatnonzero(labels == number) for number in numbers]]
    found = 0
    while waiting:
        classes = waiting.pop()
        if min(map(len, classes)) < 2 * fewest:
            crowd[np.concatenate(classes)] = found
            found += 1
            continue
        along = _direction([points[people] for people in classes])
        halves = [_halves(people, points[people] @ along) for people in classes]
        waiting.append([lower for lower, _ in halves])
        waiting.append([upper for _, upper in halves])
    return crowd


def _direction(parts: list[np.ndarray]) -> np.ndarray:
    """In which people of the same class differ most."""
    centred = [part - part.mean(axis=0) for part in parts]
    within = sum(np.asarray(part.T @ part, np.float64) for part in centred)
    return np.linalg.eigh(within)[1][:, -1]


def _halves(people: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = people[np.argsort(places, kind="stable")]
    return order[: len(order) // 2], order[len(order) // 2 :]


def partners(crowd: np.ndarray, labels: np.ndarray, draws: np.ndarray) -> npt.NDArray[np.int64]:
    """For each person somebody of another class in the same crowd, whoever `draws` (one per person, in (0, 1)) hits;
    −1 where there is nobody."""
    order = np.lexsort((labels, crowd))
    starts = np.searchsorted(crowd[order], np.arange(crowd.max() + 2))
    size = np.diff(starts)[crowd]
    key = crowd * (labels.max() + 1) + labels
    first = np.searchsorted(key[order], key)  # where one's own class begins in the crowd
    own = np.searchsorted(key[order], key, side="right") - first
    others = size - own
    place = np.minimum((draws * others).astype(np.int64), np.maximum(others - 1, 0))
    before = first - starts[crowd]  # people of the crowd who stand before one's own class
    place = np.where(place >= before, place + own, place)
    chosen = order[np.minimum(starts[crowd] + place, len(order) - 1)]
    return np.where(others > 0, chosen, -1)
