"""`murmur reproduce P2`: the tables and figures of You Are What You Say (paper 002) on one data set.

The paper's 133 people and their forum posts are not public. Mentions are simulated for the top decile of raters
(checks/linkage/mentions.py, SCIENCE P2), each of them several times over; the paper's figures, from MovieLens as it
was in 2006, stand beside ours as figures for other data. Rates are in per cent.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from checks.attacks import exact_rating, fuzzy_rating, scoring, set_intersection, tf_idf
from checks.case import Case
from checks.linkage.knowledge import Knowledge, Model
from checks.linkage.mentions import COUNTS, mentions
from checks.linkage.misdirection import (
    misdirect,
    misdirections,
    most_popular_first,
    popular_from,
    suppress_rarest,
)
from checks.linkage.ranking import Ranks, rank
from checks.linkage.rules import FLOOR, Rule
from checks.raw import RawRelease
from checks.seeds import seeded
from checks.truth import Truth
from tasks.config import parse
from tasks.engine import Engine, engine
from tasks.studies import figures_p2
from tasks.studies.cells import cell
from tasks.studies.datasets import format_of

SNAPSHOT = datetime.date(2026, 1, 1)
DRAWS = 5  # of everybody's mentions
LEVELS = (1, 5, 10, 100)
ATTACKS = {
    "set-intersection": set_intersection.rule,
    "tf-idf": tf_idf.rule,
    "scoring": scoring.rule,
    "fuzzy-rating": fuzzy_rating.rule,
    "exact-rating": exact_rating.rule,
}
IN_ORDER = ("set-intersection", "scoring", "fuzzy-rating", "exact-rating")
FEWEST = np.array([low for (low, _), _ in COUNTS])
BINS = [str(low) if low == high else f"{low}-{high}" for (low, high), _ in COUNTS[:-1]] + [f"{FEWEST[-1]}+"]
DROPPED_SHARES = (0, *np.arange(0.1, 0.85, 0.1), 0.85, 0.88, *np.arange(0.90, 0.995, 0.02), 0.99)
SUPPRESSED_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
THRESHOLDS = tuple(2**power for power in range(14))
ADDED = 20
TOGETHER = 5  # rankings of everybody that go to the workers at once: fewer round trips, and no large messages
IGNORED_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
PAPER_PEOPLE = 133

POPULAR, RARE = "most popular first", "at least 1 raters, rarest first"
ORDER = " < ".join(IN_ORDER)
STEPS = "steps of three that hold at k=1"
KEPT = "rate with 5 added / with none"
NOBODY = f"first with fewer than 1 of {PAPER_PEOPLE} people 1-identified"


def _at_levels(table: str, row: str, *rates: float) -> dict[tuple[str, str, str], float]:
    return {(table, row, f"k={k}"): rate for k, rate in zip(LEVELS, rates, strict=False)}


# What the paper printed, about its own data.
PAPER = {
    **_at_levels("fig4", "set-intersection", 7, 12, 14, 23),
    **_at_levels("fig4", "tf-idf", 20, 32, 35, 50),
    **_at_levels("fig4", "scoring", 31, 44, 52, 57),
    **_at_levels("fig4", "fuzzy-rating", 47, 50, 53, 68),
    **_at_levels("fig4", "exact-rating", 59, 68, 72, 81),
    **_at_levels("4.3", "scoring, heaviest raters kept", 22),
    **_at_levels("4.3", "scoring, flat sub-score", 20),
    ("fig3", "all", "1-identified"): 7,
    ("fig3", "all", "no one possible"): 31,
    ("fig3", "all", "misdirected"): 20,
    ("fig5", "scoring", "8+ mentions"): 60,
    ("4.5", "scoring", "10-identified of the 100-identified"): 91,
    ("4.5", "scoring", "1-identified of the 100-identified"): 54,
    ("fig6", NOBODY, "items dropped"): 88,
    ("fig7", NOBODY, "ratings dropped"): 28,
    ("fig9", POPULAR, "0 added"): 31,
    ("fig9", POPULAR, "5 added"): 13,
}
# SCIENCE P2, required on MovieLens 1M. "Rare ones do nothing" is read as: nine tenths of the rate stay.
BARS: dict[tuple[str, str, str], dict[str, float]] = {
    **{("fig4", name, "k=1"): {"tolerance": 10.0} for name in ATTACKS},
    ("fig4", ORDER, STEPS): {"at_least": 3.0},
    ("fig9", POPULAR, KEPT): {"at_most": 0.5},
    ("fig9", RARE, KEPT): {"at_least": 0.9},
}

Progress = Callable[[str, int, int], None]
Table = dict[str, dict[str, float | None]]


@dataclass(frozen=True)
class Study:
    """The raw data, the mentions of those sought in it (each target once per draw), and who hears of progress."""

    case: Case
    known: Knowledge
    draws: int
    progress: Progress

    @classmethod
    def open(
        cls, data: Path, workers: Engine, *, draws: int = DRAWS, progress: Progress | None = None
    ) -> "Study":
        """Read a data set and draw what its heaviest raters mention."""
        table = {"release": {"name": "reproduce"}, "source": {"format": format_of(data), "path": str(data)}}
        source = parse(table, "murmur reproduce P2").source
        low, high = source.scale
        truth = Truth.alone(source, SNAPSHOT)
        case = Case(RawRelease(truth, low=low, high=high), truth, engine=workers)
        targets = np.tile(case.targets("reproduce P2", heavy=True), draws)
        known = mentions(truth, targets, Model(0, "forum"), seeded("reproduce P2"))
        return cls(case, known, draws, progress or _silent)

    @property
    def raters(self) -> np.ndarray:
        """Raters per item."""
        return self.case.truth.raters

    def rule(self, name: str) -> Rule:
        """One of the five attacks."""
        return ATTACKS[name](self.case.world)

    def ranks(self, rule: Rule, known: Knowledge | None = None) -> Ranks:
        """Where everybody ends up who is sought by this rule."""
        known = self.known if known is None else known
        own = self.case.record_of(known.targets)
        return rank(self.case.postings, rule, known, own, engine=self.case.engine)

    def first(self, rule: Rule, said: Sequence[Knowledge]) -> list[float]:
        """1-identification, in per cent, for each of several things people might have said; a few in one go."""
        rates = []
        for start in range(0, len(said), TOGETHER):
            together = said[start : start + TOGETHER]
            ranks = self.ranks(rule, _joined(together)).user_rank
            rates += [_percent(part <= 1) for part in np.split(ranks, len(together))]
        return rates

    def each(self, table: str, things: Iterable[Any]) -> Iterator[Any]:
        """Go through the parts of a table and tell how far it is."""
        things = list(things)
        for done, thing in enumerate(things):
            self.progress(table, done, len(things))
            yield thing
        self.progress(table, len(things), len(things))


def reproduce(data: Path, *, plots: Path | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Measure every table and figure; `plots` is a directory for the figures as SVG."""
    kind = format_of(data)
    with engine() as workers:
        study = Study.open(data, workers, progress=progress)
        tables = measure(study)
    if plots:
        figures_p2.plot(tables, plots)
    people = len(study.known) // study.draws
    return {
        "paper": "P2",
        "dataset": kind,
        "people": people,
        "draws": study.draws,
        "cells": cells(tables, BARS if kind == "movielens-1m" else {}),
    }


