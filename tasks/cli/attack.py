"""Run one attack on raw data or on a release, or advise on what to mention in public."""

import argparse
import datetime
import textwrap
from pathlib import Path

from tasks.cli._command import (
    CommandResult,
    add_snapshot,
    require_directory,
    require_offered,
    require_own_private,
)
from tasks.cli._source_options import (
    add_source_arguments,
    protected_attributes_from_options,
    source_from_options,
)
from tasks.config import snapshot_date
from tasks.config.gate import check_names, check_summaries
from tasks.errors import UsageError
from tasks.store import read_published_json

HELP = "run one attack on raw data or on a release; or `advise` on public mentions"
ADVISE = "advise"
HELP_WIDTH = 80


def EPILOG() -> str:
    """Return every attack with what it does."""
    lines = {**check_summaries(("attacks",)), ADVISE: "Suggest further mentions that mislead an attacker"}
    width = max(map(len, lines)) + 2
    told = [
        textwrap.wrap(words, HELP_WIDTH - width - 2, break_on_hyphens=False, break_long_words=False)
        for words in lines.values()
    ]
    indent = "\n" + " " * (width + 2)
    rows = (f"  {name:<{width}}" + indent.join(words) for name, words in zip(lines, told, strict=True))
    return "attacks:\n" + "\n".join(rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the attack, its target, and what `advise` needs."""
    attacks = [*check_names(("attacks",)), ADVISE]
    parser.add_argument("name", choices=attacks, metavar="NAME", help="one of those below")
    parser.add_argument(
        "--release", default=None, metavar="DIR", help="attack this published release, not the raw data"
    )
    parser.add_argument(
        "--private",
        default=None,
        metavar="DIR",
        help="private directory of the release (needed with --release)",
    )
    add_snapshot(parser, required=False)
    parser.add_argument(
        "--scale", default=None, metavar="LOW,HIGH", help="csv, parquet: rating scale, such as 1,5 or -10,10"
    )
    add_source_arguments(parser)
    advice = parser.add_argument_group(ADVISE)
    advice.add_argument(
        "--mentions", default=None, metavar="ITEMS", help="item ids mentioned in public, separated by commas"
    )
    advice.add_argument(
        "--mentions-file", default=None, metavar="FILE", help="file with one item id per line"
    )
    advice.add_argument(
        "--user-file",
        default=None,
        metavar="FILE",
        help="file with the source id of the user who mentioned them",
    )
    advice.add_argument(
        "--most", type=int, default=5, metavar="N", help="number of further mentions to suggest (default 5)"
    )


def run(options: argparse.Namespace) -> CommandResult:
    """Run the attack with every model of attacker knowledge, or the advisor."""
    from checks.evidence.opened_cases import raw_case, released_case
    from checks.gate import run_attack
    from tasks.cli._kernels import compile_once
    from tasks.cli._short_ends import end_of_attack
    from tasks.engine import engine
    from tasks.store import owner_only

    _refuse_contradictions(options)
    published = require_directory(options.release, "--release") if options.release else None
    if published:
        require_offered(published)
    private = require_directory(options.private, "--private") if options.private else None
    if published and private:
        require_own_private(published, private)
    source, _ = source_from_options(options, published)
    protect = protected_attributes_from_options(options, source)
    snapshot = snapshot_date(options.snapshot) if options.snapshot else None
    if not published and not snapshot and "{snapshot}" in (source.path or ""):
        raise UsageError(
            "the path of the source contains {snapshot}, but no snapshot is given",
            where="--snapshot",
            remedy="give the snapshot date, YYYY-MM-DD",
        )
    compile_once()
    with owner_only(), engine() as workers:
        if published and private:
            case = released_case(published, private, source, snapshot, workers, protect)
        else:
            case = raw_case(source, snapshot or datetime.date(1970, 1, 1), workers, protect)
        if options.name == ADVISE:
            from checks.linkage.advice import advise

            return CommandResult({"status": "done", **advise(case, *_read_mentions(options), options.most)})
        answer = run_attack(options.name, case)
    return CommandResult(answer, end=tuple(end_of_attack(answer, _promised_k(published))))


def _promised_k(published: Path | None) -> int | None:
    """Return the k that a release promises; None for raw data and where the manifest is unreadable."""
    try:
        return int(read_published_json(published / "manifest.json")["privacy"]["k"]) if published else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _refuse_contradictions(options: argparse.Namespace) -> None:
    """Refuse options that exclude each other."""
    if bool(options.release) != bool(options.private):
        raise UsageError(
            "attacking a release needs both its published and its private directory",
            where="--release, --private",
            remedy="give both, or neither to attack the raw data",
        )
    if options.name != ADVISE and (options.mentions or options.mentions_file or options.user_file):
        raise UsageError(
            f"attack '{options.name}' uses no mentions",
            where="--mentions, --mentions-file, --user-file",
            remedy="remove these options, or run `murmur attack advise`",
        )
    if options.most < 1:
        raise UsageError("at least one mention must be suggested", where="--most", remedy="give 1, 2, 3, …")
    if options.name == ADVISE and options.release:
        raise UsageError(
            "`advise` works on the raw data only", where="--release", remedy="remove --release and --private"
        )


def _read_mentions(options: argparse.Namespace) -> tuple[list[str], str | None]:
    """Return the mentioned items and the user. The user id comes from a file: other users see command lines."""
    mentions = options.mentions.split(",") if options.mentions else []
    if options.mentions_file:
        mentions += _read_lines(options.mentions_file, "--mentions-file")
    mentions = [item.strip() for item in mentions if item.strip()]
    if not mentions:
        raise UsageError(
            "no mentioned item is given",
            where="--mentions, --mentions-file",
            remedy="give item ids separated by commas, or a file with one per line",
        )
    users = _read_lines(options.user_file, "--user-file") if options.user_file else []
    if len(users) > 1:
        raise UsageError(
            f"the file contains {len(users)} lines, but advice is for one user",
            where=f"--user-file {options.user_file}",
            remedy="give a file with one user id",
        )
    return mentions, users[0] if users else None


def _read_lines(path: str, option: str) -> list[str]:
    try:
        return [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            "this file cannot be read as UTF-8 text",
            where=f"{option} {path}",
            remedy="check path and encoding",
        ) from None
