"""Check a published release from its files alone."""

import argparse
from pathlib import Path

from tasks.cli._command import CommandResult, require_offered, verdict_result
from tasks.errors import UsageError

HELP = "check a published release from its files alone: digests, schema, k and l"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release."""
    parser.add_argument("published", metavar="PUBLISHED", help="directory of the published release")


def run(options: argparse.Namespace) -> CommandResult:
    """Run the checks that need nothing but the published files."""
    published = Path(options.published)
    if not published.is_dir():
        raise UsageError("there is no such release directory", where=str(published), remedy="check the path")
    require_offered(published)

    from checks.gate import verify

    return verdict_result(verify(published), published)
