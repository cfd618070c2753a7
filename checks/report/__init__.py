"""Write report.html and README.md of a release from its files and the gate's verdict.

May import evidence, the measure of checks.utility, the spine's result, and store and errors of tasks; no other check.
"""

from checks.report.page import write_report
from checks.report.readme import write_readme
from checks.report.words import MethodWords

__all__ = ["MethodWords", "write_readme", "write_report"]
