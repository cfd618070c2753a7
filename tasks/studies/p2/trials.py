"""Measure the attacks and defences of [Frankowski2006] on one data set."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from checks.attacks import exact_rating, fuzzy_rating, scoring, set_intersection, tf_idf
from checks.evidence.case import Case
from checks.evidence.seeds import seeded
from checks.evidence.truth import Truth
from checks.evidence.views.raw import RawRelease
from checks.linkage.knowledge import Knowledge, Model
from checks.linkage.mentions import COUNTS, mentions
from checks.linkage.misdirection import (
    misdirect,
    misdirections,
    most_popular_first,
    popular_from,
    suppress_rarest,
)
from checks.linkage.postings import postings_of
from checks.linkage.ranking import Ranks, rank
from checks.linkage.rules import FLOOR, Rule, world_of
from tasks.engine import Engine
from tasks.studies.datasets import detect_format
from tasks.studies.study_data import SNAPSHOT, Progress, silent_progress, study_config

DRAWS = 5  # of every user's mentions
LEVELS = (1, 5, 10, 100)
ATTACKS = {
    "set-intersection": set_intersection.rule,
    "tf-idf": tf_idf.rule,
    "scoring": scoring.rule,
    "fuzzy-rating": fuzzy_rating.rule,
    "exact-rating": exact_rating.rule,
}
EXPECTED_ORDER = ("set-intersection", "scoring", "fuzzy-rating", "exact-rating")
FEWEST = np.array([low for (low, _), _ in COUNTS])
BINS = [str(low) if low == high else f"{low}-{high}" for (low, high), _ in COUNTS[:-1]] + [f"{FEWEST[-1]}+"]
DROPPED_SHARES = (0, *np.arange(0.1, 0.85, 0.1), 0.85, 0.88, *np.arange(0.90, 0.995, 0.02), 0.99)
SUPPRESSED_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
THRESHOLDS = tuple(2**power for power in range(14))
ADDED = 20
TOGETHER = 5  # rankings of all users sent to the workers at once: fewer round trips, and no large messages
IGNORED_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
PAPER_PEOPLE = 133

POPULAR, RARE = "most popular first", "at least 1 raters, rarest first"
ORDER = " < ".join(EXPECTED_ORDER)
STEPS = "steps of three that hold at k=1"
KEPT = "rate with 5 added / with none"
FIRST_SAFE = f"first with fewer than 1 of {PAPER_PEOPLE} people 1-identified"

Table = dict[str, dict[str, float | None]]


@dataclass(frozen=True)
class Study:
    """Hold the raw data, the mentions of the targets (each target once per draw), and the progress callback."""

    case: Case
    known: Knowledge
    draws: int
    progress: Progress

    @classmethod
    def open(
        cls, data: Path, workers: Engine, *, draws: int = DRAWS, progress: Progress | None = None
    ) -> "Study":
        """Read a data set and draw the mentions of its heaviest raters."""
        source = study_config(detect_format(data), data, "murmur reproduce P2").source
        low, high = source.scale
        truth = Truth.from_source_only(source, SNAPSHOT)
        case = Case(RawRelease(truth, low=low, high=high), truth, engine=workers)
        targets = np.tile(case.targets("reproduce P2", heavy=True), draws)
        known = mentions(truth, targets, Model(0, "forum"), seeded("reproduce P2"))
        return cls(case, known, draws, progress or silent_progress)

    @property
    def raters(self) -> np.ndarray:
        """Return the number of raters per item."""
        return self.case.truth.raters

    def rule(self, name: str) -> Rule:
        """Return one of the five attacks."""
        return ATTACKS[name](world_of(self.case))

    def ranks(self, rule: Rule, known: Knowledge | None = None) -> Ranks:
        """Rank the candidates for every target by this rule, and return the target's rank."""
        known = self.known if known is None else known
        own = self.case.record_of(known.targets)
        return rank(postings_of(self.case), rule, known, own, engine=self.case.engine)

    def first_rank_rates(self, rule: Rule, known_sets: Sequence[Knowledge]) -> list[float]:
        """Return the 1-identification rate, in per cent, for each of several sets of knowledge; a few at a time."""
        rates = []
        for start in range(0, len(known_sets), TOGETHER):
            together = known_sets[start : start + TOGETHER]
            ranks = self.ranks(rule, _join_knowledge(together)).user_rank
            rates += [_percent(part <= 1) for part in np.split(ranks, len(together))]
        return rates

    def with_progress(self, table: str, things: Iterable[Any]) -> Iterator[Any]:
        """Iterate over the parts of a table and report progress."""
        things = list(things)
        for done, thing in enumerate(things):
            self.progress(table, done, len(things))
            yield thing
        self.progress(table, len(things), len(things))


