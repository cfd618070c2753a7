"""Find the person behind a vector of item values: the attacker knows everybody's ratings.

A person's score is the logarithm of how much likelier the vector makes that person's ratings than the items' means do,
over the square root of their number: ratings are expected within s of the items' means and within noise · s of the
vector's values, s being the spread of all ratings about the items' means. noise = 1 fits averages, of which a person is
a small part; noise below 1 fits differences, which are a person's own values but for rounding.
"""

import math

import numpy as np
import scipy.sparse as sp

from checks.evidence.case import Case

CELLS = 24_000_000  # people × vectors scored together

Noise = float | np.ndarray


def scores(case: Case, vectors: np.ndarray, noise: Noise = 1.0) -> np.ndarray:
    """Return the score of every person of the truth (rows) for each vector (columns); NaN values are not published."""
    ratings, means = case.truth.ratings, case.item_means
    count = np.diff(ratings.indptr)
    noises = np.broadcast_to(np.asarray(noise, np.float64), len(vectors))
    own = (ratings.data - means[ratings.indices]).astype(np.float32)
    apart, ones = (
        sp.csr_array((data, ratings.indices, ratings.indptr), shape=ratings.shape)
        for data in (own, np.ones_like(own))
    )
    squares = _squares_of_people(own, ratings.indptr)
    spread = _spread(squares, len(own))
    shift = np.nan_to_num(vectors - means).T.astype(np.float32)
    # Σ (r − m)² / s² − (r − v)² / (noise · s)², where r − v = (r − m) − (v − m)
    explained = 2 * (apart @ shift) - ones @ shift**2
    fixed = np.outer(squares, 1 - noises**-2)
    likelier = (fixed + explained / noises**2) / (2 * spread) - np.outer(count, np.log(noises))
    return likelier / np.sqrt(np.maximum(count, 1))[:, None]


def spread_of_ratings(case: Case) -> float:
    """Return s, the spread of all ratings about the items' means."""
    ratings = case.truth.ratings
    own = (ratings.data - case.item_means[ratings.indices]).astype(np.float32)
    return math.sqrt(_spread(_squares_of_people(own, ratings.indptr), len(own)))


def _squares_of_people(own: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    return np.diff(np.concatenate([[0.0], np.cumsum(own.astype(np.float64) ** 2)])[indptr])


def _spread(squares: np.ndarray, count: int) -> float:
    return max(float(squares.sum()) / max(1, count), 1e-9)


def found_first(case: Case, vectors: np.ndarray, people: np.ndarray, noise: Noise = 1.0) -> np.ndarray:
    """Return for each vector whether this person (row of the truth) has the one highest score of all."""
    hit = np.zeros(len(vectors), bool)
    at_once = max(1, CELLS // max(1, case.truth.users))
    for start in range(0, len(vectors), at_once):
        part = slice(start, start + at_once)
        score = scores(case, vectors[part], _part(noise, part))
        own = score[people[part], np.arange(score.shape[1])]
        hit[part] = (score >= own - 1e-9).sum(axis=0) == 1
    return hit


def nearest(case: Case, vectors: np.ndarray, noise: Noise = 1.0) -> np.ndarray:
    """Return the person with the highest score for each vector."""
    at_once = max(1, CELLS // max(1, case.truth.users))
    parts = [
        scores(case, vectors[part], _part(noise, part)).argmax(axis=0)
        for part in (slice(start, start + at_once) for start in range(0, len(vectors), at_once))
    ]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _part(noise: Noise, part: slice) -> Noise:
    return noise[part] if isinstance(noise, np.ndarray) else noise


def records(case: Case, people: np.ndarray) -> np.ndarray:
    """Return what these people rated as dense rows; the items' means where they rated nothing."""
    own = case.truth.ratings[people]
    rows = np.repeat(np.arange(len(people)), np.diff(own.indptr))
    table = np.tile(case.item_means.astype(np.float32), (len(people), 1))
    table[rows, own.indices] = own.data
    return table
