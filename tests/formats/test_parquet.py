"""Parquet: types of ids and timestamps, row groups as pieces, bad rows by row number."""

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import UsageError

SCALE = (1.0, 5.0)


@pytest.fixture
def written(tmp_path):
    def write(columns: dict, **options):
        path = tmp_path / "ratings.parquet"
        pq.write_table(pa.table(columns), path, **options)
        return path

    return write


COLUMNS = {"user": ["a", "b", "c"], "item": [1, 2, 3], "rating": [1.0, 2.5, 5.0], "timestamp": [7, 8, 9]}
ROWS = [("a", "1", 1.0, 7), ("b", "2", 2.5, 8), ("c", "3", 5.0, 9)]


@pytest.mark.parametrize("row_group_size", [1, 2, 3])
@pytest.mark.parametrize("block_bytes", [1, 100, 2**20])
def test_row_groups_in_any_blocks(row_group_size, block_bytes, written, reading):
    path = written(COLUMNS, row_group_size=row_group_size)
    assert reading("parquet", path, scale=SCALE, block_bytes=block_bytes).rows == ROWS


@pytest.mark.parametrize("way", ["plain", "gz", "zip"])
def test_packed(way, written, packed, reading):
    ways = packed("ratings.parquet", written(COLUMNS).read_bytes())
    assert reading("parquet", ways[way], scale=SCALE).rows == ROWS


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("user", pa.array(["a", "b", "c"]).dictionary_encode()),
        ("user", pa.array(["a", "b", "c"], pa.large_string())),
        ("item", pa.array([1, 2, 3], pa.uint8())),
        ("rating", pa.array(["1", "2.5", "5"])),
        ("rating", pa.array([1, 2.5, 5], pa.float16())),
        ("timestamp", pa.array([7.0, 8.9, 9.0])),
        ("timestamp", pa.array([7000, 8000, 9000], pa.timestamp("ms"))),
        ("timestamp", pa.array([7, 8, 9], pa.timestamp("s", "UTC"))),
    ],
)
def test_types(column, values, written, reading):
    assert reading("parquet", written({**COLUMNS, column: values}), scale=SCALE).rows == ROWS


def test_dates(written, reading):
    path = written({**COLUMNS, "timestamp": [datetime.date(1970, 1, 2)] * 3})
    assert [row[3] for row in reading("parquet", path, scale=SCALE).rows] == [86400] * 3


@pytest.mark.parametrize("row_group_size", [1, 4])
def test_bad_rows_carry_their_row_number(row_group_size, written, reading):
    columns = {
        "user": ["a", None, "", "d", "e", "f", "g"],
        "item": ["x", "x", "x", None, "x", "x", "x"],
        "rating": [1.0, 1, 1, 1, None, float("nan"), 9],
    }
    path = written(columns, row_group_size=row_group_size)
    result = reading("parquet", path, scale=SCALE, block_bytes=1)
    assert result.rows == [("a", "x", 1.0, None)]
    assert [(o.line, o.reason) for o in result.offenders] == [
        (2, "the user id is empty"),
        (3, "the user id is empty"),
        (4, "the item id is empty"),
        (5, "the rating is not a finite number"),
        (6, "the rating is not a finite number"),
        (7, "the rating is off the scale [1, 5]"),
    ]


def test_ids_must_be_text_or_whole_numbers(written, reading):
    with pytest.raises(UsageError, match=r"source\.columns\.user holds double; ids must be text"):
        reading("parquet", written({**COLUMNS, "user": [1.0, 2.0, 3.0]}), scale=SCALE)


def test_a_rating_that_is_no_number_at_all(written, reading):
    with pytest.raises(UsageError, match="cannot be read in this format"):
        reading("parquet", written({**COLUMNS, "rating": [[1.0], [2.0], [3.0]]}), scale=SCALE)


def test_missing_column(written, reading):
    with pytest.raises(UsageError, match="no column called 'rating'"):
        reading("parquet", written({"user": ["a"], "item": ["x"]}), scale=SCALE)


def test_empty(written, reading):
    empty = {name: pa.array([], pa.string()) for name in ("user", "item", "rating")}
    with pytest.raises(UsageError, match="no ratings"):
        reading("parquet", written(empty), scale=SCALE)


def test_not_parquet_at_all(tmp_path, reading):
    path = tmp_path / "ratings.parquet"
    path.write_text("user,item,rating\nanna,x,1\n")
    with pytest.raises(UsageError, match="cannot be read in this format") as caught:
        reading("parquet", path, scale=SCALE)
    assert "anna" not in str(caught.value)
