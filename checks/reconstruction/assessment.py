"""From reconstructed ratings to a finding: what the three reconstruction checks have in common.

They are about releases of single people. Where groups are published nobody's own values are there to be undone.

What gates is the gain over the best guess without the release, (told − guessed) / (1 − guessed): the share of the room
that a guess leaves. It is measured over everything people rated (what is not claimed is guessed), and, where every
record has every item, over what the attacker claims too: few claims that are right are a disclosure, however much else
stays hidden. At most 1/k is allowed, as with every way of finding somebody (promise 1): a group's record is a k-th part
any member's own. And nobody's own record may be undone for sure (checks/reconstruction/exposed.py).

Suppression and obfuscation publish what they keep as it is. Nothing is disguised there, so nothing can be undone:
finding the record is what is forbidden, and the figures are only told. It needs more than the method's name: every
rating they publish must really be the person's.

The positive control is the same attack on the same people's values before they were disguised. It must tell more than
is allowed (the raw data allow everything: more than half): a check that cannot fail shows nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from checks.case import Case
from checks.linkage.attack import BROKEN, promise
from checks.reconstruction import measures
from checks.reconstruction.exposed import Tally, exposed
from checks.reconstruction.originals import Guess, Originals
from checks.reconstruction.reading import DENSE_CELLS, Kind, Strength, claimed, readings
from checks.reconstruction.zscores import ZScores
from checks.result import Finding, Outcome
from checks.sample import said_of, sampled
from checks.stats import Risk, clustered

LEAST_ROOM = 30  # misses of the guess below which a gain would be noise
VERBATIM_METHODS = ("suppression", "obfuscation")
VERBATIM_SHARE = 0.99


@dataclass(frozen=True)
class Disguised:
    """What an attacker has in hand: per record the values of the entries he takes for rated, and how strong the noise
    on them is."""

    values: sp.csr_array
    unit: str
    kind: Kind
    originals: Originals
    strength: Strength

    @property
    def detects(self) -> bool:
        """Whether he had to tell rated entries from others."""
        return self.kind != "every entry"

    @property
    def scores(self) -> ZScores:
        """The people's z-scores before they were disguised: where every item has one, over all items."""
        return self.originals.every_score if self.originals.case.release.complete else self.originals.scores


@dataclass(frozen=True)
class Attempt:
    """Reconstructed `ratings` of the claimed entries, and the `scores` they came from where there are any."""

    name: str
    ratings: sp.csr_array
    scores: np.ndarray | None = None


Attack = Callable[[Disguised], list[Attempt]]


@dataclass(frozen=True)
class Scored:
    """How well one attempt did, in the paper's measures and as risks."""

    name: str
    told: Risk  # of everything rated
    claims: Risk | None  # of what was claimed
    ratings: int
    figures: dict[str, float | None]
    tallies: tuple[Tally, ...]

    @property
    def risks(self) -> dict[str, Risk]:
        """Those that can be judged."""
        found = {"ratings": self.told} | ({"claims": self.claims} if self.claims else {})
        return {kind: risk for kind, risk in found.items() if risk.n * (1 - risk.baseline) >= LEAST_ROOM}

    def outcome(self) -> Outcome:
        """As a line of `murmur attack`."""
        more: dict[str, Any] = {"ratings": self.ratings, **self.figures}
        if self.claims:
            more |= {"claims_right": self.claims.rate, "claims_by_chance": self.claims.baseline}
        return Outcome(self.name, self.told, more=more)

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value:.3f}" for name, value in self.figures.items() if value is not None)
        return f"{self.name}: {shown}"


def judge(
    case: Case, threshold: float, attack: Attack, what: str, *, knowing_person: bool = False
) -> Finding:
    """Run an attack on a release of single people, and on their values before anything disguised them."""
    if not case.single:
        return _groups(case)
    allowed = min(threshold, 1 / case.release.k)
    dense = case.release.complete and case.reading == "every entry"
    part = sampled(case, "reconstruction", DENSE_CELLS if dense else 0)
    originals = Originals.of(part)
    guess = originals.best_guess(knowing_person=knowing_person)
    unit = case.release.unit
    strength = Strength.of(part.release) if unit == "z-score" else Strength.none(part.release.n_groups)
    hands = [
        Disguised(_values(part, kind), unit, kind, originals, strength.on(kind))
        for kind in _kinds(case, part)
    ]
    scored = [score(hand, attempt, guess) for hand in hands for attempt in attack(hand)]
    judged = [(one, which, risk) for one in scored for which, risk in one.risks.items()]
    if not judged:
        return Finding(
            False, None, 0, "there are too few ratings to be told: nothing is shown about the release."
        )
    worst, which, risk = max(judged, key=lambda found: found[2].gain_interval[1])
    low, high = risk.gain_interval
    alive, control = _control(hands[0], attack, guess, allowed)
    open_records = int(exposed([tally for one in scored for tally in one.tallies]).sum())
    shown = _is_shown(part, originals)
    plainly = (
        f"Not judged: {case.release.manifest['method']} publishes what it keeps as it is, so there is nothing to undo; "
        "finding the record is what is forbidden. "
        if shown
        else ""
    )
    return Finding(
        shown or (high <= allowed + 1e-9 and open_records == 0),
        risk.gain,
        worst.ratings,
        f"{plainly}{what} {_recovers(worst, which, risk)} (a guess by {guess.name}: {risk.baseline:.1%}); gain "
        f"{risk.gain:+.3f} (at most {high:+.3f}){promise(case, allowed)}. "
        f"{open_records:,} of {len(originals.users):,} people are exposed: more than half is told of them, for sure. "
        f"{_told(scored, worst)}. Control: {control}.{said_of(part, case)}",
        ci_low=low,
        ci_high=high,
        control=alive,
        threshold=allowed,
        outcomes=tuple(one.outcome() for one in scored),
    )


