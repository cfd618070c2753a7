"""Turn reconstructed ratings into a finding: what the three reconstruction checks have in common.

They apply to releases of single people. Where groups are published no person's own values are there to be undone.

What gates is the gain over the best guess without the release, (recovered − guessed) / (1 − guessed): the share of the
remaining room that the attack wins. It is measured over everything people rated (what is not claimed is guessed), and,
where every record has every item, over what the attacker claims too: few claims that are right are a disclosure,
however much else stays hidden. At most 1/k is allowed, as with every way of finding a person (docs/threat-model.md,
promise 1): a group's record is a k-th part any member's own. And no person's own record may certainly be undone
(`find_exposed` in checks/stats.py).

Suppression and obfuscation publish unchanged what they keep. Nothing is disguised there, so nothing can be undone:
finding the record is what is forbidden, and the figures are only reported. The method's name is not enough for that:
every rating they publish must really be the person's.

The positive control is the same attack on the same people's values before they were disguised. It must recover more
than is allowed (raw data allow everything: more than half): a check that cannot fail shows nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.method_rules import rules_of
from checks.evidence.views.raw import MIN_CONTROL_SHARE, allowed_text
from checks.evidence.views.sample import sample_text, sampled
from checks.reconstruction import measures
from checks.reconstruction.estimated_ratings import (
    DENSE_CELLS,
    EntryRule,
    NoiseStrength,
    candidate_rules,
    claimed_entries,
    entry_rule,
)
from checks.reconstruction.original_ratings import Guess, Originals
from checks.reconstruction.rating_scale import rating_scale
from checks.reconstruction.zscores import ZScores
from checks.result import Finding, Outcome
from checks.stats import Risk, Tally, clustered, find_exposed

LEAST_ROOM = 30  # misses of the guess below which a gain would be noise
VERBATIM_SHARE = 0.99
PART_OF_RECORD = (  # what the limit means, in the words of the three attacks
    "The limit is the k-th part of a record that any member of a group of k has in it; above it noise would not hide a "
    "rating."
)


@dataclass(frozen=True)
class Disguised:
    """Hold what an attacker has: per record the values of the entries they take as rated, and how strong the noise on
    them is."""

    values: sp.csr_array
    unit: str
    kind: EntryRule
    originals: Originals
    strength: NoiseStrength

    @property
    def detects(self) -> bool:
        """Whether the attacker had to distinguish rated entries from others."""
        return self.kind != "every entry"

    @property
    def scores(self) -> ZScores:
        """The people's z-scores before they were disguised: where every item has one, over all items."""
        return (
            self.originals.all_entry_scores if self.originals.case.release.complete else self.originals.scores
        )


@dataclass(frozen=True)
class Attempt:
    """Hold reconstructed `ratings` of the claimed entries, and the `scores` they came from where there are any."""

    name: str
    ratings: sp.csr_array
    scores: np.ndarray | None = None


Attack = Callable[[Disguised], list[Attempt]]


@dataclass(frozen=True)
class AttemptScore:
    """Hold how well one attempt did, in the paper's measures and as risks."""

    name: str
    recovered: Risk  # of everything rated
    claims: Risk | None  # of what was claimed
    ratings: int
    figures: dict[str, float | None]
    tallies: tuple[Tally, ...]

    @property
    def risks(self) -> dict[str, Risk]:
        """The risks with enough room above the guess to be judged."""
        found = {"ratings": self.recovered} | ({"claims": self.claims} if self.claims else {})
        return {kind: risk for kind, risk in found.items() if risk.n * (1 - risk.baseline) >= LEAST_ROOM}

    def outcome(self) -> Outcome:
        """Return the result as a line of `murmur attack`."""
        more: dict[str, Any] = {"ratings": self.ratings, **self.figures}
        if self.claims:
            more |= {"claims_right": self.claims.rate, "claims_by_chance": self.claims.baseline}
        return Outcome(self.name, self.recovered, more=more)

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value:.3f}" for name, value in self.figures.items() if value is not None)
        return f"{self.name}: {shown}"


