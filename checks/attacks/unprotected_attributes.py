"""What a release tells of attributes that nobody asked to protect: told to the owner, decides nothing.

The attack of attribute-inference with its quicker inferrers (no trees, two folds) on every other attribute the source
knows.
"""

from checks.case import Case
from checks.inference.judged import judge
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk


@check("unprotected-attributes", threshold=0.60, severity="advisory", controlled=True, as_published=True)
def run(case: Case, threshold: float) -> Finding:
    """Balanced precision of the best retrained inferrer for any other attribute (upper bound)."""
    others = tuple(name for name in case.truth.attributes if name not in case.protect)
    if not others:
        said = "the source knows no attribute of people" + (
            " that is not protected." if case.protect else "."
        )
        return Finding(
            True, None, 0, said, control=True, planned=0, outcomes=(Outcome("not tried", Risk(0, 0)),)
        )
    return judge(case, threshold, others, quick=True)
