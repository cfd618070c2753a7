"""The posting advisor (Frankowski et al., sections 6.2 and 6.3): how far do mentions give somebody away, and which
further mentions would help?

Popular items that one has not rated misdirect Scoring: thousands of people become as likely. The advisor tries the
most popular ones and takes, one after the other, the one after which most people fit at least as well.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checks.attacks import scoring
from checks.case import Case
from checks.linkage.knowledge import Knowledge
from checks.linkage.misdirection import misdirect, most_popular_first
from checks.linkage.ranking import Ranks, rank
from checks.truth import Truth
from tasks.errors import UsageError

TRIED = 300  # popular items tried at each step: everybody can say something about one of these
LEVELS = (1, 5, 10, 100)


def advise(case: Case, mentions: list[str], user: str | None = None, most: int = 5) -> dict[str, Any]:
    """What Scoring makes of somebody's mentions, and up to `most` further ones against it.

    `user` is the source's id of who mentioned them, where known: then the rank is that person's own and only items
    they have not rated are advised. Otherwise whoever fits best now (the first of them, if several fit equally)
    stands for them, as he does for an attacker. No id of a person is in the answer:

    - `people`: how many were searched; `mentioned`: how many different items;
    - `rank`: people who fit at least as well as the person, the person included; null where Scoring does not even
      consider them (not in this data, or among the heaviest raters, whom it leaves out);
    - `fit_best`: people who share the best score; `lead`: by how many standard deviations the best is ahead of the
      next (null: there is no other);
    - `identified_within`: for k = 1, 5, 10, 100, whether the person is k-identified;
    - `advice`: items in the order to mention them, with their `raters` and the `rank_after`.
    """
    truth = case.truth
    items = _positions(truth, mentions)
    person = None if user is None else _row(truth, user)
    said = Knowledge(
        "mentions",
        np.zeros(1, np.int64),
        np.array([0, len(items)]),
        items,
        np.full(len(items), np.nan, np.float32),
    )
    own = -1 if person is None else int(case.record_of(np.array([person]))[0])
    before = _rank(case, said, own)
    if person is None:
        own = int(before.best_at[0])
        before = _rank(case, said, own)
    place = float(before.user_rank[0])
    return {
        "people": int(before.people[0]),
        "mentioned": len(items),
        "rank": _whole(place),
        "fit_best": int(before.best_people[0]),
        "lead": _finite(float(before.eccentricity[0])),
        "identified_within": {str(k): place <= k for k in LEVELS},
        "advice": _advice(case, said, own, person, most) if math.isfinite(place) else [],
    }


def _advice(case: Case, said: Knowledge, own: int, person: int | None, most: int) -> list[dict[str, Any]]:
    truth = case.truth
    assert truth.items is not None
    useless = said.items if person is None else np.union1d(said.items, truth.ratings[[person]].indices)
    popular = most_popular_first(truth.raters)
    open_items = popular[~np.isin(popular, useless)][:TRIED]
    advice: list[dict[str, Any]] = []
    rank_now = 0.0
    while len(open_items) and len(advice) < most:
        tries = misdirect(_repeated(said, len(open_items)), open_items[:, None])
        found = _rank(case, tries, own)
        # Where no single mention pushes the person back yet, the one that costs most of the lead does.
        best = np.lexsort((np.arange(len(open_items)), found.own_probability, -found.user_rank))[0]
        if (
            found.user_rank[best] < rank_now
        ):  # only where somebody stands in for the person: the rest would harm
            break
        rank_now = float(found.user_rank[best])
        advice.append(
            {
                "item": truth.items[int(open_items[best])].as_py(),
                "raters": int(truth.raters[open_items[best]]),
                "rank_after": int(found.user_rank[best]),
            }
        )
        said = tries.part(int(best), int(best) + 1)
        open_items = np.delete(open_items, best)
    return advice


def _rank(case: Case, known: Knowledge, own: int) -> Ranks:
    """The place of one record for each of several sets of mentions."""
    records = np.full(len(known), own, dtype=np.int64)
    return rank(case.postings, scoring.rule(case.world), known, records, entropic=True, engine=case.engine)


def _repeated(known: Knowledge, times: int) -> Knowledge:
    return Knowledge(
        known.name,
        np.tile(known.targets, times),
        np.arange(times + 1) * len(known.items),
        np.tile(known.items, times),
        np.tile(known.ratings, times),
    )


def _positions(truth: Truth, mentions: list[str]) -> np.ndarray:
    """The columns of the items named, each once."""
    if not mentions:
        raise UsageError(
            "nothing was mentioned", where="mentions", remedy="name the items by their ids in the source"
        )
    found = pc.index_in(pa.array(mentions, pa.string()), value_set=truth.items)
    unknown = [name for name, place in zip(mentions, found.to_pylist(), strict=True) if place is None]
    if unknown:
        raise UsageError(
            f"nobody in this data rated item '{unknown[0]}'",
            where="mentions",
            remedy="name items by their ids in the source, and leave out those it does not have",
        )
    return np.unique(found.to_numpy()).astype(np.int64)


def _row(truth: Truth, user: str) -> int:
    place = pc.index(truth.membership.users, pa.scalar(user, pa.string())).as_py()
    if place < 0:  # the id itself must not travel into a log
        raise UsageError(
            "this user is not in the data", where="user", remedy="give the id the source has, or leave it out"
        )
    return int(place)


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
