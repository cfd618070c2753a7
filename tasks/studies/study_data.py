"""Ingest a data set into a temporary store for a study; nothing of it is published."""

import contextlib
import datetime
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tasks import pipeline
from tasks.config import ReleaseConfig, parse
from tasks.engine import Engine, engine
from tasks.store import Store

SNAPSHOT = datetime.date(2026, 1, 1)

Progress = Callable[[str, int, int], None]


def silent_progress(step: str, done: int, total: int) -> None:
    """Report nothing."""
    return None


def study_config(source_format: str, data: Path, command: str) -> ReleaseConfig:
    """Return the configuration of a data set that is only ingested."""
    source = {"format": source_format, "path": str(data)}
    return parse({"release": {"name": "reproduce"}, "source": source}, command).alone()


@contextlib.contextmanager
def ingested(config: ReleaseConfig, progress: Progress) -> Iterator[tuple[dict[str, Any], Engine]]:
    """Provide the result of ingest and the workers, as long as the temporary store exists."""
    with tempfile.TemporaryDirectory(prefix="murmur-") as directory, engine() as workers:
        run = pipeline.open_run(config, SNAPSHOT, Store(directory), workers, progress)
        yield pipeline.execute("ingest", run), workers
