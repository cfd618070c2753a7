"""Write ratings without some of their items or users, in blocks: they need not fit into memory.

Users who rated nothing else are left out with the items: an empty record only reveals that a user exists.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.data.public_prior import copy_prior
from tasks.data.ratings import Ratings, Side, write_attributes, write_chunks, write_ids
from tasks.store import write_json

RATINGS_PER_BLOCK = 2_000_000
WHY = "items that few people rated are left out, and with them people who rated nothing else"


def fewest_ratings(counts: np.ndarray, share: float) -> int:
    """Return how many ratings an item needs to be kept: the smallest number that removes at least this share of items
    ([Frankowski2006], section 5.1: "items that have fewer ratings than a specified threshold")."""
    gone = int(np.ceil(share * len(counts) - 1e-9))
    return 0 if gone == 0 else int(np.sort(counts)[gone - 1]) + 1


def write_without(ratings: Ratings, stay: np.ndarray, out: Path) -> dict[str, int]:
    """Write a directory of ratings with only the items that stay (a mask), and withheld.json; return counts."""
    kept = write_part(ratings, np.ones(ratings.n_users, bool), stay, out)
    gone = {"users": ratings.n_users - kept["users"], "items": ratings.n_items - kept["items"]}
    write_json(out / "withheld.json", {**gone, "why": WHY if any(gone.values()) else ""})
    return {**kept, **{f"withheld_{name}": number for name, number in gone.items()}}


def write_part(
    ratings: Ratings, people: np.ndarray, stay: np.ndarray, out: Path, *, by_item_of: np.ndarray | None = None
) -> dict[str, int]:
    """Write a directory of the ratings of some users and items (masks); return counts. Users without any left are
    left out, too. `by_item_of`: only these users' ratings are written by item."""
    by_user, by_item = ratings.by_user, ratings.by_item
    counts = np.concatenate(
        [np.zeros(0, np.int64), *(_kept_counts(by_user, block, stay) for block in _blocks(by_user))]
    )
    people = people & (counts > 0)
    raters_of = people if by_item_of is None else people & by_item_of
    raters = np.concatenate(
        [np.zeros(0, np.int64), *(_kept_counts(by_item, block, raters_of) for block in _blocks(by_item))]
    )
    write_ids(out, "user", ratings.user_ids().filter(pa.array(people)))
    write_ids(out, "item", pa.array(ratings.item_ids(), pa.string()).filter(pa.array(stay)))
    known = {name: values.filter(pa.array(people)) for name, values in ratings.attributes().items()}
    if known:
        write_attributes(out, known)
    times = ratings.timestamps
    _write_side(out / "by_user", by_user, people, stay, counts[people], times)
    _write_side(out / "by_item", by_item, stay, people, raters[stay], taken=raters_of)
    copy_prior(ratings, out, np.flatnonzero(stay))
    return {"users": int(people.sum()), "items": int(stay.sum()), "ratings": int(counts[people].sum())}


def _blocks(side: Side) -> list[tuple[int, int]]:
    return side.blocks(RATINGS_PER_BLOCK)


def _kept_counts(side: Side, block: tuple[int, int], stay: np.ndarray) -> np.ndarray:
    """Count the ratings of each of these rows in columns that stay."""
    start, stop = block
    indptr = np.asarray(side.indptr[start : stop + 1])
    kept = np.concatenate([[0], np.cumsum(stay[side.indices[indptr[0] : indptr[-1]]])])
    return np.diff(kept[indptr - indptr[0]])


def _write_side(
    directory: Path,
    side: Side,
    rows: np.ndarray,
    columns: np.ndarray,
    counts: np.ndarray,
    timestamps: np.ndarray | None = None,
    taken: np.ndarray | None = None,
) -> None:
    """Write one orientation: the ratings whose row and column both stay, renumbered, in the same order; of the columns
    only those `taken`, if given, though all that stay are numbered."""
    taken = columns if taken is None else taken
    directory.mkdir(parents=True)
    np.save(directory / "indptr.npy", np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
    total, place = int(counts.sum()), np.cumsum(columns) - 1

    def chosen(array: np.ndarray) -> Iterator[np.ndarray]:
        for start, stop in _blocks(side):
            cells = slice(int(side.indptr[start]), int(side.indptr[stop]))
            own = np.repeat(rows[start:stop], np.diff(side.indptr[start : stop + 1]))
            yield array[cells][own & taken[side.indices[cells]]]

    renumbered = (place[some] for some in chosen(side.indices))
    write_chunks(directory / "indices.npy", np.int32, total, renumbered)
    write_chunks(directory / "values.npy", np.float32, total, chosen(side.values))
    if timestamps is not None:
        write_chunks(directory / "timestamps.npy", np.int64, total, chosen(timestamps))
