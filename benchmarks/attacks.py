"""Measure speed and memory of the attacks: `python -m benchmarks.attacks [--json FILE] [--only speed|memory]`.

Speed: Scoring as the gate runs it (knowledge in, ranks out) beside SciPy on the same postings, by CPU time per
target. The peer is SciPy's own sparse product, a batch of targets at a time (weighted mentions, targets × items,
times postings, items × records), and the rank of every target's own record from it in NumPy. The product alone
is shown, too: it has no ranks yet, so it is less than an attack. Ours and the peer's runs alternate; the best of
each are compared, and every rank must be the same.

Memory: from a synthetic source of ten million ratings to the ranks of a thousand targets by Scoring and by
Scoreboard-RH on two workers; the peak is over all processes, shared pages once. Exits 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import results
from benchmarks.timing import best_of
from checks.attacks.scoring import rule as scoring
from checks.linkage.knowledge import Knowledge
from checks.linkage.postings import Postings, postings_of
from checks.linkage.ranking import BLOCK_TARGETS, rank
from checks.linkage.rules import World, world_of

ROOT = Path(__file__).parents[1]
KNOWN_ITEMS = 16
TIMES_SCIPY = 5.0
MEMORY_BYTES = 2 * 2**30
MEMORY_TARGETS = 1_000
SIZES = (  # ratings, people, items, targets: as MovieLens 1M, as MovieLens 10M, as Netflix
    (1_000_000, 6_040, 3_706, 512),
    (10_000_000, 70_000, 10_000, 256),
    (100_000_000, 480_000, 17_770, 64),
)


def random_postings(ratings: int, people: int, items: int, directory: Path) -> Postings:
    """Write posting lists of about this many ratings as `Postings.build` does, with a realistic popularity of
    items."""
    rng = np.random.default_rng(0)
    popularity = rng.lognormal(0, 1.5, items)
    chance = np.minimum(popularity / popularity.sum() * ratings / people, 0.6)
    lists = []
    for each in chance:  # gaps between the raters of an item are geometric
        expected = people * each
        gaps = rng.geometric(each, int(expected + 6 * np.sqrt(expected) + 10))
        places = np.cumsum(gaps) - 1
        lists.append(places[places < people].astype(np.int32))
    indptr = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    rows = np.concatenate(lists)
    arrays = {
        "indptr": indptr,
        "rows": rows,
        "codes": rng.integers(0, 5, len(rows), dtype=np.uint8),
        "days": np.zeros(1, np.float32),
        "levels": np.arange(1, 6, dtype=np.float32),
        "lengths": np.bincount(rows, minlength=people).astype(np.int32),
        "people": np.ones(people, np.int32),
    }
    facts = {"records": people, "items": items, "dense": False, "dated": False}
    files = Postings.create(
        directory, facts, **{name: (array.dtype.type, len(array)) for name, array in arrays.items()}
    )
    for name, array in arrays.items():
        files[name][:] = array
    return Postings(directory)


def random_knowledge(postings: Postings, targets: int) -> Knowledge:
    """Draw this many users, and some items of each."""
    rng = np.random.default_rng(1)
    chosen = np.sort(rng.choice(np.flatnonzero(postings.lengths >= KNOWN_ITEMS), targets, replace=False))
    wanted = np.zeros(postings.records, bool)
    wanted[chosen] = True
    rows = postings.array("rows")
    places = np.flatnonzero(wanted[rows])
    owner = np.searchsorted(chosen, rows[places])
    item = np.searchsorted(postings.array("indptr"), places, side="right") - 1
    order = np.lexsort((rng.random(len(owner)), owner))
    owner, item = owner[order], item[order]
    nth = np.arange(len(owner)) - np.searchsorted(owner, np.arange(targets))[owner]
    indptr = np.arange(targets + 1) * KNOWN_ITEMS
    items = item[nth < KNOWN_ITEMS]
    return Knowledge("16 random", chosen, indptr, items, np.full(len(items), np.nan, np.float32))


class Peer:
    """Implement the Scoring attack with SciPy, as the peer."""

    def __init__(self, postings: Postings, known: Knowledge, weight: np.ndarray, most_items: float) -> None:
        rows, indptr = np.asarray(postings.array("rows")), np.asarray(postings.array("indptr"))
        shape = (postings.facts["items"], postings.records)
        self.lists = sp.csr_array((np.ones(len(rows), np.float32), rows, indptr), shape=shape)
        mentions = weight.astype(np.float32)[known.items]
        self.mentions = sp.csr_array((mentions, known.items, known.indptr), shape=(len(known), shape[0]))
        self.own, self.heavy = known.targets, np.flatnonzero(postings.lengths > most_items)
        self.batches = [slice(start, start + BLOCK_TARGETS) for start in range(0, len(known), BLOCK_TARGETS)]

    def products(self) -> None:
        """Return the sparse products alone."""
        for batch in self.batches:
            self.mentions[batch] @ self.lists

    def ranks(self) -> np.ndarray:
        """Return the worst rank of every target's own record."""
        ranks = []
        for batch in self.batches:
            scores = (self.mentions[batch] @ self.lists).toarray()
            scores[:, self.heavy] = -np.inf
            own = scores[np.arange(len(scores)), self.own[batch]][:, None]
            ranks.append(np.where(np.isinf(own[:, 0]), np.inf, np.count_nonzero(scores >= own, axis=1)))
        return np.concatenate(ranks)


