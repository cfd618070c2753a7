"""Advise a person before posting ([Frankowski2006], sections 6.2 and 6.3): how far do mentions identify them, and which
further mentions would help?

Popular items that one has not rated misdirect Scoring: thousands of people become as likely. The advisor tries the most
popular ones and takes, one after the other, the one after which most people fit at least as well.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checks.evidence.case import Case
from checks.evidence.truth import Truth
from checks.linkage.knowledge import Knowledge
from checks.linkage.misdirection import misdirect, most_popular_first
from checks.linkage.postings import postings_of
from checks.linkage.ranking import Ranks, rank
from checks.linkage.rules import scoring_rule, world_of
from tasks.errors import UsageError

TRIED = 300  # popular items tried at each step: any person can mention one of these
LEVELS = (1, 5, 10, 100)


def advise(case: Case, mentions: list[str], user: str | None = None, most: int = 5) -> dict[str, Any]:
    """Return how well Scoring identifies a person by these mentions, and up to `most` further mentions against it.

    `user` is the source id of the person who mentioned the items, where known: then the rank is that person's own and
    only items they have not rated are advised. Otherwise the person who fits best now (the first, if several fit
    equally) stands in for them, as an attacker would assume. The answer contains no id of a person:

    - `people`: how many were searched; `mentioned`: how many different items;
    - `rank`: people who fit at least as well as the person, the person included; null where Scoring does not consider
      them (not in these data, or among the heaviest raters, whom it leaves out);
    - `fit_best`: people who share the best score; `lead`: by how many standard deviations the best is ahead of the next
      (null: there is no other);
    - `identified_within`: for k = 1, 5, 10, 100, whether the person is k-identified;
    - `advice`: items in the order to mention them, with their `raters` and the `rank_after`.
    """
    truth = case.truth
    items = _positions(truth, mentions)
    person = None if user is None else _row(truth, user)
    mentioned = Knowledge(
        "mentions",
        np.zeros(1, np.int64),
        np.array([0, len(items)]),
        items,
        np.full(len(items), np.nan, np.float32),
    )
    own = -1 if person is None else int(case.record_of(np.array([person]))[0])
    before = _rank(case, mentioned, own)
    if person is None:
        own = int(before.best_at[0])
        before = _rank(case, mentioned, own)
    place = float(before.user_rank[0])
    return {
        "people": int(before.people[0]),
        "mentioned": len(items),
        "rank": _whole(place),
        "fit_best": int(before.best_people[0]),
        "lead": _finite(float(before.eccentricity[0])),
        "identified_within": {str(k): place <= k for k in LEVELS},
        "advice": _advice(case, mentioned, own, person, most) if math.isfinite(place) else [],
    }


def _advice(
    case: Case, mentioned: Knowledge, own: int, person: int | None, most: int
) -> list[dict[str, Any]]:
    truth = case.truth
    assert truth.items is not None
    excluded = (
        mentioned.items if person is None else np.union1d(mentioned.items, truth.ratings[[person]].indices)
    )
    popular = most_popular_first(truth.raters)
    open_items = popular[~np.isin(popular, excluded)][:TRIED]
    advice: list[dict[str, Any]] = []
    rank_now = 0.0
    while len(open_items) and len(advice) < most:
        tries = misdirect(_repeated(mentioned, len(open_items)), open_items[:, None])
        found = _rank(case, tries, own)
        # Where no single mention lowers the person's rank yet, take the one that costs most of the lead.
        best = np.lexsort((np.arange(len(open_items)), found.own_probability, -found.user_rank))[0]
        if found.user_rank[best] < rank_now:  # only where another person stands in: the rest would harm
            break
        rank_now = float(found.user_rank[best])
        advice.append(
            {
                "item": truth.items[int(open_items[best])].as_py(),
                "raters": int(truth.raters[open_items[best]]),
                "rank_after": int(found.user_rank[best]),
            }
        )
        mentioned = tries.part(int(best), int(best) + 1)
        open_items = np.delete(open_items, best)
    return advice


def _rank(case: Case, known: Knowledge, own: int) -> Ranks:
    """Rank one record for each of several sets of mentions."""
    records = np.full(len(known), own, dtype=np.int64)
    rule = scoring_rule(world_of(case))
    return rank(postings_of(case), rule, known, records, entropic=True, engine=case.engine)


def _repeated(known: Knowledge, times: int) -> Knowledge:
    return Knowledge(
        known.name,
        np.tile(known.targets, times),
        np.arange(times + 1) * len(known.items),
        np.tile(known.items, times),
        np.tile(known.ratings, times),
    )


def _positions(truth: Truth, mentions: list[str]) -> np.ndarray:
    """Return the columns of the named items, each once."""
    if not mentions:
        raise UsageError(
            "nothing was mentioned", where="mentions", remedy="name the items by their ids in the source"
        )
    found = pc.index_in(pa.array(mentions, pa.string()), value_set=truth.items)
    unknown = [name for name, place in zip(mentions, found.to_pylist(), strict=True) if place is None]
    if unknown:
        raise UsageError(
            f"no person in these data rated item '{unknown[0]}'",
            where="mentions",
            remedy="name items by their ids in the source, and leave out those it does not have",
        )
    return np.unique(found.to_numpy()).astype(np.int64)


def _row(truth: Truth, user: str) -> int:
    place = pc.index(truth.membership.users, pa.scalar(user, pa.string())).as_py()
    if place < 0:  # the id itself must not get into a log
        raise UsageError(
            "this user is not in the data", where="user", remedy="give the id the source has, or leave it out"
        )
    return int(place)


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
