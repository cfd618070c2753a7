"""Simulate mentions in a forum: how many, which of a person's own items, which of other items.

[Frankowski2006] had the real mentions of 133 people. Its Table 1 states how many people made how many; 82 % of the
items people mention they have rated. Own items are drawn ∝ popularity^0.5, others ∝ popularity.
"""

import numpy as np

from checks.evidence.seeds import seeded
from checks.evidence.truth import Truth
from checks.linkage.knowledge import Knowledge, Model, off_by_one

# Table 1: (fewest, most) mentions and the number of people. The last bin's end follows from the paper's total of
# 3,828 mentions: the other bins account for about 1,430, which leaves 218 on average, as log-uniform to 511 has.
COUNTS = (
    ((1, 1), 25),
    ((2, 3), 21),
    ((4, 7), 23),
    ((8, 15), 22),
    ((16, 31), 18),
    ((32, 63), 13),
    ((64, 511), 11),
)
RATED_SHARE, CONCENTRATION = 0.82, 2.84
OWN_POWER = 0.5


def mentions(
    truth: Truth, targets: np.ndarray, model: Model, draw: np.random.Generator | None = None
) -> Knowledge:
    """Draw what each target mentions, with the ratings of what they have rated (NaN for the rest).

    A target named several times is drawn several times; `draw` is the gate's own stream unless given.
    """
    draw = seeded(truth.salt, "mentions") if draw is None else draw
    numbers = mention_counts(len(targets), draw)
    share = draw.beta(RATED_SHARE * CONCENTRATION, (1 - RATED_SHARE) * CONCENTRATION, len(targets))
    popularity = np.maximum(truth.raters, 1e-9).astype(np.float64)
    items, ratings = [], []
    for target, number, rated in zip(targets, numbers, share, strict=True):  # a few thousand at most
        own = slice(truth.ratings.indptr[target], truth.ratings.indptr[target + 1])
        own_items = truth.ratings.indices[own]
        mine = _draw(popularity[own_items] ** OWN_POWER, draw.binomial(number, rated), draw)
        weight = popularity.copy()
        weight[own_items] = 0
        others = _draw(weight, number - len(mine), draw)
        items.append(np.concatenate([own_items[mine], others]))
        ratings.append(np.concatenate([truth.ratings.data[own][mine], np.full(len(others), np.nan)]))
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in items])]).astype(np.int64)
    known_items = np.concatenate([*items, np.zeros(0)]).astype(np.int64)
    known_ratings = np.concatenate([*ratings, np.zeros(0)]).astype(np.float32)
    if model.error == "±1":
        known_ratings = off_by_one(truth, known_ratings, draw).astype(np.float32)
    return Knowledge(model.name, targets, indptr, known_items, known_ratings)


def mention_counts(people: int, draw: np.random.Generator) -> np.ndarray:
    """Draw numbers of mentions as in Table 1, log-uniform inside its bins."""
    weights = np.array([count for _, count in COUNTS], dtype=float)
    chosen = draw.choice(len(COUNTS), people, p=weights / weights.sum())
    low, high = (np.array([ends[side] for ends, _ in COUNTS], dtype=float)[chosen] for side in (0, 1))
    return np.floor(np.exp(np.log(low) + draw.random(people) * (np.log(high + 1) - np.log(low)))).astype(int)


def _draw(weight: np.ndarray, number: int, draw: np.random.Generator) -> np.ndarray:
    """Draw `number` different positions, with chances as their weights (never one of weight 0)."""
    possible = np.flatnonzero(weight > 0)
    keys = -np.log(draw.random(len(possible))) / weight[possible]
    first = np.arange(len(keys))
    if number < len(keys):  # a few of thousands of items: only these need sorting
        first = np.sort(np.argpartition(keys, number)[:number])
    return possible[first[np.argsort(keys[first], kind="stable")]]
