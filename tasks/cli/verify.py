"""Check a published release from its files alone."""

import argparse
import json
from pathlib import Path

from tasks.cli._command import REFUSED, CommandResult, copied_here, require_offered, verdict_result
from tasks.errors import Refused, UsageError

HELP = (
    "check a published release from its files alone: digests, schema, k and l, and with --key its signature"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the release."""
    parser.add_argument(
        "published", metavar="PUBLISHED", help="the published release: a directory, or s3://…"
    )
    parser.add_argument(
        "--key",
        default=None,
        metavar="FILE",
        help="also verify who signed it: the owner's public key (.pem) or trusted-keys.json (murmur keys export)",
    )


def run(options: argparse.Namespace) -> CommandResult:
    """Run the checks that need nothing but the published files."""
    if "://" not in options.published:
        return _verify(Path(options.published), options.key)
    with copied_here(options.published) as copy:
        result = _verify(copy, options.key)
    answer = json.loads(json.dumps(result.answer).replace(str(copy), options.published))
    return CommandResult(answer, result.exit_code, result.end)


def _verify(published: Path, key: str | None) -> CommandResult:
    if not published.is_dir():
        raise UsageError("there is no such release directory", where=str(published), remedy="check the path")
    require_offered(published)

    from checks.gate import verify

    found = verdict_result(verify(published), published)
    if key is None:
        is_signed = (published / "signature.json").is_file()
        state = "not verified; give --key to verify who signed" if is_signed else "none"
        return CommandResult({**found.answer, "signature": {"status": state}}, found.exit_code)

    from tasks.signatures.trust import read_trusted, verify_signature

    trusted = read_trusted(Path(key))
    try:
        signature = verify_signature(published, trusted)
    except Refused as problem:
        refused = {"status": "refused", "why": problem.what, "remedy": problem.remedy}
        return CommandResult({**found.answer, "status": "refused", "signature": refused}, REFUSED)
    return CommandResult({**found.answer, "signature": signature}, found.exit_code)
