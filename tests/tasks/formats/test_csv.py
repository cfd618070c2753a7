"""Test delimited text: column mapping, quoting, line numbers, encodings, and malformed files."""

import csv
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import UsageError
from tasks.formats import _text

SCALE = (1.0, 5.0)


@pytest.fixture
def written(tmp_path):
    def write(content: str | bytes, name: str = "ratings.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_columns_are_found_by_name_in_any_order(written, reading):
    path = written("when;stars;noise;film;who\n7;4.5;x;f1;anna\n8;1;y;f2;bert\n")
    columns = {"user": "who", "item": "film", "rating": "stars", "timestamp": "when"}
    result = reading("csv", path, scale=SCALE, delimiter=";", columns=columns)
    assert result.rows == [("anna", "f1", 4.5, 7), ("bert", "f2", 1.0, 8)]


def test_without_a_timestamp_column(written, reading):
    assert reading("csv", written("user,item,rating\na,x,1\n"), scale=SCALE).rows == [("a", "x", 1.0, None)]


def test_requested_timestamp_column_must_exist(written, reading):
    with pytest.raises(UsageError, match="no column called 'when'") as caught:
        reading("csv", written("user,item,rating\na,x,1\n"), scale=SCALE, columns={"timestamp": "when"})
    assert "source.columns.timestamp" in caught.value.remedy


def test_quoted_fields_survive(written, reading):
    rows = [('say "hi"', "a,b", 1.0, 1), ("two\nlines", "c\r\nd", 2.0, 2), ('5" disk', "é", 3.0, 3)]
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("user", "item", "rating", "timestamp"), *rows])
    path = written(text.getvalue())
    for block_bytes in (1, 50, 2**20):
        assert reading("csv", path, scale=SCALE, block_bytes=block_bytes).rows == rows


def test_line_breaks_inside_fields_of_a_long_file(written, reading):
    """Longer than one of Arrow's blocks: a short read must not pass for the end of a row."""
    rows = [(f"u{n % 600}", f"item\nnumber {n}", 1.0 + n % 5, n) for n in range(60_000)]
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("user", "item", "rating", "timestamp"), *rows])
    assert reading("csv", written(text.getvalue()), scale=SCALE).rows == rows


def test_line_numbers_count_line_breaks_inside_fields(written, reading):
    path = written('user,item,rating\n"a\n\nb",x,1\nc,y\n\nd,z,nan\n"e\nf"\ng,x,9\nh,x,2\n')
    for block_bytes in (1, 2**20):
        result = reading("csv", path, scale=SCALE, block_bytes=block_bytes)
        assert result.rows == [("a\n\nb", "x", 1.0, None), ("h", "x", 2.0, None)]
        assert [o.line for o in result.offenders] == [5, 7, 8, 10]


FIELD = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(FIELD, FIELD, st.integers(0, 6)), min_size=1, max_size=10),
    block_bytes=st.integers(1, 300),
    arrow_bytes=st.integers(200, 400),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]),
)
def test_any_text_in_ids_in_any_block(
    rows, block_bytes, arrow_bytes, delimiter, encoding, tmp_path, reading, monkeypatch
):
    """What the csv module writes is what is read, whatever the blocks; bad rows carry their first line."""
    monkeypatch.setattr(_text, "ARROW_BYTES", arrow_bytes)
    path = tmp_path / "ratings.csv"
    lines, bad = 1, []
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(("user", "item", "rating"))
        for row in rows:
            if not 1 <= row[2] <= 5:
                bad.append(lines + 1)
            writer.writerow(row)
            lines += 1 + row[0].count("\n") + row[1].count("\n")
    result = reading(
        "csv", path, scale=SCALE, block_bytes=block_bytes, delimiter=delimiter, encoding=encoding
    )
    assert result.rows == [(*row, None) for row in rows if 1 <= row[2] <= 5]
    assert [o.line for o in result.offenders] == bad


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,x", "the line does not have 4 columns"),
        ("a,x,1,1,1", "the line does not have 4 columns"),
        (",x,1,1", "the user id is empty"),
        ("a,,1,1", "the item id is empty"),
        ("a,x,,1", "the rating is not a finite number"),
        ("a,x,good,1", "the rating is not a finite number"),
        ("a,x,NaN,1", "the rating is not a finite number"),
        ("a,x,inf,1", "the rating is not a finite number"),
        ("a,x,-Infinity,1", "the rating is not a finite number"),
        ('a,x,"3,5",1', "the rating is not a finite number"),
        ("a,x,1e400,1", "the rating is not a finite number"),
        ("a,x,5.0000001,1", "the rating is off the scale [1, 5]"),
        ("a,x,0,1", "the rating is off the scale [1, 5]"),
        ("a,x,1,", "the timestamp is neither seconds since 1970 nor an ISO date"),
        ("a,x,1,yesterday", "the timestamp is neither seconds since 1970 nor an ISO date"),
        ("a,x,1,2005-02-30", "the timestamp is neither seconds since 1970 nor an ISO date"),
    ],
)
@pytest.mark.parametrize("block_bytes", [5, 2**20])
def test_bad_rows_are_set_aside_with_line_and_reason(row, reason, block_bytes, written, reading):
    path = written(f"user,item,rating,timestamp\nb,y,2,5\n{row}\nb,z,3,6\n")
    result = reading("csv", path, scale=SCALE, block_bytes=block_bytes)
    assert result.rows == [("b", "y", 2.0, 5), ("b", "z", 3.0, 6)]
    assert [(o.line, o.reason, o.file) for o in result.offenders] == [(3, reason, "ratings.csv")]
    assert (result.rows_read, result.rejected) == (3, 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("978300760", 978300760),
        ("978300760.9", 978300760),
        ("-1", -1),
        ("2005-09-06", 1125964800),
        ("2005-09-06 00:00:01", 1125964801),
        ("2005-09-06T00:00:01", 1125964801),
        ("2005-09-06T02:00:01+02:00", 1125964801),
        ("2005-09-06T00:00:01Z", 1125964801),
    ],
)
def test_timestamps(text, seconds, written, reading):
    path = written(f"user,item,rating,timestamp\na,x,1,{text}\n")
    assert reading("csv", path, scale=SCALE).rows == [("a", "x", 1.0, seconds)]
    mixed = written(f"user,item,rating,timestamp\na,x,1,{text}\nb,x,1,5\nc,x,1,2005-09-06\n")
    assert [row[3] for row in reading("csv", mixed, scale=SCALE).rows] == [seconds, 5, 1125964800]


