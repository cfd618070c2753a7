"""Make sources of a series: people who join month by month, and go on rating, as csv files of snapshots."""

import datetime
from pathlib import Path

import numpy as np
import pandas as pd

FIRST = datetime.date(2026, 1, 1)
RATED = 12  # ratings that a person has when joining
MORE = 2  # ratings that a person adds each month


def month(number: int) -> datetime.date:
    """Return the first day of a month, counted from FIRST."""
    return datetime.date(
        FIRST.year + (FIRST.month - 1 + number) // 12, (FIRST.month - 1 + number) % 12 + 1, 1
    )


def write_source(
    directory: Path,
    joining: list[int],
    *,
    items: int = 40,
    seed: int = 0,
    leaving: dict[int, int] | None = None,
) -> str:
    """Write <directory>/<snapshot>.csv for each month and return the path for `source.path`.

    `joining[m]` people join in month m; `leaving[person]` is the month from which on that person is missing.
    """
    rng = np.random.default_rng(seed)
    people = sum(joining)
    joined = np.repeat(np.arange(len(joining)), joining)
    taste = rng.standard_normal((people, 2)) @ rng.standard_normal((2, items))
    values = np.clip(np.rint(3.4 + 0.8 * taste + 0.5 * rng.standard_normal((people, items))), 1, 5).astype(
        int
    )
    order = np.argsort(rng.random((people, items)) - 0.6 * np.linspace(1, 0, items), axis=1)
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(len(joining)):
        rows = []
        for person in np.flatnonzero(joined <= number):
            if leaving and leaving.get(int(person), len(joining)) <= number:
                continue
            rated = order[person, : RATED + MORE * (number - joined[person])]
            # A day inside the month before the snapshot in which the rating is first seen.
            since = joined[person] + np.maximum(0, np.arange(len(rated)) - RATED + MORE) // MORE
            when = [pd.Timestamp(month(int(m))).timestamp() - 86_400 * 3 for m in since]
            rows += [
                (f"p{person}", f"i{item:02}", values[person, item], int(at))
                for item, at in zip(rated, when, strict=True)
            ]
        table = pd.DataFrame(rows, columns=["user", "item", "rating", "timestamp"])
        table.sample(frac=1.0, random_state=number).to_csv(directory / f"{month(number)}.csv", index=False)
    return str(directory / "{snapshot}.csv")
