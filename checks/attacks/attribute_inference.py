"""Infer protected attributes ([RFPP], [Weinsberg2012]): does a release reveal what must be protected?

The attacker adapts: they know every person's released record and the attribute of four people in five, learn from them
and are tested on the fifth (checks/inference). Where groups are published the record is the group's, and the attacker
learns about the group a person is in; the votes of the members they know are an inferrer of their own. The worst
inferrer gates, at the upper bound of its balanced precision.

The papers' attacker learned from raw data. The result of that attacker is reported beside it and never gates: what
misleads them does not mislead an attacker who learns again.
"""

from checks.about import About
from checks.evidence.case import Case
from checks.inference.assessment import find_attribute_disclosure
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk


@check(
    "attribute-inference",
    threshold=0.60,
    controlled=True,
    as_published=True,
    about=About(
        title="Protected attributes",
        summary="Infer a protected attribute from a person's record",
        knows="The attacker knows the records and the protected attribute of four people in five.",
        tries="They train classifiers on these and predict the attribute of the fifth.",
        means="50 % is a wild guess and 100 % is certainty; the limit is a fifth of the way between them.",
        measure="balanced precision of the best classifier",
        guess=0.5,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Compare the balanced precision of the best retrained inferrer for a protected attribute (upper bound) with the
    threshold."""
    if not case.protect:
        nothing = (Outcome("not tried", Risk(0, 0)),)
        return Finding(
            True,
            None,
            0,
            "no attribute is protected.",
            control=True,
            planned=0,
            outcomes=nothing,
            applicable=False,
        )
    unknown = [name for name in case.protect if name not in case.truth.attributes]
    if unknown:
        return Finding(
            False,
            None,
            0,
            f"the source has no attribute {', '.join(unknown)}, so nothing can be tested; name its user "
            "table in source.attributes.path (--users).",
            control=True,
        )
    return find_attribute_disclosure(case, threshold, case.protect, quick=False)
