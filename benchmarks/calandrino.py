"""Infer new ratings from how item-item statistics change: `python -m benchmarks.calandrino` ([Calandrino2011]).

MovieLens 1M, thirteen monthly snapshots of all ratings so far. A target has ratings before a month (the attacker knows
up to 32 of these items) and rates something during it. From the statistics of the two snapshots around the month the
attacker expects how often each known item would come together with each other item had tastes only grown with
popularity, adds up what exceeds it, and guesses the item with the largest sum. A guess is right if the target rated it
during the month. The baseline guesses the item that gained the most raters.

    exact            co-occurrences of all people: what must never be published, and the positive control
    rows             co-occurrences among the synthetic rows of two releases that share a budget
    noisy sums       the sums behind these rows, which only the owner has: the strongest attacker

The method's releases are made with epsilon 6 for all thirteen, and with epsilon 6 for each, which no budget allows.
Exits 1 if the control fails, or rows with the shared budget reveal more than the baseline.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks import real_data_directory, results
from checks.stats import wilson
from tasks.kernels import synthetic_rows
from tasks.kernels.noisy_statistics import Settings, Statistics, noisy_statistics
from tasks.kernels.privacy_accounting import allowance
from tasks.keys import OwnerKey

DELTA, EPSILON = 1e-5, 6.0
SCALE = (1.0, 5.0)
MONTHS = pd.date_range("2001-01-01", periods=13, freq="MS")
KNOWN = (8, 32)  # items of a target that the attacker knows: at least, at most
ROWS = 20_000
OWNER = OwnerKey(b"benchmark of series of sums, no secret")
CONTROL_FROM = 0.5
MEDIAN_OF_NORMAL = 0.6745
EXACT_BELOW = 1e-2  # the spread of differences that only exact sums have: most pairs do not change in a month
EXCLUDED = -20.0


@dataclass(frozen=True)
class Snapshot:
    """Hold what is known of a snapshot: items (columns of the data) and how often two of them come together."""

    items: np.ndarray
    together: np.ndarray

    def between(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return how often each of some items comes together with each of others."""
        return self.together[np.ix_(np.searchsorted(self.items, some), np.searchsorted(self.items, others))]

    def raters(self, some: np.ndarray) -> np.ndarray:
        """Return how many people rated each of these items."""
        return np.diag(self.together)[np.searchsorted(self.items, some)]


@dataclass(frozen=True)
class Target:
    """Hold what the attacker knows of a person, and the items the person rated during the month."""

    known: np.ndarray
    new: np.ndarray


def load(path: Path) -> pd.DataFrame:
    """Return the ratings of MovieLens 1M with numbers for people and items, and the day."""
    names = ["user", "item", "rating", "time"]
    table = pd.read_csv(path, sep="::", header=None, names=names, engine="python", encoding="latin-1")
    table["item"] = table["item"].astype("category").cat.codes
    table["user"] = table["user"].astype("category").cat.codes
    table["day"] = pd.to_datetime(table["time"], unit="s")
    return table


def matrix(table: pd.DataFrame, shape: tuple[int, int], before: pd.Timestamp) -> sp.csr_array:
    """Return the ratings before a date; people without any are left out."""
    some = table[table["day"] < before]
    found = sp.csr_array((some["rating"].to_numpy(np.float32), (some["user"], some["item"])), shape=shape)
    found.sort_indices()
    return found


def exact(ratings: sp.csr_array) -> Snapshot:
    """Return the exact co-occurrences."""
    pattern = ratings.copy()
    pattern.data = np.ones_like(pattern.data)
    return Snapshot(np.arange(ratings.shape[1]), np.asarray((pattern.T @ pattern).todense(), np.float32))


def measured(ratings: sp.csr_array, rho: float, failure: float, name: str) -> Statistics:
    """Run the mechanism; only people with ratings are in the data."""
    settings = Settings(rho=rho, failure=failure, epsilon=EPSILON, scale=SCALE)
    there = sp.csr_array(ratings[np.diff(ratings.indptr) > 0])
    return noisy_statistics(there, settings, OWNER.noise("calandrino", name).words)


def from_rows(found: Statistics, name: str) -> Snapshot:
    """Return co-occurrences among synthetic rows, as numbers of people."""
    cells, _ = synthetic_rows.draw(synthetic_rows.fit(found), ROWS, OWNER.rng("calandrino", name))
    pattern = sp.csr_array((np.ones(cells.nnz, np.float32), cells.indices, cells.indptr), shape=cells.shape)
    together = np.asarray((pattern.T @ pattern).todense(), np.float32)
    return Snapshot(found.columns, together * (found.users / ROWS))


def from_sums(found: Statistics) -> Snapshot:
    """Return the noisy sums over pairs, in units of one person whose ratings count in full."""
    return Snapshot(found.columns, (found.pairs / found.limits.pairs).astype(np.float32))


