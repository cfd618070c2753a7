"""Write the ratings of a cohort, which all later steps work on, and the plan of the release they are for.

users.parquet … by_user/ by_item/      the cohort's ratings, as the step `ingest` writes them (none: no cohort)
strata.npy                             the stratum of each of its people: groups are formed inside one
prior.npz                              what earlier public releases say about the items, where there are any
withheld.json                          what the manifest states about people who wait
carried.json                           the ledger's numbers of the groups that are carried over
series.json                            counts, for the owner alone
"""

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tasks.data.item_removal import write_part
from tasks.data.public_prior import write_prior
from tasks.data.ratings import Ratings, user_blocks
from tasks.errors import Refused
from tasks.series.carried import files_of
from tasks.series.cohort import DAY_SECONDS, Choice, SeriesParams, choose_people, end_of
from tasks.series.database import populations
from tasks.series.ledger import Ledger
from tasks.series.rows import about_people
from tasks.store import Store, read_json, write_json

NOTHING_TO_DO = "no newcomers form a cohort; all groups are carried over"
WHY_WAITING = (
    "people wait until enough of them can be released together safely; their number is rounded down to a multiple of "
    "k, and items that too few of the newcomers rated are not listed or counted"
)


def planned_head(store: Store, params: SeriesParams, snapshot: datetime.date) -> str:
    """Return the state of the ledger that a snapshot is planned against: of a published one, that before it."""
    with Ledger.open(store, params.population) as ledger:
        published = ledger.find(params.release, snapshot.isoformat())
        return published.head_before if published else ledger.head


def keep_cohort(
    params: SeriesParams,
    everybody: Path,
    out: Path,
    store: Store,
    snapshot: datetime.date,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Write the cohort's ratings and the plan; return the counts of the step, with those of the cohort.

    Survivors who are pooled are users here, too, but the ratings by item are those of newcomers alone: no model is
    fitted on the ratings of people who were released before.
    """
    ratings = Ratings(everybody)
    with Ledger.open(store, params.population) as ledger, _other_ledgers(store, params.population) as others:
        choice = choose_people(params, ratings, ledger, snapshot, others, rng)
        public = _public_files(store, ledger, params, snapshot)
    _refuse_nobody(params, choice)
    write_json(out / "carried.json", list(choice.carried))
    counts = choice.counts()
    write_json(
        out / "series.json",
        {
            "population": params.population,
            "head": choice.head,
            "first": choice.first,
            "min_cohort": params.min_cohort,
            "strata": int(choice.strata.max(initial=-1)) + 1,
            "mean_age_days": _mean_age_days(ratings, choice, snapshot),
            **counts,
        },
    )
    write_json(out / "withheld.json", withheld_in_public(choice.waiting, params.k))
    if not choice.cohort:
        return {**counts, "nothing_to_do": NOTHING_TO_DO}
    kept = write_part(ratings, choice.people, choice.items, out, by_item_of=choice.newcomers)
    np.save(out / "strata.npy", choice.strata)
    np.save(out / "pools.npy", choice.pools)
    if public and params.prior_rank is not None:
        write_prior(out, Ratings(out).item_ids(), public, params.prior_rank)
    return {**kept, **counts}


def withheld_in_public(waiting: int, k: int) -> dict[str, Any]:
    """Return what the manifest states about people who wait: the same words whoever waits, and why."""
    return {"users": waiting // k * k, "items": 0, "why": WHY_WAITING}


def _mean_age_days(ratings: Ratings, choice: Choice, snapshot: datetime.date) -> float | None:
    """Return the mean age of the ratings that the newcomers enter with; None: there are none, or they have no times."""
    if ratings.timestamps is None or not choice.cohort:
        return None
    seconds, count = 0, 0
    for block in user_blocks(ratings):
        newcomers = choice.newcomers[block.start : block.stop]
        own = np.repeat(newcomers, np.diff(block.indptr)) & choice.items[block.items()]
        seconds += int(block.times()[own].sum())
        count += int(own.sum())
    return round(max(0.0, (end_of(snapshot) - seconds / count) / DAY_SECONDS), 1)


def _public_files(store: Store, ledger: Ledger, params: SeriesParams, snapshot: datetime.date) -> list[Path]:
    """Return the directories of the releases that were public before this one and are not withdrawn."""
    planned = ledger.find(params.release, snapshot.isoformat())
    releases = about_people(ledger.releases(before=planned.id if planned else None))
    places = [files_of(store, release) for release in releases if release.state == "published"]
    return [place for place in places if place is not None]


def read_plan(directory: Path) -> dict[str, Any] | None:
    """Return the plan of a series that `keep_cohort` wrote; None: the release stands alone."""
    path = directory / "series.json"
    return {**read_json(path), "carried": read_json(directory / "carried.json")} if path.exists() else None


def _refuse_nobody(params: SeriesParams, choice: Choice) -> None:
    if choice.cohort or choice.carried:
        return
    raise Refused(
        f"nobody can be released yet: a cohort needs {params.min_cohort:,} eligible newcomers who share items with "
        f"others, and fewer are in the source",
        where="series.min_cohort",
        remedy="wait for more people, lower series.min_ratings or series.waiting_days, or, for a single release of all "
        'people that will have no successor, use series.mode = "independent"',
    )


@contextlib.contextmanager
def _other_ledgers(store: Store, population: str) -> Iterator[list[Ledger]]:
    with contextlib.ExitStack() as opened:
        names = [name for name in populations(store) if name != population]
        yield [opened.enter_context(Ledger.open(store, name)) for name in names]
