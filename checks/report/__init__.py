"""What people read about a release: report.html and README.md, made from its files and the gate's verdict."""

from checks.report.page import write_report
from checks.report.readme import write_readme

__all__ = ["write_readme", "write_report"]