def measure(study: Study) -> dict[str, Table]:
    """Return all tables by their number in the paper."""
    found = {name: study.ranks(study.rule(name)) for name in study.with_progress("fig4", ATTACKS)}
    dropped = owner_suppression(study)
    return {
        "fig4": identification_rates(found, study.draws),
        "4.3": scoring_variants(study),
        "fig3": miss_reasons(study.known, found["set-intersection"]),
        "fig5": rates_by_mentions(study.known, found),
        "4.5": conditional_rates(found["scoring"]),
        "fig6": _drop_column(dropped, "ratings dropped"),
        "fig7": _drop_column(dropped, "items dropped"),
        "fig8": self_suppression(study),
        "fig9": misdirection(study),
        "6.3": ignoring_popular(study),
    }


def identification_rates(found: dict[str, Ranks], draws: int) -> Table:
    """Return Figure 4: k-identification by each algorithm, and whether they come in the paper's order."""
    table: Table = {
        name: {**_rates_at_levels(ranks), "k=1, sd between draws": _deviation_between_draws(ranks, draws)}
        for name, ranks in found.items()
    }
    first = [_percent(found[name].user_rank <= 1) for name in EXPECTED_ORDER]
    table[ORDER] = {STEPS: float(sum(worse < better for worse, better in pairwise(first)))}
    return table


def scoring_variants(study: Study) -> Table:
    """Return section 4.3: Scoring with the heaviest raters as candidates, and with a flat sub-score of 1."""
    rule = study.rule("scoring")
    flat = np.full(len(rule.weight), np.log(1 / FLOOR))
    return {
        "scoring, heaviest raters kept": _rates_at_levels(study.ranks(replace(rule, most_items=np.inf))),
        "scoring, flat sub-score": _rates_at_levels(study.ranks(replace(rule, weight=flat))),
    }


def miss_reasons(known: Knowledge, ranks: Ranks) -> Table:
    """Return Figure 3: why Set Intersection 1-identifies users or does not, by number of mentions."""
    listed, alone = ranks.listed > 0, ranks.user_rank <= 1
    reasons = {
        "1-identified": alone,
        "not narrow": listed & ~alone,
        "no one possible": ranks.candidates == 0,
        "misdirected": ~listed & (ranks.candidates > 0),
    }
    return {
        row: {reason: _percent(holds[who]) for reason, holds in reasons.items()}
        for row, who in {**_mention_bins(known), "all": np.ones(len(known), dtype=bool)}.items()
    }


def rates_by_mentions(known: Knowledge, found: dict[str, Ranks]) -> Table:
    """Return Figure 5: 1-identification by number of mentions."""
    columns = {**_mention_bins(known), "8+ mentions": np.diff(known.indptr) >= 8}
    return {
        name: {column: _percent(ranks.user_rank[who] <= 1) for column, who in columns.items()}
        for name, ranks in found.items()
    }


def conditional_rates(ranks: Ranks) -> Table:
    """Return section 4.5: of the users narrowed down to 100, how many are narrowed down further."""
    near = ranks.user_rank[ranks.user_rank <= 100]
    return {"scoring": {f"{k}-identified of the 100-identified": _percent(near <= k) for k in (10, 1)}}


def owner_suppression(study: Study) -> Table:
    """Return Figures 6 and 7: the owner drops all items with fewer raters than a threshold.

    The weights of the remaining items stay as before, and so does the limit above which a candidate counts as too
    heavy a rater: every target has rated a third of the few popular items that remain, and excluding such candidates
    would protect no user.
    """
    fewest = np.sort(study.raters)
    thresholds = sorted({int(fewest[int(share * len(fewest) + 1e-9)]) for share in DROPPED_SHARES})
    score, exact = study.rule("scoring"), study.rule("exact-rating")
    table: Table = {}
    for threshold in study.with_progress("fig6", thresholds):
        kept = study.raters >= threshold
        exactly = study.ranks(_restrict_rule(exact, kept))
        table[f"fewer than {threshold} ratings"] = {
            "items dropped": _percent(~kept),
            "ratings dropped": 100 * float(study.raters[~kept].sum() / study.raters.sum()),
            **_rates_at_levels(study.ranks(_restrict_rule(score, kept))),
            "exact-rating k=1": _percent(exactly.user_rank <= 1),
        }
    safe = [row for row in table.values() if (row["k=1"] or 0) < 100 / PAPER_PEOPLE]
    dropped = ("items dropped", "ratings dropped")
    table[FIRST_SAFE] = {column: safe[0][column] if safe else None for column in dropped}
    return table


