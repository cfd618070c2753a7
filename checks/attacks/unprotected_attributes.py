"""Report how well attributes that are not protected can be inferred from a release; it decides nothing.

It is the attack of attribute-inference with its quicker inferrers (no trees, two folds) on every other attribute the
source knows.
"""

from checks.about import About
from checks.evidence.case import Case
from checks.inference.assessment import find_attribute_disclosure
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk


@check(
    "unprotected-attributes",
    threshold=0.60,
    severity="advisory",
    controlled=True,
    as_published=True,
    about=About(
        title="Other attributes",
        summary="Infer other attributes from a record (advisory)",
        knows="The attacker knows the records and an attribute of four people in five.",
        tries="They train classifiers on these and predict the attribute of the fifth.",
        means=(
            "The owner has not asked to protect these attributes, so the figure warns and refuses nothing. 50 % "
            "is a wild guess."
        ),
        measure="balanced precision of the best classifier",
        guess=0.5,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Report the balanced precision of the best retrained inferrer for any other attribute (upper bound)."""
    others = tuple(name for name in case.truth.attributes if name not in case.protect)
    if not others:
        reason = "the source has no attribute of users" + (" that is not protected." if case.protect else ".")
        return Finding(
            True,
            None,
            0,
            reason,
            control=True,
            planned=0,
            outcomes=(Outcome("not tried", Risk(0, 0)),),
            applicable=False,
        )
    return find_attribute_disclosure(case, threshold, others, quick=True)
