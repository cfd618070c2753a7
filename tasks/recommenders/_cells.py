"""Share helpers of the recommenders: rows with weights, Gram matrices, cells picked out of dense rows."""

from collections.abc import Callable, Iterable

import numpy as np
import scipy.sparse as sp

from tasks.recommenders import Train

ROWS_AT_ONCE = 1024


def weights_of(train: Train, weights: np.ndarray | None) -> np.ndarray:
    """Return how many users share each row."""
    return np.ones(train.shape[0]) if weights is None else np.asarray(weights, np.float64)


def mask_of(train: Train) -> sp.csr_array | None:
    """Return a matrix with 1 where a cell is known; None where every cell is."""
    if isinstance(train, np.ndarray):
        return None
    return sp.csr_array((np.ones(train.nnz, np.float32), train.indices, train.indptr), shape=train.shape)


def dense(train: Train, rows: np.ndarray | slice) -> np.ndarray:
    """Return some rows as a dense array; 0 where nothing is known."""
    some = train[rows]
    return np.asarray(some if isinstance(some, np.ndarray) else some.toarray(), np.float32)


def gram(train: Train, weights: np.ndarray) -> np.ndarray:
    """Return Σ weight · row rowᵀ over all rows, (items, items): the sum that training on repeated rows would give."""
    blocks = (slice(start, start + ROWS_AT_ONCE) for start in range(0, train.shape[0], ROWS_AT_ONCE))
    return gram_of_blocks(((dense(train, some), weights[some]) for some in blocks), train.shape[1])


def gram_of_blocks(blocks: Iterable[tuple[np.ndarray, np.ndarray]], items: int) -> np.ndarray:
    """Return the same of dense rows that come a block at a time, each block with its weights."""
    total = np.zeros((items, items))
    for rows, weights in blocks:
        weighted = rows * np.sqrt(weights).astype(np.float32)[:, None]
        total += weighted.T @ weighted
    return total


def keep_largest(values: np.ndarray, count: int) -> None:
    """Keep the `count` largest values of each row and set the rest to 0, in place."""
    if count >= values.shape[1]:
        return
    for row in values:  # a row at a time: the positions of a whole matrix would take twice its memory
        row[np.argpartition(row, -count)[:-count]] = 0


def pick(
    rows: Callable[[np.ndarray], np.ndarray],
    users: np.ndarray,
    items: np.ndarray,
    at_once: int = ROWS_AT_ONCE,
) -> np.ndarray:
    """Pick single cells out of dense rows, computed for a block of different users at a time."""
    asked, place = np.unique(users, return_inverse=True)
    found = np.empty(len(users), np.float64)
    order = np.argsort(place, kind="stable")
    edges = np.searchsorted(place[order], np.arange(0, len(asked) + at_once, at_once))
    for number, start in enumerate(range(0, len(asked), at_once)):
        cells = order[edges[number] : edges[number + 1]]
        found[cells] = rows(asked[start : start + at_once])[place[cells] - start, items[cells]]
    return found
