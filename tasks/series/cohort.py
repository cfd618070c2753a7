"""Choose who is released at a snapshot: groups that are carried over, newcomers who form a cohort, people who wait.

Groups are cohorts: they are formed once, among eligible people who were never released, and never change. So the only
people whose ratings are used at a snapshot are its newcomers, and what all releases together disclose about a person is
what the release of that person's cohort disclosed (docs/series.md, "Why it is safe").
"""

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.ratings import Ratings, UserBlock, user_blocks
from tasks.errors import Refused, UsageError
from tasks.series.ledger import Ledger
from tasks.series.pooling import plan_pools
from tasks.series.rows import PublishedRelease, about_people
from tasks.series.schedule import due_moments, repeats

DAY_SECONDS = 86_400
NEVER, SURVIVOR = -1, -2  # instead of a group: never released; in a group that was withdrawn


class SeriesParams(Settings):
    """Hold what the choice of people depends on."""

    population: str
    release: str
    k: int
    min_contributors: int
    min_cohort: int
    waiting_days: int
    min_ratings: int
    departure: Literal["keep", "erase"]
    pools: (
        bool  # whether survivors of erasures are pooled: only where a step leaves their ratings as they are
    )
    prior_rank: int | None  # of the prior that earlier releases give the cohort's model; None: it has none
    schedule: str | None
    start_date: datetime.date

    @classmethod
    def of(cls, config: ReleaseConfig) -> "SeriesParams | None":
        """Return the parameters of a series; None: this release stands alone."""
        if config.series_mode != "sticky":
            return None
        return cls(
            population=config.population,
            release=config.release.name,
            k=config.privacy.k,
            min_contributors=config.privacy.min_contributors,
            min_cohort=config.series.fewest_newcomers(config.privacy.k),
            **config.series.model_dump(include={"waiting_days", "min_ratings", "departure"}),
            # Means of real ratings of people who meet in new groups average out to single records.
            pools=config.series.pool_survivors
            and config.every_item
            and not config.padding.keep_observed
            and config.obfuscation.attribute is None,
            prior_rank=config.padding.rank if config.padding.predictor == "als" else None,
            schedule=config.release.schedule,
            start_date=config.release.start_date,
        )


@dataclass(frozen=True)
class Choice:
    """Hold who is released at a snapshot; masks are over the rows and columns of all ratings of the source.

    `strata` has a number per person who is released now (`people`): those of one stratum were eligible at the same
    earlier snapshots that are still to be released; a pooled group is a stratum of its own, and `pools` has the number
    of its pool (−1: a newcomer). `eligible` counts everybody who may be released by now, carried-over people included.
    """

    head: str
    first: bool
    newcomers: np.ndarray
    items: np.ndarray
    people: np.ndarray
    strata: np.ndarray
    pools: np.ndarray
    carried: tuple[int, ...]
    carried_people: int
    waiting: int
    eligible: int

    @property
    def cohort(self) -> int:
        """Return the number of newcomers who are released."""
        return int(self.newcomers.sum())

    def counts(self) -> dict[str, int]:
        """Return the facts that the owner may see."""
        return {
            "cohort": self.cohort,
            "pooled": int((self.pools >= 0).sum()),
            "carried_groups": len(self.carried),
            "carried_people": self.carried_people,
            "waiting": self.waiting,
            "eligible": self.eligible,
        }


