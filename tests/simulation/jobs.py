"""Draw who wants what in a schedule."""

from __future__ import annotations

import random

from tests.simulation import rows
from tests.simulation.population import (
    EARLIER,
    FEBRUARY,
    JANUARY,
    MARCH,
    Job,
    Wishes,
    backfill,
    eraser,
    publisher,
    withdrawer,
)
from tests.tasks.series.small_series import people


def draw_jobs(rng: random.Random, wishes: Wishes, only: str | None = None) -> list[Job]:
    """Return two publishers, one backfill and one eraser, or some of them; sometimes somebody who withdraws, and two
    who publish synthetic rows.

    `only` names one who works alone."""
    newcomers = people(9, 9)
    rng.shuffle(newcomers)
    same = rng.random() < 0.3
    jobs = [
        Job("publisher 1", publisher(wishes, FEBRUARY, newcomers[:3])),
        Job(
            "publisher 2",
            publisher(wishes, FEBRUARY if same else MARCH, newcomers[:3] if same else newcomers[2:8]),
        ),
        Job("backfill", backfill(wishes, EARLIER[: rng.randint(1, 2)], newcomers[3:9])),
        Job("eraser", eraser(wishes, rng.sample([*people(0, 9), *newcomers[:3]], rng.randint(1, 2)))),
    ]
    if only is not None:
        return [job for job in jobs if job.name == only]
    chosen = rng.sample(jobs, rng.choice((1, 1, 1, 2, 2, 2, 2, 3, 3, 4)))
    if rng.random() < 0.2:
        chosen.append(Job("withdrawer", withdrawer(wishes, rng.choice((JANUARY, FEBRUARY)))))
    if rng.random() < 0.25:  # they replace some: a schedule stays as long as it was
        months = rng.sample((JANUARY, FEBRUARY, MARCH), 3)
        chosen = [
            *chosen[: rng.randint(0, 1)],
            Job("rows 1", rows.publish_rows(months[: rng.randint(1, 2)])),
            Job("rows 2", rows.publish_rows(months[1 : rng.randint(2, 3)])),
        ]
        if rng.random() < 0.5:
            chosen.append(Job("withdrawer of rows", withdrawer(wishes, rng.choice(months), rows.NAME)))
    return chosen
