"""Open the report of a release in a browser."""

import argparse
import os
import sys
from pathlib import Path

from tasks.cli._command import CommandResult, require_directory, require_offered
from tasks.errors import UsageError

HELP = "open the report of a release in a browser; without a browser, print where it is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release."""
    text = "directory of a published release, or of a candidate that `murmur run` named"
    parser.add_argument("published", metavar="PUBLISHED", help=text)


def run(options: argparse.Namespace) -> CommandResult:
    """Open report.html; it loads nothing from other hosts."""
    place = require_directory(options.published, "PUBLISHED")
    require_offered(place)
    report = place / "report.html"
    if not report.is_file():
        raise UsageError(
            "there is no report here",
            where=str(report),
            remedy="name the directory of a release: <store>/published/<name>/<snapshot>",
        )
    opened = _has_browser() and _open(report)
    answer = {"status": "opened" if opened else "no browser", "report": str(report.absolute())}
    return CommandResult(answer, end=("opened in the browser" if opened else str(report.absolute()),))


def _has_browser() -> bool:
    """Return whether a window can appear: a browser in the terminal would take it over."""
    windows = sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(windows or os.environ.get("BROWSER"))


def _open(report: Path) -> bool:
    import webbrowser

    try:
        return webbrowser.open(report.absolute().as_uri())
    except webbrowser.Error:
        return False
