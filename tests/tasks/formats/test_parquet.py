"""Test Parquet: types of ids and timestamps, files and row groups as pieces, bad rows by row number."""

import datetime
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks import formats
from tasks.cli._preview import preview
from tasks.config import Source, parse
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
def test_reads_the_same_in_any_packing(way, written, packed, reading):
    ways = packed("ratings.parquet", written(COLUMNS).read_bytes())
    assert reading("parquet", ways[way], scale=SCALE).rows == ROWS


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("user", pa.array(["a", "b", "c"]).dictionary_encode()),
        ("user", pa.array(["a", "b", "c"], pa.large_string())),
        ("user", pa.array(["x", "a", "b", "c"]).dictionary_encode()[1:]),
        ("item", pa.array([1, 2, 3], pa.uint8())),
        ("item", pa.array([1, 2, 3]).dictionary_encode()),
        ("rating", pa.array(["1", "2.5", "5"])),
        ("rating", pa.array([1, 2.5, 5], pa.float16())),
        ("timestamp", pa.array([7.0, 8.9, 9.0])),
        ("timestamp", pa.array([7000, 8000, 9000], pa.timestamp("ms"))),
        ("timestamp", pa.array([7, 8, 9], pa.timestamp("s", "UTC"))),
    ],
)
def test_types_of_ids_and_timestamps(column, values, written, reading):
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


def test_rating_column_of_another_type_is_refused(written, reading):
    with pytest.raises(UsageError, match="cannot be read in this format"):
        reading("parquet", written({**COLUMNS, "rating": [[1.0], [2.0], [3.0]]}), scale=SCALE)


def test_missing_column(written, reading):
    with pytest.raises(UsageError, match="no column called 'rating'"):
        reading("parquet", written({"user": ["a"], "item": ["x"]}), scale=SCALE)


def test_missing_column_message_has_no_csv_hint(written, reading):
    with pytest.raises(UsageError) as caught:
        reading("parquet", written({"user": ["a"], "item": ["x"]}), scale=SCALE)
    assert caught.value.where == "ratings.parquet"
    assert not any(word in str(caught.value) for word in ("header", "line", "delimiter"))


def test_empty(written, reading):
    empty = {name: pa.array([], pa.string()) for name in ("user", "item", "rating")}
    with pytest.raises(UsageError, match="no ratings"):
        reading("parquet", written(empty), scale=SCALE)


def test_file_that_is_not_parquet_is_refused(tmp_path, reading):
    path = tmp_path / "ratings.parquet"
    path.write_text("user,item,rating\nanna,x,1\n")
    with pytest.raises(UsageError, match="cannot be read in this format") as caught:
        reading("parquet", path, scale=SCALE)
    assert "anna" not in str(caught.value)


# --- several files ------------------------------------------------------------------------------------------


@pytest.fixture
def parts(tmp_path):
    """Write rows as parts of the given lengths; returns their directory."""

    def write(lengths, *, names="part-{:05}.parquet", row_group_size=2):
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        first = 0
        for number, length in enumerate(lengths):
            rows = range(first, first + length)
            table = pa.table(
                {
                    "user": pa.array([f"u{row % 5}" for row in rows], pa.string()),
                    "item": pa.array(rows, pa.int32()),
                    "rating": pa.array([row % 5 + 1 for row in rows], pa.int8()),
                    "timestamp": pa.array(rows, pa.int64()),
                }
            )
            path = place / names.format(number)
            path.parent.mkdir(exist_ok=True)
            pq.write_table(table, path, row_group_size=row_group_size)
            first += length
        return place

    return write


def rows_of(lengths):
    return [(f"u{row % 5}", str(row), row % 5 + 1, row) for row in range(sum(lengths))]


SNAPSHOT = datetime.date(2026, 1, 1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    row_group_size=st.integers(1, 4),
    block_rows=st.integers(1, 12),
)
def test_parts_in_any_blocks_are_read_in_name_order(lengths, row_group_size, block_rows, parts, reading):
    lengths = [*lengths, 1]
    place = parts(lengths, row_group_size=row_group_size)
    assert reading("parquet", place, scale=SCALE, block_bytes=64 * block_rows).rows == rows_of(lengths)
    source = Source(format="parquet", path=str(place), scale=SCALE)
    cut = formats.pieces(source.model_copy(update={"block_bytes": 64 * block_rows}), SNAPSHOT)
    files = [file for piece in cut for file in piece.files]
    assert sorted(set(files)) == list(dict.fromkeys(files))  # every part, in order
    assert len(set(files)) == len(lengths)


def test_large_parts_are_cut_and_small_ones_gathered(parts):
    """Two rows a group, four a block: 6 = 4 + 2, then 1 and 3 together, then 2."""
    source = Source(format="parquet", path=str(parts([6, 1, 3, 2])), scale=SCALE)
    cut = formats.pieces(source.model_copy(update={"block_bytes": 4 * 64}), SNAPSHOT)
    short = [([int(file[-13:-8]) for file in piece.files], piece.start, piece.stop) for piece in cut]
    assert short == [([0], 0, 2), ([0], 2, 3), ([1, 2], 0, None), ([3], 0, None)]


def test_a_pattern_picks_parts(parts, reading):
    place = parts([3, 3], names="{}.parquet")
    (place / "old.parquet").write_text("not this one")
    assert reading("parquet", place / "[01]*.parquet", scale=SCALE).rows == rows_of([3, 3])