def assess_reconstruction(
    case: Case, threshold: float, attack: Attack, what: str, *, knowing_person: bool = False
) -> Finding:
    """Run an attack on a release of single people, and on their values before anything disguised them."""
    if not case.single:
        return _shared_records(case)
    allowed = min(threshold, 1 / case.release.k)
    dense = case.release.complete and entry_rule(case) == "every entry"
    part = sampled(case, "reconstruction", DENSE_CELLS if dense else 0)
    originals = Originals.of(part)
    guess = originals.best_guess(knowing_person=knowing_person)
    unit = case.release.unit
    strength = (
        NoiseStrength.of(part.release) if unit == "z-score" else NoiseStrength.none(part.release.n_groups)
    )
    disguises = [
        Disguised(_values(part, kind), unit, kind, originals, strength.by_rule(kind))
        for kind in _rules_to_try(case, part)
    ]
    scored = [
        score_attempt(disguised, attempt, guess) for disguised in disguises for attempt in attack(disguised)
    ]
    judged = [(one, which, risk) for one in scored for which, risk in one.risks.items()]
    if not judged:
        return Finding(False, None, 0, "too few ratings to recover: nothing is shown about the release.")
    worst, which, risk = max(judged, key=lambda found: found[2].gain_interval[1])
    low, high = risk.gain_interval
    control_succeeded, control_text = _control(disguises[0], attack, guess, allowed)
    open_records = int(find_exposed([tally for one in scored for tally in one.tallies]).sum())
    shown = _publishes_verbatim(part, originals)
    not_judged = (
        f"{case.release.manifest['method']} publishes the ratings it keeps unchanged, so there is "
        "nothing to reconstruct; the re-identification attacks decide. "
        if shown
        else ""
    )
    return Finding(
        shown or (high <= allowed + 1e-9 and open_records == 0),
        risk.gain,
        worst.ratings,
        f"{not_judged}{what} {_success_text(worst, which, risk)} (a guess by {guess.name}: {risk.baseline:.1%}); gain "
        f"{risk.gain:+.3f} (at most {high:+.3f}){allowed_text(case, allowed)}. "
        f"{open_records:,} of {len(originals.users):,} people are exposed: the attack certainly recovers "
        "more than half of their ratings. "
        f"{_figures_text(scored, worst)}. Control: {control_text}.{sample_text(part, case)}",
        ci_low=low,
        ci_high=high,
        control=control_succeeded,
        threshold=allowed,
        outcomes=tuple(one.outcome() for one in scored),
        applicable=not shown,
    )


def _success_text(scored: AttemptScore, kind: str, risk: Risk) -> str:
    if kind == "claims":
        return f"is right in {risk.rate:.1%} of what it claims ({scored.name}: rated, and with that rating)"
    return f"recovers {risk.rate:.1%} of {scored.ratings:,} ratings exactly ({scored.name})"


def _figures_text(scored: list[AttemptScore], worst: AttemptScore) -> str:
    """Return the paper's measures for the first attempt (the paper's own) and for the one that is judged."""
    return "; ".join(str(one) for one in scored if one in (scored[0], worst))


def _rules_to_try(case: Case, part: Case) -> list[EntryRule]:
    """Return the entry rules to try: first the most successful; where every record has every item, the others too.

    Claims beyond the wider limit are fewer and surer: a rule that recovers less in all may be right more often.
    """
    others = candidate_rules(part.release) if case.release.complete else []
    first = entry_rule(case)
    return [first, *(kind for kind in others if kind != first)]


def _shared_records(case: Case) -> Finding:
    """Return the finding for groups: no person's own values are published. That every record is shared is for
    k-anonymity to show, and required here."""
    fewest, k = int(case.people.min()) if len(case.people) else 0, case.release.k
    return Finding(
        fewest >= k,
        0.0 if fewest >= k else None,
        0,
        f"every record is shared by at least {fewest:,} people, so no record holds one person's values."
        if fewest >= k
        else f"not tried: a record is shared by only {fewest:,} people, but {k:,} are promised.",
        control=True,
        planned=0,
        outcomes=(Outcome("not tried", Risk(0, 0)),),
        applicable=fewest < k,
    )


