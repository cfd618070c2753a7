"""Make the contents of a release of synthetic rows: nobody is in it, and it follows from nothing that was published.

It stands outside cohorts and classes: whoever was never released stays a newcomer for releases of groups, and a release
of groups neither blocks nor changes it. The ledger enters what it spent, and no person, group or item.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.config import Budget
from tasks.data.candidate import Contents, recorded_digest
from tasks.errors import MurmurError
from tasks.series.assembly import Released, Request
from tasks.series.budget import planned
from tasks.series.rows import SYNTHETIC, Spending
from tasks.series.spending import read_blocked
from tasks.store import read_json

SPENT = "spent.json"


def synthetic_release(
    request: Request, ingest: Path, statistics: Path, profiles: Path, budget: Budget
) -> Released:
    """Return the contents of a release from what the steps `statistics` and `synthesis` left."""
    groups, none = profiles / "groups.parquet", np.empty(0, np.int32)
    items = pq.read_table(statistics / "items.parquet").column("item").to_pylist()
    return Released(
        contents=Contents(groups, recorded_digest(groups), items, {"users": 0, "items": 0, "why": ""}),
        ids=pa.array([], pa.string()),
        labels=none,
        request=request,
        mode=SYNTHETIC,
        head=None,
        carried=[],
        cohort=None,
        new_numbers=none,
        entering=[],
        place=none,
        budget=_spending(read_json(statistics / SPENT), budget),
        blocked=read_blocked(ingest),
    )


def _spending(spent: dict[str, Any], budget: Budget) -> Spending:
    """Return what the release is to pay; refuse a mechanism that spent more than its settings allow."""
    wanted = planned(budget)
    if spent["rho"] > wanted.rho or spent["failure"] > wanted.failure:
        raise MurmurError(
            "the mechanism spent more of the privacy budget than the release's share",
            where="statistics/spent.json",
            remedy="report this: nothing of it may be published",
        )
    return wanted