def measure(study: Study) -> dict[str, Table]:
    """All tables by their number in the paper."""
    found = {name: study.ranks(study.rule(name)) for name in study.each("fig4", ATTACKS)}
    dropped = suppression(study)
    return {
        "fig4": identification(found, study.draws),
        "4.3": variants(study),
        "fig3": misses(study.known, found["set-intersection"]),
        "fig5": by_mentions(study.known, found),
        "4.5": conditional(found["scoring"]),
        "fig6": _without(dropped, "ratings dropped"),
        "fig7": _without(dropped, "items dropped"),
        "fig8": self_suppression(study),
        "fig9": misdirection(study),
        "6.3": ignoring_popular(study),
    }


def cells(
    tables: dict[str, Table], bars: dict[tuple[str, str, str], dict[str, float]]
) -> list[dict[str, Any]]:
    """The tables as cells of `murmur reproduce`."""
    return [
        cell(table, row, column, ours, other_data=PAPER.get(place), **bars.get(place, {}))
        for table, rows in tables.items()
        for row, columns in rows.items()
        for column, ours in columns.items()
        for place in [(table, row, column)]
    ]


def identification(found: dict[str, Ranks], draws: int) -> Table:
    """Figure 4: k-identification by each algorithm, and whether they come in the paper's order."""
    table: Table = {
        name: {**_levels(ranks), "k=1, sd between draws": _spread(ranks, draws)}
        for name, ranks in found.items()
    }
    first = [_percent(found[name].user_rank <= 1) for name in IN_ORDER]
    table[ORDER] = {STEPS: float(sum(worse < better for worse, better in pairwise(first)))}
    return table