def choose_people(
    params: SeriesParams,
    ratings: Ratings,
    ledger: Ledger,
    snapshot: datetime.date,
    others: list[Ledger],
    rng: np.random.Generator,
) -> Choice:
    """Choose carried-over groups, the cohort and pools; `others` are the ledgers of other populations in the store.

    Survivors are pooled together with a cohort only: its model serves for their profiles, too.
    """
    planned = ledger.find(params.release, snapshot.isoformat())
    before = planned.id if planned else None
    releases = about_people(ledger.releases(before=before))
    refuse_independent(releases, params.population)
    _refuse_lower_k(params, releases)
    tokens = ledger.tokens(ratings.user_ids().to_pylist())
    group_of = _groups_of(ledger, tokens, before)
    may = _eligible(params, ratings.by_user.counts(), _first_times(ratings), snapshot)
    blocked = _in(tokens, ledger.blocked())
    eligible = (group_of == NEVER) & ~blocked & may
    _refuse_known_elsewhere(others, ratings, eligible)
    carried, carried_people = _carried_groups(params, ledger, releases, group_of, may, snapshot, before)
    newcomers, items = _apply_item_rule(params, ratings, eligible)
    published = {release.snapshot for release in releases if release.name == params.release}
    strata, pools = np.full(len(tokens), -1, np.int32), np.full(len(tokens), -1, np.int32)
    strata[newcomers] = _strata(params, ratings, newcomers, snapshot, published)
    if params.pools and newcomers.any():
        usable = (group_of == SURVIVOR) & ~blocked & may & (_kept(ratings, items) > 0)
        _add_pools(ledger, tokens, usable, params.k, rng, strata, pools)
    people = newcomers | (pools >= 0)
    return Choice(
        head=planned.head_before if planned else ledger.head,
        first=not releases,
        newcomers=newcomers,
        items=items,
        people=people,
        strata=strata[people],
        pools=pools[people],
        carried=carried,
        carried_people=carried_people,
        waiting=int((~(people | np.isin(group_of, carried) | blocked)).sum()),  # erased people never enter
        eligible=int(eligible.sum()) + carried_people,
    )


def _add_pools(
    ledger: Ledger,
    tokens: list[bytes],
    usable: np.ndarray,
    k: int,
    rng: np.random.Generator,
    strata: np.ndarray,
    pools: np.ndarray,
) -> None:
    """Write the strata and the pools of survivors who are released again (tasks/series/pooling.py)."""
    row_of = {tokens[row]: row for row in np.flatnonzero(usable).tolist()}
    for pool in plan_pools(ledger, row_of.keys(), k, rng):
        for members in pool.members:
            rows = [row_of[token] for token in members]
            strata[rows] = strata.max() + 1
            pools[rows] = pool.number


def refuse_independent(releases: list[PublishedRelease], population: str) -> None:
    """Refuse a series that began with a release for which nothing was planned ahead."""
    if any(release.mode == "independent" for release in releases):
        raise Refused(
            "an independent release of this population was published; a further one would let groups be intersected: "
            "k-anonymity does not compose",
            where=f"series.population {population}",
            remedy='begin with series.mode = "sticky" and people who were never released, under a new population',
        )


def _refuse_lower_k(params: SeriesParams, releases: list[PublishedRelease]) -> None:
    """Refuse groups smaller than those promised so far: the check `series` would, after all the work."""
    promised = min((release.k for release in releases), default=params.k)
    if params.k < promised:
        raise Refused(
            f"earlier releases of this population promise k = {promised}, above privacy.k = {params.k}",
            where="privacy.k",
            remedy=f"set privacy.k = {promised}, the k of the first release of the population; a smaller k needs "
            "people who were never released, under a new series.population",
        )


def _in(tokens: list[bytes], among: Iterable[bytes]) -> np.ndarray:
    known = pa.array(sorted(among), pa.binary())
    return pc.is_in(pa.array(tokens, pa.binary()), value_set=known).to_numpy(zero_copy_only=False)


