"""Report the run of a release as OpenLineage events, where the standard variables name a receiver.

Light: what builds and sends events is imported where there is a receiver alone.
"""

import contextlib
import datetime
import os
from collections.abc import Iterator

from tasks.config import ReleaseConfig
from tasks.errors import Refused
from tasks.store import Store

RECEIVERS = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__TYPE")
FIRST, JUDGE, LAST = "ingest", "validate", "publish"


@contextlib.contextmanager
def reported(
    config: ReleaseConfig, snapshot: datetime.date, store: Store, step: str | None = None
) -> Iterator[None]:
    """Send what happens inside as events; `step` is the one that runs, None where all of them do."""
    if not is_configured():
        yield
        return
    from tasks.telemetry.lineage_events import ReleaseRun

    run = ReleaseRun(config, snapshot, store)
    if step in (None, FIRST):
        run.send("START")
    try:
        yield
    except Exception as problem:
        refused = isinstance(problem, Refused)
        if refused and step in (None, JUDGE):
            run.send_verdict()
        run.send("FAIL", why="refused" if refused else type(problem).__name__)
        raise
    if step in (None, JUDGE):
        run.send_verdict()
    if step in (None, LAST):
        run.send("COMPLETE")


def is_configured() -> bool:
    """Return whether a receiver is named and not switched off."""
    off = os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true"
    return not off and any(map(os.environ.get, RECEIVERS))
