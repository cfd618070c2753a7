"""Test that lists are added up whatever the number of sums and of records taken together."""

import numpy as np
import pytest

from checks.linkage.dense_walk import RECORDS_AT_ONCE, WIDTHS, add_lists, table_width, tables_at_once


@pytest.mark.parametrize("width", WIDTHS)
def test_sums_of_what_the_codes_stand_for(width):
    random = np.random.default_rng(width)
    records, lists, levels = RECORDS_AT_ONCE + 5, 3, 7
    codes = random.integers(0, levels, (6, records)).astype(np.uint8)
    chosen, tables = np.array([4, 0, 5]), random.random((lists, levels, width))
    sums = np.ones((records, width))
    add_lists(codes.ravel(), chosen * records, tables, sums)
    expected = 1 + sum(tables[number][codes[own]] for number, own in enumerate(chosen))
    assert sums == pytest.approx(expected, abs=1e-12)


def test_numbers_taken_together():
    assert [table_width(sums) for sums in (1, 2, 3, 4)] == [1, 2, 4, 4]
    assert tables_at_once(41) == 99
    assert tables_at_once(65_536) == 1
