"""Generate synthetic people who behave like real ones: for demos, tests and trying out settings, at any size.

A person has tastes, a mood (bias), a level of activity, and a gender and an age that correlate with the tastes.
People pick items with probability ∝ popularity × exp(taste affinity), rate what they like higher, and continue to
rate, ever more slowly: at a later snapshot the same person has the same ratings and some more. Each month a share
`churn` of the people leaves and others join. Ratings fall on the scale in the proportions of [Chang2009], Table 2.

Everything about a person is a hash of (seed, person, purpose), so nothing depends on how people are cut into blocks.
A decade (2025–2034, …) has its own people, who began to rate up to `months` before it; `ratings_per_user` is the mean
at the beginning of its second year.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import expit, logit, ndtri

from tasks.config import Source
from tasks.config.formats import Format
from tasks.config.source import Synthetic
from tasks.formats._blocks import Piece, RatingBlock

FORMAT = Format(scale=(1.0, 5.0), needs_path=False, attributes=("gender", "age"), table="synthetic")
TABLE_2 = (0.0, 0.046, 0.146, 0.434, 0.770, 1.0)  # cumulative shares of the ratings 1..5, nulls aside
# As predictable as MovieLens: item means err by 1.03, a factor model by 0.90–0.92.
USER_SD, ITEM_SD, TASTE_SD, NOISE_SD = 0.42, 0.40, 0.45, 0.80
CHOICE = 1.2  # how strongly taste determines which items a person picks
ACTIVITY_SD = 0.9
POPULARITY_EXPONENT, POPULARITY_SD = 1.0, 0.9  # a tenth of the items gets about 40 % of the ratings
GENDER_SLOPE, GENDER_OFFSET = 2.5, -1.3  # about a third are F; correlated with the first taste
AGES = ("18", "25", "35", "50")  # the least year of each range, as in MovieLens 1M
AGE_SLOPE, AGE_CUTS = 3.0, (-2.95, 0.4, 3.65)  # about 20, 34, 31 and 15 %; correlated with the second taste

_FIRST_DECADE_MONTH = 2025 * 12
_DECADE_MONTHS = 120
_MONTH_SECONDS = 365.25 * 86400 / 12
_CELLS_AT_ONCE = 2**21
_BYTES_PER_RATING = 32
_PILOT = 500


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Cut the people into ranges of about source.block_bytes of ratings each."""
    world = source.synthetic
    people = max(1, int(source.block_bytes / (_BYTES_PER_RATING * world.ratings_per_user)))
    return [
        Piece(start=start, stop=min(start + people, world.users)) for start in range(0, world.users, people)
    ]


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield the ratings of a range of people at a snapshot."""
    at_once = max(1, _CELLS_AT_ONCE // source.synthetic.items)
    stop = source.synthetic.users if piece.stop is None else piece.stop
    for start in range(piece.start, stop, at_once):
        people = _people(np.arange(start, min(start + at_once, stop)), source, snapshot)
        person, item, rating, when = _world(source.synthetic, source.scale).ratings(
            people, _seconds(snapshot)
        )
        yield RatingBlock(
            users=people.names().take(pa.array(person)),
            items=pc.binary_join_element_wise("i", pc.cast(pa.array(item + 1), pa.string()), ""),
            ratings=rating,
            timestamps=when,
            rows_read=len(rating),
            rejected={},
        )


def attributes(source: Source, snapshot: date) -> pa.Table:
    """Return user, gender ("F" or "M") and age (one of AGES) of every person in a snapshot."""
    people = _people(np.arange(source.synthetic.users), source, snapshot)
    first, second = (people.taste(which % source.synthetic.tastes) for which in (0, 1))
    woman = people.uniform("gender") < expit(GENDER_SLOPE * first + GENDER_OFFSET)
    age = np.searchsorted(AGE_CUTS, AGE_SLOPE * second + logit(people.uniform("age")))
    return pa.table(
        {
            "user": people.names(),
            "gender": pa.array(["M", "F"], pa.string()).take(pa.array(woman.astype(np.int8))),
            "age": pa.array(AGES, pa.string()).take(pa.array(age)),
        }
    )


@dataclass(frozen=True)
class _People:
    """Hold some people: the slot each fills, the month they came, the moment they joined, their hash, their world."""

    slot: np.ndarray
    month: np.ndarray
    joined: np.ndarray
    key: np.ndarray
    seed: int = 0

    def names(self) -> pa.StringArray:
        """Return ids that stay with a person; people of different seeds are different people."""
        slot, month = (pc.cast(pa.array(part), pa.string()) for part in (self.slot, self.month))
        world = f"w{self.seed}" if self.seed else ""
        return pc.binary_join_element_wise(f"{world}u", slot, "m", month, "")

    def uniform(self, purpose: str, index: np.ndarray | int = 0) -> np.ndarray:
        """Return numbers in (0, 1) that depend on the person, the purpose and the index only."""
        return _uniform(self.key, purpose, index)

    def tastes(self, count: int) -> np.ndarray:
        """Return people × tastes, standard normal."""
        return ndtri(_uniform(self.key[:, None], "taste", np.arange(count))).astype(np.float32)

    def taste(self, which: int) -> np.ndarray:
        """Return one column of `tastes`."""
        return ndtri(self.uniform("taste", which)).astype(np.float32)


def _people(slots: np.ndarray, source: Source, snapshot: date) -> _People:
    """Return who fills each slot at a snapshot: the last to have joined, else one of the decade's first people."""
    world = source.synthetic
    now = snapshot.year * 12 + snapshot.month - 1
    decade = now - (now - _FIRST_DECADE_MONTH) % _DECADE_MONTHS
    slot_key = _mix(slots.astype(np.uint64) ^ _mix(np.array([world.seed + 1])))
    month = np.full(len(slots), decade)
    for candidate in range(decade + 1, now + 1):
        month[_uniform(slot_key, "leaves", candidate) < world.churn] = candidate
    key = _mix(slot_key ^ _mix(month.astype(np.uint64)))
    span = np.where(month == decade, world.months, 1) * _MONTH_SECONDS
    begins = np.array([_seconds(date(m // 12, m % 12 + 1, 1)) for m in range(decade, now + 1)])
    joined = begins[month - decade] - span * _uniform(key, "joined", 0)
    return _People(slots, month, joined, key, world.seed)


class _World:
    """Hold the items and the thresholds between ratings; the same at every snapshot."""

    def __init__(self, settings: Synthetic, scale: tuple[float, float]) -> None:
        self._settings = world = settings
        rng = np.random.default_rng([world.seed, 0x5EED])
        rank = rng.permutation(world.items) + 1 + 0.02 * world.items
        luck = np.exp(POPULARITY_SD * rng.standard_normal(world.items))
        self._popularity = luck * rank**-POPULARITY_EXPONENT
        share = 1 / np.arange(1, world.tastes + 1)  # few tastes explain most, as in real ratings
        traits = rng.standard_normal((world.items, world.tastes)) * np.sqrt(share / share.sum())
        self._traits = traits.astype(np.float32)
        fame = np.log(self._popularity / self._popularity.mean())
        self._bias = ITEM_SD * (
            0.9 * rng.standard_normal(world.items) + 0.2 * fame
        )  # popular items are liked
        low, high = scale
        step = 0.5 if world.half_stars else 1.0
        self._levels = np.arange(low, high + step / 2, step, dtype=np.float32)
        pilot = np.arange(
            2**40, 2**40 + _PILOT, dtype=np.uint64
        )  # people of no snapshot, for calibration only
        someone = _People(pilot, pilot, np.zeros(_PILOT), _mix(pilot + np.uint64(world.seed)))
        typical = min(20, world.items)
        liking = np.sort(self._choices(someone, np.full(_PILOT, typical))[2])
        shares = np.interp(np.arange(1, len(self._levels)) / len(self._levels), np.linspace(0, 1, 6), TABLE_2)
        self._thresholds = liking[(shares * len(liking)).astype(int)]

    def ratings(self, people: _People, now: float) -> tuple[np.ndarray, ...]:
        """Return (row of the person, item, rating, seconds), in the order each person rated."""
        world = self._settings
        lasting = world.months * _MONTH_SECONDS
        activity = np.exp(ACTIVITY_SD * ndtri(people.uniform("activity")) - ACTIVITY_SD**2 / 2)
        total = world.ratings_per_user / _mean_growth(world.churn, world.months) * activity
        so_far = np.ceil(total * np.sqrt((now - people.joined) / lasting)) + 1
        so_far = np.minimum(so_far, np.ceil(0.9 * world.items)).astype(int)  # no person has seen everything
        person, item, liking, order = self._choices(people, so_far)
        early = np.where(order == 0, 1.0, _uniform(people.key[person], "early", order))
        when = people.joined[person] + lasting * ((order + 1 - early) / total[person]) ** 2
        present = when < now
        rating = self._levels[np.searchsorted(self._thresholds, liking[present], side="right")]
        return person[present], item[present], rating, when[present].astype(np.int64)

    def _choices(self, people: _People, counts: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the first `counts` items each person picks: (person, item, how much they like it, which choice).

        Taking the smallest of Exp(1)/weight draws without replacement with probability ∝ weight, one at a time.
        """
        tastes = people.tastes(self._settings.tastes)
        affinity = np.zeros((len(people.key), self._settings.items), np.float32)
        for taste in range(self._settings.tastes):  # no BLAS: its rounding depends on the block's shape
            affinity += tastes[:, taste, None] * self._traits[:, taste]
        weight = np.exp(CHOICE * TASTE_SD * affinity) * self._popularity
        key = -np.log(_uniform(people.key[:, None], "choice", np.arange(self._settings.items))) / weight
        most = int(min(counts.max(), self._settings.items))
        first = np.argpartition(key, most - 1, axis=1)[:, :most]
        by_key = np.argsort(np.take_along_axis(key, first, axis=1), axis=1, kind="stable")
        chosen = np.take_along_axis(first, by_key, axis=1)
        person, order = np.nonzero(np.arange(most) < counts[:, None])
        item = chosen[person, order]
        mood = USER_SD * ndtri(people.uniform("mood"))
        noise = NOISE_SD * ndtri(_uniform(people.key[person], "noise", item))
        return (
            person,
            item,
            mood[person] + self._bias[item] + TASTE_SD * affinity[person, item] + noise,
            order,
        )


@lru_cache(maxsize=4)
def _world(settings: Synthetic, scale: tuple[float, float]) -> _World:
    return _World(settings, scale)


def _mean_growth(churn: float, months: int) -> float:
    """Return the mean of √(time since joining / months) a year into a decade, so that ratings_per_user is a mean."""
    old = np.sqrt((np.linspace(0, 1, 201) * months + 12) / months).mean()
    new = np.sqrt((np.arange(12) + 0.5) / months)
    left = (1 - churn) ** 12
    return float(left * old + (churn * (1 - churn) ** np.arange(12) * new).sum())


def _seconds(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _uniform(key: np.ndarray, purpose: str, index: np.ndarray | int) -> np.ndarray:
    """Map a hash to (0, 1): 32 bits, so that the smallest exponential draws still differ."""
    salt = np.uint64(int.from_bytes(purpose.encode().ljust(8, b"\0")[:8], "little"))
    mixed = _mix(key ^ _mix(np.asarray(index).astype(np.uint64) ^ salt))
    return ((mixed >> np.uint64(32)) + 0.5) / 2.0**32


def _mix(value: np.ndarray) -> np.ndarray:
    """Apply SplitMix64's finalizer: every input bit affects every output bit."""
    value = np.asarray(value, np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2⁶⁴ is meant
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