def test_parts_in_an_archive_and_in_directories_below(parts, reading, tmp_path):
    place = parts([3, 2, 4], names="day={}/rows.parquet")
    assert reading("parquet", place, scale=SCALE).rows == rows_of([3, 2, 4])
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in place.rglob("*.parquet"):
            archive.write(file, file.relative_to(place))
    assert reading("parquet", tmp_path / "all.zip", scale=SCALE).rows == rows_of([3, 2, 4])


def test_hidden_and_unfinished_files_are_left_alone(parts, reading):
    place = parts([3])
    (place / "_temporary").mkdir()
    for name in (".part-00001.parquet", "_temporary/part-00001.parquet", "_SUCCESS", "notes.txt"):
        (place / name).write_text("not complete")
    assert reading("parquet", place, scale=SCALE).rows == rows_of([3])


def test_hidden_members_of_an_archive_are_left_alone(parts, reading, tmp_path):
    place = parts([3, 2])
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in place.rglob("*.parquet"):
            archive.write(file, f"export/{file.name}")
        for name in ("__MACOSX/export/._part-00000.parquet", "export/_temporary/0.parquet", ".x.parquet"):
            archive.writestr(name, "not ours")
    assert reading("parquet", tmp_path / "all.zip", scale=SCALE).rows == rows_of([3, 2])


def test_a_preview_begins_where_the_rows_begin(parts):
    """An empty part in a piece of its own, before one that is too large to go with it."""
    place = parts([0, 2**15], row_group_size=2**13)
    table = {"format": "parquet", "path": str(place), "scale": [1, 5], "block_bytes": 2**20}
    privacy = {"k": 2, "l": 1}  # five people
    found = preview(parse({"release": {"name": "x"}, "source": table, "privacy": privacy}), SNAPSHOT)
    assert found["source"]["rows_rejected"] == 0
    assert found["rows"][0]["item"] == "0"


def test_preview_of_no_rows_is_refused(parts):
    table = {"format": "parquet", "path": str(parts([0, 0])), "scale": [1, 5]}
    with pytest.raises(UsageError, match="the source has no ratings"):
        preview(parse({"release": {"name": "x"}, "source": table}), SNAPSHOT)


def test_a_directory_without_parts(tmp_path, reading):
    with pytest.raises(UsageError, match=r"no file called \*\.parquet or .* in it"):
        reading("parquet", tmp_path, scale=SCALE)


@pytest.mark.parametrize("keep", [0, 100, -10])
def test_a_truncated_part_is_named(keep, parts, reading):
    broken = parts([4, 4, 4]) / "part-00001.parquet"
    broken.write_bytes(broken.read_bytes()[:keep])
    with pytest.raises(UsageError, match="cannot be read in this format") as caught:
        reading("parquet", broken.parent, scale=SCALE)
    assert "part-00001.parquet" in caught.value.where


def test_a_part_that_vanishes_is_named(parts):
    place = parts([4, 4, 4])
    source = Source(format="parquet", path=str(place), scale=SCALE)
    (piece,) = formats.pieces(source, SNAPSHOT)
    (place / "part-00002.parquet").unlink()
    with pytest.raises(UsageError, match="there is no such file") as caught:
        list(formats.read(piece, source, SNAPSHOT))
    assert caught.value.where.endswith("part-00002.parquet")


@pytest.mark.parametrize(
    ("drop", "what"),
    [
        ("rating", "no column called 'rating'"),
        ("timestamp", "this part has no column 'timestamp', unlike the parts before it"),
    ],
)
def test_a_part_with_other_columns_is_named(drop, what, parts, reading):
    other = parts([4, 4, 4]) / "part-00001.parquet"
    pq.write_table(pq.read_table(other).drop_columns([drop]), other)
    with pytest.raises(UsageError, match=what) as caught:
        reading("parquet", other.parent, scale=SCALE)
    assert "part-00001.parquet" in caught.value.where


def test_bad_rows_carry_the_part_and_its_row(parts, reading):
    place = parts([4, 4])
    second = place / "part-00001.parquet"
    columns = pq.read_table(second).to_pydict()
    columns["rating"][2] = 9
    columns["user"][3] = None
    pq.write_table(pa.table(columns), second, row_group_size=2)
    for block_bytes in (64, 2**20):
        found = reading("parquet", place, scale=SCALE, block_bytes=block_bytes).offenders
        assert [(o.file, o.line) for o in found] == [("part-00001.parquet", 3), ("part-00001.parquet", 4)]


def test_columns_of_many_short_ids_are_read_in_large_blocks(tmp_path):
    """A dictionary of 100 kB has no long text: a block of 2,600 rows would be as slow as reading row by row."""
    rows = 40_000
    numbers = np.arange(rows)
    users = [f"user-{number:07}" for number in (numbers % 9_000).tolist()]
    table = pa.table({"user": users, "item": numbers % 17_000, "rating": np.full(rows, 3.0)})
    pq.write_table(table, tmp_path / "r.parquet")
    source = Source(format="parquet", path=str(tmp_path / "r.parquet"), scale=(1, 5))
    blocks = list(formats.read_all(source, SNAPSHOT))
    assert [len(block.ratings) for block in blocks] == [rows]
    assert blocks[0].users.to_pylist() == users
