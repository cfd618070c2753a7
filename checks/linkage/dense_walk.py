"""Add up, for all records at once, what the known items say of each: over posting lists of which every record has all
items.

An item's list then has one code per record, in order. What a code adds is tabled per item, for several sums side by
side, and records are taken some thousand at a time, so that tables and sums stay in the cache and one load and one
addition serve several sums. Every sum adds its items in their order: it does not depend on the blocks.
"""

from numba import njit

RECORDS_AT_ONCE = 4_096
CODES_AT_ONCE = 4_096  # of the tables that are made together
WIDTHS = (1, 2, 4)  # sums side by side


def table_width(sums: int) -> int:
    """Return how many sums are computed for so many that are wanted."""
    return next(width for width in WIDTHS if width >= sums)


@njit(cache=True, nogil=True)
def tables_at_once(levels):  # type: ignore[no-untyped-def]
    """Return for how many lists tables are made together."""
    return max(1, CODES_AT_ONCE // levels)


@njit(cache=True, nogil=True)
def add_lists(codes, starts, tables, sums):  # type: ignore[no-untyped-def]
    """Add to the sums of every record (records × width) what its codes in these lists stand for; `tables` is lists ×
    codes × width."""
    width = sums.shape[1]
    for first in range(0, len(sums), RECORDS_AT_ONCE):
        last = min(first + RECORDS_AT_ONCE, len(sums))
        for number in range(len(starts)):
            own, table, start = sums[first:last], tables[number], starts[number] + first
            if width == 1:
                _add_one(codes, start, table, own)
            elif width == 2:
                _add_two(codes, start, table, own)
            else:
                _add_four(codes, start, table, own)


# The number of sums is written out, and everything is read before anything is written: the compiler then adds all with
# one instruction.


@njit(cache=True, nogil=True)
def _add_one(codes, start, table, sums):  # type: ignore[no-untyped-def]
    for c in range(len(sums)):
        sums[c, 0] += table[codes[start + c], 0]


@njit(cache=True, nogil=True)
def _add_two(codes, start, table, sums):  # type: ignore[no-untyped-def]
    for c in range(len(sums)):
        code = codes[start + c]
        x, y = table[code, 0], table[code, 1]
        a, b = sums[c, 0], sums[c, 1]
        sums[c, 0], sums[c, 1] = a + x, b + y


@njit(cache=True, nogil=True)
def _add_four(codes, start, table, sums):  # type: ignore[no-untyped-def]
    for c in range(len(sums)):
        code = codes[start + c]
        x, y, z, w = table[code, 0], table[code, 1], table[code, 2], table[code, 3]
        a, b, d, e = sums[c, 0], sums[c, 1], sums[c, 2], sums[c, 3]
        sums[c, 0], sums[c, 1], sums[c, 2], sums[c, 3] = a + x, b + y, d + z, e + w
