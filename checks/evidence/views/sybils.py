"""Open the releases of data with made-up accounts (sybils), and whom these accounts attack.

Evaluate runs the method on such data (tasks/shadow/sybils.py): a release itself holds no account that an attacker made
up, so what one would reveal can be measured only there. Like the figures of the shadow run, the files are the owner's
and are trusted; that they were made by the release's method, with its promises and its scale, is tested.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checks.evidence.case import Case
from checks.evidence.release import DATA_FILES, Release
from tasks.errors import MurmurError, Refused, is_full
from tasks.store import digest

# Smaller data are not attacked: too few opinions could be planted without changing the data. As in tasks/shadow.
FEWEST_ITEMS = 60
FEWEST_RATINGS = 12_000
HALF = 0  # `known` of targets of whom half of the ratings are known
THIRDS = ("light", "medium", "heavy")
_SAME = ("method", "privacy", "rating_scale", "rating_step", "rating_encoding", "unit")

Opened = TypeVar("Opened")


@dataclass(frozen=True)
class PlantedOpinions:
    """Hold a release in which each target's item has one real rater, beside accounts that rate it with the middle.

    `usual` is the mean of the rater's other ratings, `rater` a number per person (the same in all draws), `group` the
    row of the rater's group.
    """

    release: Release
    item: np.ndarray
    rating: np.ndarray
    usual: np.ndarray
    rater: np.ndarray
    group: np.ndarray


@dataclass(frozen=True)
class PlantedCopies:
    """Hold a release in which targets are surrounded by copies: per account its group, its target and whether it is a
    copy; per target the third of the people and how much was known; the targets' ratings that were not known."""

    release: Release
    group: np.ndarray
    target: np.ndarray
    copy: np.ndarray
    third: np.ndarray
    known: np.ndarray
    unknown: tuple[np.ndarray, np.ndarray, np.ndarray]  # target, item, rating


def is_attackable(case: Case) -> bool:
    """Test whether the data are large enough for sybils to be planted."""
    return case.release.n_items >= FEWEST_ITEMS and case.truth.ratings.nnz >= FEWEST_RATINGS


def open_opinions(case: Case) -> list[PlantedOpinions]:
    """Open the releases with accounts planted on one-rater items, one for each draw; refuse where there is none."""
    draws = [_opened(case, "opinions", _read_opinions)]
    while case.private is not None:
        name = f"opinions-{len(draws) + 1}"
        if not (case.private / "utility" / "sybil" / name).exists():
            break
        draws.append(_opened(case, name, _read_opinions))
    return draws


def open_copies(case: Case) -> PlantedCopies | None:
    """Open the release with copies of people; None where k is too large for the data to hide the copies in them."""
    if case.private is not None and not (case.private / "utility" / "sybil" / "copies").exists():
        return None
    return _opened(case, "copies", _read_copies)


def _opened(case: Case, name: str, read: Callable[[Release, Path], Opened]) -> Opened:
    if case.private is None:
        raise Refused("there is no private directory with the runs with sybils", remedy="run `murmur audit`")
    directory = case.private / "utility" / "sybil" / name
    try:
        return read(_release(case, directory), directory)
    except Exception as problem:
        if is_full(problem):  # a full disk is no finding about the files
            raise
        # Damaged files raise whatever their reader meets first; only our own messages are free of ids.
        unreadable = f"it cannot be read ({type(problem).__name__})"
        why = problem.what if isinstance(problem, MurmurError) else unreadable
        raise Refused(
            f"the release of data with sybils cannot be used: {why}",
            where=str(directory),
            remedy="run the release anew; its evaluate step makes it",
        ) from None


def _release(case: Case, directory: Path) -> Release:
    release = Release(directory, case.private)
    if any(release.manifest["files"].get(name) != digest(directory / name) for name in DATA_FILES):
        raise Refused("its files are not those its manifest names")
    if any(release.manifest[key] != case.release.manifest[key] for key in _SAME):
        raise Refused("it was not made by the method and with the settings of the release")
    return release


def _read_opinions(release: Release, directory: Path) -> PlantedOpinions:
    table = pq.read_table(directory / "targets.parquet")
    item, rating, usual = (table.column(name).to_numpy() for name in ("item", "rating", "usual"))
    if (item < 0).any() or (item >= release.n_items).any() or len(np.unique(item)) != len(item):
        raise Refused("its targets' items are not different items of the release")
    names = table.column("pseudonym").combine_chunks()
    rater = table.column("rater").to_numpy()
    group = _groups(release, names)
    return PlantedOpinions(release, item, rating.astype(float), usual.astype(float), rater, group)


def _read_copies(release: Release, directory: Path) -> PlantedCopies:
    accounts = pq.read_table(directory / "accounts.parquet").sort_by(
        [("target", "ascending"), ("copy", "ascending")]
    )
    target, copy = (accounts.column(name).to_numpy(zero_copy_only=False) for name in ("target", "copy"))
    whole = target[~copy]
    if not np.array_equal(whole, np.arange(len(whole))) or (target >= len(whole)).any() or (target < 0).any():
        raise Refused("its accounts are not targets and their copies")
    third, known = (accounts.column(name).to_numpy()[~copy] for name in ("third", "known"))
    if (third < 0).any() or (third >= len(THIRDS)).any():
        raise Refused("its targets are in no third of the people")
    group = _groups(release, accounts.column("pseudonym").combine_chunks())
    table = pq.read_table(directory / "unknown.parquet")
    of, item, rating = (table.column(name).to_numpy() for name in ("target", "item", "rating"))
    if (item < 0).any() or (item >= release.n_items).any() or (of < 0).any() or (of >= len(whole)).any():
        raise Refused("its unknown ratings are not of its targets and items")
    return PlantedCopies(release, group, target, copy, third, known, (of, item, rating.astype(float)))


def _groups(release: Release, names: pa.StringArray) -> np.ndarray:
    """Return the row of the group of each of these accounts; refuse one that is in none."""
    place = pc.fill_null(pc.index_in(names, value_set=release.pseudonyms), -1).to_numpy().astype(np.int64)
    rows = release.row_of_member[np.maximum(place, 0)]
    if (place < 0).any() or (rows < 0).any():
        raise Refused("its accounts are not all in a group")
    return rows
