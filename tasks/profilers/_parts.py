"""Profiles of consecutive groups in parallel, a part each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tasks.pipeline import Job
from tasks.store import remove

Range = tuple[int, int]  # first group and the one after the last


def write_parts(
    job: Job,
    blocks: Callable[[np.ndarray, np.ndarray], list[Range]],
    write: Callable[..., int],
    **common: Any,
) -> list[int]:
    """`write((range, path), members=…, **common) -> cells` for every block of groups; the cells of each.

    `blocks(order, starts)` is given the users sorted by group and where each group begins among them.
    """
    labels = np.load(job.inputs["clustering"] / "labels.npy")
    members = job.out / "members"  # sorted by group once, so that a block finds its own without a search
    members.mkdir()
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    np.save(members / "order.npy", order)
    np.save(members / "starts.npy", starts)
    ranges = blocks(order, starts)
    cells = job.engine.map(
        write,
        [(place, job.out / f"part-{number:05}.arrow") for number, place in enumerate(ranges)],
        progress=lambda done, total: job.progress(done, 2 * total),
        members=members,
        **common,
    )
    remove(members)
    return cells


def members_of(members: Path, groups: Range) -> tuple[np.ndarray, np.ndarray]:
    """The users of these groups, group by group, and how many each has."""
    start, stop = groups
    starts = np.asarray(np.load(members / "starts.npy", mmap_mode="r")[start : stop + 1])
    return np.asarray(np.load(members / "order.npy", mmap_mode="r")[starts[0] : starts[-1]]), np.diff(starts)
