"""Profiles of consecutive groups in parallel, a part each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tasks import profiles
from tasks.pipeline import Job
from tasks.store import remove

Range = tuple[int, int]  # first group and the one after the last


def write_parts(
    job: Job,
    blocks: Callable[[np.ndarray, np.ndarray], list[Range]],
    write: Callable[..., int],
    **common: Any,
) -> int:
    """groups.parquet from `write((range, path), members=…, **common) -> cells` for every block of groups; all cells.

    `blocks(order, starts)` is given the users sorted by group and where each group begins among them.
    """
    members = job.out / "members"  # sorted by group once, so that a block finds its own without a search
    members.mkdir()
    order, starts = sorted_by_group(job)
    np.save(members / "order.npy", order)
    np.save(members / "starts.npy", starts)
    ranges = blocks(order, starts)
    parts = [job.out / f"part-{number:05}.arrow" for number in range(len(ranges))]
    cells = job.engine.map(
        write,
        list(zip(ranges, parts, strict=True)),
        progress=lambda done, total: job.progress(done, 2 * total),
        members=members,
        **common,
    )
    remove(members)
    finished = job.out / "groups.parquet"
    profiles.join(parts, finished, lambda done: job.progress(len(parts) + done, 2 * len(parts)))
    return sum(cells)


def sorted_by_group(job: Job) -> tuple[np.ndarray, np.ndarray]:
    """The users in the order of their groups, and where each group begins among them."""
    labels = np.load(job.inputs["clustering"] / "labels.npy")
    return np.argsort(labels, kind="stable"), np.concatenate([[0], np.cumsum(np.bincount(labels))])


def members_of(members: Path, groups: Range) -> tuple[np.ndarray, np.ndarray]:
    """The users of these groups, group by group, and how many each has."""
    start, stop = groups
    starts = np.asarray(np.load(members / "starts.npy", mmap_mode="r")[start : stop + 1])
    return np.asarray(np.load(members / "order.npy", mmap_mode="r")[starts[0] : starts[-1]]), np.diff(starts)
