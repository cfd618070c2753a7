"""Choose people to surround with copies, and plant the copies: k − 1 accounts with what is known of a person.

If the grouping puts the person and the copies alone into one group, the group's profile is that person's.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

TARGETS = 20  # of each third of the people by activity, with each kind of knowledge; fewer in small data
KNOWN = (8, 16, 0)  # how many ratings of a target are known; 0: half of them
THIRDS = ("light", "medium", "heavy")
MOST_ACCOUNTS_SHARE = 0.25  # of the people: more would change the data that are attacked
FEWEST_UNKNOWN = 5  # ratings on which it is measured what the group reveals


@dataclass(frozen=True)
class Targets:
    """Hold the people to attack (rows), the third of the people each is in, and how much of each is known."""

    user: np.ndarray
    third: np.ndarray
    known: np.ndarray


@dataclass(frozen=True)
class Surrounded:
    """Hold the ratings with all copies, whose copy each further row is, and the targets' ratings that nobody knows."""

    ratings: sp.csr_array
    copy_of: np.ndarray  # place among the targets
    unknown: tuple[np.ndarray, np.ndarray, np.ndarray]  # place among the targets, item, rating


def choose_targets(rated: np.ndarray, k: int, draw: np.random.Generator) -> Targets:
    """Draw people of each third with each kind of knowledge, nobody twice; `rated` is each person's number of
    ratings."""
    cells = len(KNOWN) * len(THIRDS)
    each = min(TARGETS, int(MOST_ACCOUNTS_SHARE * len(rated) / (cells * (k - 1))))
    order = np.lexsort((draw.random(len(rated)), rated))
    users, thirds, knowledge = [], [], []
    for third, people in enumerate(np.array_split(order, len(THIRDS))):
        free = draw.permutation(people)
        for known in sorted(
            KNOWN, reverse=True
        ):  # fewest have enough ratings for much to be known: they go first
            able = free[rated[free] >= (known or FEWEST_UNKNOWN) + FEWEST_UNKNOWN][:each]
            users.append(able)
            thirds.append(np.full(len(able), third))
            knowledge.append(np.full(len(able), known))
            free = free[~np.isin(free, able)]
    return Targets(*(np.concatenate(parts) for parts in (users, thirds, knowledge)))


def plant_copies(matrix: sp.csr_array, targets: Targets, k: int, draw: np.random.Generator) -> Surrounded:
    """Add k − 1 accounts for each target that hold the known ratings and nothing else."""
    own = sp.csr_array(matrix[targets.user])
    counts = np.diff(own.indptr)
    place = np.repeat(np.arange(len(counts)), counts)
    shuffled = np.lexsort((draw.random(own.nnz), place))
    rank = np.empty(own.nnz, np.int64)
    rank[shuffled] = np.arange(own.nnz) - own.indptr[place]
    known = rank < np.where(targets.known > 0, targets.known, counts // 2)[place]
    kept = np.concatenate([[0], np.cumsum(np.bincount(place[known], minlength=len(counts)))])
    part = sp.csr_array((own.data[known], own.indices[known], kept), shape=own.shape)
    copy_of = np.repeat(np.arange(len(counts)), k - 1)
    ratings = sp.csr_array(sp.vstack([matrix, part[copy_of]], format="csr"))
    return Surrounded(ratings, copy_of, (place[~known], own.indices[~known], own.data[~known]))
