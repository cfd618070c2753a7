"""Compute how well the shadow's release lets others recommend, from the ranks of what was held out and liked.

`evaluate` wrote one row for each relevant held-out rating of a sample of people (tasks/shadow/recommendation.py), with
the rank of its item in the recommendations by each source. All figures and intervals follow from the ranks here. They
are means over people: nDCG@10 and Recall@10 of everybody with a relevant held-out rating.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checks.stats import Z95, interval_z
from tasks.errors import Refused

FILE = "ranking.parquet"
LENGTH = 10
# Intervals are normal ones: with fewer people they are too short, and a figure would be about few people.
FEWEST_PEOPLE = 30
# What a recommender was trained on and asked with, by the name of its figures in JSON: the column of the ranks.
SOURCES = {
    "original": "original",
    "own_history": "own",
    "group_history": "group",
    "popularity": "popularity",
}
_COLUMNS = {"number": pa.int32(), "history": pa.int32(), "head": pa.bool_()} | {
    column: pa.int32() for column in SOURCES.values()
}


@dataclass(frozen=True)
class Mean:
    """Hold a mean over people with its standard error."""

    value: float
    error: float
    people: int

    @classmethod
    def of(cls, values: np.ndarray) -> "Mean":
        """Return the mean of one value per person."""
        people = len(values)
        spread = float(values.std(ddof=1)) / math.sqrt(people) if people > 1 else math.inf
        return cls(float(values.mean()), spread, people)

    def interval(self, z: float = Z95) -> tuple[float, float]:
        """Return the normal interval."""
        return self.value - z * self.error, self.value + z * self.error


@dataclass(frozen=True)
class Ranks:
    """Hold the ranks of relevant held-out items: whose (a number), in how long a history, of a head item or not.

    `rank` has a column of SOURCES each; 0 where the item is not recommended at all, whatever the length of the list.
    """

    person: np.ndarray
    history: np.ndarray
    head: np.ndarray
    rank: dict[str, np.ndarray]

    @classmethod
    def read(cls, utility_dir: Path) -> "Ranks | None":
        """Read ranking.parquet; None where it is missing, as it is in releases made before it existed."""
        path = utility_dir / FILE
        if not path.exists():
            return None
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException):
            raise Refused("the ranks of recommendations cannot be read", where=FILE) from None
        wrong = [
            name
            for name, kind in _COLUMNS.items()
            if name not in table.column_names or table.schema.field(name).type != kind
        ]
        if wrong or any(table.column(name).null_count for name in ("number", "history", "head")):
            raise Refused(f"{FILE} is not as evaluate writes it: {', '.join(wrong) or 'nulls'}", where=FILE)
        ranks = {
            name: table.column(column).fill_null(0).to_numpy()
            for name, column in SOURCES.items()
            # Nobody has a group in a release of synthetic rows: then there is nothing to measure.
            if table.column(column).null_count < table.num_rows or name == "own_history"
        }
        if any((rank < 0).any() for rank in ranks.values()):
            raise Refused(f"{FILE} has ranks below 1", where=FILE)
        person, history, head = (table.column(name).to_numpy() for name in ("number", "history", "head"))
        return cls(person, history, head, ranks)

    def only(self, some: np.ndarray) -> "Ranks":
        """Return some of these rows."""
        rank = {name: values[some] for name, values in self.rank.items()}
        return Ranks(self.person[some], self.history[some], self.head[some], rank)

    @property
    def people(self) -> np.ndarray:
        """The people with at least one of these items, ascending."""
        return np.unique(self.person)

    def ndcg(self, source: str) -> np.ndarray:
        """Return nDCG@10 of each of `people`."""
        return ndcg(self.person, self.rank[source])

    def recall(self, source: str) -> np.ndarray:
        """Return Recall@10 of each of `people`: the share of their items that is among the first ten."""
        _, place = np.unique(self.person, return_inverse=True)
        found = (self.rank[source] > 0) & (self.rank[source] <= LENGTH)
        return np.bincount(place, weights=found) / np.bincount(place)

    def parts(self) -> dict[str, "Ranks"]:
        """Return the rows of head and of tail items, of people with short and with long histories (from the median)."""
        _, first = np.unique(self.person, return_index=True)
        heavy = self.history >= np.median(self.history[first])
        some = {"head": self.head, "tail": ~self.head, "light": ~heavy, "heavy": heavy}
        return {name: self.only(rows) for name, rows in some.items()}


def ndcg(person: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Return nDCG@10 of each person, ascending: Σ 1/log₂(rank + 1) over the items in the first ten places, as a share
    of the sum with all of the person's items in the first places."""
    _, place, count = np.unique(person, return_inverse=True, return_counts=True)
    listed = (rank > 0) & (rank <= LENGTH)
    gain = np.where(listed, 1 / np.log2(np.maximum(rank, 1) + 1), 0)
    best = np.cumsum(1 / np.log2(np.arange(2, LENGTH + 2)))[np.minimum(count, LENGTH) - 1]
    return np.bincount(place, weights=gain, minlength=len(count)) / best


