"""Whom an attacker finds who knows a few things about somebody (paper section 3.1).

Attacks run on *different* published profiles, each with the real people who share it: inside a homogenized
group all members tie, so an attack on members would always look harmless.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from checks.case import Case, seeded
from checks.privacy.k_anonymity import profile_numbers
from checks.release import BLOCK_CELLS

BATCH = 256
SIZES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Knowledge:
    """What is known about each target: items (−1: nothing more) and the target's ratings of them."""

    name: str
    targets: np.ndarray
    items: np.ndarray
    ratings: np.ndarray


@dataclass(frozen=True)
class Found:
    """Per target: people and different profiles that fit what is known, and whether the own group is among
    them."""

    people: np.ndarray
    profiles: np.ndarray
    own: np.ndarray

    @property
    def identification(self) -> np.ndarray:
        """Probability of naming the target: one over the candidates, 0 where the target is not among them."""
        return np.where(self.own, 1 / np.maximum(self.people, 1), 0.0)

    @property
    def exposed(self) -> np.ndarray:
        """Targets whose own profile is the only one that fits."""
        return self.own & (self.profiles == 1)


class Search:
    """Finds the groups that fit some knowledge."""

    def __init__(self, case: Case) -> None:
        self.case = case

    @cached_property
    def profile(self) -> np.ndarray:
        """Number of the profile of each group; equal content, equal number."""
        return profile_numbers(self.case.release)

    @cached_property
    def first(self) -> np.ndarray:
        """For each group whether it is the first of its profile: only those are compared."""
        first = np.zeros(len(self.profile), dtype=bool)
        first[np.unique(self.profile, return_index=True)[1]] = True
        return first

    @cached_property
    def people(self) -> np.ndarray:
        """Real people behind each group's profile."""
        return np.bincount(self.profile, weights=self.case.members)[self.profile].astype(np.int64)

    def find(self, known: Knowledge, tolerance: float | None) -> Found:
        """Groups that have all known items and, with a tolerance, ratings no further than that from the
        known."""
        own_profile = self.profile[self.case.truth.row_of_user[known.targets]]
        people, profiles = (np.zeros(len(known.targets), dtype=np.int64) for _ in range(2))
        own = np.zeros(len(known.targets), dtype=bool)
        for block in self.case.release.blocks():
            rows = np.flatnonzero(self.first[block.rows_slice])
            if not len(rows):
                continue
            # A last column that every group has and that always fits stands for "nothing more is known".
            table = np.concatenate([block.table()[rows], np.zeros((len(rows), 1), np.float32)], axis=1)
            numbers, weights = self.profile[block.rows_slice][rows], self.people[block.rows_slice][rows]
            for start in range(0, len(known.targets), BATCH):
                part = slice(start, start + BATCH)
                fits = fitting(table, known.items[part], known.ratings[part], tolerance)
                people[part] += fits @ weights
                profiles[part] += fits.sum(axis=1)
                own[part] |= (fits & (numbers[None, :] == own_profile[part, None])).any(axis=1)
        return Found(people, profiles, own)

    def singled_out_raw(self, known: Knowledge, tolerance: float | None, targets: int = 200) -> float:
        """Share of targets whom the same knowledge singles out in the raw data: what the release protects
        from."""
        some = slice(0, targets)
        truth, alike = self.case.truth.ratings, np.zeros(len(known.targets[some]), dtype=np.int64)
        rows = max(1, BLOCK_CELLS // truth.shape[1])
        for start in range(0, truth.shape[0], rows):
            part = truth[start : start + rows]
            dense = np.full((part.shape[0], part.shape[1] + 1), np.nan, dtype=np.float32)
            dense[np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices] = part.data
            dense[:, -1] = 0
            alike += fitting(dense, known.items[some], known.ratings[some], tolerance).sum(axis=1)
        return float((alike == 1).mean()) if len(alike) else 0.0


def fitting(table: np.ndarray, items: np.ndarray, ratings: np.ndarray, tolerance: float | None) -> np.ndarray:
    """Targets × rows: True where a row has all known items of the target (NaN: not there) near enough."""
    fits = np.ones((len(items), len(table)), dtype=bool)
    for position in range(items.shape[1]):  # over the few known items, not over people
        column = table[:, items[:, position]].T
        if tolerance is None:
            fits &= ~np.isnan(column)
        else:
            fits &= np.abs(column - ratings[:, position, None]) <= tolerance + 1e-4  # NaN compares as False
    return fits


def knowledge(case: Case, *, size: int, rare: bool) -> Knowledge:
    """`size` items each target really rated: drawn at random, or the least popular ones."""
    targets = case.targets("knowledge")
    truth, draw = case.truth.ratings, seeded("knowledge", size, rare)
    items = np.full((len(targets), size), -1, dtype=np.int64)
    ratings = np.zeros((len(targets), size), dtype=np.float32)
    for row, target in enumerate(targets):  # at most MAX_TARGETS
        own = slice(truth.indptr[target], truth.indptr[target + 1])
        weight = case.truth.raters[truth.indices[own]] if rare else 0
        order = np.argsort(weight + draw.random(own.stop - own.start), kind="stable")[:size]
        items[row, : len(order)] = truth.indices[own][order]
        ratings[row, : len(order)] = truth.data[own][order]
    return Knowledge(f"{size} {'rare' if rare else 'random'}", targets, items, ratings)


def all_knowledge(case: Case) -> list[Knowledge]:
    """The grid: 1, 2, 4 and 8 items, random and rare."""
    return [knowledge(case, size=size, rare=rare) for rare in (False, True) for size in SIZES]
