"""Find people and items in differences between releases: the pure parts of benchmarks/series_attacks.py.

Written apart from checks/, which judges releases: two scripts that agree are better evidence than one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from checks.stats import wilson

LOW, STEP = 1.0, 0.1
MOST_AXES, PARTS, RIDGE = 12, 5, 1.0


def rate(hits: int, n: int) -> dict[str, Any]:
    """Return a share with its interval (Wilson, 95 %)."""
    low, high = wilson(hits, n)
    return {"rate": round(hits / n, 4) if n else 0.0, "n": n, "low": round(low, 4), "high": round(high, 4)}


def is_within(after: dict[str, Any], baseline: dict[str, Any]) -> bool:
    """Test whether a share is at most its baseline plus the baseline's interval."""
    return bool(after["rate"] <= baseline["high"])


@dataclass(frozen=True)
class Candidates:
    """Hold whom the attacker looks for, and what the model predicts for each of them (people × items; NaN: no item).

    Nobody but the owner knows these predictions; whoever knows everybody's ratings can come near them by fitting a
    model. So the attack is at least as strong as any attacker's.
    """

    people: np.ndarray
    table: np.ndarray

    def distances(self, vectors: np.ndarray) -> np.ndarray:
        """Return people × vectors: mean squares of what is between them, over the items that both have."""
        has = (~np.isnan(self.table)).all(axis=0)
        seen = ~np.isnan(vectors) & has
        own, wanted = np.where(has, self.table, 0.0), np.where(seen, vectors, 0.0)
        total = own**2 @ seen.T.astype(float) - 2 * own @ wanted.T + (wanted**2).sum(axis=1)
        return np.asarray(total / np.maximum(seen.sum(axis=1), 1))

    def nearest(self, vectors: np.ndarray) -> np.ndarray:
        """Return the person whose predictions are nearest to each vector."""
        return np.asarray(self.people[self.distances(vectors).argmin(axis=0)])

    def only(self, people: Sequence[int]) -> "Candidates":
        """Return some of the people, in this order."""
        place = {int(person): row for row, person in enumerate(self.people)}
        return Candidates(np.array(people), self.table[[place[one] for one in people]])


def found(candidates: Candidates, vectors: np.ndarray, targets: Sequence[Collection[int]]) -> tuple[int, int]:
    """Return how often the nearest of all people is a target of the vector, and of how many."""
    near = candidates.nearest(vectors)
    return sum(int(one) in own for one, own in zip(near, targets, strict=True)), len(targets)


def coordinates(known: Candidates, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return people and vectors in the space of the model's predictions, in units of the people's spread."""
    has = (~np.isnan(known.table)).all(axis=0) & (~np.isnan(vectors)).all(axis=0)
    own, mean = known.table[:, has], known.table[:, has].mean(axis=0)
    _, size, axes = np.linalg.svd(own - mean, full_matrices=False)
    rank = min(MOST_AXES, int((size > 1e-3 * size[0]).sum()))
    axes, spread = axes[:rank], size[:rank] / np.sqrt(len(own))
    return (own - mean) @ axes.T / spread, (vectors[:, has] - mean) @ axes.T / spread


def likelihoods(known: Candidates, vectors: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return people × vectors: the logarithm of how likely a vector is, if the person is behind it.

    How a person shows in a vector (all of it, a fifth, nothing) and what is around is learnt from the other targets'
    true pairs, which favours the attacker. Raw distances would favour average people where a vector is a mean over
    unlike ones, and find fewer people with a second profile than without.
    """
    people, shown = coordinates(known, vectors)
    place = {int(person): row for row, person in enumerate(known.people)}
    row = np.array([place[int(one)] for one in targets])
    part = np.unique(targets, return_inverse=True)[1] % PARTS  # a target is never among those learnt from
    score = np.zeros((len(people), len(shown)))
    for number in range(PARTS):
        learnt, tried = part != number, part == number
        x, y = people[row[learnt]], shown[learnt]
        weights = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y)
        rest = y - x @ weights
        inverse = np.linalg.inv(rest.T @ rest / len(y) + 1e-2 * np.eye(y.shape[1]))
        apart = shown[tried][None] - (people @ weights)[:, None]
        score[:, tried] = -0.5 * np.einsum("ptd,de,pte->pt", apart, inverse, apart)
    return score


def hits(known: Candidates, score: np.ndarray, targets: np.ndarray) -> tuple[int, int]:
    """Return how often the target has the highest score, and of how many."""
    return int((known.people[score.argmax(axis=0)] == targets).sum()), len(targets)


def guess_items(differences: np.ndarray, table: np.ndarray) -> dict[str, np.ndarray]:
    """Return the order in which items are guessed behind each difference, by two scores.

    `size`: the cell that moved most. `direction`: the item whose own direction, as the published profiles show it,
    agrees best with how all cells moved.
    """
    moved = np.nan_to_num(differences)
    centred = table - table.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:16]
    length = np.maximum(np.linalg.norm(directions, axis=0), 1e-9)
    along = np.abs((moved @ directions.T) @ directions) / length
    return {"size": np.argsort(-np.abs(moved), axis=1), "direction": np.argsort(-along, axis=1)}


def precision(score: np.ndarray, true: np.ndarray, candidates: np.ndarray, head: int) -> tuple[int, int]:
    """Return how many of the head of the candidates, by score, are true, and how many there are."""
    order = candidates[np.argsort(-score[candidates], kind="stable")][:head]
    return int(true[order].sum()), len(order)


def smallest_intersections(labels: Sequence[np.ndarray], k: int) -> dict[str, float]:
    """Return the shares of people among fewer than k, and alone, who share their group in all releases."""
    _, place, count = np.unique(np.stack(labels), axis=1, return_inverse=True, return_counts=True)
    size = count[place.ravel()]
    return {"below_k": round(float((size < k).mean()), 4), "alone": round(float((size == 1).mean()), 4)}


@dataclass(frozen=True)
class Published:
    """Hold a release as an attacker has it: sizes and dense profiles over all items (NaN: not published)."""

    groups: np.ndarray
    sizes: np.ndarray
    table: np.ndarray
    digests: list[bytes]
    items: list[str]

    @classmethod
    def read(cls, place: Path, column: dict[str, int]) -> "Published":
        """Read groups.parquet and items.parquet."""
        rows = pq.read_table(place / "groups.parquet")
        items = pq.read_table(place / "items.parquet").column("item").to_pylist()
        table = np.full((len(rows), len(column)), np.nan)
        digests = []
        for number, (own, codes) in enumerate(
            zip(rows.column("items").to_pylist(), rows.column("ratings").to_pylist(), strict=True)
        ):
            listed = [items[one] for one in own] if own is not None else items
            table[number, [column[one] for one in listed]] = LOW + STEP * np.frombuffer(codes, np.uint8)
            digests.append("\0".join(listed).encode() + b"\0\0" + codes)
        group, size = (rows.column(name).to_numpy() for name in ("group", "size"))
        return cls(group, size, table, digests, items)

    def row_of(self) -> dict[int, int]:
        """Return the row of each group's number."""
        return {int(group): row for row, group in enumerate(self.groups)}


def nearest_group(profile: np.ndarray, release: Published) -> int:
    """Return the row of the group of a release whose profile is nearest by content; how groups are linked."""
    apart = (release.table - profile) ** 2
    both = ~np.isnan(apart)
    mean = np.where(both, apart, 0).sum(axis=1) / np.maximum(both.sum(axis=1), 1)
    return int(np.where(both.any(axis=1), mean, np.inf).argmin())