def self_suppression(study: Study) -> Table:
    """Return Figure 8: every user withholds the rarest of the rated items."""
    rule, truth = study.rule("scoring"), study.case.truth
    return {
        f"{share:.0%} suppressed": _rates_at_levels(
            study.ranks(rule, suppress_rarest(truth, study.known, share))
        )
        for share in study.with_progress("fig8", SUPPRESSED_SHARES)
    }


def misdirection(study: Study, most: int = ADDED, thresholds: tuple[int, ...] = THRESHOLDS) -> Table:
    """Return Figure 9: 1-identification by Scoring after mentions of up to `most` (five or more) unrated items.

    The rate is null where no item is popular enough.
    """
    lists = {POPULAR: most_popular_first(study.raters)}
    for threshold in thresholds:
        lists[f"at least {threshold} raters, rarest first"] = popular_from(study.raters, threshold)
    rule, table = study.rule("scoring"), Table()
    columns = [f"{step} added" for step in range(most + 1)]
    for name, listed in study.with_progress("fig9", lists.items()):
        if not len(listed):
            table[name] = dict.fromkeys((*columns, KEPT))
            continue
        extra = misdirections(study.case.truth, study.known, listed, most)
        known_sets = [misdirect(study.known, extra[:, :step]) for step in range(most + 1)]
        rates = study.first_rank_rates(rule, known_sets)
        table[name] = {
            **dict(zip(columns, rates, strict=True)),
            KEPT: rates[5] / rates[0] if rates[0] else None,
        }
    return table


def ignoring_popular(study: Study) -> Table:
    """Return section 6.3: an attacker who knows the defence ignores the most popular items."""
    rule, listed = study.rule("scoring"), most_popular_first(study.raters)
    extra = misdirections(study.case.truth, study.known, listed, ADDED)
    known_sets = [misdirect(study.known, extra[:, :number]) for number in (0, 5, ADDED)]
    columns = ("k=1, nothing added", "k=1, 5 added", f"k=1, {ADDED} added")
    table: Table = {}
    for share in study.with_progress("6.3", IGNORED_SHARES):
        heard = np.ones(len(study.raters), dtype=bool)
        heard[listed[: int(share * len(listed))]] = False
        rates = study.first_rank_rates(_restrict_rule(rule, heard), known_sets)
        table[f"scoring, {share:.0%} of items ignored"] = dict(zip(columns, rates, strict=True))
    return table


def _restrict_rule(rule: Rule, items: np.ndarray) -> Rule:
    """Return the rule with a weight of 0 for all other items: they are dropped, or ignored by the attacker."""
    return replace(rule, weight=np.where(items, rule.weight, 0))


def _join_knowledge(parts: Sequence[Knowledge]) -> Knowledge:
    """Join several sets of knowledge, the targets of one after those of the other."""
    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    return Knowledge(
        parts[0].name,
        np.concatenate([part.targets for part in parts]),
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([part.items for part in parts]),
        np.concatenate([part.ratings for part in parts]),
    )


def _drop_column(table: Table, column: str) -> Table:
    return {
        row: {name: value for name, value in values.items() if name != column}
        for row, values in table.items()
    }


def _mention_bins(known: Knowledge) -> dict[str, np.ndarray]:
    """Return which users made how many mentions, in the bins of the paper's Table 1."""
    place = np.searchsorted(FEWEST, np.diff(known.indptr), side="right") - 1
    return {f"{name} mentions": place == number for number, name in enumerate(BINS)}


def _rates_at_levels(ranks: Ranks) -> dict[str, float | None]:
    return {f"k={k}": _percent(ranks.user_rank <= k) for k in LEVELS}


def _percent(holds: np.ndarray) -> float:
    return 100 * float(np.mean(holds)) if len(holds) else 0.0


def _deviation_between_draws(ranks: Ranks, draws: int) -> float:
    """Return the standard deviation of the 1-identification rate between draws of mentions."""
    return (
        float(np.std(100 * (ranks.user_rank <= 1).reshape(draws, -1).mean(axis=1), ddof=1))
        if draws > 1
        else 0.0
    )
