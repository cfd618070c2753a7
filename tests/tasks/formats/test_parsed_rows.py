"""Test that what a row means does not depend on other rows of its block: they are other people's.

Differential privacy is proved for data sets that differ by one person's ratings (docs/proofs/dp-synthetic.md). If an
unreadable rating of one person changed how those of others are read, it would hold for no data set.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.formats._blocks import parse_numbers, parse_seconds

NUMBERS = (
    "4", "+4", "4.", "+.5", "-1", "1e0", "4 ", "nan", "inf", "-Infinity", "0x4", "1_0", "", "1e400", "1e-400", "004",
)  # fmt: skip
TIMES = (
    "978300760", "+5", "-5", "0x10", "9007199254740993", "99999999999999999", "-9223372036854775808", "1.5", " 5", "",
    "2020-01-01", "2020-01-01 10:00:00", "2020-01-01T10:00:00Z", "2020-01-01T10:00:00+02:00", "2020-1-1", "20200101",
    "2020-01-01 10:00:00.5", "0001-01-01", "9999-12-31",
)  # fmt: skip


def number(text, others=()):
    return parse_numbers(pa.array([text, *others], pa.string()))[0]


def seconds(text, others=()):
    value, known = parse_seconds(pa.array([text, *others], pa.string()))
    return int(value[0]) if known[0] else None


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NUMBERS), st.lists(st.sampled_from([*NUMBERS, "x"]), max_size=3))
def test_a_number_is_read_the_same_in_any_company(text, others):
    assert number(text, others) == pytest.approx(number(text), nan_ok=True)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(TIMES), st.lists(st.sampled_from([*TIMES, "x"]), max_size=3))
def test_a_time_is_read_the_same_in_any_company(text, others):
    assert seconds(text, others) == seconds(text)


def test_one_unreadable_rating_does_not_remove_those_of_others():
    """Ratings written with a sign were dropped from a block as soon as one of its rows could not be read."""
    assert parse_numbers(pa.array(["+4", "+5", "four"]))[:2].tolist() == [4, 5]


def test_what_is_no_number():
    assert np.isnan([number(text) for text in ("inf", "-Infinity", "nan", "0x4", "1_0", "", "1e400")]).all()
    assert [number(text) for text in ("+4", "4.", "+.5", "4 ")][:3] == [4, 4, 0.5]


def test_times_beyond_what_is_exact_are_not_read():
    assert seconds("9007199254740993") is None
    assert seconds("0x10") is None
    assert seconds("+5") == seconds(" 5") == 5