def variants(study: Study) -> Table:
    """Section 4.3: Scoring with the heaviest raters as candidates, and with a flat sub-score of 1."""
    rule = study.rule("scoring")
    flat = np.full(len(rule.weight), np.log(1 / FLOOR))
    return {
        "scoring, heaviest raters kept": _levels(study.ranks(replace(rule, most_items=np.inf))),
        "scoring, flat sub-score": _levels(study.ranks(replace(rule, weight=flat))),
    }


def misses(known: Knowledge, ranks: Ranks) -> Table:
    """Figure 3: why Set Intersection 1-identifies people or does not, by number of mentions."""
    listed, alone = ranks.listed > 0, ranks.user_rank <= 1
    reasons = {
        "1-identified": alone,
        "not narrow": listed & ~alone,
        "no one possible": ranks.candidates == 0,
        "misdirected": ~listed & (ranks.candidates > 0),
    }
    return {
        row: {reason: _percent(holds[who]) for reason, holds in reasons.items()}
        for row, who in {**_bins(known), "all": np.ones(len(known), dtype=bool)}.items()
    }


def by_mentions(known: Knowledge, found: dict[str, Ranks]) -> Table:
    """Figure 5: 1-identification by number of mentions."""
    columns = {**_bins(known), "8+ mentions": np.diff(known.indptr) >= 8}
    return {
        name: {column: _percent(ranks.user_rank[who] <= 1) for column, who in columns.items()}
        for name, ranks in found.items()
    }


def conditional(ranks: Ranks) -> Table:
    """Section 4.5: of those narrowed down to 100, how many are narrowed down further."""
    near = ranks.user_rank[ranks.user_rank <= 100]
    return {"scoring": {f"{k}-identified of the 100-identified": _percent(near <= k) for k in (10, 1)}}


def suppression(study: Study) -> Table:
    """Figures 6 and 7: the owner drops all items with fewer raters than a threshold.

    What is left tells as much as before, and who counts as too heavy a rater stays as it was: a third of the few
    popular items that remain is what every target has rated, and nobody would be protected by leaving them out.
    """
    fewest = np.sort(study.raters)
    thresholds = sorted({int(fewest[int(share * len(fewest) + 1e-9)]) for share in DROPPED_SHARES})
    score, exact = study.rule("scoring"), study.rule("exact-rating")
    table: Table = {}
    for threshold in study.each("fig6", thresholds):
        kept = study.raters >= threshold
        exactly = study.ranks(_only(exact, kept))
        table[f"fewer than {threshold} ratings"] = {
            "items dropped": _percent(~kept),
            "ratings dropped": 100 * float(study.raters[~kept].sum() / study.raters.sum()),
            **_levels(study.ranks(_only(score, kept))),
            "exact-rating k=1": _percent(exactly.user_rank <= 1),
        }
    safe = [row for row in table.values() if (row["k=1"] or 0) < 100 / PAPER_PEOPLE]
    dropped = ("items dropped", "ratings dropped")
    table[NOBODY] = {column: safe[0][column] if safe else None for column in dropped}
    return table


