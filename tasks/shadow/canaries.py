"""Run the mechanism of a dp-synthetic release many times with and without a made-up person: evidence for its audit.

A proof of differential privacy says nothing about a program with a mistake. The gate bounds epsilon from below by what
an attacker achieves who sees the noisy statistics themselves, knows the whole data except whether one person is in it,
and chose that person (checks/attacks/dp_audit.py; [Nasr2023]). This module makes the trials. Privacy is promised for
all data, so the data may be small and chosen for the purpose: some people of the source, on their most popular items,
everybody several times, so that items pass the mechanism's threshold.

The canaries, each with the largest effect on another part of the mechanism:

    boundary     rated two of four items with the same raters, of which just two can be chosen
    enormous     rated everything
    minimal      rated one item, and badly
    new-item     rated one item that nobody else rated, where a place for it is left
    saturating   rated as many items as the mechanism lets count in full
    two-items    rated two items, with opposite ratings
    repeated     is `saturating`; the attacker also has a release of slightly other data made with the same key

Most canaries are several equal people: a group of g makes g times the difference of one, so few runs suffice
(checks/canaries/privacy_loss.py divides by g again).

    trials.parquet   a row per run and canary: shape, setting of the noise, whether the canary is there, and per part of
                     the statistics how much it speaks for the canary
    canaries.json    the claimed epsilon and delta, and how many equal people each canary is
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks.store import write_json

TRIALS = 300  # of each canary, with it and without it
MORE = 3  # times as many of the canary that judges the amount of noise, and of the positive control
AMOUNT = "saturating"
PEOPLE = 40
CROWD = 4  # of so many times as many people who rated most of the items
MOST_REPEATS = 128
FEW_RUNS = 4
MU = (
    2.2  # distance of the two worlds that a canary should make at the claimed epsilon, in standard deviations
)
MOST_COPIES = 400
TWINS = 4  # items with the same raters
MOST_KEPT = 2_000

Rng = Callable[..., np.random.Generator]


@dataclass(frozen=True)
class Noisy:
    """Hold what one run of the mechanism gives: the chosen items (columns), the noisy statistics by part, and the
    standard deviation that the noise of each part should have."""

    items: np.ndarray
    values: Mapping[str, np.ndarray]
    deviations: Mapping[str, float]


class Mechanism(Protocol):
    """Describe what is audited: the mechanism of the release with its settings."""

    @property
    def rho(self) -> float:
        """All parts together, in zero-concentrated differential privacy."""

    @property
    def row_limit(self) -> int:
        """Ratings of one person that count in full."""

    @property
    def most_items(self) -> int:
        """Items chosen at most."""

    def release(self, ratings: sp.csr_array, key: int) -> Noisy:
        """Run the mechanism on these ratings with the noise of this key."""

    def exact(self, ratings: sp.csr_array, items: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the statistics of these chosen items without noise."""

    def halved(self) -> "Mechanism":
        """Return the mechanism with noise of half the standard deviation."""


@dataclass(frozen=True)
class Canary:
    """Hold a made-up person: rated items and ratings, and how many equal people stand for one."""

    shape: str
    items: np.ndarray
    ratings: np.ndarray
    copies: int

    def joins(self, ratings: sp.csr_array) -> sp.csr_array:
        """Return the ratings with the canary in the data."""
        row = sp.csr_array(
            (self.ratings.astype(ratings.dtype), self.items, [0, len(self.items)]),
            shape=(1, ratings.shape[1]),
        )
        return sp.csr_array(sp.vstack([ratings, *[row] * self.copies], format="csr"))


def write_trials(
    out: Path,
    mechanism: Mechanism,
    base: sp.csr_array,
    scale: tuple[float, float],
    rng: Rng,
    claim: tuple[float, float],
    trials: int = TRIALS,
) -> int:
    """Run the mechanism with and without each canary and keep what the attacker sees; return the number of runs.

    `base` are the ratings without the canary (`audit_base`), `claim` the epsilon and delta of the release.
    """
    canaries = make_canaries(mechanism, base, scale)
    rows = [*_claimed(mechanism, base, canaries, rng, trials)]
    rows += _halved(mechanism, base, canaries, rng, trials)
    parts = sorted({name for *_, found in rows for name in found})
    columns = {
        "shape": pa.array([shape for shape, *_ in rows]).dictionary_encode(),
        "setting": pa.array([setting for _, setting, *_ in rows]).dictionary_encode(),
        "canary": pa.array([present for _, _, present, _ in rows]),
    }
    columns |= {name: pa.array([found.get(name, 0.0) for *_, found in rows], pa.float64()) for name in parts}
    out.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), out / "trials.parquet", compression="zstd")
    epsilon, delta = claim
    copies = {canary.shape: canary.copies for canary in canaries}
    write_json(out / "canaries.json", {"epsilon": epsilon, "delta": delta, "copies": copies})
    return len(rows)


