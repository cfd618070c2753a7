"""Write ratings without some of their items or users, in blocks: they need not fit into memory.

Users who rated nothing else are left out with the items: an empty record only reveals that a user exists.
"""

from collections.abc import Callable, Iterator
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
    counts = _kept_counts(lambda: ratings.by_user, stay)
    people = people & (counts > 0)
    raters_of = people if by_item_of is None else people & by_item_of
    raters = _kept_counts(lambda: ratings.by_item, raters_of)
    write_ids(out, "user", ratings.user_ids().filter(pa.array(people)))
    write_ids(out, "item", pa.array(ratings.item_ids(), pa.string()).filter(pa.array(stay)))
    known = {name: values.filter(pa.array(people)) for name, values in ratings.attributes().items()}
    if known:
        write_attributes(out, known)
    _write_side(out / "by_user", lambda: ratings.by_user, people, stay, counts[people])
    if ratings.timestamps is not None:
        times = _chosen(lambda: ratings.by_user, people, stay, lambda side: _times(ratings))
        write_chunks(out / "by_user" / "timestamps.npy", np.int64, int(counts[people].sum()), times)
    _write_side(out / "by_item", lambda: ratings.by_item, stay, people, raters[stay], taken=raters_of)
    copy_prior(ratings, out, np.flatnonzero(stay))
    return {"users": int(people.sum()), "items": int(stay.sum()), "ratings": int(counts[people].sum())}


def _times(ratings: Ratings) -> np.ndarray:
    times = ratings.timestamps
    assert times is not None
    return times


# Sides are opened anew for every block: pages read from a mapping count as this process' memory until it is closed.
OpenSide = Callable[[], Side]


def _kept_counts(open_side: OpenSide, stay: np.ndarray) -> np.ndarray:
    """Count the ratings of each row in columns that stay."""
    found = [np.zeros(0, np.int64)]
    for start, stop in open_side().blocks(RATINGS_PER_BLOCK):
        side = open_side()
        indptr = np.asarray(side.indptr[start : stop + 1])
        kept = np.concatenate([[0], np.cumsum(stay[side.indices[indptr[0] : indptr[-1]]])])
        found.append(np.diff(kept[indptr - indptr[0]]))
    return np.concatenate(found)


def _chosen(
    open_side: OpenSide, rows: np.ndarray, columns: np.ndarray, array: Callable[[Side], np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield what an array says of the ratings whose row and column are both wanted (masks)."""
    for start, stop in open_side().blocks(RATINGS_PER_BLOCK):
        side = open_side()
        cells = slice(int(side.indptr[start]), int(side.indptr[stop]))
        own = np.repeat(rows[start:stop], np.diff(side.indptr[start : stop + 1]))
        yield array(side)[cells][own & columns[side.indices[cells]]]


def _write_side(
    directory: Path,
    open_side: OpenSide,
    rows: np.ndarray,
    columns: np.ndarray,
    counts: np.ndarray,
    taken: np.ndarray | None = None,
) -> None:
    """Write one orientation: the ratings whose row and column both stay, renumbered, in the same order; of the columns
    only those `taken`, if given, though all that stay are numbered."""
    taken = columns if taken is None else taken
    directory.mkdir(parents=True)
    np.save(directory / "indptr.npy", np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
    total, place = int(counts.sum()), np.cumsum(columns) - 1
    renumbered = (place[some] for some in _chosen(open_side, rows, taken, lambda side: side.indices))
    write_chunks(directory / "indices.npy", np.int32, total, renumbered)
    values = _chosen(open_side, rows, taken, lambda side: side.values)
    write_chunks(directory / "values.npy", np.float32, total, values)
