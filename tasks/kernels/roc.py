"""Compute the area under the ROC curve per user ([Zhang2006], section 6: ROC-4, where ratings from 4 on are good)."""

import numpy as np


def roc_area(users: np.ndarray, scores: np.ndarray, good: np.ndarray) -> float | None:
    """Return the mean over users of the probability that a good item scores above another; a tie counts one half.

    Only users who have both kinds count; None where there is no such user.
    """
    order = np.lexsort((scores, users))
    users, scores, good = users[order], scores[order], good[order].astype(bool)
    new_user = np.append(True, users[1:] != users[:-1])
    new_value = new_user | np.append(True, scores[1:] != scores[:-1])
    first = np.flatnonzero(new_value)
    last = np.append(first[1:], len(users)) - 1
    person = np.cumsum(new_user) - 1
    rank = ((first + last) / 2)[np.cumsum(new_value) - 1] - np.flatnonzero(new_user)[person] + 1
    goods = np.bincount(person, weights=good)
    others = np.bincount(person) - goods
    above = np.bincount(person, weights=np.where(good, rank, 0)) - goods * (goods + 1) / 2
    both = (goods > 0) & (others > 0)
    return float((above[both] / (goods[both] * others[both])).mean()) if both.any() else None
