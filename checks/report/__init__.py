"""Write report.html and README.md of a release from its files and the gate's verdict.

May import evidence, the measure of checks.utility, the spine (about, registry, result), and store and errors of tasks;
no other check.
"""

from checks.report.page import write_owner_report, write_report
from checks.report.past import OwnerFacts, Past, PastRelease
from checks.report.readme import write_readme
from checks.report.synthetic import write_synthetic_reports
from checks.report.words import MethodWords

__all__ = [
    "MethodWords",
    "OwnerFacts",
    "Past",
    "PastRelease",
    "write_owner_report",
    "write_readme",
    "write_report",
    "write_synthetic_reports",
]
