"""Run the whole gate on an existing release."""

import argparse
import functools

from tasks.cli._command import (
    CommandResult,
    require_directory,
    require_offered,
    require_own_private,
    verdict_result,
)
from tasks.cli._source_options import (
    add_source_arguments,
    protected_attributes_from_options,
    source_from_options,
)

HELP = "run the whole gate on an existing release; changes nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release, its private directory and its source."""
    parser.add_argument("published", metavar="PUBLISHED", help="directory of the published release")
    parser.add_argument("--private", required=True, metavar="DIR", help="private directory of the release")
    add_source_arguments(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Run every check and attack of the gate."""
    from checks.gate import audit
    from checks.stats import corrected_for
    from tasks.cli._display import progress_bars
    from tasks.cli._kernels import compile_once
    from tasks.data.attempts import count_for_audit
    from tasks.engine import engine
    from tasks.store import owner_only

    published = require_directory(options.published, "PUBLISHED")
    require_offered(published)
    private = require_directory(options.private, "--private")
    require_own_private(published, private)
    source, thresholds = source_from_options(options, published)
    protect = protected_attributes_from_options(options, source, private)
    compile_once()
    attempts = count_for_audit(private, published)
    with owner_only(), engine() as workers, progress_bars() as progress, corrected_for(attempts):
        report = functools.partial(progress, "audit")
        verdict = audit(published, private, source, None, thresholds, workers, report, protect)
    return verdict_result(verdict, published)
