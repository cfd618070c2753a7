"""Compare the stages with the limits of one core: `python -m benchmarks.roofline [--users 48019] [--data DIR]`.

Measured on one core: the bandwidth of a copy of arrays far larger than the caches, the peak of float32 matrix products,
and how fast pyarrow alone decodes the same ratings from Parquet and from CSV. Then the stages up to `diversity` of a
padded release at a tenth of Netflix's size, one worker. Of each the least work is counted: the bytes that must pass
through memory, and the floating-point operations of the method as it is written down, whatever shortcut is taken.

`roofline` is the larger of bytes / bandwidth and operations / peak; `reached` is its share of the CPU time found.
Where it is above 1, a shortcut (bounds that exclude centres) does less than the method's own count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from benchmarks import results
from benchmarks.netflix import count_work
from benchmarks.netflix_shaped import ITEMS, RATINGS, USERS
from benchmarks.stages import ANONYMIZATION, make_data, measure, release_config, warm_up
from benchmarks.timing import best_of
from tasks.config import parse

K = 5
COPY_BYTES = 2**28
SIDE = 2_048  # of the multiplied matrices
ROUNDS = 5
STAGES = tuple(name for name in ANONYMIZATION if name != "evaluate")
CSV_ROWS = 2_000_000
RECORD = 4 + 4 + 4 + 8  # bytes of a rating in ingest: user, item, value, time
CELL_OPERATIONS = 5  # difference, absolute value, minimum, and a fused multiplication counted as two


@dataclass(frozen=True)
class Limits:
    """Hold what one core of this machine can do."""

    bytes_per_second: float
    operations_per_second: float

    def seconds(self, work: Work) -> float:
        """Return the least time for this work."""
        return max(work.bytes / self.bytes_per_second, work.operations / self.operations_per_second)


@dataclass(frozen=True)
class Work:
    """Hold the least bytes and operations of a stage."""

    bytes: float
    operations: float = 0.0


def measure_limits() -> Limits:
    """Measure the copy of large arrays (read and written: two bytes for each) and a product of square matrices."""
    source, target = np.ones(COPY_BYTES // 4, np.float32), np.empty(COPY_BYTES // 4, np.float32)
    rng = np.random.default_rng(0)
    one, other = (rng.standard_normal((SIDE, SIDE), np.float32) for _ in range(2))
    product = np.empty_like(one)
    with threadpool_limits(limits=1):
        copy, multiply = best_of(
            ROUNDS, lambda: np.copyto(target, source), lambda: np.matmul(one, other, out=product)
        )
    return Limits(2 * COPY_BYTES / copy, 2 * SIDE**3 / multiply)


def measure_decoding(data: Path, scratch: Path) -> dict[str, float]:
    """Return how many ratings per CPU second pyarrow alone decodes from the source, and from the same as CSV."""
    parts = sorted(data.glob("*.parquet"))
    rows = sum(pq.read_metadata(part).num_rows for part in parts)
    some = pq.read_table(parts[0], use_threads=False).slice(0, CSV_ROWS)
    pa.csv.write_csv(some, scratch / "ratings.csv")
    no_threads = pa.csv.ReadOptions(use_threads=False)
    parquet, csv = best_of(
        2,
        lambda: [pq.read_table(part, use_threads=False) for part in parts],
        lambda: pa.csv.read_csv(scratch / "ratings.csv", read_options=no_threads),
    )
    (scratch / "ratings.csv").unlink()
    return {"parquet": rows / parquet, "csv": some.num_rows / csv}


def count_stages(work: dict[str, Any], source_bytes: int, rank: int, half_steps: int) -> dict[str, Work]:
    """Return the least work of each stage; `half_steps` are those of alternating least squares, phantoms apart."""
    ratings, items = work["ratings"], work["items"]
    factors = 4 * (rank + 2)  # bytes of a row
    sides = ratings * (4 + 4 + 8 + 4 + 4)  # by user with times, by item
    width = rank + 1
    normal_equations = (
        ratings * width * (width + 1)
    )  # the lower triangle and the right side, two operations each
    solutions = (work["users"] + work["items"]) / 2 * width**3 / 3
    distances = work["distances"]
    cells = work["cells"]

    def compared(count: float) -> Work:
        return Work(count * factors, count * items * CELL_OPERATIONS)

    return {
        # Four passes read and write every record once; both orientations are written, and those of the cohort again.
        "ingest": Work(source_bytes + 4 * 2 * ratings * RECORD + 2 * sides),
        "padding": Work(
            half_steps * ratings * (4 + 4 + 4 * rank), half_steps * (normal_equations + solutions)
        ),
        "centers": compared(distances["centers"]),
        "binning": compared(distances["binning"]),
        "clustering": compared(distances["clustering"]),
        # A product with the items' factors, a rounding, a byte written; then the parts are joined: read and written.
        "homogenization": Work(3 * cells, cells * (2 * (rank + 2) + 4)),
    }


def show(rows: list[dict[str, Any]]) -> str:
    """Tabulate the stages."""
    table = [["", "CPU-s", "GB", "Gflop", "roofline s", "reached", "M ratings per CPU-s"]]
    for row in rows:
        table.append(
            [
                row["stage"],
                f"{row['cpu_seconds']:.2f}",
                f"{row['bytes'] / 1e9:.2f}",
                f"{row['operations'] / 1e9:,.1f}",
                f"{row['roofline_seconds']:.2f}",
                f"{row['reached']:.2f}",
                f"{row['ratings_per_cpu_second'] / 1e6:.2f}",
            ]
        )
    return results.table(table)


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=round(USERS / 10))
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--ratings-per-user", type=float, default=RATINGS / USERS)
    parser.add_argument("--data", type=Path, help="directory of Parquet parts made earlier, or to be filled")
    parser.add_argument("--json", type=Path, metavar="FILE", default=results.DIRECTORY / "roofline.json")
    asked = parser.parse_args(given)
    asked.command = results.command("benchmarks.roofline", asked, "users", "items", "ratings_per_user")
    return asked


def main(given: list[str] | None = None) -> int:
    asked, began = arguments(given), results.machine()
    limits = measure_limits()
    print(
        f"one core: {limits.bytes_per_second / 1e9:.1f} GB/s copied (read and written), "
        f"{limits.operations_per_second / 1e9:.0f} Gflop/s in float32 products"
    )
    with tempfile.TemporaryDirectory(prefix="murmur-roofline-") as directory:
        scratch = Path(directory)
        data = make_data(asked.data or scratch / "data", asked.users, asked.items, asked.ratings_per_user)
        decoding = measure_decoding(data, scratch)
        print(
            f"pyarrow alone decodes {decoding['parquet'] / 1e6:.1f} M ratings per CPU-s of Parquet, "
            f"{decoding['csv'] / 1e6:.1f} M of CSV"
        )
        warm_up(scratch, 1)
        config = release_config("roofline", data.resolve(), K)
        run = measure(config, scratch / "store", workers=1, steps=list(STAGES))
        work = count_work(run["references"], K)
        padding = parse(config).padding
        half_steps = 2 * padding.iterations + 3  # the last one of users, phantoms and users again
        source = sum(part.stat().st_size for part in data.glob("*.parquet"))
        counted = count_stages(work, source, padding.rank, half_steps)
    found = {stage["name"]: stage["cpu_seconds"] for stage in run["stages"]}
    rows = [
        {
            "stage": name,
            "cpu_seconds": found[name],
            "bytes": least.bytes,
            "operations": least.operations,
            "roofline_seconds": limits.seconds(least),
            "reached": limits.seconds(least) / max(found[name], 1e-9),
            "ratings_per_cpu_second": work["ratings"] / max(found[name], 1e-9),
        }
        for name, least in counted.items()
    ]
    print(show(rows))
    print(f"others used {run['others_cpu_share']:.0%} of the cores")
    figures = {
        "command": asked.command,
        "bytes_per_second": limits.bytes_per_second,
        "operations_per_second": limits.operations_per_second,
        "decoded_per_cpu_second": decoding,
        "stages": rows,
        "others_cpu_share": run["others_cpu_share"],
    }
    results.write(asked.json, figures, began)
    return 0


if __name__ == "__main__":
    sys.exit(main())