def _values(part: Case, kind: EntryRule) -> sp.csr_array:
    """Return the published values of the entries taken as rated."""
    blocks = [block.matrix() for block in claimed_entries(part.release, kind)]
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def score_attempt(disguised: Disguised, attempt: Attempt, guess: Guess) -> AttemptScore:
    """Compare an attempt with the truth."""
    originals, guessed = disguised.originals, guess.hits
    truth, half = originals.ratings.data, rating_scale(originals.case).half
    recovered = originals.at(attempt.ratings)
    there = ~np.isnan(recovered)
    hit = measures.is_recovered(recovered, truth, half)  # NaN is never right

    def per_record(which: np.ndarray) -> np.ndarray:
        return np.bincount(originals.rows, weights=which, minlength=len(originals.users))

    rated = np.diff(originals.ratings.indptr)
    risk = clustered(
        per_record(hit | (~there & guessed)), rated, float(guessed.mean()) if len(guessed) else 0.0
    )
    claims = None
    tallies = [
        Tally(per_record(hit & guess.unguessable), per_record(guess.unguessable), np.zeros(len(rated)))
    ]
    if disguised.detects:
        made = np.diff(attempt.ratings.indptr)
        by_luck = originals.expected_by_luck(attempt.ratings, guessed)
        tallies.append(Tally(per_record(hit), made, by_luck))
        claims = clustered(per_record(hit), made, float(by_luck.sum() / max(1, made.sum())))
    error = measures.r_mae(recovered[there], truth[there])
    figures: dict[str, float | None] = {
        "R-MAE": error,
        "Accuracy": float(hit[there].mean()) if there.any() else 0.0,
    }
    if attempt.scores is not None:
        figures = {
            "zscore-MAE": _score_error(disguised, attempt),
            "P-MAE": error,
            "Accuracy": figures["Accuracy"],
        }
    if disguised.detects:
        figures["precision"] = float(there.sum() / max(1, attempt.ratings.nnz))
        figures["recall"] = float(there.mean()) if len(there) else 0.0
    name = f"{attempt.name}, entries beyond {disguised.kind} noise" if disguised.detects else attempt.name
    return AttemptScore(name, risk, claims, len(truth), figures, tuple(tallies))


def _score_error(disguised: Disguised, attempt: Attempt) -> float | None:
    """Return the zscore-MAE over the entries that were claimed and rated; None where no z-scores are published."""
    if disguised.unit != "z-score" or attempt.scores is None:
        return None
    originals, values = disguised.originals, disguised.values
    found = originals.at(sp.csr_array((attempt.scores, values.indices, values.indptr), shape=values.shape))
    true = disguised.scores.matrix.data
    there = ~np.isnan(found)
    return measures.zscore_mae(found[there], true[there])


def _control(disguised: Disguised, attack: Attack, guess: Guess, allowed: float) -> tuple[bool, str]:
    """Test whether the attack recovers more than is allowed from values that were never disguised."""
    originals = disguised.originals
    plain = originals.ratings.astype(np.float64)
    if disguised.unit == "z-score":
        plain = disguised.scores.matrix
    if disguised.detects and disguised.unit == "z-score":  # without noise every entry other than 0 is rated
        plain = _without_zeros(plain)
    undisguised = Disguised(
        plain, disguised.unit, disguised.kind, originals, NoiseStrength.none(plain.shape[0])
    )
    best = max(
        (score_attempt(undisguised, attempt, guess) for attempt in attack(undisguised)),
        key=lambda one: one.recovered.gain,
    )
    low = best.recovered.gain_interval[0]
    return low > min(allowed, MIN_CONTROL_SHARE), (
        f"of the same people's {disguised.unit}s without any noise it recovers {best.recovered.rate:.1%} "
        f"({best.name}), gain {best.recovered.gain:+.3f} (at least {low:+.3f})"
    )


def _without_zeros(matrix: sp.csr_array) -> sp.csr_array:
    copy = matrix.copy()
    copy.eliminate_zeros()
    return copy


def _publishes_verbatim(part: Case, originals: Originals) -> bool:
    """Test whether the release states that ratings are published unchanged, and whether they really are."""
    release = part.release
    if not rules_of(release.manifest["method"]).verbatim or release.unit != "rating":
        return False
    recovered = originals.at(_values(part, "every entry"))
    there = ~np.isnan(recovered)
    same = np.abs(recovered[there] - originals.ratings.data[there]) <= release.step / 2 + measures.NEAR
    return bool(there.any()) and float(same.mean()) >= VERBATIM_SHARE
