"""`murmur`: the command line. Each command is a few lines here; the work is elsewhere.

Results go to stdout (a table, or one JSON object with --json), progress and logs to stderr.
"""

import argparse
import datetime
import functools
import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from tasks.config import load, parse, snapshot_date
from tasks.config.gate import check_names
from tasks.errors import MurmurError, Refused, UsageError
from tasks.source_options import add_source, given_protect, given_source

Outcome = tuple[dict[str, Any], int]  # what to print, and the exit code


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code (0 done, 2 usage or input, 3 refused, 1 anything else)."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    _end_in_order()
    try:
        options = _parser().parse_args(_joined(given))
        _log_to_stderr(options.verbose)
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
    if as_json:
        print(json.dumps(result, allow_nan=False))  # noqa: T201 - this is the command's answer
    elif result.get("status") != "error":
        from tasks.display import show

        show(result)
    return code


def _end_in_order() -> None:
    """Asked to terminate, leave as after an error, so that working files are removed; nothing cuts that short."""

    def leave(number: int, frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():  # nobody else may say so
        signal.signal(signal.SIGTERM, leave)


def _joined(arguments: list[str]) -> list[str]:
    """`--scale -10,10` as `--scale=-10,10`: argparse takes a value that begins with − for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] == "--scale":
            joined[-1] = f"--scale={argument}"
        else:
            joined.append(argument)
    return joined


def _log_to_stderr(verbose: bool) -> None:
    """Our own log lines where asked for; of the libraries only what went wrong."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("murmur").setLevel(logging.INFO if verbose else logging.WARNING)
    for name in ("distributed", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _complain(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201 - errors belong on stderr


class _Parser(argparse.ArgumentParser):
    """Wrong arguments are an error like any other: one message, in JSON where asked for."""

    def error(self, message: str) -> NoReturn:
        """Raised, not printed."""
        raise UsageError(message, where=self.prog, remedy=f"`{self.prog} --help` shows what it takes")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="murmur", description="Publish rating data without anybody being recognised.")
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
    add_source(audit)
    attacks = [*check_names(("attacks",)), "advise"]
    attack = add("attack", command_attack, "one attack, on raw data or on a release; or `advise`")
    attack.add_argument("name", choices=attacks, metavar="NAME", help=f"one of: {', '.join(attacks)}")
    attack.add_argument(
        "--release", default=None, help="attack this published release instead of the raw data"
    )
    attack.add_argument("--private", default=None, help="the release's private directory")
    attack.add_argument("--snapshot", default=None, help="YYYY-MM-DD, where the path contains {snapshot}")
    attack.add_argument(
        "--scale", default=None, help="csv, parquet: lowest,highest rating, as in 1,5 or -10,10"
    )
    attack.add_argument("--mentions", default=None, help="advise: item ids mentioned in public, with commas")
    attack.add_argument("--mentions-file", default=None, help="advise: a file with one item id per line")
    attack.add_argument(
        "--user-file", default=None, help="advise: a file with the source id of who mentioned them"
    )
    attack.add_argument("--most", type=int, default=5, help="advise: how many further mentions to suggest")
    add_source(attack)
    expand = add("expand", command_expand, "write a release as ordinary (user, item, rating) rows")
    expand.add_argument("published")
    expand.add_argument("--to", required=True, choices=["csv", "movielens", "recbole"])
    expand.add_argument("out", help="csv: a file; movielens, recbole: a directory. Must not exist yet")
    restore = add("restore", command_restore, "put items added by [obfuscation] back into recommendations")
    restore.add_argument("recommendations", help="csv: user (pseudonym or source id), item, score [, rank]")
    restore.add_argument("--private", required=True, help="the release's private directory")
    restore.add_argument("--out", required=True, help="the csv file to write. Must not exist yet")
    clean = add("clean", command_clean, "remove intermediates of published snapshots, whatever their age")
    clean.add_argument("name", help="the release")
    clean.add_argument(
        "--store", default=None, help="directory of the store (default MURMUR_STORE or ./store)"
    )
    compare = add("compare", command_compare, "risk against utility of several methods; publishes nothing")
    compare.add_argument("config", help="what an entry does not set is as in this release file")
    compare.add_argument("--snapshot", required=True, help="YYYY-MM-DD")
    compare.add_argument(
        "--methods",
        required=True,
        help="with commas; each a method with optional settings: predictive-padded,perturbation:amount=0.5",
    )
    compare.add_argument("--plot", default=None, help="write the plot to this file, as SVG")
    compare.add_argument(
        "--store", default=None, help="directory of the store (default MURMUR_STORE or ./store)"
    )
    reproduce = add(
        "reproduce", command_reproduce, "a paper's tables: the paper's figure and ours, side by side"
    )
    reproduce.add_argument("paper", choices=["P0", "P1", "P2", "P3", "P4"])
    reproduce.add_argument("--data", required=True, help="directory of one data set, such as …/ml-100k")
    reproduce.add_argument("--plots", default=None, help="directory to write the figures to, as SVG")
    return parser


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
    from tasks.display import progress_bars
    from tasks.engine import engine
    from tasks.store import owner_only

    published, private = Path(options.published), Path(options.private)
    for place, option in ((published, "PUBLISHED"), (private, "--private")):
        if not place.is_dir():
            raise UsageError("there is no such directory", where=f"{option} {place}", remedy="check the path")
    source, thresholds = given_source(options, published)
    protect = given_protect(options, source, private)
    with owner_only(), engine() as workers, progress_bars() as progress:
        report = functools.partial(progress, "audit")
        verdict = audit(published, private, source, None, thresholds, workers, report, protect)
    return _verdict(verdict, published)


def command_attack(options: argparse.Namespace) -> Outcome:
    """One attack with every kind of knowledge, or the advisor."""
    from checks.exposure import expose, raw_case, released_case
    from tasks.engine import engine
    from tasks.store import owner_only

    published = Path(options.release) if options.release else None
    if bool(options.release) != bool(options.private):
        raise UsageError(
            "a release is attacked with both its published and its private directory",
            where="--release, --private",
            remedy="give both, or neither to attack the raw data",
        )
    if options.name != "advise" and (options.mentions or options.mentions_file or options.user_file):
        raise UsageError("only `advise` takes mentions", where="--mentions", remedy="leave them out")
    if options.most < 1:
        raise UsageError("suggest at least one", where="--most", remedy="give 1, 2, 3, …")
    if options.name == "advise" and published:
        raise UsageError("advice is about the raw data", where="--release", remedy="leave it out")
    for place, option in ((options.release, "--release"), (options.private, "--private")):
        if place and not Path(place).is_dir():
            raise UsageError("there is no such directory", where=f"{option} {place}", remedy="check the path")
    source, _ = given_source(options, published)
    protect = given_protect(options, source)
    snapshot = snapshot_date(options.snapshot) if options.snapshot else None
    if not published and not snapshot and "{snapshot}" in (source.path or ""):
        raise UsageError("say which snapshot to attack", where="--snapshot", remedy="give YYYY-MM-DD")
    with owner_only(), engine() as workers:
        if published:
            case = released_case(published, Path(options.private), source, snapshot, workers, protect)
        else:
            case = raw_case(source, snapshot or datetime.date(1970, 1, 1), workers, protect)
        if options.name == "advise":
            from checks.linkage.advice import advise

            return {"status": "done", **advise(case, *_mentions(options), options.most)}, 0
        return expose(options.name, case), 0


def _mentions(options: argparse.Namespace) -> tuple[list[str], str | None]:
    """What was mentioned, and by whom. An id is read from a file: command lines are seen by everybody."""
    found = options.mentions.split(",") if options.mentions else []
    if options.mentions_file:
        found += _lines(options.mentions_file, "--mentions-file")
    if not found:
        raise UsageError("nothing was mentioned", where="--mentions", remedy="give item ids, with commas")
    users = _lines(options.user_file, "--user-file") if options.user_file else []
    if len(users) > 1:
        raise UsageError("advice is for one person", where="--user-file", remedy="give a file with one id")
    return [item.strip() for item in found if item.strip()], users[0] if users else None


def _lines(path: str, option: str) -> list[str]:
    try:
        return [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        raise UsageError("this file cannot be read", where=f"{option} {path}", remedy="check it") from None


def command_expand(options: argparse.Namespace) -> Outcome:
    """A release for recommender toolkits."""
    from tasks.display import progress_bars
    from tasks.expand import expand

    with progress_bars() as progress:
        report = functools.partial(progress, "expand")
        return expand(Path(options.published), options.to, Path(options.out), report), 0


def command_restore(options: argparse.Namespace) -> Outcome:
    """The reverse operator on a recommender's output."""
    from tasks.reverse import restore
    from tasks.store import owner_only

    with owner_only():
        return restore(Path(options.recommendations), Path(options.private), Path(options.out)), 0


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


def command_compare(options: argparse.Namespace) -> Outcome:
    """Several methods on the same ratings; a refused one is a result like any other."""
    from tasks.display import progress_bars
    from tasks.store import Store
    from tasks.studies.compare import compare

    config, snapshot = load(options.config), snapshot_date(options.snapshot)
    plot = Path(options.plot) if options.plot else None
    with progress_bars() as progress:
        return compare(
            config, snapshot, Store(options.store), options.methods, plot=plot, progress=progress
        ), 0


def command_reproduce(options: argparse.Namespace) -> Outcome:
    """A paper's tables on one data set."""
    from importlib import import_module

    from tasks.display import progress_bars

    study = import_module(f"tasks.studies.reproduce_{options.paper.lower()}")
    with progress_bars() as progress:
        plots = Path(options.plots) if options.plots else None
        return study.reproduce(Path(options.data), plots=plots, progress=progress), 0


def _verdict(verdict: Any, published: Path) -> Outcome:
    status = "passed" if verdict.passed else "refused"
    checks = [check.to_json() for check in verdict.checks]
    return {"status": status, "published": str(published), "checks": checks}, 0 if verdict.passed else 3


if __name__ == "__main__":
    sys.exit(main())
