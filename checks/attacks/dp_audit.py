"""Audit differential privacy: a lower bound on epsilon, from runs of the mechanism with and without a made-up person.

The claim of a release is a proof, and a proof says nothing about a program with a mistake. So evaluate runs the
program: many times on a small part of the data, with and without a canary, a person whose ratings make the largest
possible difference ([Nasr2023]; docs/dp-audit.md). The attacker sees the noisy statistics and knows everything else.
What that attacker achieves gives a lower bound on the true epsilon; above the claimed one, the release is refused.

The positive control is the same audit of the same program with half of the noise: it must exceed the claimed epsilon.
Otherwise the audit could not have found a mistake, and shows nothing.
"""

from checks.about import About
from checks.canaries.privacy_loss import gaussian_mu
from checks.canaries.trials import CLAIMED, HALVED, Bound, bound_epsilon, read_evidence
from checks.evidence.case import Case
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import ERROR_SHARE, Risk
from tasks.errors import Refused

SAME = 1e-6


@check(
    "dp-audit",
    threshold=0.0,
    controlled=True,
    as_published=True,
    whole=True,
    units=("synthetic",),
    about=About(
        title="Audit of epsilon",
        summary="Bound epsilon from below with made-up people",
        knows="The attacker knows all ratings but those of one made-up person, and sees the noisy sums.",
        tries="The program runs many times with and without this person; the attacker guesses which run it was.",
        means="Success beyond what the claimed epsilon allows would show a mistake in the program.",
        measure="epsilon shown beyond the claimed one",
        unit="",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Bound epsilon from below by attacking canaries; no more than the claimed epsilon may be shown."""
    claimed, delta = claim_of(case)
    if case.private is None:
        raise Refused("there is no private directory with the trials", remedy="run `murmur audit`")
    evidence = read_evidence(case.private / "utility" / "canaries")
    if abs(evidence.epsilon / claimed - 1) > SAME or abs(evidence.delta / delta - 1) > SAME:
        raise Refused(
            "the trials with canaries are of another epsilon or delta than the release claims",
            remedy="run the release anew; its evaluate step makes the trials",
        )
    # A bound that must show harm keeps its level however many attempts there were (checks/stats.py).
    found, control = (
        bound_epsilon(evidence.trials[setting], evidence.parts, delta, ERROR_SHARE)
        for setting in (CLAIMED, HALVED)
    )
    allowed = claimed * (1 + threshold)
    return Finding(
        found.epsilon <= allowed,
        found.epsilon,
        evidence.runs,
        f"{evidence.runs:,} trials show that epsilon is at least {found}, with 95 % confidence; claimed {claimed:g} "
        f"at delta {delta:g} (mu {gaussian_mu(claimed, delta):.2f}, shown {found.mu:.2f}). "
        f"Control, half of the noise: at least {control}.",
        control=control.epsilon > claimed,
        threshold=allowed,
        outcomes=(_outcome("noise as claimed", found), _outcome("half of the noise (control)", control)),
    )


def claim_of(case: Case) -> tuple[float, float]:
    """Return the epsilon and delta that a release's manifest states."""
    privacy = case.release.manifest["privacy"]
    try:
        epsilon, delta = float(privacy["epsilon"]), float(privacy["delta"])
    except (KeyError, TypeError, ValueError):
        raise Refused(
            "the manifest states no epsilon and delta",
            where="manifest.json: privacy",
            remedy="run the release anew",
        ) from None
    if not (epsilon > 0 and 0 < delta < 1):
        raise Refused("the manifest's epsilon or delta is impossible", where="manifest.json: privacy")
    return epsilon, delta


def _outcome(knowledge: str, bound: Bound) -> Outcome:
    answers = bound.answers
    risk = Risk(answers.called_with, answers.with_canary, answers.called_without / max(1, answers.without))
    more = {"epsilon": bound.epsilon, "epsilon_free": bound.free, "mu": bound.mu}
    return Outcome(knowledge, risk, more={**more, "canary": bound.shape, "by": bound.by})
