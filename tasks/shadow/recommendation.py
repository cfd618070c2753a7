"""Record how well the shadow's release lets others recommend: the ranks of what people liked and was held out.

docs/verdict.md defines the measure. The recommender is EASE ([Steck2019]), trained on the shadow's original ratings and
on its release (tasks/shadow/interactions.py), and asked for a sample of people

- `original`: trained on the original ratings, asked with the person's own history
- `own`: trained on the release, asked with the person's own history
- `group`: trained on the release, asked with what the release says about the person's record
- `popularity`: the items with the most raters in the original ratings, the same for all

for the rank of each held-out rating that is relevant, among all items that the person did not rate in the history.
Items that the release leaves out have no rank in `own` and `group` (null), and are missed. So it is with items beyond
the MOST_ITEMS with the most raters, which take no part in any training.

Only ranks are written, and the judge computes all figures from them. A rank is the worst one of a tie: a release that
scores all items alike must not look good.

Where ranking decides about a release, the judge asks the release itself, too (checks/evidence/own_ranking.py), and gets
the histories for that. They are people's ratings, so they have their ids: who is erased is erased here as well.

    ranking.parquet   number (of a person), history (ratings in it), head (whether the item is of the most rated, which
                      together have half of all ratings), original, own, group, popularity (ranks from 1)
    asked.parquet     user (source id), number, item, liked (held out, and relevant); else a rating of the history
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks.data import profiles
from tasks.data.ratings import Ratings
from tasks.pipeline import StepContext
from tasks.shadow.interactions import Released, learn, learn_from_ratings
from tasks.shadow.placement import Placement

FILE = "ranking.parquet"
ASKED = "asked.parquet"
# A rating is relevant from three quarters of the scale on: 4 on a scale from 1 to 5.
RELEVANT_FROM = 0.75
# With this many people, an nDCG@10 with the usual standard deviation of 0.3 is known to ± 0.013.
MOST_PEOPLE = 2_000
# A Gram matrix of so many items takes 128 MB; MovieLens 1M has 3,706. Less popular items would hardly be in a list.
MOST_ITEMS = 4_000
PEOPLE_AT_ONCE = 512
CELLS_AT_ONCE = 4_000_000
ROWS = ("original", "own", "group", "popularity")


def relevant_from(scale: tuple[float, float]) -> float:
    """Return the lowest relevant rating."""
    low, high = scale
    return low + RELEVANT_FROM * (high - low)


@dataclass(frozen=True)
class ShadowRelease:
    """Hold the shadow's release as recommenders learn from it."""

    unpacked: Path  # as profiles.unpack wrote them
    coding: profiles.Coding
    placement: Placement
    n_items: int
    support: Path | None = None  # support.parquet, where the release has one


@dataclass(frozen=True)
class Asked:
    """Hold the sampled people (their own history), the cells that are relevant, and the items that take part.

    `item` is a position in `items`, −1 for an item that takes no part; `records` are of the people.
    """

    histories: sp.csr_array  # of `items`
    person: np.ndarray
    item: np.ndarray
    items: np.ndarray
    raters: np.ndarray  # of `items`
    records: np.ndarray


def write_ranking(
    context: StepContext[Any],
    ratings: Ratings,
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray],
    release: ShadowRelease,
    scale: tuple[float, float],
    user_ids: pa.Array | None = None,
) -> str:
    """Write ranking.parquet below `context.out`, and return of which kind the release is.

    `held_out` is (row of `ratings`, item, rating). With `user_ids`, the source ids of these rows, write asked.parquet.
    """
    user, item, rating = held_out
    liked = rating >= relevant_from(scale)
    order = np.flatnonzero(liked)[np.argsort(user[liked], kind="stable")]
    user, item = user[order], item[order]
    people = np.unique(user)
    if len(people) > MOST_PEOPLE:
        people = np.sort(context.rng("ranking").choice(people, MOST_PEOPLE, replace=False))
        there = np.isin(user, people)
        user, item = user[there], item[there]
    raters = ratings.by_item.counts()
    history = ratings.by_user.take(people)
    items = np.sort(np.argsort(-raters, kind="stable")[:MOST_ITEMS])
    place = np.full(len(raters), -1, np.int64)
    place[items] = np.arange(len(items))
    person = np.searchsorted(people, user)
    asked = Asked(
        sp.csr_array(history[:, items]),
        person,
        place[item],
        items,
        raters[items],
        release.placement.record_of_user[people],
    )
    tasks = ("original", "release") if len(people) else ()
    found = context.engine.map(_rank, tasks, ratings=ratings, release=release, asked=asked)
    ranks = {name: rank for part in found for name, rank in part.items() if name in ROWS}
    columns = {
        "number": pa.array(person, pa.int32()),
        "history": pa.array(np.diff(history.indptr)[person], pa.int32()),
        "head": pa.array(head_items(raters)[item], pa.bool_()),
    }
    for name in ROWS:
        rank = ranks.get(name, np.zeros(len(person), np.int64))
        columns[name] = pa.array(rank, pa.int32(), mask=rank == 0)
    pq.write_table(pa.table(columns), context.out / FILE, compression="zstd")
    if user_ids is not None:
        ids = user_ids.take(pa.array(people))
        _write_asked(context.out / ASKED, ids, history, (person, item), ratings.item_ids())
    return str(found[1]["kind"]) if found else "none"


