"""Measure what an attack seems to find of people the release was made without.

The group nearest to the whole profile of a person who was left out before anonymization is a "hit" for which no release
is to blame. The rate of such hits is the baseline r₀ of an attack, and (r − r₀)/(1 − r₀) the residual risk that the
release causes (docs/leaks-and-bars.md).
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.views.as_ratings import RatingsRelease
from checks.evidence.views.shadow import absent_people, rows_in, shadow_view, shadow_views
from checks.linkage.drawn_knowledge import knowledge_of
from checks.linkage.knowledge import Model
from checks.linkage.nearest import Way, nearest_records
from checks.linkage.postings import postings_of
from checks.linkage.ranking import Ranks, rank
from checks.linkage.rules import Rule
from checks.reconstruction.estimated_ratings import ratings_view
from checks.stats import Risk
from tasks.errors import Refused


def shadow_of(case: Case) -> Case:
    """Return the shadow of a case, read as the case is: as published, or as an attacker's estimates of ratings."""
    return _as_read(case, shadow_view(case))


def _as_read(case: Case, shadow: Case) -> Case:
    return ratings_view(shadow) if isinstance(case.release, RatingsRelease) else shadow


@dataclass(frozen=True)
class ShadowDraw:
    """Hold one shadow, and the members and the absent people (rows of its truth) to attack in it."""

    shadow: Case
    members: np.ndarray
    absent: np.ndarray


def shadow_draws(case: Case) -> list[ShadowDraw]:
    """Return all shadows of a case with the people to attack: nobody is a member twice or absent twice, so that what
    is found can be pooled as independent trials."""
    shadows = [_as_read(case, shadow) for shadow in shadow_views(case)]
    members = [shadow.targets("membership") for shadow in shadows]
    absent = [absent_people(shadow) for shadow in shadows]
    if len(shadows) > 1:
        order = case.in_drawn_order(np.arange(case.truth.users), "shadow draws")
        draw_of = np.empty(len(order), np.int64)
        draw_of[order] = np.arange(len(order)) % len(shadows)
        _require_different(
            [rows_in(shadow, case)[some] for shadow, some in zip(shadows, absent, strict=True)]
        )
        members = [
            people[draw_of[rows_in(shadow, case)[people]] == number]
            for number, (shadow, people) in enumerate(zip(shadows, members, strict=True))
        ]
    return [ShadowDraw(*parts) for parts in zip(shadows, members, absent, strict=True)]


def _require_different(absent: list[np.ndarray]) -> None:
    """Refuse draws that leave out the same people: counted twice, they would seem to show more than they do."""
    rows = np.concatenate(absent)
    if len(np.unique(rows)) != len(rows):
        raise Refused(
            "several shadow releases were made without the same people",
            remedy="run the release anew; its evaluate step makes the shadows",
        )


def absent_profiles(shadow: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return the people a shadow was made without, and the record nearest to all that each of them rated."""
    return shadow.cached("absent", lambda: _absent_profiles(shadow))


def _absent_profiles(shadow: Case) -> tuple[np.ndarray, np.ndarray]:
    people = absent_people(shadow)
    return people, nearest_profile(shadow, people)


def absent_risk(case: Case, rule: Rule, model: Model) -> Risk | None:
    """Return the user-level risk of an attack on absent people; None where there are none (too few people
    in the data)."""
    ranks = absent_ranks(case, rule, model)
    if not len(ranks):
        return None
    return Risk(float(ranks.identification.sum()), len(ranks), ceiling=shadow_of(case).ceiling)


def absent_ranks(case: Case, rule: Rule, model: Model) -> Ranks:
    """Rank, in the shadow release, the record nearest to each absent person's whole profile."""
    shadow = shadow_of(case)
    targets, own = absent_profiles(shadow)
    if model.choice == "forum":  # those who write in forums are the heavy raters
        heavy = np.diff(shadow.truth.ratings.indptr)[targets] >= shadow.heavy_from
        targets, own = targets[heavy], own[heavy]
    return rank(postings_of(shadow), rule, knowledge_of(shadow, targets, model), own, engine=case.engine)


def nearest_profile(shadow: Case, people: np.ndarray) -> np.ndarray:
    """Return the record nearest to all that these people rated; items a record lacks count as the item's mean.

    Only items they rated are compared: over all items, records near the means are nearest to almost every person
    (MovieLens 100K, padded: 6 records serve 43 people, and 4 % of the members find their own group instead of 78 %).
    """
    profiles = sp.csr_array(shadow.truth.ratings[people])
    found = nearest_records(shadow, profiles, way=Way(fill=shadow.item_means, rated_only=True))
    return found.ranks.best_at.astype(np.int64)
