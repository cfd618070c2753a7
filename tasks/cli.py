"""`murmur`: the command line. Each command is a few lines here; the work is elsewhere.

Results go to stdout (a table, or one JSON object with --json), progress and logs to stderr.
"""

import argparse
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from tasks.config import SCALES, ReleaseConfig, Source, load, parse, snapshot_date
from tasks.errors import MurmurError, Refused, UsageError

Outcome = tuple[dict[str, Any], int]  # what to print, and the exit code


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code (0 done, 2 usage or input, 3 refused, 1 anything else)."""
    options = _parser().parse_args(arguments)
    _log_to_stderr(options.verbose)
    try:
        result, code = options.command(options)
    except MurmurError as problem:
        _complain(str(problem))
        error = {"what": problem.what, "where": problem.where, "remedy": problem.remedy}
        result, code = {"status": "error", "error": error}, problem.exit_code
    except KeyboardInterrupt:
        _complain("interrupted; nothing was published")
        result, code = {"status": "error", "error": {"what": "interrupted"}}, 1
    except Exception as problem:
        # A foreign exception may quote a source id: say its kind and place, the rest only when asked for.
        if os.environ.get("MURMUR_TRACEBACK"):
            traceback.print_exc()
        place = traceback.extract_tb(problem.__traceback__)[-1]
        what = f"unexpected {type(problem).__name__} in {Path(place.filename).name}, line {place.lineno}"
        _complain(f"{what}\n  to do: set MURMUR_TRACEBACK=1 to see all of it (it may show private data)")
        result, code = {"status": "error", "error": {"what": what}}, 1
    if options.json:
        print(json.dumps(result, allow_nan=False))  # noqa: T201 - this is the command's answer
    elif result.get("status") != "error":
        from tasks.display import show

        show(result)
    return code


def _log_to_stderr(verbose: bool) -> None:
    """Our own log lines where asked for; of the libraries only what went wrong."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("murmur").setLevel(logging.INFO if verbose else logging.WARNING)
    for name in ("distributed", "great_expectations", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _complain(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201 - errors belong on stderr


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="murmur", description="Publish rating data without anybody being recognised."
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(
        name: str, function: Callable[[argparse.Namespace], Outcome], text: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
        command.add_argument("--verbose", action="store_true", help="log every step to stderr")
        command.set_defaults(command=function)
        return command

    init = add("init", command_init, "write a commented starter configuration")
    init.add_argument("name")
    check = add("check", command_check, "validate a configuration and its source without running")
    check.add_argument("config")
    check.add_argument("--snapshot", default=None, help="YYYY-MM-DD, where the path contains {snapshot}")
    run = add("run", command_run, "make one release: all steps, the gate, publication")
    run.add_argument("config")
    run.add_argument("--snapshot", required=True, help="YYYY-MM-DD")
    run.add_argument("--store", default=None, help="directory of the store (default MURMUR_STORE or ./store)")
    verify = add("verify", command_verify, "check a published release from its files alone")
    verify.add_argument("published")
    audit = add("audit", command_audit, "run the whole gate on an existing release; changes nothing")
    audit.add_argument("published")
    audit.add_argument("--private", required=True, help="the release's private directory")
    _add_source(audit)
    clean = add("clean", command_clean, "remove intermediates of published snapshots, whatever their age")
    clean.add_argument("name", help="the release")
    clean.add_argument(
        "--store", default=None, help="directory of the store (default MURMUR_STORE or ./store)"
    )
    reproduce = add(
        "reproduce", command_reproduce, "a paper's tables: the paper's figure and ours, side by side"
    )
    reproduce.add_argument("paper", choices=["P0"])
    reproduce.add_argument("--data", required=True, help="directory of one data set, such as …/ml-100k")
    reproduce.add_argument("--plots", default=None, help="directory to write the figures to, as SVG")
    return parser


def _add_source(command: argparse.ArgumentParser) -> None:
    command.add_argument("--source", default=None, help="path of the ratings the release was made from")
    command.add_argument("--format", default=None, choices=[*SCALES, "csv", "parquet"])
    command.add_argument(
        "--config", default=None, help="take [source] and [gate] from this release file instead"
    )
    command.add_argument(
        "--columns", default=None, help="csv, parquet: user,item,rating[,timestamp] column names"
    )
    command.add_argument("--delimiter", default=",")
    command.add_argument("--encoding", default="utf-8")


def command_init(options: argparse.Namespace) -> Outcome:
    """Write a starter configuration; never over an existing file."""
    parse({"release": {"name": options.name}, "source": {"format": "synthetic"}}, "murmur init")
    releases = Path("dags/releases")
    path = (releases if releases.is_dir() else Path()) / f"{options.name}.toml"
    text = files("tasks").joinpath("starter.toml").read_text(encoding="utf-8").replace("@NAME@", options.name)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            "this file exists already", where=str(path), remedy="choose another name or edit it"
        ) from None
    return {"status": "written", "config": str(path), "next": f"edit it, then run: murmur check {path}"}, 0


def command_check(options: argparse.Namespace) -> Outcome:
    """Validate a configuration and look at its source."""
    from tasks.preview import preview

    config = load(options.config)
    snapshot = snapshot_date(options.snapshot) if options.snapshot else config.release.start_date
    return {"status": "valid", "config": options.config, **preview(config, snapshot)}, 0


def command_run(options: argparse.Namespace) -> Outcome:
    """Make one release, exactly as the DAG does."""
    from tasks import pipeline
    from tasks.display import progress_bars
    from tasks.outcome import describe
    from tasks.resources import PeakMemory
    from tasks.store import Store

    config, snapshot = load(options.config), snapshot_date(options.snapshot)
    store = Store(options.store)
    seconds: dict[str, float] = {}
    refusal: Refused | None = None
    with PeakMemory() as memory, progress_bars() as progress:
        try:
            pipeline.run(config, snapshot, store, progress=progress, seconds=seconds)
        except Refused as problem:
            refusal = problem
    result = describe(config, snapshot, store, refusal, judged=bool({"validate", "publish"} & set(seconds)))
    if refusal:
        _complain(str(refusal))
    return {**result, "seconds": seconds, "peak_rss_bytes": memory.peak_bytes}, 3 if refusal else 0


def command_verify(options: argparse.Namespace) -> Outcome:
    """Digests, schema, k and l from the published files alone."""
    from checks.gate import verify

    published = Path(options.published)
    if not published.is_dir():
        raise UsageError("there is no such release directory", where=str(published), remedy="check the path")
    return _verdict(verify(published), published)


def command_audit(options: argparse.Namespace) -> Outcome:
    """The whole gate on an existing release."""
    from checks.gate import audit

    published, private = Path(options.published), Path(options.private)
    for place, option in ((published, "PUBLISHED"), (private, "--private")):
        if not place.is_dir():
            raise UsageError("there is no such directory", where=f"{option} {place}", remedy="check the path")
    source, thresholds = _source(options, published)
    return _verdict(audit(published, private, source, None, thresholds), published)


def command_clean(options: argparse.Namespace) -> Outcome:
    """Remove what the steps left behind; releases and the owner's files stay."""
    from tasks.retention import sweep
    from tasks.store import Store

    store = Store(options.store)
    if not (store.root / "private" / options.name).is_dir():
        raise UsageError(
            f"there is no release '{options.name}'", where=str(store.root), remedy="check name and store"
        )
    removed = sweep(store, options.name, older_than_days=0)
    return {"status": "cleaned", "removed": [str(place) for place in removed]}, 0


def command_reproduce(options: argparse.Namespace) -> Outcome:
    """A paper's tables on one data set."""
    from tasks.display import progress_bars
    from tasks.studies.reproduce_p0 import reproduce

    with progress_bars() as progress:
        plots = Path(options.plots) if options.plots else None
        return reproduce(Path(options.data), plots=plots, progress=progress), 0


def _source(options: argparse.Namespace, published: Path) -> tuple[Source, dict[str, float]]:
    """The source an audit compares with, from a release file or from the options."""
    if options.config:
        config: ReleaseConfig = load(options.config)
        return config.source, config.gate
    if not options.format:
        raise UsageError(
            "say where the ratings are", where="--source, --format", remedy="or give --config FILE"
        )
    table: dict[str, Any] = {"format": options.format, "path": options.source}
    if options.format in ("csv", "parquet"):
        table["scale"] = _published_scale(published)
        table |= {"delimiter": options.delimiter, "encoding": options.encoding}
        if options.columns:
            table["columns"] = dict(
                zip(("user", "item", "rating", "timestamp"), options.columns.split(","), strict=False)
            )
    return parse({"release": {"name": "audit"}, "source": table}, "murmur audit").source, {}


def _published_scale(published: Path) -> list[float]:
    """The scale a release says it has; a manifest that cannot be read is for the gate to refuse."""
    try:
        low, high = json.loads((published / "manifest.json").read_text(encoding="utf-8"))["rating_scale"]
        return [float(low), float(high)]
    except (OSError, ValueError, TypeError, KeyError):
        return [1.0, 5.0]


def _verdict(verdict: Any, published: Path) -> Outcome:
    status = "passed" if verdict.passed else "refused"
    checks = [check.to_json() for check in verdict.checks]
    return {"status": status, "published": str(published), "checks": checks}, 0 if verdict.passed else 3


if __name__ == "__main__":
    sys.exit(main())
