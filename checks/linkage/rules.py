"""Define how a record is scored against what is known of a person: every published attack is one `Rule`.

A record scores Σ weight(item) · agreement over the known items it has. Log scores are taken relative to a record that
has none of them, so the product of [Frankowski2006]'s sub-scores is a sum over posting lists.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from checks.evidence.case import Case

FLOOR = 0.05  # [Frankowski2006], equation 1: sub-score of a mention the candidate has not rated
HEAVY_ITEMS = 1 / 3  # section 4.3: candidates who rated more of all items than this are left out
HANDFUL = 5  # this many heavy raters or fewer count as none
COMMON = 0.02  # share of people beyond which rating that much is common (the paper left out 0.01 %)

Kind = Literal["presence", "within", "decay"]


@dataclass(frozen=True)
class Rule:
    """Describe how known items and ratings are compared with a record.

    `presence`: having the item is enough; `within`: the rating must be at most `width` off (equation 3 read literally:
    an item known without a rating agrees with no record); `decay`: exp(−|Δrating| / width), plus exp(−|Δdays| /
    day_width) where days are compared. `all_needed`: only records that agree on every known item are candidates.
    `most_items`: records with more are left out. `cosine`: weights are squares (the item's entry in the target's vector
    times that in the record's), and the sum is divided by the record's length.
    """

    weight: np.ndarray
    kind: Kind = "presence"
    width: float = 0.0
    day_width: float = 0.0
    all_needed: bool = False
    cosine: bool = False
    most_items: float = np.inf


@dataclass(frozen=True)
class World:
    """Hold what an attacker knows about the data at large: how popular items are, how ratings are given.

    `raters` per item and `users` are the *source's* (a homogenized release would hide how rare an item is); `single`:
    each record is one person's; `half_level` is half the distance between two ratings people can give, `low` and `high`
    the ends of the scale; `items` counts the source's items where the release withholds some; `heavy_people` is the
    share of people who rated more than HEAVY_ITEMS of all items.
    """

    raters: np.ndarray
    users: int
    single: bool
    half_level: float
    low: float
    high: float
    items: int = 0
    heavy_people: float = 0.0

    @property
    def star(self) -> float:
        """One star of five on whatever scale there is."""
        return (self.high - self.low) / 4

    def log_sub_scores(self) -> np.ndarray:
        """Return per item the log of the sub-score of a rated mention over the floor's ([Frankowski2006], equation 1).

        Clipped at the floor: among unions of several people an item may be rated by almost every one.
        """
        share = 1 - (self.raters - 1) / max(1, self.users)
        return np.log(np.maximum(share, FLOOR) / FLOOR)

    def most_items(self) -> float:
        """Return section 4.3's limit on heavy raters; none on groups, whose unions are all heavy.

        A third of all items: of the few popular ones a suppressing release keeps, almost every record has as many. No
        limit either where people commonly rate that much: an attacker would not leave most of them out.
        """
        if not self.single or self.heavy_people > COMMON:
            return np.inf
        return HEAVY_ITEMS * max(self.items, len(self.raters))


def scoring_rule(world: World) -> Rule:
    """Return the rule of Scoring: Σ log(sub-score / floor) over the known items a record has ([Frankowski2006],
    equations 1 and 2)."""
    return Rule(world.log_sub_scores(), most_items=world.most_items())


def world_of(case: Case) -> World:
    """Return what an attacker knows about the data of a case at large."""
    return case.cached("world", lambda: _world(case))


def _world(case: Case) -> World:
    low, high = case.release.low, case.release.high
    truth = case.truth
    items = len(truth.raters) + truth.unlisted_items
    both = (np.diff(truth.ratings.indptr), case.release.lengths)
    heavy = max(_share_above(lengths, HEAVY_ITEMS * items) for lengths in both)
    return World(truth.raters, truth.source_users, case.single, truth.half_level, low, high, items, heavy)


def _share_above(lengths: np.ndarray, limit: float) -> float:
    """Return the share of records longer than this; a handful is no share."""
    above = int((lengths > limit).sum())
    return above / len(lengths) if above > HANDFUL else 0.0
