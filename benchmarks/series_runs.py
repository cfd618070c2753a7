"""Make releases of a series in this process, for the benchmarks of a series: all steps, and a part of the gate.

The gate's attacks on a cohort take most of the time and do not depend on the order in which releases are made; the
checks that judge a release with all earlier ones do. `light_gate` runs these alone. A benchmark that uses it says so:
only `murmur run` shows that a release is published.
"""

import contextlib
import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd

from checks.registry import registered
from tasks import formats, pipeline
from tasks.config import ReleaseConfig
from tasks.errors import Refused
from tasks.store import Store

SERIES_CHECKS = ("carried-over", "catalogue", "cohorts", "k-anonymity", "public-figures", "series")


@contextlib.contextmanager
def light_gate(names: tuple[str, ...] = SERIES_CHECKS) -> Iterator[None]:
    """Let only these checks judge a release inside."""
    chosen = {name: check for name, check in registered().items() if name in names}
    with (
        mock.patch("checks.gate.registered", return_value=chosen),
        mock.patch("checks.gate.check_names", return_value=list(chosen)),
        mock.patch("tasks.steps.validate.validate_verdict", return_value={}),
    ):
        yield


def publish(config: ReleaseConfig, day: datetime.date, store: Path) -> dict[str, Any]:
    """Make and publish one snapshot; return its counts, or why it was refused."""
    begin = time.process_time()
    try:
        reference = pipeline.run(config, day, Store(store), progress=lambda *_: None)
        found = {"status": "published", "people": reference["counts"].get("users", 0)}
    except Refused as problem:
        found = {"status": "refused", "why": str(problem)}
    return {"snapshot": day.isoformat(), **found, "cpu_seconds": round(time.process_time() - begin, 1)}


def present(config: ReleaseConfig, day: datetime.date) -> set[str]:
    """Return the ids of the people in the source at a snapshot."""
    found: set[str] = set()
    for block in formats.read_all(config.source, day):
        found.update(block.users.unique().to_pylist())
    return found


def members(store: Path, name: str, directory: str) -> dict[str, int]:
    """Return the group of each person of a release, from the owner's file."""
    table = pd.read_parquet(store / "private" / name / directory / "membership.parquet")
    return dict(zip(table["user"], table["group"].astype(int), strict=True))