def summary(utility_dir: Path) -> dict[str, Any] | None:
    """Return the figures of `ranking` in the command line's JSON and in the report; None where nothing was measured."""
    ranks = Ranks.read(utility_dir)
    if ranks is None or len(ranks.people) < FEWEST_PEOPLE:
        return None
    parts = {name: _figures(part) for name, part in ranks.parts().items()}
    return {**_figures(ranks), "above_popularity": _above(ranks), "parts": parts}


def above_popularity(ranks: Ranks) -> Mean:
    """Return by how much own histories are better served by the release than by popularity, in nDCG@10."""
    return Mean.of(ranks.ndcg("own_history") - ranks.ndcg("popularity"))


def _above(ranks: Ranks) -> dict[str, float]:
    found = above_popularity(ranks)
    low, high = found.interval(interval_z())
    return {"value": found.value, "low": low, "high": high}


def _figures(ranks: Ranks) -> dict[str, Any]:
    """Return the means of every source with their intervals; null for one that is not measured, and for few people."""
    people = len(ranks.people)
    figures: dict[str, Any] = {"people": people}
    for source in SOURCES:
        known = source in ranks.rank and people >= FEWEST_PEOPLE
        found = Mean.of(ranks.ndcg(source)) if known else None
        low, high = found.interval() if found else (None, None)
        figures |= {
            f"{source}_ndcg": found.value if found else None,
            f"{source}_ndcg_low": low,
            f"{source}_ndcg_high": high,
            f"{source}_recall": float(ranks.recall(source).mean()) if known else None,
        }
    return figures


def words(figures: dict[str, Any] | None, *, single: bool) -> str:
    """Say in two sentences what was measured."""
    if figures is None:
        return f"Ranking was not measured: fewer than {FEWEST_PEOPLE} people with a liked rating that was held out."
    names = {
        "original": "original data",
        "own_history": "release with own history",
        "group_history": "with the own record" if single else "with the group's profile",
        "popularity": "popularity",
    }
    known = [source for source in SOURCES if figures[f"{source}_ndcg"] is not None]
    whole = "; ".join(
        f"{names[source]} {figures[f'{source}_ndcg']:.3f} ({figures[f'{source}_recall']:.3f})"
        for source in known
    )
    apart = "; ".join(
        f"{name} " + ", ".join(f"{part[f'{source}_ndcg']:.3f}" for source in known)
        for name, part in _named(figures["parts"])
    )
    text = f"Lists of ten, nDCG (recall): {whole}."
    return f"{text} nDCG in the same order for {apart}." if apart else text


def _named(parts: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the parts with enough people to be measured, with their names in words."""
    named = {"head": "head items", "tail": "tail items", "light": "light users", "heavy": "heavy users"}
    return [(named[name], part) for name, part in parts.items() if part["original_ndcg"] is not None]