def guess(before: Snapshot, after: Snapshot, target: Target) -> tuple[int, int]:
    """Return the guess by what exceeds expectation, and the guess by popularity; −1: nothing to go by."""
    items = np.intersect1d(before.items, after.items)
    known, open_items = np.intersect1d(items, target.known), np.setdiff1d(items, target.known)
    if not len(known) or not len(open_items):
        return -1, -1
    first, second = (one.between(known, open_items) for one in (before, after))
    raters, later = (one.raters(open_items) for one in (before, after))
    change, gained = second - first, later - raters
    share = first / np.maximum(raters, 1)
    expected = np.clip(share, 0, 1) * np.maximum(gained, 0)
    score = _evidence(change, expected).sum(axis=0)
    return int(open_items[score.argmax()]), int(open_items[gained.argmax()])


def _evidence(change: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the log-likelihood ratio, for each pair, of one more person with both items.

    Exact sums: counts are Poisson about what is expected, one of them the target's; a pair without any gain excludes
    the item. Noisy sums: normal, with the spread that the differences show.
    """
    noise = float(np.median(np.abs(change - expected))) ** 2 / MEDIAN_OF_NORMAL**2
    if noise < EXACT_BELOW:
        return np.where(change >= 0.5, np.log(np.maximum(change, 1) / (expected + 0.05)), EXCLUDED)
    return (change - expected - 0.5) / (expected + noise)


def targets_of(table: pd.DataFrame, start: pd.Timestamp, end: pd.Timestamp) -> Iterator[Target]:
    """Yield the people with enough ratings before the month and at least one during it."""
    month = table[(table["day"] >= start) & (table["day"] < end)]
    earlier = table[table["user"].isin(month["user"].unique()) & (table["day"] < start)]
    known = {user: items.to_numpy() for user, items in earlier.groupby("user")["item"]}
    for user, new in month.groupby("user")["item"]:
        own = known.get(user, np.zeros(0, np.int64))
        if len(own) >= KNOWN[0]:
            some = OWNER.rng("known", user).permutation(own)[: KNOWN[1]]
            yield Target(some, new.to_numpy())


def rate(hits: int, n: int) -> dict[str, Any]:
    """Return a share with its Wilson interval."""
    low, high = wilson(hits, n)
    return {"right": round(hits / max(n, 1), 4), "low": round(low, 4), "high": round(high, 4), "guesses": n}


def attack(table: pd.DataFrame, kinds: dict[str, list[Snapshot]]) -> list[dict[str, Any]]:
    """Attack every month of every kind of series."""
    tally = {name: np.zeros(3, np.int64) for name in kinds}
    for month in range(len(MONTHS) - 1):
        targets = list(targets_of(table, MONTHS[month], MONTHS[month + 1]))
        for name, snapshots in kinds.items():
            for target in targets:
                by_change, by_growth = guess(snapshots[month], snapshots[month + 1], target)
                if by_change >= 0:
                    tally[name] += (by_change in target.new, by_growth in target.new, 1)
        print(f"{MONTHS[month]:%Y-%m}: {len(targets)} targets", file=sys.stderr, flush=True)
    return [
        {"series": name, **rate(int(hit), int(n)), "baseline": rate(int(luck), int(n))}
        for name, (hit, luck, n) in tally.items()
    ]


def main() -> int:
    """Make the series, attack, print, store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=results.DIRECTORY / "calandrino.json")
    asked, began = parser.parse_args(), results.machine()
    table = load(real_data_directory() / "ml-1m" / "ratings.dat")
    shape = (int(table["user"].max()) + 1, int(table["item"].max()) + 1)
    data = [matrix(table, shape, day) for day in MONTHS]
    kinds: dict[str, list[Snapshot]] = {"exact": [exact(ratings) for ratings in data]}
    for words, releases in (("epsilon 6 for all", len(MONTHS)), ("epsilon 6 each", 1)):
        one = allowance(EPSILON, DELTA, releases)
        sums = [measured(r, one.rho, one.failure, f"{words} {number}") for number, r in enumerate(data)]
        kinds[f"rows, {words}"] = [from_rows(found, f"{words} {number}") for number, found in enumerate(sums)]
        kinds[f"noisy sums, {words}"] = [from_sums(found) for found in sums]
    rows = attack(table, kinds)
    for row in rows:
        print(row)
    results.write(asked.out, {"known": KNOWN, "epsilon": EPSILON, "delta": DELTA, "rows": rows}, began)
    by_name = {row["series"]: row for row in rows}
    dead = by_name["exact"]["right"] < CONTROL_FROM
    row = by_name["rows, epsilon 6 for all"]
    return 1 if dead or row["low"] > row["baseline"]["high"] else 0


if __name__ == "__main__":
    sys.exit(main())