def _write_asked(
    path: Path,
    user_ids: pa.Array,
    history: sp.csr_array,
    liked: tuple[np.ndarray, np.ndarray],
    item_ids: list[str],
) -> None:
    """Write the histories and what was held out of them, each person's in the order of ranking.parquet."""
    known = np.repeat(np.arange(history.shape[0]), np.diff(history.indptr))
    person = np.concatenate([known, liked[0]])
    item = np.concatenate([history.indices, liked[1]])
    names = pa.DictionaryArray.from_arrays(pa.array(item, pa.int32()), pa.array(item_ids, pa.string()))
    columns = {
        "user": user_ids.cast(pa.string()).take(pa.array(person)),
        "number": pa.array(person, pa.int32()),
        "item": names.cast(pa.string()),
        "liked": pa.array(np.arange(len(person)) >= len(known), pa.bool_()),
    }
    pq.write_table(pa.table(columns), path, compression="zstd")


def head_items(raters: np.ndarray) -> np.ndarray:
    """Mark the most rated items that make up the first half of all ratings; of equally rated ones the first."""
    order = np.argsort(-raters, kind="stable")
    before = np.cumsum(raters[order]) - raters[order]
    head = np.zeros(len(raters), bool)
    head[order] = 2 * before < raters.sum()
    return head


def _rank(what: str, *, ratings: Ratings, release: ShadowRelease, asked: Asked) -> dict[str, Any]:
    if what == "original":
        return _rank_originals(ratings, asked)
    return _rank_release(release, asked)


def _rank_originals(ratings: Ratings, asked: Asked) -> dict[str, np.ndarray]:
    """Return the ranks by the original ratings, and by popularity."""
    weights = learn_from_ratings(sp.csr_array(ratings.by_user.whole()[:, asked.items]))
    # Of equally rated items the first: no two items tie.
    popularity = np.empty(len(asked.items), np.float32)
    popularity[np.argsort(-asked.raters, kind="stable")] = -np.arange(len(asked.items))
    original, popular = [], []
    for people, cells, history, known in _blocks(asked):
        scores = history @ weights
        original.append(_ranks(scores, known, asked, people, cells))
        popular.append(_ranks(np.broadcast_to(popularity, scores.shape), known, asked, people, cells))
    return {"original": np.concatenate(original), "popularity": np.concatenate(popular)}


def _rank_release(release: ShadowRelease, asked: Asked) -> dict[str, Any]:
    """Return the ranks by the release, asked with own histories and with records; −1: the person has none."""
    column = release.placement.column_of_item
    there = np.flatnonzero(column[asked.items] >= 0)
    place = np.full(len(asked.items), -1, np.int64)
    place[there] = np.arange(len(there))
    released = Released(
        release.unpacked,
        release.coding,
        column[asked.items[there]],
        release.n_items,
        release.support,
    )
    kind, learned = learn(released)
    item = np.where(asked.item >= 0, place[asked.item], -1)
    part = Asked(
        sp.csr_array(asked.histories[:, there]),
        asked.person,
        item,
        asked.items[there],
        asked.raters[there],
        asked.records,
    )
    own, group = [], []
    for people, cells, history, known in _blocks(part):
        own.append(_ranks(learned.by_history(history), known, part, people, cells))
        records = part.records[people]
        scores = np.full(history.shape, np.nan, np.float32)
        if (listed := records >= 0).any():
            scores[listed] = learned.by_record(records[listed])
        group.append(_ranks(scores, known, part, people, cells))
    return {"own": np.concatenate(own), "group": np.concatenate(group), "kind": kind}


def _blocks(asked: Asked) -> Iterator[tuple[slice, slice, np.ndarray, sp.csr_array]]:
    """Yield blocks of people: their relevant cells, their histories dense (1 or 0), and as stored cells."""
    for start in range(0, asked.histories.shape[0], PEOPLE_AT_ONCE):
        people = slice(start, start + PEOPLE_AT_ONCE)
        cells = slice(*np.searchsorted(asked.person, [people.start, people.stop]).tolist())
        known = sp.csr_array(asked.histories[people])
        listed = sp.csr_array((np.ones(known.nnz, np.float32), known.indices, known.indptr), known.shape)
        yield people, cells, listed.toarray(), known


def _ranks(scores: np.ndarray, known: sp.csr_array, asked: Asked, people: slice, cells: slice) -> np.ndarray:
    """Return the rank of each relevant cell among the items outside the history, the worst of a tie; 0: it has none."""
    left = np.array(scores, np.float32)
    left[np.repeat(np.arange(known.shape[0]), np.diff(known.indptr)), known.indices] = np.nan
    row, item = asked.person[cells] - people.start, asked.item[cells]
    rank = np.zeros(len(row), np.int64)
    places = np.flatnonzero(item >= 0)
    for some in np.array_split(places, -(-len(places) * max(left.shape[1], 1) // CELLS_AT_ONCE) or 1):
        own = left[row[some], item[some]]
        # A comparison with NaN is false: items of the history count for nobody, and nobody without scores has a rank.
        rank[some] = (left[row[some]] >= own[:, None]).sum(axis=1)
    return rank
