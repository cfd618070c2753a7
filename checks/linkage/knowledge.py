"""Define what an attacker knows about a person: the models of attacker knowledge every attack is tried with.

Known are 2, 4, 8 or 16 of a person's items, drawn at random, the rarest or the most popular of them, with the person's
ratings (exact, ±1 level, or with a quarter of what is known simply wrong) and, where the data have them, the days.
Mentions in a forum are in mentions.py. Everything is drawn from fixed seeds.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from checks.evidence.truth import Truth

SIZES = (2, 4, 8, 16)

Choice = Literal["random", "rare", "popular", "forum", "all"]
Error = Literal["exact", "±1", "some wrong"]


@dataclass(frozen=True)
class Model:
    """Describe a kind of knowledge; `size` is ignored for forum mentions and for everything a person rated."""

    size: int
    choice: Choice = "random"
    error: Error = "exact"
    days: bool = False

    @property
    def name(self) -> str:
        """The name in reports and in `murmur attack`."""
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
    """Hold for each target (a row of the truth) the known items, ratings (NaN: not known) and days."""

    name: str
    targets: np.ndarray
    indptr: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    days: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def owners(self) -> np.ndarray:
        """Return for every known item the position of its target."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def part(self, start: int, stop: int) -> "Knowledge":
        """Return the knowledge about some consecutive targets."""
        stop = min(stop, len(self))
        first, last = self.indptr[start], self.indptr[stop]
        days = None if self.days is None else self.days[first:last]
        return Knowledge(
            self.name, self.targets[start:stop], self.indptr[start : stop + 1] - first,
            self.items[first:last], self.ratings[first:last], days,
        )  # fmt: skip


def off_by_one(truth: Truth, ratings: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return each rating one level lower, unchanged, or one level higher, within the scale."""
    level = 2 * truth.half_level
    moved = ratings + level * draw.integers(-1, 2, len(ratings))
    return np.clip(moved, truth.value_counts[0][0], truth.value_counts[0][-1])
