"""Test that lists are added up whatever the number of lists and of records taken together."""

import numpy as np
import pytest

from checks.linkage.dense_walk import RECORDS_AT_ONCE, add_lists, tables_at_once


@pytest.mark.parametrize("chosen", [[4], [4, 0, 5, 1], [4, 0, 5, 1, 1, 3]])
def test_sums_of_what_the_codes_stand_for(chosen):
    random = np.random.default_rng(len(chosen))
    records, levels = RECORDS_AT_ONCE + 5, 7
    codes = random.integers(0, levels, (6, records)).astype(np.uint8)
    tables, sums = random.random((len(chosen), 3, levels)), np.ones((3, records))
    add_lists(codes.ravel(), np.array(chosen) * records, tables, sums)
    expected = 1 + sum(tables[number][:, codes[own]] for number, own in enumerate(chosen))
    assert sums == pytest.approx(expected, abs=1e-12)


def test_numbers_taken_together():
    assert tables_at_once(41) == 99
    assert tables_at_once(65_536) == 1
