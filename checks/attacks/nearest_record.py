"""Run nearest-record linkage (the disclosure risk DR of [Casino2015]): which record is nearest to which person?

The attacker of the paper has the whole original data, and links by Euclidean distance over all items. Its tables imply
a search from each original record to the nearest published one, its text from each published record to the nearest
original; both are run. Missing ratings are filled with the centre of the scale, as there; and because an attacker need
not do that, with the item's mean, and by comparing only what the person rated. A tie counts one over its number; the
own record names the person with one over the people in it.

Where z-scores are published ([Zhang2006]), ratings estimated from them lose much: an attacker who knows everything
about a person knows that person's z-scores too, and compares these with the published numbers. Noise on single values
averages out over many. An attacker who knows a few ratings compares them less their mean instead.

Where single people's ratings are published with noise, the noise may differ between items ([Casino2015]); the product,
and the distance from record to person, then weigh each item by how little noise it has
(checks/linkage/item_weights.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from checks.about import About
from checks.evidence.case import HALF_WIDTH, Case
from checks.evidence.views.raw import MIN_CONTROL_SHARE, allowed_text, raw_view
from checks.evidence.views.sample import select_rows
from checks.linkage.attack import Trial
from checks.linkage.drawn_knowledge import knowledge_of
from checks.linkage.item_weights import item_weights
from checks.linkage.knowledge import Knowledge, Model
from checks.linkage.nearest import Nearest, Way, nearest_by_each, nearest_records
from checks.linkage.postings import postings_of
from checks.linkage.words import NAMING, ONE_IN_K
from checks.reconstruction.zscores import zscores
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk, beyond_chance, sample_size

EVERYTHING = Model(0, "all")
MOST_STEPS = 4_000_000_000  # ratings compared with a record's, per reading: some seconds
FEWEST_RECORDS = 50
FEWEST_PEOPLE = 200  # at any cost: none of 200 found still shows at most 0.019


@dataclass(frozen=True)
class Comparison:
    """Describe how two records are compared."""

    name: str
    item_means: bool = False
    rated_only: bool = False

    def way(self, case: Case) -> Way:
        """Return the way to compare."""
        return Way(case.item_means if self.item_means else None, self.rated_only)


PAPER = Comparison("missing ratings at the centre")
COMPARISONS = (
    PAPER,
    Comparison("missing ratings at the item's mean", item_means=True),
    Comparison("rated items only", rated_only=True),
)


PRODUCT_SCALE = 1e4  # a profile so long that |x − y|² = |x|² + |y|² − 2xy depends on the product alone
SCORES = {"z-scores by distance": 1.0, "z-scores by product": PRODUCT_SCALE}
FEW = (Model(8), Model(16), Model(16, "rare"))
TO_ORIGINAL = "from record to original"


@check(
    "nearest-record",
    threshold=1.0,
    controlled=True,
    about=About(
        title="Nearest record",
        summary="Match records with people who are known completely",
        knows="The attacker has the whole original data, and in a further trial only some ratings of a person.",
        tries=(
            "They match each person with the nearest record, and each record with the nearest person, by several "
            "distances."
        ),
        means=ONE_IN_K,
        measure=NAMING,
        names_people=True,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the chance of naming a person by the nearest record, in either direction (upper bound); at most 1/k is
    allowed."""
    allowed = min(threshold, 1 / case.release.k)
    targets = _some_targets(case)
    trials = to_published(case, targets)
    if case.as_published.release.unit == "z-score":
        trials |= {name: _to_scores(case.as_published, targets, length) for name, length in SCORES.items()}
        trials |= {f"{few.name}, by product": _few_to_scores(case.as_published, targets, few) for few in FEW}
    weights = item_weights(case) if case.single and case.as_published is case else {}
    trials |= {f"product by {name}": _to_weighted(case, targets, by) for name, by in weights.items()}
    records = _some_records(case)
    backward = to_originals(case, records)
    back = {TO_ORIGINAL: backward}
    back |= {f"{TO_ORIGINAL}, by {name}": to_originals(case, records, by) for name, by in weights.items()}
    named = {name: trial.risk for name, trial in trials.items()} | back
    worst = max(named, key=lambda name: named[name].interval[1])
    low, high = named[worst].interval
    below = 0 if case.single else max(trial.count_below(case.release.k) for trial in trials.values())
    control_succeeded, control_text = _control(raw_view(case))
    found = "; ".join(f"{name}: {(t.ranks.group_rank == 1).mean():.1%}" for name, t in trials.items())
    return Finding(
        high <= allowed + 1e-9 and below == 0,
        named[worst].rate,
        sum(risk.n for risk in named.values()),
        f"best chance of re-identification {named[worst].rate:.4f} (at most {high:.4f}), {worst}"
        f"{allowed_text(case, allowed)}. {below:,} people are within the first {case.release.k - 1}. The own record is "
        f"the nearest for: {found}; disclosure risk as the paper counts it {trials[PAPER.name].risk.rate:.4f}, in the "
        f"direction of its text {backward.rate:.4f}. Control: {control_text}.{_sample_text(case, targets, records)}",
        ci_low=low,
        ci_high=high,
        control=control_succeeded,
        planned=len(trials) * len(targets) + len(back) * len(records),
        threshold=allowed,
        outcomes=(
            *(replace(trial.outcome(), knowledge=name) for name, trial in trials.items()),
            *(Outcome(name, risk) for name, risk in back.items()),
        ),
        applicable=not case.keeps_by_construction(allowed),
    )


