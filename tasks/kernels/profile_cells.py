"""Find single cells of profiles that hold some items each."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def find_cells(indptr, items, row, item):  # type: ignore[no-untyped-def]
    """Return the position of each cell (row, item) among the cells, −1 where the row does not hold the item."""
    found = np.empty(len(row), np.int64)
    for cell in range(len(row)):
        first, last = indptr[row[cell]], indptr[row[cell] + 1]
        place = first + np.searchsorted(items[first:last], item[cell])
        found[cell] = place if place < last and items[place] == item[cell] else -1
    return found
