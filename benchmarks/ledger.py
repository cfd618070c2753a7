"""Measure a ledger at Netflix size: bytes on disk, and seconds per release, over twelve synthetic releases.

    python -m benchmarks.ledger                      # 480,189 people, about 210 ratings each, 96,000 groups
    python -m benchmarks.ledger --people 20000       # a small one

Half of the people are in the first release; the others arrive in equal parts. Every release carries all groups over.
`write`: encode the ratings and write the entry's files (the step `validate`). `enter`: open the ledger, read the entry,
prepare and commit (the step `publish`). `largest` is the size of the ledger's files during that, log included.
"""

import argparse
import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.series import versions
from tasks.series.entry import read_entry, write_entry
from tasks.series.ledger import Ledger
from tasks.store import Store

ITEMS = 17_770
GROUP = 5
MEBIBYTE = 2**20


def size_of(store: Store) -> int:
    """Return the bytes of all files of the ledgers."""
    total = 0
    for file in (store.root / "private" / "ledger").glob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


@contextlib.contextmanager
def largest_size(store: Store) -> Iterator[list[int]]:
    """Watch the size of the ledgers; the list's only value grows."""
    found, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            found[0] = max(found[0], size_of(store))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def make_ratings(rng: np.random.Generator, people: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indptr, item numbers (ascending for each person) and ratings."""
    lengths = np.clip(rng.lognormal(4.7, 1.13, people), 5, 8000).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    steps = 1 + (rng.random(indptr[-1]) * np.repeat(2 * (ITEMS / lengths - 1), lengths)).astype(np.int64)
    steps[indptr[:-1]] -= 1
    total = np.cumsum(steps)
    items = total - np.repeat(np.concatenate([[0], total[indptr[1:-1] - 1]]), lengths)
    return indptr, np.minimum(items, ITEMS - 1), rng.integers(1, 6, indptr[-1]).astype(np.float32)


def enter(store: Store, place: Path, number: int, people: range, rng: np.random.Generator) -> None:
    """Make and enter one release; print what it cost."""
    indptr, items, ratings = make_ratings(rng, len(people))
    with Ledger.open(store, "people") as ledger:
        live, head, known = ledger.groups(), ledger.head, ledger.items()
    started = time.perf_counter(), time.process_time()
    encoded = versions.encode_rows(indptr, items, ratings)
    count = len(people) // GROUP
    places = np.minimum(np.arange(len(people)) // GROUP, count - 1).astype(np.int32)
    groups = pa.table(
        {
            "place": np.arange(count) + len(live),
            "size": np.bincount(places),
            "profile": pa.array([rng.bytes(32).hex() for _ in range(count)]),
            "number": np.arange(count) + len(live),
            "stratum": pa.array([f"2026-{number:02}-01"] * count),
            "pool": pa.array([None] * count, pa.int32()),
        }
    )
    write_entry(
        place,
        head=head,
        mode="sticky",
        k=GROUP,
        source="synthetic",
        population="people",
        carried=[(group.id, n) for n, group in enumerate(live)],
        groups=groups,
        persons=(pa.array([f"user {n}" for n in people]), places + np.int32(len(live)), encoded),
        items=[] if known else [f"item {n}" for n in range(ITEMS)],
        other_items=[],
    )
    written = time.perf_counter(), time.process_time()
    del encoded
    with largest_size(store) as largest, Ledger.open(store, "people") as ledger:
        snapshot = f"2026-{number:02}-01"
        entry = read_entry(
            place, ledger, name="films", snapshot=snapshot, revision=0, manifest="0" * 64, code="benchmark"
        )
        ledger.prepare(entry)
        ledger.commit(entry)
    entered = time.perf_counter(), time.process_time()
    print(
        f"{snapshot}  {len(people):>8,} new people  {indptr[-1]:>11,} ratings  {len(live) + count:>7,} groups   "
        f"write {written[0] - started[0]:5.1f} s ({written[1] - started[1]:5.1f} CPU)   "
        f"enter {entered[0] - written[0]:5.1f} s ({entered[1] - written[1]:5.1f} CPU)   "
        f"size {size_of(store) / MEBIBYTE:6.0f} MiB, largest {largest[0] / MEBIBYTE:6.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--people", type=int, default=480_189)
    parser.add_argument("--releases", type=int, default=12)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    half, later = options.people // 2, max(1, options.releases - 1)
    bounds = [0, *(half + (options.people - half) * n // later for n in range(options.releases))]
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory) / "store")
        for number in range(1, options.releases + 1):
            enter(store, Path(directory) / "entry", number, range(bounds[number - 1], bounds[number]), rng)
        started = time.perf_counter()
        with Ledger.open(store, "people") as ledger:
            opened = time.perf_counter()
            tokens, _, _ = ledger.people()
            read = time.perf_counter()
            found = ledger.problems()
        print(
            f"open {opened - started:.1f} s, read {len(tokens):,} people {read - opened:.1f} s, "
            f"recompute all rows {time.perf_counter() - read:.1f} s: {len(found)} problems"
        )


if __name__ == "__main__":
    main()
