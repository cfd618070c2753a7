"""Make profiles of consecutive groups in parallel, one part file per block of groups."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tasks.data import profiles
from tasks.pipeline import StepContext
from tasks.store import remove

Range = tuple[int, int]  # first group and the one after the last


def write_parts(
    context: StepContext[Any],
    label_file: Path,
    blocks: Callable[[np.ndarray, np.ndarray], list[Range]],
    write: Callable[..., int],
    **common: Any,
) -> int:
    """Write groups.parquet by `write((range, path), members=…, **common) -> cells` for every block of groups.

    `blocks(order, starts)` gets the users sorted by group and the place where each group begins among them. Returns the
    number of all cells.
    """
    members = context.out / "members"  # sorted by group once, so that a block finds its own without a search
    members.mkdir()
    order, starts = sorted_by_group(label_file)
    np.save(members / "order.npy", order)
    np.save(members / "starts.npy", starts)
    ranges = blocks(order, starts)
    parts = [context.out / f"part-{number:05}.arrow" for number in range(len(ranges))]
    cells = context.engine.map(
        write,
        list(zip(ranges, parts, strict=True)),
        progress=lambda done, total: context.progress(done, 2 * total),
        members=members,
        **common,
    )
    remove(members)
    finished = context.out / "groups.parquet"
    profiles.join(parts, finished, lambda done: context.progress(len(parts) + done, 2 * len(parts)))
    return sum(cells)


def equal_ranges(fill: np.ndarray) -> list[Range]:
    """Return ranges of equally many groups, as many as needed if a block holds a fill of 1; they follow the data, not
    the workers.

    Every range becomes a row group of the published file. Ranges cut where the members' ratings fill a block would
    publish how much they rated; numbers of groups are random, so equal ranges are about equally full.
    """
    count = max(1, min(len(fill), int(np.ceil(fill.sum()))))
    return list(pairwise(np.linspace(0, len(fill), count + 1).round().astype(int).tolist()))


def sorted_by_group(label_file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the users in the order of their groups, and the place where each group begins among them."""
    labels = np.load(label_file)
    return np.argsort(labels, kind="stable"), np.concatenate([[0], np.cumsum(np.bincount(labels))])


def members_of(members: Path, groups: Range) -> tuple[np.ndarray, np.ndarray]:
    """Return the users of these groups, group by group, and the size of each group."""
    start, stop = groups
    starts = np.asarray(np.load(members / "starts.npy", mmap_mode="r")[start : stop + 1])
    return np.asarray(np.load(members / "order.npy", mmap_mode="r")[starts[0] : starts[-1]]), np.diff(starts)