def self_suppression(study: Study) -> Table:
    """Figure 8: everybody keeps the rarest of what they rated to themselves."""
    rule, truth = study.rule("scoring"), study.case.truth
    return {
        f"{share:.0%} suppressed": _levels(study.ranks(rule, suppress_rarest(truth, study.known, share)))
        for share in study.each("fig8", SUPPRESSED_SHARES)
    }


def misdirection(study: Study, most: int = ADDED, thresholds: tuple[int, ...] = THRESHOLDS) -> Table:
    """Figure 9: 1-identification by Scoring after mentioning up to `most` (five or more) items one has not rated;
    null where no item is so popular."""
    lists = {POPULAR: most_popular_first(study.raters)}
    for threshold in thresholds:
        lists[f"at least {threshold} raters, rarest first"] = popular_from(study.raters, threshold)
    rule, table = study.rule("scoring"), Table()
    columns = [f"{step} added" for step in range(most + 1)]
    for name, listed in study.each("fig9", lists.items()):
        if not len(listed):
            table[name] = dict.fromkeys((*columns, KEPT))
            continue
        extra = misdirections(study.case.truth, study.known, listed, most)
        said = [misdirect(study.known, extra[:, :step]) for step in range(most + 1)]
        rates = study.first(rule, said)
        table[name] = {
            **dict(zip(columns, rates, strict=True)),
            KEPT: rates[5] / rates[0] if rates[0] else None,
        }
    return table


def ignoring_popular(study: Study) -> Table:
    """Section 6.3: an attacker who knows the defence ignores the most popular items."""
    rule, listed = study.rule("scoring"), most_popular_first(study.raters)
    extra = misdirections(study.case.truth, study.known, listed, ADDED)
    said = [misdirect(study.known, extra[:, :number]) for number in (0, 5, ADDED)]
    columns = ("k=1, nothing added", "k=1, 5 added", f"k=1, {ADDED} added")
    table: Table = {}
    for share in study.each("6.3", IGNORED_SHARES):
        heard = np.ones(len(study.raters), dtype=bool)
        heard[listed[: int(share * len(listed))]] = False
        rates = study.first(_only(rule, heard), said)
        table[f"scoring, {share:.0%} of items ignored"] = dict(zip(columns, rates, strict=True))
    return table


def _only(rule: Rule, items: np.ndarray) -> Rule:
    """The rule where other items say nothing: nobody has them, or nobody listens to them."""
    return replace(rule, weight=np.where(items, rule.weight, 0))


def _joined(parts: Sequence[Knowledge]) -> Knowledge:
    """All that is known in one piece, one part's targets after the other's."""
    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    return Knowledge(
        parts[0].name,
        np.concatenate([part.targets for part in parts]),
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([part.items for part in parts]),
        np.concatenate([part.ratings for part in parts]),
    )


def _without(table: Table, column: str) -> Table:
    return {
        row: {name: value for name, value in values.items() if name != column}
        for row, values in table.items()
    }


def _bins(known: Knowledge) -> dict[str, np.ndarray]:
    """Who made how many mentions, in the bins of the paper's Table 1."""
    place = np.searchsorted(FEWEST, np.diff(known.indptr), side="right") - 1
    return {f"{name} mentions": place == number for number, name in enumerate(BINS)}


def _levels(ranks: Ranks) -> dict[str, float | None]:
    return {f"k={k}": _percent(ranks.user_rank <= k) for k in LEVELS}


def _percent(holds: np.ndarray) -> float:
    return 100 * float(np.mean(holds)) if len(holds) else 0.0


def _spread(ranks: Ranks, draws: int) -> float:
    """Standard deviation of the 1-identification rate from one draw of mentions to the next."""
    return (
        float(np.std(100 * (ranks.user_rank <= 1).reshape(draws, -1).mean(axis=1), ddof=1))
        if draws > 1
        else 0.0
    )


def _silent(step: str, done: int, total: int) -> None:
    return None