def audit_base(mechanism: Mechanism, ratings: sp.csr_array, rng: Rng) -> sp.csr_array:
    """Return a small part of some ratings, arranged so that canaries have effects: people who rated many of the most
    popular items, these items, and one item without any rating.

    The last four items have the same raters and fewer than all others, and two of them can be chosen: one person
    decides which. Where this needs a rating that a person did not give, it is the mean. Everybody is there so many
    times that as many items are chosen as can be.
    """
    popular = np.argsort(-np.bincount(ratings.indices, minlength=ratings.shape[1]), kind="stable")
    columns = np.resize(popular, mechanism.most_items + TWINS // 2)
    known = sp.csr_array(ratings[:, popular[: len(columns)]])
    most = np.argsort(-np.diff(known.indptr), kind="stable")[: CROWD * PEOPLE]
    people = np.sort(rng("canary people").permutation(most)[:PEOPLE])
    values = sp.csr_array(ratings[people])[:, columns].toarray()
    first, mean = mechanism.most_items - TWINS // 2, float(ratings.data.mean())
    values[:, first:] = values[:, [first]]
    values[-(len(people) // 4) :, first:] = 0
    others = values[:, :first]
    others[(others == 0) & (np.arange(len(people)) >= len(people) - len(people) // 4)[:, None]] = mean
    others[(others == 0) & (values[:, [first]] != 0)] = mean
    small = sp.csr_array(np.column_stack([values, np.zeros(len(people), values.dtype)]))
    repeats = 1
    while True:
        base = sp.csr_array(sp.vstack([small] * repeats, format="csr"))
        if 2 * repeats > MOST_REPEATS or _chooses_enough(mechanism, base, rng):
            return base
        repeats *= 2


def _chooses_enough(mechanism: Mechanism, base: sp.csr_array, rng: Rng) -> bool:
    """Test whether as many items are chosen as can be, also of the data with room for a new one."""
    return all(
        len(mechanism.release(data, key).items) >= wanted
        for data, wanted in (
            (base, mechanism.most_items),
            (_with_room(mechanism, base), mechanism.most_items - 1),
        )
        for key in _keys(rng, "canary base", count=FEW_RUNS)
    )


def _with_room(mechanism: Mechanism, base: sp.csr_array) -> sp.csr_array:
    """Return the data with one known item less than can be chosen: there is a place for a new one."""
    return sp.csr_array(base[:, np.append(np.arange(mechanism.most_items - 1), base.shape[1] - 1)])


def make_canaries(mechanism: Mechanism, base: sp.csr_array, scale: tuple[float, float]) -> list[Canary]:
    """Return the canaries for data of `audit_base`."""
    low, high = scale
    known = base.shape[1] - 1
    first_twin = mechanism.most_items - TWINS // 2
    copies = min(MOST_COPIES, max(1, round(MU / math.sqrt(2 * mechanism.rho))))
    saturating = np.arange(max(1, min(mechanism.row_limit, known)))
    shapes = {
        "boundary": (first_twin + np.array([1, 2]), [high, high]),
        "enormous": (np.arange(base.shape[1]), np.full(base.shape[1], high)),
        "minimal": (np.array([first_twin - 1]), [low]),
        "new-item": (np.array([known]), [high]),
        "repeated": (saturating, np.full(len(saturating), high)),
        "saturating": (saturating, np.full(len(saturating), high)),
        "two-items": (np.array([first_twin - 2, first_twin - 1]), [low, high]),
    }
    # Whether a new item is chosen at all is promised for one person, up to delta: of a group it is no g-fold promise.
    return [
        Canary(shape, items.astype(np.int32), np.asarray(given, float), 1 if shape == "new-item" else copies)
        for shape, (items, given) in shapes.items()
    ]


Row = tuple[str, str, bool, dict[str, float]]


def _claimed(
    mechanism: Mechanism, base: sp.csr_array, canaries: list[Canary], rng: Rng, trials: int
) -> Iterator[Row]:
    by_shape = {canary.shape: canary for canary in canaries}
    new, repeated = by_shape.pop("new-item"), by_shape.pop("repeated")
    yield from _against(mechanism, base, list(by_shape.values()), rng, trials)
    # Fewer known items than can be chosen: there is a place for a new one.
    room = np.append(np.arange(mechanism.most_items - 1), base.shape[1] - 1)
    narrow = sp.csr_array(base[:, room])
    yield from _against(
        mechanism, narrow, [replace(new, items=np.array([len(room) - 1], np.int32))], rng, trials
    )
    yield from _with_earlier(mechanism, base, repeated, rng, trials)


def _against(
    mechanism: Mechanism, base: sp.csr_array, canaries: list[Canary], rng: Rng, trials: int
) -> Iterator[Row]:
    """Yield runs with each canary, and runs without any, which serve all of them."""
    worlds = [canary.joins(base) for canary in canaries]
    view = _Attacker(mechanism)
    names = [canary.shape for canary in canaries]
    count = {name: MORE * trials if name == AMOUNT else trials for name in names}
    for key in _keys(rng, "without", *names, count=max(count.values())):
        seen = mechanism.release(base, key)
        for canary, world in zip(canaries, worlds, strict=True):
            yield canary.shape, "claimed", False, view.scores(seen, base, world, canary)
    for canary, world in zip(canaries, worlds, strict=True):
        for key in _keys(rng, "with", canary.shape, count=count[canary.shape]):
            seen = mechanism.release(world, key)
            yield canary.shape, "claimed", True, view.scores(seen, base, world, canary)


def _with_earlier(
    mechanism: Mechanism, base: sp.csr_array, canary: Canary, rng: Rng, trials: int
) -> Iterator[Row]:
    """Yield runs of which the attacker also has one with the same key, on the data without one person."""
    world, other, view = canary.joins(base), sp.csr_array(base[1:]), _Attacker(mechanism)
    for present, ratings in ((False, base), (True, world)):
        for key in _keys(rng, "repeated", present, count=trials):
            seen, earlier = mechanism.release(ratings, key), mechanism.release(other, key)
            yield canary.shape, "claimed", present, view.differences(seen, earlier, base, world, other)


def _halved(
    mechanism: Mechanism, base: sp.csr_array, canaries: list[Canary], rng: Rng, trials: int
) -> Iterator[Row]:
    """Yield the runs of the positive control: the same mechanism with half of the noise, and its best canary."""
    canary = next(canary for canary in canaries if canary.shape == AMOUNT)
    weaker, world = mechanism.halved(), canary.joins(base)
    view = _Attacker(weaker)
    for present, ratings in ((False, base), (True, world)):
        for key in _keys(rng, "halved", present, count=MORE * trials):
            yield (
                canary.shape,
                "halved",
                present,
                view.scores(weaker.release(ratings, key), base, world, canary),
            )


def _keys(rng: Rng, *names: object, count: int) -> list[int]:
    """Return a key for each run: runs with different keys are independent."""
    return [int(key) for key in rng("canary keys", *names).integers(0, 2**62, count)]


class _Attacker:
    """Compute how much a run speaks for the canary: an attacker who knows the data without it and the program."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._kept: dict[tuple[int, bytes], tuple[sp.csr_array, Mapping[str, np.ndarray]]] = {}

    def scores(
        self, seen: Noisy, base: sp.csr_array, world: sp.csr_array, canary: Canary
    ) -> dict[str, float]:
        """Return the log-likelihood ratio of each part, and how many of the canary's items were chosen."""
        without, inside = self._exact(base, seen.items), self._exact(world, seen.items)
        noise = {name: values - without[name] for name, values in seen.values.items()}
        chosen = float(np.isin(canary.items, seen.items).sum())
        return {**_ratios(seen.deviations, noise, without, inside, 1.0), "chosen items": chosen}

    def differences(
        self, seen: Noisy, earlier: Noisy, base: sp.csr_array, world: sp.csr_array, other: sp.csr_array
    ) -> dict[str, float]:
        """Return the log-likelihood ratios of the difference from the run on other data; 0 where other items were
        chosen."""
        if not np.array_equal(seen.items, earlier.items):
            return {}
        without, inside = self._exact(base, seen.items), self._exact(world, seen.items)
        before = self._exact(other, seen.items)
        noise = {
            name: (values - without[name]) - (earlier.values[name] - before[name])
            for name, values in seen.values.items()
        }
        return _ratios(seen.deviations, noise, without, inside, 2.0)

    def _exact(self, ratings: sp.csr_array, items: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the statistics without noise; most runs choose items that an earlier run chose."""
        key = (id(ratings), items.tobytes())  # the ratings are kept, so no other ones get their id
        if key not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = ratings, self._mechanism.exact(ratings, items)
        return self._kept[key][1]


def _ratios(
    deviations: Mapping[str, float],
    noise: Mapping[str, np.ndarray],
    without: Mapping[str, np.ndarray],
    inside: Mapping[str, np.ndarray],
    variances: float,
) -> dict[str, float]:
    """Return by part how much likelier this noise is with the canary, as a logarithm."""
    found = {}
    for name, rest in noise.items():
        away = inside[name] - without[name]
        found[f"likelihood {name}"] = float(((rest - away / 2) * away).sum()) / (
            variances * deviations[name] ** 2
        )
    return found
