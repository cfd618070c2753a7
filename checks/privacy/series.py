"""Warn about successive releases about the same people: k-anonymity does not compose (docs/leaks-and-bars.md)."""

from checks.evidence.case import Case
from checks.registry import check
from checks.result import Finding


@check("series", threshold=1, severity="advisory", as_published=True)
def run(case: Case, threshold: float) -> Finding:
    """Return 1 when the release was checked against the earlier ones about the same population, 0 when not."""
    checked = case.release.manifest["series"] == "checked"
    detail = (
        "checked against every earlier release about the same people."
        if checked
        else "safety across successive releases was not examined: groups of two releases about "
        "the same people can be "
        "intersected, and people who share a group in each be distinguished. Publish one snapshot "
        "only, or use a series."
    )
    return Finding(checked, float(checked), 1, detail)
