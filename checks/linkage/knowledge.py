"""What an attacker knows about whom: the knowledge models every attack is tried with.

Known are 2, 4, 8 or 16 of a person's items, drawn at random, the rarest or the most popular of them, with the
person's ratings (exact, ±1 level, or with a quarter of what is known simply wrong) and, where the data have
them, the days. Mentions in a forum are in mentions.py. Everything is drawn from fixed seeds.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from checks.seeds import seeded
from checks.truth import Truth

SIZES = (2, 4, 8, 16)
WRONG_SHARE = 0.25
DAY_ERROR = {"exact": 3, "±1": 14, "some wrong": 14}

Choice = Literal["random", "rare", "popular", "forum", "all"]
Error = Literal["exact", "±1", "some wrong"]


@dataclass(frozen=True)
class Model:
    """A kind of knowledge; `size` is ignored for forum mentions and for everything somebody rated."""

    size: int
    choice: Choice = "random"
    error: Error = "exact"
    days: bool = False

    @property
    def name(self) -> str:
        """As reports and `murmur attack` call it."""
        if self.choice in ("forum", "all"):
            what = "forum mentions" if self.choice == "forum" else "everything rated"
        else:
            what = f"{self.size} {self.choice}"
        return f"{what}, {self.error}" + (", days" if self.days else "")


USUAL = (
    *(Model(size) for size in SIZES),
    Model(8, "rare"),
    Model(8, "popular"),
    Model(8, error="±1"),
    Model(8, error="some wrong"),
    Model(0, "forum"),
)


@dataclass(frozen=True)
class Knowledge:
    """For each target (a row of the truth) the known items, ratings (NaN: not known) and days."""

    name: str
    targets: np.ndarray
    indptr: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    days: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def owners(self) -> np.ndarray:
        """The place of its target, for everything known."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def part(self, start: int, stop: int) -> "Knowledge":
        """Some consecutive targets."""
        stop = min(stop, len(self))
        first, last = self.indptr[start], self.indptr[stop]
        days = None if self.days is None else self.days[first:last]
        return Knowledge(
            self.name, self.targets[start:stop], self.indptr[start : stop + 1] - first,
            self.items[first:last], self.ratings[first:last], days,
        )  # fmt: skip


def known(truth: Truth, targets: np.ndarray, model: Model) -> Knowledge:
    """Draw what is known about each target."""
    if model.choice == "forum":
        from checks.linkage.mentions import mentions

        return mentions(truth, targets, model)
    draw = seeded(truth.salt, "knowledge", model.name)
    owner, places = _ratings_of(truth, targets)
    if model.choice != "all":
        order = _order(truth, places, model.choice, draw)
        ranked = np.lexsort((order, owner))
        starts = np.searchsorted(owner[ranked], np.arange(len(targets)))
        nth = np.arange(len(owner)) - starts[owner[ranked]]
        chosen = np.sort(ranked[nth < model.size])
        owner, places = owner[chosen], places[chosen]
    items, ratings = truth.ratings.indices[places].astype(np.int64), truth.ratings.data[places].copy()
    days = None
    if model.days and truth.days is not None:
        error = DAY_ERROR[model.error]
        days = (truth.days[places] + draw.integers(-error, error + 1, len(places))).astype(np.float32)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(targets)))])
    if model.error == "±1":
        ratings = off_by_one(truth, ratings, draw)
    elif model.error == "some wrong":
        items, ratings = _some_wrong(truth, items, ratings, draw)
    return Knowledge(model.name, targets, indptr, items, ratings.astype(np.float32), days)


def _ratings_of(truth: Truth, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every rating of every target: whose it is (position in `targets`) and its place in the truth."""
    starts = truth.ratings.indptr[targets].astype(np.int64)
    counts = truth.ratings.indptr[targets + 1] - starts
    owner = np.repeat(np.arange(len(targets)), counts)
    return owner, np.arange(len(owner)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)


def _order(truth: Truth, places: np.ndarray, choice: Choice, draw: np.random.Generator) -> np.ndarray:
    chance = draw.random(len(places))
    raters = truth.raters[truth.ratings.indices[places]]
    return {"random": 0, "rare": raters, "popular": -raters}[choice] + chance


def off_by_one(truth: Truth, ratings: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Each rating one level lower, right, or one level higher, within the scale."""
    level = 2 * truth.half_level
    moved = ratings + level * draw.integers(-1, 2, len(ratings))
    return np.clip(moved, truth.value_counts[0][0], truth.value_counts[0][-1])


def _some_wrong(
    truth: Truth, items: np.ndarray, ratings: np.ndarray, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A quarter of the known items replaced by popular ones with anybody's rating."""
    wrong = draw.random(len(items)) < WRONG_SHARE
    anybody = draw.integers(0, truth.ratings.nnz, len(items))
    return (
        np.where(wrong, truth.ratings.indices[anybody], items),
        np.where(wrong, truth.ratings.data[anybody], ratings),
    )