def _sample_text(case: Case, targets: np.ndarray, records: np.ndarray) -> str:
    usual = len(case.targets("knowledge"))
    people = (
        f"{len(targets):,} people"
        if len(targets) == usual
        else f"{len(targets):,} of the usual {usual:,} people"
    )
    return f" Tried are {people} and {len(records):,} of {len(case.people):,} different records."


def to_published(case: Case, targets: np.ndarray) -> dict[str, Trial]:
    """Search from each target's original record for the nearest published one, by each comparison."""
    knows = knowledge_of(case, targets, EVERYTHING)
    found = _nearest(case, knows, COMPARISONS)
    return {
        comparison.name: Trial(EVERYTHING, knows, near.ranks, case.ceiling)
        for comparison, near in zip(COMPARISONS, found, strict=True)
    }


def _to_scores(case: Case, targets: np.ndarray, length: float) -> Trial:
    """Search from each target's z-scores for the nearest record of published ones.

    By distance, and by the product: strong noise makes some records shorter than others, by chance, and so nearer to
    every person; the product does not depend on their length.
    """
    knows = knowledge_of(case, targets, EVERYTHING)
    own = (
        zscores(sp.csr_array(case.truth.ratings[targets]), all_entries=case.release.complete).matrix * length
    )
    near = nearest_records(case, own, own=case.record_of(targets), way=Way(0.0, length > 1))
    return Trial(EVERYTHING, knows, near.ranks, case.ceiling)


def _few_to_scores(case: Case, targets: np.ndarray, model: Model) -> Trial:
    """Search from a few ratings of each target, less their mean, for the record of z-scores with the
    largest product."""
    knows = knowledge_of(case, targets, model)
    sums = np.bincount(knows.owners(), weights=knows.ratings, minlength=len(knows))
    means = sums / np.maximum(np.diff(knows.indptr), 1)
    around = (knows.ratings - means[knows.owners()]) * PRODUCT_SCALE
    profiles = sp.csr_array((around, knows.items, knows.indptr), shape=(len(knows), case.release.n_items))
    near = nearest_records(case, profiles, own=case.record_of(targets), way=Way(0.0, rated_only=True))
    return Trial(model, knows, near.ranks, case.ceiling)


def _to_weighted(case: Case, targets: np.ndarray, weights: np.ndarray) -> Trial:
    """Search from each target's ratings, less the centre of the scale, for the record with the largest product, items
    weighted."""
    knows = knowledge_of(case, targets, EVERYTHING)
    centre = (case.release.low + case.release.high) / 2
    around = sp.csr_array(
        (centre + (knows.ratings - centre) * PRODUCT_SCALE, knows.items, knows.indptr),
        shape=(len(knows), case.release.n_items),
    )
    near = nearest_records(
        case, around, own=case.record_of(targets), way=Way(None, rated_only=True, weights=weights)
    )
    return Trial(EVERYTHING, knows, near.ranks, case.ceiling)


