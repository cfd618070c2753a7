"""Hide user attributes by adding ratings that users never gave: one strategy per file, named after it.

A strategy has one function:

    add(ratings, labels, request) -> A'

`ratings` holds a row per user; `labels` is the class of each (0, 1, …: a gender, a range of ages). A' has the same
shape, shares no cell with `ratings`, and holds the factitious ratings, on the scale; both together are released
([RFPP], equation 5). It has exactly `request.total(ratings)` cells, or as many as there are to choose from.
Randomness comes from `request.chance` alone, which depends on users and items and not on their order.

Shared here: the request, lists of items that indicate another class, and the rating given to an added item. Modules
whose names begin with an underscore are shared parts, too.

May import data, kernels and errors; no step and no method.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from typing import Literal, Protocol

import numpy as np
import scipy.sparse as sp

from tasks.kernels import inferrer

# (purpose, rows of people, columns of items) → numbers of the open interval (0, 1), one per cell.
Chance = Callable[[str, np.ndarray, np.ndarray], np.ndarray]
NO_ITEM = -1  # the column to draw with where a draw depends on the user alone, whichever items there are
Rating = Literal["opposite", "same", "all"]
Similarity = Literal["compound", "pearson", "cosine", "adjusted-cosine", "jaccard"]
Quotient = Literal["exp(-n)", "1/n", "1/sqrt(n)", "1/(1+log(n))", "1"]

SHARE = 0.0389  # p₀ with the best recommendations ([RFPP], section 6.4)
THRESHOLD = 0.95  # β ([RFPP], section 5.1)
TOP = 1000  # length of a list of opposite items ([RFPP], section 5.1)


@dataclass(frozen=True)
class Request:
    """Describe how much is added, and which of the options of [RFPP] apply."""

    share: float | None  # of the existing ratings (p₀); None: the strategy's own, or that of [RFPP]
    classes: int
    scale: tuple[float, float]
    chance: Chance
    similarity: Similarity = "compound"
    quotient: Quotient = "exp(-n)"
    threshold: float = THRESHOLD
    top: int = TOP
    rating: Rating = "opposite"

    def total(self, ratings: sp.csr_array) -> int:
        """Return the number of ratings to add."""
        return round((SHARE if self.share is None else self.share) * ratings.nnz)


class Strategy(Protocol):
    """Define what a strategy's module provides."""

    def add(self, ratings: sp.csr_array, labels: np.ndarray, request: Request) -> sp.csr_array:
        """Return the ratings to add."""
        ...


def registered() -> list[str]:
    """Return the names of all strategies."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load_strategy(name: str) -> Strategy:
    """Return the strategy of that name."""
    module: Strategy = import_module(f"{__name__}.{name}")  # type: ignore[assignment]
    return module


def seeded_chance(seed: int) -> Chance:
    """Return a random source for studies: the same number for the same seed, purpose, row and column.

    An attacker can replay it; a release draws with the owner's secret instead.
    """

    def chance(purpose: str, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        start = blake2b(f"{seed} {purpose}".encode(), digest_size=8).digest()
        mixed = _mixed(np.asarray(users, np.uint64) + np.frombuffer(start, "<u8"))
        mixed = _mixed(mixed ^ _mixed(np.asarray(items, np.uint64) + np.uint64(1)))
        return ((mixed >> np.uint64(12)) + 0.5) * 2.0**-52

    return chance


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Apply SplitMix64's finalizer: every bit of a number changes half of the others."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


@dataclass(frozen=True)
class OppositeItems:
    """Hold items that indicate the other classes, strongest first, and the strengths."""

    items: np.ndarray
    strengths: np.ndarray


def opposite_lists(
    ratings: sp.csr_array, labels: np.ndarray, classes: int, top: int | None = TOP
) -> list[OppositeItems]:
    """Return for every class the items dominated by the others ([RFPP], section 5.1, rule 1).

    These have the most negative weights in the regression of this class against the rest. An item that indicates the
    class itself is never among them.
    """
    weights = inferrer.fit(ratings, labels, classes).weights
    lists = []
    for against in -weights:
        order = np.lexsort((np.arange(len(against)), -against))[:top]
        order = order[against[order] > 0]
        lists.append(OppositeItems(order, against[order]))
    return lists


def factitious_ratings(ratings: sp.csr_array, labels: np.ndarray, request: Request) -> np.ndarray:
    """Return the rating an item gets when it is added to a user of a class, (classes, items).

    It is the mean rating by the other classes ("opposite"), by this one ("same") or by all ([RFPP], section 5.1,
    table 3). Where none of these rated the item, it is the mean by all.
    """
    item = ratings.indices
    of = np.repeat(labels, np.diff(ratings.indptr))
    cell = of * ratings.shape[1] + item
    shape = (request.classes, ratings.shape[1])
    counts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    sums = np.bincount(cell, ratings.data.astype(np.float64), shape[0] * shape[1]).reshape(shape)
    all_counts, all_sums = counts.sum(axis=0), sums.sum(axis=0)
    means = all_sums / np.maximum(all_counts, 1)
    means[all_counts == 0] = sum(request.scale) / 2
    if request.rating == "opposite":
        counts, sums = all_counts - counts, all_sums - sums
    elif request.rating == "all":
        counts, sums = np.broadcast_to(all_counts, shape), np.broadcast_to(all_sums, shape)
    found = np.where(counts > 0, sums / np.maximum(counts, 1), means)
    return np.clip(found, *request.scale).astype(np.float32)


def build_additions(
    rows: np.ndarray, items: np.ndarray, ratings: sp.csr_array, labels: np.ndarray, request: Request
) -> sp.csr_array:
    """Return A' of the chosen cells, with their factitious ratings."""
    order = np.lexsort((items, rows))
    rows, items = rows[order], items[order]
    values = factitious_ratings(ratings, labels, request)[labels[rows], items]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=ratings.shape[0]))])
    return sp.csr_array((values, items.astype(np.int32), indptr), shape=ratings.shape)