def _recovers(scored: Scored, kind: str, risk: Risk) -> str:
    if kind == "claims":
        return f"is right in {risk.rate:.1%} of what it claims ({scored.name}: rated, and with that rating)"
    return f"recovers {risk.rate:.1%} of {scored.ratings:,} ratings exactly ({scored.name})"


def _told(scored: list[Scored], worst: Scored) -> str:
    """What was tried first (the paper's own) and what is judged, in the paper's measures."""
    return "; ".join(str(one) for one in scored if one in (scored[0], worst))


def _kinds(case: Case, part: Case) -> list[Kind]:
    """The readings to try: that which tells most first; where every record has every item, the others too.

    Claims beyond the wider limit are fewer and surer: what tells less in all may be right more often.
    """
    others = readings(part.release) if case.release.complete else []
    return [case.reading, *(kind for kind in others if kind != case.reading)]


def _groups(case: Case) -> Finding:
    """Nobody's own values are published; that every record is shared is for k-anonymity to show, and needed here."""
    fewest, k = int(case.people.min()) if len(case.people) else 0, case.release.k
    return Finding(
        fewest >= k,
        0.0 if fewest >= k else None,
        0,
        f"not applicable: every record is shared by at least {fewest:,} people, so there are no single person's values "
        f"to reconstruct{'' if fewest >= k else f'; but promised are {k:,}'}.",
        control=True,
        planned=0,
        outcomes=(Outcome("not tried", Risk(0, 0)),),
    )


def _values(part: Case, kind: Kind) -> sp.csr_array:
    """The published values of the entries taken for rated."""
    blocks = [block.matrix() for block in claimed(part.release, kind)]
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def score(disguised: Disguised, attempt: Attempt, guess: Guess) -> Scored:
    """Compare an attempt with the truth."""
    originals, guessed = disguised.originals, guess.told
    truth, half = originals.ratings.data, originals.case.rating_scale.half
    told = originals.at(attempt.ratings)
    there = ~np.isnan(told)
    hit = measures.right(told, truth, half)  # NaN is never right

    def per_record(which: np.ndarray) -> np.ndarray:
        return np.bincount(originals.rows, weights=which, minlength=len(originals.users))

    rated = np.diff(originals.ratings.indptr)
    risk = clustered(
        per_record(hit | (~there & guessed)), rated, float(guessed.mean()) if len(guessed) else 0.0
    )
    claims = None
    tallies = [Tally(per_record(hit & guess.beyond_all), per_record(guess.beyond_all), np.zeros(len(rated)))]
    if disguised.detects:
        made = np.diff(attempt.ratings.indptr)
        by_luck = originals.luck(attempt.ratings, guessed)
        tallies.append(Tally(per_record(hit), made, by_luck))
        claims = clustered(per_record(hit), made, float(by_luck.sum() / max(1, made.sum())))
    error = measures.r_mae(told[there], truth[there])
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
    return Scored(name, risk, claims, len(truth), figures, tuple(tallies))


def _score_error(disguised: Disguised, attempt: Attempt) -> float | None:
    """zscore-MAE, where z-scores are published; over the entries that were claimed and rated."""
    if disguised.unit != "z-score" or attempt.scores is None:
        return None
    originals, values = disguised.originals, disguised.values
    found = originals.at(sp.csr_array((attempt.scores, values.indices, values.indptr), shape=values.shape))
    true = disguised.scores.matrix.data
    there = ~np.isnan(found)
    return measures.zscore_mae(found[there], true[there])


def _control(disguised: Disguised, attack: Attack, guess: Guess, allowed: float) -> tuple[bool, str]:
    """Does the attack tell more than is allowed of what nobody has disguised?"""
    originals = disguised.originals
    plain = originals.ratings.astype(np.float64)
    if disguised.unit == "z-score":
        plain = disguised.scores.matrix
    if disguised.detects and disguised.unit == "z-score":  # without noise whatever is not 0 is rated
        plain = _but_zero(plain)
    open_ = Disguised(plain, disguised.unit, disguised.kind, originals, Strength.none(plain.shape[0]))
    best = max((score(open_, attempt, guess) for attempt in attack(open_)), key=lambda one: one.told.gain)
    low = best.told.gain_interval[0]
    return low > min(allowed, BROKEN), (
        f"of the same people's {disguised.unit}s without any noise it recovers {best.told.rate:.1%} ({best.name}), "
        f"gain {best.told.gain:+.3f} (at least {low:+.3f})"
    )


def _but_zero(matrix: sp.csr_array) -> sp.csr_array:
    copy = matrix.copy()
    copy.eliminate_zeros()
    return copy


def _is_shown(part: Case, originals: Originals) -> bool:
    """Whether the release says, and really does, that ratings are published as they are."""
    release = part.release
    if release.manifest["method"] not in VERBATIM_METHODS or release.unit != "rating":
        return False
    told = originals.at(_values(part, "every entry"))
    there = ~np.isnan(told)
    same = np.abs(told[there] - originals.ratings.data[there]) <= release.step / 2 + measures.NEAR
    return bool(there.any()) and float(same.mean()) >= VERBATIM_SHARE