def _nearest(
    case: Case, knows: Knowledge, comparisons: Sequence[Comparison], leave_out: np.ndarray | None = None
) -> list[Nearest]:
    shape = (len(knows), case.release.n_items)
    profiles = sp.csr_array((knows.ratings, knows.items, knows.indptr), shape=shape)
    ways, own = [comparison.way(case) for comparison in comparisons], case.record_of(knows.targets)
    return nearest_by_each(case, profiles, ways, own=own, leave_out=leave_out)


def to_originals(case: Case, records: np.ndarray, weights: np.ndarray | None = None) -> Risk:
    """Search from published records for the nearest original person: one of the record's people, and which of them?"""
    all_records = case.record_of(np.arange(case.truth.users))
    near = nearest_records(
        raw_view(case),
        _profiles(case, records),
        labels=all_records,
        own_label=records,
        way=Way(weights=weights),
    )
    chance = near.hit / np.maximum(case.people[records], 1)
    return Risk(float(chance.sum()), len(near), math.nan, case.ceiling)


def _some_records(case: Case) -> np.ndarray:
    """Return all different published profiles, or a seeded sample, ascending: each is compared with all ratings."""
    count, most = len(case.people), sample_size(HALF_WIDTH)
    most = min(most, max(FEWEST_RECORDS, MOST_STEPS // max(1, case.truth.ratings.nnz)))
    return (
        np.arange(count)
        if count <= most
        else np.sort(case.draw("nearest-record").choice(count, most, replace=False))
    )


def _some_targets(case: Case) -> np.ndarray:
    """Return the usual people to attack; fewer where all that they rated has to be compared with very many records."""
    targets = case.targets("knowledge")
    return _fewer(targets, int(np.diff(case.truth.ratings.indptr)[targets].sum()) * len(case.people))


def _fewer(people: np.ndarray, steps: int) -> np.ndarray:
    """Return every n-th of these people where comparing all of them takes too many steps; at least FEWEST_PEOPLE, or
    all."""
    return people[:: max(1, min(-(-steps // MOST_STEPS), len(people) // FEWEST_PEOPLE))]


def _profiles(case: Case, records: np.ndarray) -> sp.csr_array:
    """Return the published ratings of some different profiles, in the order of `records` (ascending)."""
    groups = np.unique(case.release.profile_of_group, return_index=True)[1][records]  # ascending as well
    chosen = [select_rows(block, groups) for block in case.release.blocks()]
    return sp.csr_array(sp.vstack([part.matrix() for part in chosen], format="csr"))


def _control(raw: Case) -> tuple[bool, str]:
    """Test that in the raw data every person without a twin finds their own record and, once it is removed, none a
    record drawn at random."""
    people = raw.control_targets()
    rated = knowledge_of(raw, people, EVERYTHING).items  # each is looked up in the records of all its raters
    knows = knowledge_of(raw, _fewer(people, int(raw.truth.raters[rated].sum())), EVERYTHING)
    own, others = raw.record_of(knows.targets), postings_of(raw).records - 1
    (gone,) = _nearest(raw, knows, [PAPER], leave_out=own)
    alone = gone.distance > 0  # no other person has the same record
    found = _nearest(raw, knows, [PAPER])[0].ranks.identification[alone]
    other = raw.draw("strangers").integers(0, max(1, others), len(knows))
    other += other >= own
    strangers = int((gone.ranks.best_at == other).sum())
    broken = float(found.mean()) if len(found) else 0.0
    succeeded = broken >= MIN_CONTROL_SHARE and not beyond_chance(strangers, len(knows), 1 / max(1, others))
    return succeeded, (
        f"finds {broken:.1%} of {len(found):,} people in the raw data who have no twin there; of {len(knows):,} whose "
        f"record was removed, {strangers:,} are matched to a record drawn at random"
    )
