"""Attribute inference (paper 004; SCIENCE P4): does a release tell what people asked to have protected?

An attacker who adapts: he knows everybody's released record and the attribute of four people in five, learns from them
and is asked about the fifth (checks/inference). Where groups are published the record is the group's, and he learns
about the group somebody is in; the votes of the members he knows are an inferrer of their own. The worst inferrer
gates, at the upper bound of its balanced precision.

The papers' attacker learnt from raw data. He is told beside it and never gates: what fools him does not fool one who
learns again.
"""

from checks.case import Case
from checks.inference.judged import judge
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk


@check("attribute-inference", threshold=0.60, controlled=True, as_published=True)
def run(case: Case, threshold: float) -> Finding:
    """Balanced precision of the best retrained inferrer for a protected attribute (upper bound)."""
    if not case.protect:
        nothing = (Outcome("not tried", Risk(0, 0)),)
        return Finding(True, None, 0, "no attribute is protected.", control=True, planned=0, outcomes=nothing)
    unknown = [name for name in case.protect if name not in case.truth.attributes]
    if unknown:
        return Finding(
            False,
            None,
            0,
            f"the source knows nothing of {', '.join(unknown)}, so nothing is shown about the release; name its user "
            "table in source.attributes.path (--users).",
            control=True,
        )
    return judge(case, threshold, case.protect, quick=False)
