"""Write the reports of a release of synthetic rows: one for the public, one with all figures for its owner.

The public one shows what the manifest states and which checks were passed, and nothing that was measured on the data:
every such figure would have to be paid for from the privacy budget.
"""

from pathlib import Path
from typing import Any

from checks.evidence.release import Release
from checks.report.rendering import render_html
from checks.report.words import MethodWords
from checks.result import Verdict
from tasks.errors import Refused
from tasks.store import write_bytes

PERIODS = {
    "release": "this release",
    "year": "all releases of a calendar year",
    "population": "all releases ever",
}


def write_synthetic_reports(
    public: Path, private: Path, verdict: Verdict, redacted: Verdict, words: MethodWords
) -> None:
    """Write report.html into both directories; the same inputs give the same bytes."""
    for place, shown, is_owner in ((public, redacted, False), (private, verdict, True)):
        page = render_html(
            "synthetic_report.html.j2", verdict=shown, about=words.about, owner=is_owner, **_described(public)
        )
        write_bytes(place / "report.html", page.encode())


def _described(release_dir: Path) -> dict[str, Any]:
    try:
        manifest = Release(release_dir).manifest
    except Refused as problem:
        return {"title": "Unreadable release", "problem": problem.what, "facts": {}, "privacy": None}
    privacy, counts = manifest["privacy"], manifest["counts"]
    budget = privacy["budget"]
    return {
        "title": f"Release {manifest['release']}, {manifest['snapshot']}",
        "problem": None,
        "privacy": privacy,
        "facts": {
            "Method": manifest["method"],
            "Synthetic rows": f"{counts['groups']:,}",
            "Items": f"{counts['items']:,}",
            "Ratings in the rows": f"{counts['ratings']:,}",
            "Epsilon of this release": f"{privacy['epsilon']:.4g}",
            "Delta": f"{privacy['delta']:g}",
            "Rho (zCDP)": f"{privacy['rho']:.4g}",
            "Budget": f"epsilon {budget['epsilon']:g}, delta {budget['delta']:g}",
            "The budget is for": PERIODS[budget["per"]],
            "Equal shares of the budget": f"{budget['releases']:,}",
        },
    }
