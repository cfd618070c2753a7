"""Show what the ledger of a population holds, and verify it against the files."""

import argparse

from tasks.cli._command import DONE, FAILED, CommandResult, add_store
from tasks.config import load

HELP = "show what was ever published about a population, and verify it against the files"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration, the store and `--check`."""
    parser.add_argument("config", metavar="CONFIG", help="release file (TOML) of the population")
    add_store(parser)
    text = "recompute everything from the ledger's rows and the files of all releases; exit 1 where they disagree"
    parser.add_argument("--check", action="store_true", help=text)
    text = "who published, approved, withdrew and erased, and when: the entries of the ledger's chain"
    parser.add_argument("--log", action="store_true", help=text)


def run(options: argparse.Namespace) -> CommandResult:
    """Read the ledger; nothing is changed, and none is made where there is none."""
    from tasks.series.ledger import Ledger
    from tasks.series.overview import describe, describe_log
    from tasks.store import Store

    config, store = load(options.config), Store(options.store)
    population = config.population
    if not Ledger.exists(store, population):
        shown = "log" if options.log else "releases"
        return CommandResult({"status": "empty", "population": population, shown: []})
    with Ledger.open(store, population) as ledger:
        if options.log:
            return CommandResult({"status": "read", "population": population, "log": describe_log(ledger)})
        answer = {"status": "read", **describe(ledger, store, config.privacy.budget)}
        if not options.check:
            return CommandResult(answer)
        problems = ledger.problems(store)
    answer |= {"status": "wrong" if problems else "intact", "problems": problems}
    return CommandResult(answer, FAILED if problems else DONE)