def measure_speed(ratings: int, people: int, items: int, targets: int) -> dict[str, Any]:
    """Measure one size: CPU milliseconds per target of both, and their ratio."""
    with tempfile.TemporaryDirectory(prefix="murmur-bench-") as directory:
        postings = random_postings(ratings, people, items, Path(directory))
        known = random_knowledge(postings, targets)
        raters = np.diff(postings.array("indptr"))
        rule = scoring(World(raters, people, True, 0.5, 1.0, 5.0))
        peer = Peer(postings, known, rule.weight, rule.most_items)
        assert np.array_equal(rank(postings, rule, known, known.targets).group_rank, peer.ranks())
        times = best_of(3, lambda: rank(postings, rule, known, known.targets), peer.ranks, peer.products)
        ours, theirs, product = (best / targets * 1e3 for best in times)
        return {
            "ratings": int(raters.sum()),
            "people": people,
            "items": items,
            "targets": targets,
            "postings_per_target": round(float(raters[known.items].sum() / targets)),
            "ours_ms": ours,
            "scipy_ms": theirs,
            "scipy_product_alone_ms": product,
            "ratio": theirs / ours,
            "ratio_product_alone": product / ours,
            "bar": TIMES_SCIPY,
            "passed": theirs / ours >= TIMES_SCIPY,
        }


def measure_memory() -> dict[str, Any]:
    """Measure the memory from the source to the ranks, in this process and two workers."""
    from checks.attacks.scoreboard_rh import rule as scoreboard
    from checks.evidence.case import Case
    from checks.evidence.seeds import seeded
    from checks.evidence.truth import Truth
    from checks.evidence.views.raw import RawRelease
    from checks.linkage.drawn_knowledge import draw_knowledge
    from checks.linkage.knowledge import Model
    from tasks.cli._peak_memory import PeakMemory
    from tasks.config import Source
    from tasks.engine import engine

    world = {"users": 71_000, "items": 4_000, "ratings_per_user": 143.0}
    source = Source(format="synthetic", synthetic=world)  # type: ignore[call-arg,arg-type]
    attacks = {"scoring": (scoring, Model(16)), "scoreboard-rh": (scoreboard, Model(8, days=True))}
    found, seconds = {}, {}
    with PeakMemory(interval_seconds=0.05) as memory, engine(2) as workers:
        start = workers.cpu_seconds()
        truth = Truth.from_source_only(source, datetime.date(2026, 1, 1))
        seconds["truth"], after_truth = workers.cpu_seconds() - start, memory.peak_bytes
        case = Case(RawRelease(truth, low=1.0, high=5.0), truth, engine=workers)
        targets = np.sort(seeded("benchmark").choice(truth.users, MEMORY_TARGETS, replace=False))
        start = workers.cpu_seconds()
        postings = postings_of(case)
        seconds["postings"] = workers.cpu_seconds() - start
        for name, (rule_of, model) in attacks.items():
            start = workers.cpu_seconds()
            knows = draw_knowledge(truth, targets, model)
            ranks = rank(
                postings,
                rule_of(world_of(case)),
                knows,
                case.record_of(targets),
                entropic=True,
                engine=workers,
            )
            seconds[name] = workers.cpu_seconds() - start
            found[name] = float((ranks.user_rank == 1).mean())
        case.scratch.cleanup()
    return {
        "ratings": int(truth.ratings.nnz),
        "people": truth.users,
        "targets": MEMORY_TARGETS,
        "workers": 2,
        "identified": found,
        "cpu_seconds": seconds,
        "peak_bytes_reading": after_truth,
        "peak_bytes": memory.peak_bytes,
        "bar_bytes": MEMORY_BYTES,
        "passed": truth.ratings.nnz >= 10_000_000 and memory.peak_bytes <= MEMORY_BYTES,
    }


def say_speed(line: dict[str, Any]) -> None:
    print(
        f"Scoring, {line['ratings']:>11,} ratings, {line['people']:>7,} people, {line['targets']} targets, "
        f"{line['postings_per_target']:>9,} postings each: {line['ours_ms']:.4f} ms per target, SciPy "
        f"{line['scipy_ms']:.4f} ms ({line['ratio']:.1f}×, at least {line['bar']:g}×: "
        f"{'yes' if line['passed'] else 'NO'}); its product alone {line['scipy_product_alone_ms']:.4f} ms "
        f"({line['ratio_product_alone']:.1f}×)",
        flush=True,
    )


def say_memory(line: dict[str, Any]) -> None:
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in line["cpu_seconds"].items())
    print(
        f"Memory, {line['ratings']:,} ratings, {line['targets']:,} targets, {line['workers']} workers: peak "
        f"{line['peak_bytes'] / 2**20:,.0f} MiB ({line['peak_bytes_reading'] / 2**20:,.0f} while reading), at most "
        f"{line['bar_bytes'] / 2**20:,.0f}: {'yes' if line['passed'] else 'NO'}; CPU seconds: {seconds}; found: "
        + ", ".join(f"{name} {share:.1%}" for name, share in line["identified"].items()),
        flush=True,
    )


def memory_in_a_process_of_its_own() -> dict[str, Any]:
    """Run in a process of its own, so that the memory of this benchmark is not counted."""
    command = [sys.executable, "-m", "benchmarks.attacks", "--only", "memory", "--bare"]
    return json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--only", choices=("speed", "memory"), help="one half of it")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    arguments, began = parser.parse_args(), results.machine()
    if arguments.bare:
        print(json.dumps(measure_memory()))
        return 0
    figures: dict[str, Any] = {"speed": [], "memory": None}
    if arguments.only != "memory":
        for size in SIZES:
            figures["speed"].append(measure_speed(*size))
            say_speed(figures["speed"][-1])
    if arguments.only != "speed":
        figures["memory"] = memory_in_a_process_of_its_own()
        say_memory(figures["memory"])
    if arguments.json:
        results.write(arguments.json, figures, began)
    lines = [*figures["speed"], *([figures["memory"]] if figures["memory"] else [])]
    return 0 if all(line["passed"] for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