def _groups_of(ledger: Ledger, tokens: list[bytes], before: int | None) -> np.ndarray:
    """Return the ledger's group of each person of the source, NEVER or SURVIVOR."""
    known, groups, states = ledger.people(before=before)
    if not known:
        return np.full(len(tokens), NEVER)
    place = pc.index_in(pa.array(tokens, pa.binary()), value_set=pa.array(known, pa.binary()))
    found = pc.fill_null(place, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    of_known = np.where(np.array(states) == "survivor", SURVIVOR, groups)
    return np.where(found >= 0, of_known[np.maximum(found, 0)], NEVER)


def _first_times(ratings: Ratings) -> np.ndarray | None:
    """Return when each person first rated, where the source has times."""
    if ratings.timestamps is None:
        return None
    return _of_people(ratings, lambda block: np.minimum.reduceat(block.times(), block.indptr[:-1]))


def _of_people(ratings: Ratings, reduce: Callable[[UserBlock], np.ndarray]) -> np.ndarray:
    """Return a figure of every person, found block by block."""
    return np.concatenate([reduce(block) for block in user_blocks(ratings)])


def _begin_of(day: datetime.date) -> float:
    """Return the second up to which everything surely belongs to a snapshot."""
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp()


def end_of(day: datetime.date) -> float:
    """Return the second after which nothing belongs to a snapshot."""
    return _begin_of(day) + DAY_SECONDS


def _eligible(
    params: SeriesParams, counts: np.ndarray, first_times: np.ndarray | None, snapshot: datetime.date
) -> np.ndarray:
    may = counts >= params.min_ratings
    if not params.waiting_days:
        return may
    if first_times is None:
        raise UsageError(
            "the source has no times, so how long people have been in it is not known",
            where="series.waiting_days",
            remedy="name the column of times in source.columns, or remove series.waiting_days",
        )
    return may & (first_times <= end_of(snapshot) - params.waiting_days * DAY_SECONDS)


def _refuse_known_elsewhere(others: list[Ledger], ratings: Ratings, newcomers: np.ndarray) -> None:
    """Refuse people who were released under another population: releases of both could be intersected."""
    ids = ratings.user_ids().filter(pa.array(newcomers)).to_pylist()
    for other in others:
        shared = int(_in(other.tokens(ids), other.people()[0]).sum())
        if shared:
            raise Refused(
                f"{shared:,} people of this source were released as population '{other.population}'",
                where="series.population",
                remedy=f'releases about the same people must share a population: set it to "{other.population}"',
            )


def _carried_groups(
    params: SeriesParams,
    ledger: Ledger,
    releases: list[PublishedRelease],
    group_of: np.ndarray,
    may: np.ndarray,
    snapshot: datetime.date,
    before: int | None,
) -> tuple[tuple[int, ...], int]:
    """Return the groups that this snapshot repeats, and how many people are in them.

    A group that was first published for a later snapshot is in an earlier one whole, if all its members were present
    and eligible then, or not at all.
    """
    live = ledger.groups(before=before, state="live")
    if not live:
        return (), 0
    since = {release.id: release.snapshot for release in releases}
    size = np.array([group.size for group in live])
    ident = np.array([group.id for group in live])
    later = np.array([since[group.release_id] > snapshot.isoformat() for group in live])
    limit = int(max(ident.max(), group_of.max(initial=0))) + 1
    present = np.bincount(group_of[group_of >= 0], minlength=limit)
    present_and_eligible = np.bincount(group_of[(group_of >= 0) & may], minlength=limit)
    if size.min() < params.k:
        raise Refused(
            f"groups of {int(size.min())} people were published and are carried over, below privacy.k = {params.k}",
            where="privacy.k",
            remedy="keep the k of the first release of a population; a larger k needs people who were never released, "
            "under a new series.population",
        )
    departed = int((size - present[ident])[~later].sum())
    if departed and params.departure == "erase":
        raise Refused(
            f"about {departed:,} released people are missing from the source and must be erased first",
            where='series.departure = "erase"',
            remedy="run `murmur erase CONFIG --departed --snapshot DATE`, read what it shows, then add --apply",
        )
    keep = ~later | (present_and_eligible[ident] == size)
    return tuple(int(one) for one in ident[keep]), int(size[keep].sum())


def _apply_item_rule(
    params: SeriesParams, ratings: Ratings, newcomers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cohort and the items of its groups, nobody and nothing where too few newcomers are there.

    The groups of a cohort hold the items that `min_contributors` of its people rated, whether or not earlier groups
    hold them: a line of the catalogue, or of a cohort, that one newcomer alone explains would name what that person
    rated. People who rated nothing else wait.
    """
    nothing = np.zeros_like(newcomers), np.zeros(ratings.n_items, bool)
    if newcomers.sum() < params.min_cohort:
        return nothing
    raters = np.zeros(ratings.n_items, np.int64)
    for block in user_blocks(ratings):
        own = np.repeat(newcomers[block.start : block.stop], np.diff(block.indptr))
        raters += np.bincount(block.items()[own], minlength=ratings.n_items)
    items = raters >= params.min_contributors
    newcomers = newcomers & (_kept(ratings, items) > 0)
    return nothing if newcomers.sum() < params.min_cohort else (newcomers, items)


def _kept(ratings: Ratings, items: np.ndarray) -> np.ndarray:
    """Return how many ratings of these items (a mask) each person has."""

    def count(block: UserBlock) -> np.ndarray:
        running = np.concatenate([[0], np.cumsum(items[block.items()])])
        return np.diff(running[block.indptr])

    return _of_people(ratings, count)


def _strata(
    params: SeriesParams,
    ratings: Ratings,
    newcomers: np.ndarray,
    snapshot: datetime.date,
    published: set[str],
) -> np.ndarray:
    """Return the stratum of each person of the cohort: the earliest snapshot still to be released that may have them.

    Groups inside a stratum are whole at every later backfill. A stratum with too few people for a cohort joins the
    next one: in it, made-up accounts could surround a newcomer as in a small cohort.
    Sources differ in whether a snapshot has the ratings of its own day: a person who came on that day and is missing
    would break a group of the earlier stratum, one who is there only misses a snapshot. So the day does not count.
    """
    rows = np.flatnonzero(newcomers)
    missing = [day for day in due_before(params, snapshot) if day.isoformat() not in published]
    if not missing or ratings.timestamps is None or not len(rows):
        return np.zeros(len(rows), np.int32)
    strata = np.full(len(rows), len(missing), np.int32)
    first = _first_times(ratings)
    assert first is not None
    # Latest first, so that the earliest snapshot at which a person was eligible is written last.
    for number, day in reversed(list(enumerate(missing))):
        end = _begin_of(day)
        until = _of_people(ratings, partial(_ratings_before, end))
        was = (until >= params.min_ratings) & (first <= end - params.waiting_days * DAY_SECONDS) & (until > 0)
        strata[was[rows]] = number
    return merge_small_strata(strata, params.min_cohort)


def _ratings_before(end: float, block: UserBlock) -> np.ndarray:
    return np.add.reduceat((block.times() < end).astype(np.int64), block.indptr[:-1])


def merge_small_strata(strata: np.ndarray, fewest: int) -> np.ndarray:
    """Return strata numbered from 0 without small ones: these join the next later one, the last the one before."""
    found, strata = np.unique(strata, return_inverse=True)
    sizes = np.bincount(strata, minlength=len(found))
    target, open_size, number = np.zeros(len(found), np.int32), 0, 0
    for place, size in enumerate(sizes):
        target[place], open_size = number, open_size + int(size)
        if open_size >= fewest:
            number, open_size = number + 1, 0
    if open_size and number:
        target[target == number] = number - 1
    return target[strata].astype(np.int32)


def due_before(params: SeriesParams, snapshot: datetime.date) -> list[datetime.date]:
    """Return the snapshots that were due before this one, by the release's schedule."""
    if params.schedule is None or not repeats(params.schedule):
        return []
    days = (moment.date() for moment in due_moments(params.schedule, params.start_date))
    return list(takewhile(lambda day: day < snapshot, days))