def test_numbers_do_not_depend_on_bad_neighbours(written, reading):
    """Bad rows send a block along another way; the good ones must come out to the last bit."""
    numbers = [f"{1 + n / 997:.17g}" for n in range(997)]
    good = "".join(f"u{n},x,{text}\n" for n, text in enumerate(numbers))
    clean = reading("csv", written("user,item,rating\n" + good), scale=SCALE)
    dirty = reading("csv", written("user,item,rating\n" + good + "v,x,?\n"), scale=SCALE)
    assert clean.rows == dirty.rows
    assert len(clean.rows) == 997


def test_blank_lines_count_as_lines_but_not_as_rows(written, reading):
    result = reading("csv", written("user,item,rating\n\na,x,1\n\n\nb,x,7\n\n"), scale=SCALE)
    assert (result.rows_read, [o.line for o in result.offenders]) == (2, [6])


def test_byte_order_mark_is_ignored(written, reading):
    path = written(b"\xef\xbb\xbfuser,item,rating\na,x,1\n")
    assert reading("csv", path, scale=SCALE).rows == [("a", "x", 1.0, None)]


@pytest.mark.parametrize("content", ["", "user,item,rating\n", "user,item,rating", "user,item,rating\n\n\n"])
def test_empty_file_is_refused(content, written, reading):
    with pytest.raises(UsageError, match=r"no ratings|no column called 'user' \(0 columns"):
        reading("csv", written(content), scale=SCALE)


def test_missing_column_is_named_without_quoting_header(written, reading):
    with pytest.raises(UsageError, match="no column called 'user'") as caught:
        reading("csv", written("secret-person-7,item,rating\na,x,1\n"), scale=SCALE)
    assert "secret-person-7" not in str(caught.value)
    assert "source.columns.user" in caught.value.remedy


def test_a_column_twice_is_refused(written, reading):
    with pytest.raises(UsageError, match="2 columns called 'user'"):
        reading("csv", written("user,user,item,rating\na,b,x,1\n"), scale=SCALE)


@pytest.mark.parametrize("block_bytes", [20, 2**20])
def test_wrong_encoding_names_the_line_only(block_bytes, written, reading):
    rows = "".join(f"user{n},item,3\n" for n in range(50))
    path = written(f"user,item,rating\n{rows}".encode() + "Zoë,item,3\n".encode("latin-1"))
    with pytest.raises(UsageError, match="the text is not utf-8") as caught:
        reading("csv", path, scale=SCALE, block_bytes=block_bytes)
    assert caught.value.where == "ratings.csv line 52"
    assert "Zo" not in str(caught.value)
    assert len(reading("csv", path, scale=SCALE, encoding="latin-1").rows) == 51


def test_unclosed_quote_is_refused(written, reading, monkeypatch):
    monkeypatch.setattr(_text, "ARROW_BYTES", 2**12)
    path = written('user,item,rating\na,x,1\n"anna,x,1\n' + "b,x,1\n" * 5000)
    with pytest.raises(UsageError, match="quotation mark is never closed") as caught:
        reading("csv", path, scale=SCALE)
    assert "anna" not in str(caught.value)


def test_a_file_without_line_breaks(written, reading, monkeypatch):
    monkeypatch.setattr(_text, "LINE_LIMIT", 1000)
    monkeypatch.setattr(_text, "ARROW_BYTES", 100)
    with pytest.raises(UsageError, match="a line is longer than"):
        reading("movielens-100k", written(b"\x01" * 5000))


def test_too_many_misshapen_lines_stop_the_reading(written, reading, monkeypatch):
    monkeypatch.setattr(_text, "MISSHAPEN_LIMIT", 10)
    with pytest.raises(UsageError, match=r"more than 10 lines do not have 3 columns"):
        reading("csv", written("user,item,rating\n" + "a;b;1\n" * 12), scale=SCALE)
