"""Add up, for all records at once, what the known items say of each: over posting lists of which every record has all
items.

An item's list then has one code per record, in order. What a code adds is tabled per item, for several sums. Records
are taken some thousand at a time and items by four, so that tables, codes and sums stay in the cache and a sum is read
and written once for four items. Every sum adds its items in their order: it does not depend on the blocks.
"""

from numba import njit

RECORDS_AT_ONCE = 4_096
CODES_AT_ONCE = 4_096  # of the tables that are made together


@njit(cache=True, nogil=True)
def tables_at_once(levels):  # type: ignore[no-untyped-def]
    """Return for how many lists tables are made together."""
    return max(1, CODES_AT_ONCE // levels)


@njit(cache=True, nogil=True)
def add_lists(codes, starts, tables, sums):  # type: ignore[no-untyped-def]
    """Add to the sums of every record (sums × records) what its codes in these lists stand for; `tables` is lists ×
    sums × codes."""
    by_four = len(starts) - len(starts) % 4
    for first in range(0, sums.shape[1], RECORDS_AT_ONCE):
        last = min(first + RECORDS_AT_ONCE, sums.shape[1])
        for wanted in range(len(sums)):
            own = sums[wanted, first:last]
            for n in range(0, by_four, 4):
                four = (
                    tables[n, wanted],
                    tables[n + 1, wanted],
                    tables[n + 2, wanted],
                    tables[n + 3, wanted],
                )
                _add_four(codes, starts[n : n + 4] + first, four, own)
            for n in range(by_four, len(starts)):
                table, start = tables[n, wanted], starts[n] + first
                for c in range(len(own)):
                    own[c] += table[codes[start + c]]


@njit(cache=True, nogil=True)
def _add_four(codes, starts, tables, own):  # type: ignore[no-untyped-def]
    a, b, c, d = starts[0], starts[1], starts[2], starts[3]
    table_a, table_b, table_c, table_d = tables
    for n in range(len(own)):
        value = own[n] + table_a[codes[a + n]]
        value += table_b[codes[b + n]]
        value += table_c[codes[c + n]]
        own[n] = value + table_d[codes[d + n]]
