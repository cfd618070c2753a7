"""Make synthetic ratings of Netflix's shape: `python -m benchmarks.netflix_shaped OUT [--users 480189] [--seed 0] …`.

Modelled, with the origin of each figure:

- counts: 480,189 users, 17,770 items, 100,480,507 ratings, each (user, item) once ([Chang2009], section 7)
- activity: quantiles of the ratings per user (39, 96, 259 at the quarters, mean 209, at most 17,653), exact
- popularity: quantiles of the ratings per item (192, 561, 2,668 at the quarters, at most 232,944, at least 3);
  the weights by which items are drawn are solved for, so that expected counts follow the curve
- ratings 1..5 in the shares of [Chang2009], Table 2
- taste: users choose items with probability ∝ weight × logistic(affinity) without repetition, and rate
  mood + item + affinity + noise: as predictable as `tasks/formats/synthetic.py`, whose constants these are
- time: 11 November 1999 to 31 December 2005, by day; most users join late, and rate many items on one day

The synthetic source (`[source.synthetic]`) draws every item for every user; this draws ratings only, in a
compiled loop, and keeps no more than a part of the users in memory. Other sizes keep the shape: the item curve
shrinks with the ratings, the share of users who rated an item stays.

OUT gets part-00000.parquet, … (user, item, rating, timestamp; row groups of ROW_GROUP) and appears when it is
complete. The same bytes for the same arguments, with any number of workers. A summary is printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import ndtri

USERS, ITEMS, RATINGS = 480_189, 17_770, 100_480_507
PART_USERS = 8_192  # some 1.7 million ratings, 25 MB
ROW_GROUP = 131_072

# (share of users or items, their ratings): Netflix's quartiles and extremes; the point near the top is chosen so that
# the mean is Netflix's, too.
ACTIVITY = ((0, 1), (0.25, 39), (0.5, 96), (0.75, 259), (0.99, 1_554), (1, 17_653))
POPULARITY = ((0, 3), (0.25, 192), (0.5, 561), (0.75, 2_668), (0.95, 42_272), (1, 232_944))
FEWEST_PER_ITEM = 3
MOST_PER_USER = 17_653 / 17_770  # of all items
TABLE_2 = (0.053, 0.117, 0.334, 0.390, 0.267)  # [Chang2009]: per cent of all cells rated 1..5

TASTES = 16
USER_SD, ITEM_SD, TASTE_SD, NOISE_SD = 0.42, 0.40, 0.45, 0.80
CHOICE = 1.5  # how strongly taste steers what is watched at all
FIRST_DAY, DAYS = 10_906, 2_243  # days since 1970; how many there are
MANY = 1 / 16  # share of the items above which a person's items are found by keys instead of by drawing

_PILOTS, _PILOT_USERS = 16, 2_048
_ACTIVITY_CLASSES, _ROUNDS = 64, 12
_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class World:
    """Hold everything except the users' draws: the same in every process."""

    seed: int
    counts: np.ndarray  # ratings per user
    ids: np.ndarray  # the users' ids: numbers with gaps, in no order
    owed: np.ndarray  # place among those who give every item its first ratings, −1 for the others
    weights: np.ndarray  # of the items
    alias: tuple[np.ndarray, np.ndarray]
    traits: np.ndarray  # items × tastes
    bias: np.ndarray  # of the items
    thresholds: np.ndarray  # between the ratings

    def draw(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        """Return (row of the user, item, liking, day) of the ratings of users start..stop."""
        ends = np.cumsum(self.counts[start:stop])
        ratings = int(ends[-1])
        item, liking = np.empty(ratings, np.int32), np.empty(ratings, np.float32)
        day = np.empty(ratings, np.int16)
        borrowers = int(self.owed.max()) + 1
        _draw_users(
            np.uint64(self.seed), start, ends, self.owed[start:stop], borrowers, self.weights,
            *self.alias, self.traits, self.bias, item, liking, day,
        )  # fmt: skip
        return np.repeat(np.arange(start, stop), self.counts[start:stop]), item, liking, day


def make_world(users: int, items: int, ratings: int, seed: int) -> World:
    """Draw the items, solve for their weights, and find the thresholds on some of the users."""
    rng = np.random.default_rng([seed, 0x5EED])
    most = max(1, int(MOST_PER_USER * items))
    counts = rng.permutation(_curve(ACTIVITY, users, USERS, ratings, 1, most))
    popularity = _curve(POPULARITY, items, ITEMS, ratings, FEWEST_PER_ITEM, users)
    popularity = rng.permutation(popularity).astype(float)
    share = 1 / np.arange(1, TASTES + 1)  # few tastes explain most, as in real ratings
    traits = rng.standard_normal((items, TASTES)) * np.sqrt(share / share.sum())
    fame = np.log(popularity / popularity.mean())
    bias = ITEM_SD * (0.95 * rng.standard_normal(items) + 0.15 * (fame - fame.mean()))  # the known is liked
    weights = _weights(popularity - FEWEST_PER_ITEM + 0.01, counts, np.linalg.norm(traits, axis=1))
    world = World(
        seed=seed,
        counts=counts,
        ids=rng.permutation(rng.choice(users * 11 // 2, users, replace=False) + 1).astype(np.int32),
        owed=_borrowers(counts, items, rng),
        weights=weights.astype(np.float32),
        alias=_alias_table(weights),
        traits=traits.astype(np.float32),
        bias=bias.astype(np.float32),
        thresholds=np.zeros(len(TABLE_2) - 1, np.float32),
    )
    few = min(_PILOT_USERS, users)
    pilots = np.linspace(0, users - few, min(_PILOTS, -(-users // few))).astype(int)
    liking = np.concatenate([world.draw(start, start + few)[2] for start in pilots.tolist()])
    shares = np.cumsum(TABLE_2)[:-1] / sum(TABLE_2)
    world.thresholds[:] = np.quantile(liking, shares)
    return world


def _curve(
    points: tuple[tuple[float, float], ...], size: int, full_size: int, total: int, low: int, high: int
) -> np.ndarray:
    """Return whole numbers that follow a quantile curve, lie in low..high and add up to `total`; ascending.

    Logarithms are interpolated over normal deviates: between its points the curve is log-normal.
    """
    if not size * low <= total <= size * high:
        raise SystemExit(f"{total:,} ratings on {size:,} rows are not possible: from {low} to {high:,} each")
    share, value = np.array(points).T
    places = ndtri(np.clip(share, 0.5 / full_size, 1 - 0.5 / full_size))
    curve = np.exp(np.interp(ndtri((np.arange(size) + 0.5) / size), places, np.log(value)))
    below, above = 0.0, total / curve.min()
    for _ in range(100):
        scale = (below + above) / 2
        below, above = (scale, above) if np.clip(scale * curve, low, high).sum() < total else (below, scale)
    exact = np.clip(above * curve, low, high)
    counts = np.floor(exact).astype(np.int64)
    while missing := total - counts.sum():
        free = np.flatnonzero(counts < high)
        counts[free[np.argsort(-(exact - counts)[free], kind="stable")[:missing]]] += 1
    return counts


def _weights(popularity: np.ndarray, counts: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return item weights whose expected counts are ∝ `popularity`.

    A user who draws n distinct items has item i with probability about 1 − exp(−w_i·t), t such that these add
    up to n. Taste multiplies w_i by a logistic of a normal deviate of sd `spread`: three Gauss-Hermite nodes.
    """
    target = popularity * (counts.sum() / popularity.sum())
    classes = np.array_split(np.sort(counts), min(_ACTIVITY_CLASSES, len(counts)))
    active = np.array([members.mean() for members in classes])
    people = np.array([len(members) for members in classes], float)
    nodes = np.array([-np.sqrt(3), 0, np.sqrt(3)])
    liked = (2 / (1 + np.exp(-CHOICE * np.outer(nodes, spread)))).astype(np.float32)
    weights = target / target.sum()
    reach = active.copy()
    for _ in range(_ROUNDS):
        expected = np.zeros(len(weights))
        for number, wanted in enumerate(active):
            has = _has(weights, reach[number], liked)
            for _ in range(3):  # Newton, on the logarithm of the reach
                slope = (weights * reach[number] * (1 - has)).sum()
                reach[number] *= np.exp(np.clip((wanted - has.sum()) / max(slope, 1e-9), -1, 1))
                has = _has(weights, reach[number], liked)
            expected += people[number] * has
        weights = weights * np.clip(target / np.maximum(expected, 1e-12), 0.2, 5)
        weights /= weights.sum()
    return weights


def _has(weights: np.ndarray, reach: float, liked: np.ndarray) -> np.ndarray:
    """Return the probability of each item, on average over tastes."""
    without = np.exp(-(weights * reach).astype(np.float32) * liked)
    return 1 - (without[0] + 4 * without[1] + without[2]) / 6


def _borrowers(counts: np.ndarray, items: int, rng: np.random.Generator) -> np.ndarray:
    """Assign a place to each of the more active users; place p rates the items j // 3 for j ≡ p, so each has three."""
    able = np.flatnonzero(counts >= np.median(counts))
    each = -(-FEWEST_PER_ITEM * items // len(able))
    if len(able) < FEWEST_PER_ITEM or counts[able].min() < each:
        raise SystemExit(f"too few ratings: {FEWEST_PER_ITEM} for each of {items:,} items are not possible")
    owed = np.full(len(counts), -1)
    owed[able] = rng.permutation(len(able))
    return owed


@numba.njit(cache=True)
def _alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Build the tables of Walker's alias method: item i stands for itself below level[i], else for other[i]."""
    size = len(weights)
    level = weights * (size / weights.sum())
    other = np.arange(size).astype(np.int32)
    small, large = np.flatnonzero(level < 1), np.flatnonzero(level >= 1)
    smalls, larges = np.empty(2 * size, np.int64), len(large)
    smalls[: len(small)] = small
    end = len(small)
    first = 0
    while first < end and larges:
        one, two = smalls[first], large[larges - 1]
        first += 1
        other[one] = two
        level[two] -= 1 - level[one]
        if level[two] < 1:
            larges -= 1
            smalls[end] = two
            end += 1
    for rest in range(first, end):
        level[smalls[rest]] = 1
    return level.astype(np.float32), other


@numba.njit(cache=True)
def _mix(value: np.uint64) -> np.uint64:
    """Mix the bits (finalizer of SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@numba.njit(cache=True)
def _uniform(bits: np.uint64) -> float:
    """Return a uniform number in (0, 1)."""
    return (float(bits >> np.uint64(11)) + 0.5) * 2.0**-53


@numba.njit(cache=True)
def _normal(first: np.uint64, second: np.uint64) -> float:
    """Return a normal deviate (Box and Muller)."""
    return np.sqrt(-2 * np.log(_uniform(first))) * np.cos(2 * np.pi * _uniform(second))


@numba.njit(fastmath=True, cache=True)
def _affinity(traits: np.ndarray, taste: np.ndarray) -> np.float32:
    total = np.float32(0)
    for place in range(len(taste)):
        total += traits[place] * taste[place]
    return total


@numba.njit(nogil=True, cache=True)
def _draw_users(
    seed, first_user, ends, owed, borrowers, weights, level, other, traits, bias, item, liking, day
):  # fmt: skip
    """Fill item, liking and day of consecutive users; a user's stream follows from the seed and their number."""
    items, tastes = traits.shape
    step = np.uint64(0x9E3779B97F4A7C15)
    seen = np.zeros(items, np.bool_)
    taste = np.empty(tastes, np.float32)
    keys = np.empty(items)
    low = np.uint64(0xFFFFFFFF)
    for row in range(len(ends)):
        begin = ends[row - 1] if row else 0
        end = ends[row]
        state = _mix(_mix(seed + step) ^ np.uint64(first_user + row + 1))
        for place in range(tastes):
            state += np.uint64(2) * step
            taste[place] = _normal(_mix(state), _mix(state + step))
        state += np.uint64(2) * step
        mood = USER_SD * _normal(_mix(state), _mix(state + step))
        at = begin
        if owed[row] >= 0:
            for debt in range(owed[row], FEWEST_PER_ITEM * items, borrowers):
                item[at] = debt // FEWEST_PER_ITEM
                seen[item[at]] = True
                at += 1
        if end - begin > MANY * items:  # the smallest of Exp(1)/weight: the same law, without misses
            for one in range(items):
                state += step
                chance = 1 / (1 + np.exp(-CHOICE * _affinity(traits[one], taste)))
                keys[one] = np.inf if seen[one] else -np.log(_uniform(_mix(state))) / (weights[one] * chance)
            if at < end:
                last = np.partition(keys, end - at - 1)[end - at - 1]
                for one in range(items):
                    if keys[one] <= last and at < end:
                        item[at] = one
                        at += 1
        else:
            while at < end:
                state += step
                bits = _mix(state)
                one = np.int64(((bits >> np.uint64(32)) * np.uint64(items)) >> np.uint64(32))  # type: ignore[assignment]
                if float(bits & low) * 2.0**-32 >= level[one]:
                    one = other[one]
                if seen[one]:
                    continue
                state += step
                if _uniform(_mix(state)) * (1 + np.exp(-CHOICE * _affinity(traits[one], taste))) < 1:
                    seen[one] = True
                    item[at] = one
                    at += 1
        state += step
        joined = DAYS * np.sqrt(_uniform(_mix(state)))
        sessions = 1 + int((end - begin) ** 0.6)
        calendar = _mix(state + step)
        for place in range(begin, end):
            one = item[place]
            seen[one] = False
            state += np.uint64(3) * step
            noise = NOISE_SD * _normal(_mix(state), _mix(state + step))
            liking[place] = mood + bias[one] + TASTE_SD * _affinity(traits[one], taste) + noise
            session = int(sessions * _uniform(_mix(state + step + step)) ** 2)  # most on the first days
            later = _uniform(_mix(calendar + np.uint64(session) * step)) if session else 0.0
            day[place] = int(joined + (DAYS - joined) * later)


def write_part(number: int, world: World, directory: Path) -> tuple[np.ndarray, np.ndarray]:
    """Write one part of the users as a Parquet file; return the ratings per item and per value."""
    start = number * PART_USERS
    user, item, liking, day = world.draw(start, min(start + PART_USERS, len(world.counts)))
    rating = (np.searchsorted(world.thresholds, liking, side="right") + 1).astype(np.int8)
    table = pa.table(
        {
            "user": world.ids[user],
            "item": item + 1,
            "rating": rating,
            "timestamp": (day.astype(np.int64) + FIRST_DAY) * _DAY_SECONDS,
        }
    )
    pq.write_table(table, directory / f"part-{number:05}.parquet", row_group_size=ROW_GROUP)
    return np.bincount(item, minlength=len(world.weights)), np.bincount(rating, minlength=len(TABLE_2) + 1)


def generate(out: Path, users: int, items: int, ratings: int, seed: int, workers: int = 2) -> dict:
    """Write all parts, then rename the directory; return the summary."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise SystemExit(f"{out} is not an empty directory; remove it or name another directory")
    world = make_world(users, items, ratings, seed)
    temporary = out.with_name(f".{out.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    write = partial(write_part, world=world, directory=temporary)
    parts = range(-(-users // PART_USERS))
    # Threads, not processes: the compiled loop and the Parquet writer release the GIL, and a forked child inherits
    # the locks of whatever other threads the caller has.
    with ThreadPoolExecutor(workers) as pool:
        written = list(pool.map(write, parts))
    temporary.rename(out)
    per_item = np.sum([one for one, _ in written], axis=0)
    histogram = np.sum([two for _, two in written], axis=0)[1:]
    return {
        "users": users,
        "items": int((per_item > 0).sum()),
        "ratings": int(per_item.sum()),
        "parts": len(parts),
        "per_user": _quantiles(world.counts),
        "per_item": _quantiles(per_item),
        "shares_of_ratings_1_to_5": (histogram / histogram.sum()).round(4).tolist(),
    }


def _quantiles(counts: np.ndarray) -> dict[str, float]:
    places = {"min": 0, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99, "max": 1}
    found = {name: float(np.quantile(counts, place)) for name, place in places.items()}
    return {**found, "mean": round(float(counts.mean()), 2)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Make synthetic ratings of Netflix's shape, as Parquet parts."
    )
    parser.add_argument("out", type=Path, help="a directory that is empty or does not exist yet")
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--ratings", type=int, help="default: as many per user as Netflix has")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    ratings = asked.ratings or round(asked.users * RATINGS / USERS)
    summary = generate(asked.out, asked.users, asked.items, ratings, asked.seed, asked.workers)
    print(json.dumps(summary, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
