"""Test user attributes on hand-worked tables: the data sets' own, csv and parquet."""

import gzip
import time
import traceback
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import formats
from tasks.config import Source
from tasks.errors import UsageError
from tests.tasks.formats.user_tables import OWN_TABLES, SNAPSHOT, attribute_rows, parquet_bytes, table_source

# --- the tables of the data sets ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["directory", "directory of gz", "zip"])
@pytest.mark.parametrize("name", OWN_TABLES)
def test_table_beside_the_ratings_is_read(name, way, packed_with_table):
    ratings, users, expected = OWN_TABLES[name]
    assert attribute_rows(Source(format=name, path=str(packed_with_table(ratings, users)[way]))) == expected


@pytest.mark.parametrize("name", OWN_TABLES)
def test_ratings_alone_have_no_attributes(name, packed_with_table):
    ratings, users, _ = OWN_TABLES[name]
    alone = packed_with_table(ratings, users)["ratings alone"]
    assert attribute_rows(Source(format=name, path=str(alone))) is None
    asked = Source(format=name, path=str(alone), attributes={"columns": ["gender"]})
    with pytest.raises(
        UsageError, match="no user table beside the ratings, so these attributes are not known: gender"
    ):
        attribute_rows(asked)


def test_only_requested_attributes_are_read(packed_with_table):
    ratings, users, _ = OWN_TABLES["movielens-1m"]
    place = str(packed_with_table(ratings, users)["zip"])
    only = Source(format="movielens-1m", path=place, attributes={"columns": ["occupation"]})
    assert attribute_rows(only) == [("1", "10"), ("2", "16"), ("22", "15")]
    assert attribute_rows(Source(format="movielens-1m", path=place, attributes={"columns": []})) is None
    assert attribute_rows(Source(format="jester", path=place)) is None


def test_two_matching_tables_are_refused(tmp_path):
    """Neither table is taken silently, and the message does not suggest that there is no table."""
    ratings, users, _ = OWN_TABLES["movielens-1m"]
    for name, content in (ratings, users, ("users.dat.gz", gzip.compress(users[1]))):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match="2 files in it match"):
        attribute_rows(Source(format="movielens-1m", path=str(tmp_path)))


@pytest.mark.parametrize("name", formats.registered())
def test_declared_attributes_are_columns_of_the_user_table(name):
    module = import_module(f"tasks.formats.{name.replace('-', '_')}")
    declared = module.FORMAT
    in_a_file = bool(declared.attributes) and declared.needs_path
    assert bool(declared.user_table) == in_a_file  # part of the state, so that a change is noticed
    if in_a_file:
        assert set(declared.attributes) <= set(module.USER_COLUMNS)


# --- a table that is named ----------------------------------------------------------------------------------

CSV = b"user,group,more\na,left,1\nb,right,2\n"
ROWS = [("a", "left"), ("b", "right")]


@pytest.mark.parametrize("way", ["plain", "gz", "zip"])
def test_csv_table_reads_the_same_in_any_packing(way, packed):
    assert attribute_rows(table_source(packed("users.csv", CSV)[way])) == ROWS


@pytest.mark.parametrize("way", ["plain", "gz", "zip", "directory", "directory of gz"])
def test_parquet_table_reads_the_same_in_any_packing(way, packed):
    content = parquet_bytes(user=["a", "b"], group=["left", "right"], more=[1, 2])
    assert attribute_rows(table_source(packed("users.parquet", content)[way])) == ROWS


def test_the_parts_of_a_parquet_are_one_table(tmp_path):
    (tmp_path / "part-0.parquet").write_bytes(parquet_bytes(user=["a"], group=["left"]))
    (tmp_path / "part-1.parquet").write_bytes(parquet_bytes(group=pa.array([7]), user=pa.array([5])))
    for path in (tmp_path, tmp_path / "part-*.parquet"):
        assert attribute_rows(table_source(path)) == [("a", "left"), ("5", "7")]


def test_the_snapshot_is_filled_in(tmp_path):
    (tmp_path / "2026-01-01").mkdir()
    (tmp_path / "2026-01-01" / "users.csv").write_bytes(CSV)
    assert attribute_rows(table_source(tmp_path / "{snapshot}" / "users.csv")) == ROWS


def test_columns_are_found_by_name(source_with_table):
    source = source_with_table("x;age;id\n1;30;a\n", user="id", columns=["age", "x"], delimiter=";")
    assert formats.attributes(source, SNAPSHOT).to_pydict() == {"user": ["a"], "age": ["30"], "x": ["1"]}


@pytest.mark.parametrize("name", ["csv", "parquet", "synthetic", "jester", "movielens-1m"])
def test_named_table_replaces_the_formats_own(name, tmp_path):
    (tmp_path / "users.csv").write_bytes(CSV)
    table = {"path": str(tmp_path / "users.csv"), "columns": ["group"]}
    assert attribute_rows(Source(format=name, path="nowhere", scale=(1, 5), attributes=table)) == ROWS


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("user,group\r\na,left\r\nb,right\r\n", "utf-8"),
        ("\ufeffuser,group\na,left\nb,right", "utf-8"),
        ("user,group\n\na,left\n\nb,right\n\n", "utf-8"),  # blank lines
        ('user,group\n"a","left"\n"b",  right \n', "utf-8"),
        ('"user","group"\na,left\nb,right\n', "utf-16"),
    ],
)
def test_layout_of_the_table_does_not_matter(text, encoding, source_with_table):
    assert attribute_rows(source_with_table(text.encode(encoding), encoding=encoding)) == ROWS


def test_quoted_ids_may_hold_any_character(source_with_table):
    text = 'user,group\n"a,\nb","le""ft"\n" b ",right\n'
    assert attribute_rows(source_with_table(text)) == [("a,\nb", 'le"ft'), (" b ", "right")]


def test_latin_1(source_with_table):
    content = "user,group\nzoë,größe\n".encode("latin-1")
    assert attribute_rows(source_with_table(content, encoding="latin-1")) == [("zoë", "größe")]
    with pytest.raises(UsageError, match="the text is not utf-8") as caught:
        attribute_rows(source_with_table(content))
    assert caught.value.where == "users.csv line 2"
    assert "source.attributes.encoding" in caught.value.remedy


def test_last_row_of_a_repeated_user_counts(source_with_table):
    text = "user,group\na,left\nb,left\na,right\nc,left\nb,\n"
    assert attribute_rows(source_with_table(text)) == [("a", "right"), ("c", "left"), ("b", None)]
    source = source_with_table("user,group\na,seven\na,7\n", edges={"group": [5]})
    assert attribute_rows(source) == [("a", "from 5")]  # what was said before is not looked at


def test_empty_values_are_null_and_rows_without_id_dropped(source_with_table):
    text = 'user,group\na,\nb,"  "\n,left\nc,right\n""," "\n'
    assert attribute_rows(source_with_table(text)) == [("a", None), ("b", None), ("c", "right")]
    content = parquet_bytes(user=["a", None, "", "b"], group=[None, "left", "left", "right"])
    assert attribute_rows(source_with_table(content, "users.parquet")) == [("a", None), ("b", "right")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([3, None]), ["3", None]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([18.0, float("nan")]), ["18", None]),
        (pa.array([2.5, None]), ["2.5", None]),
        (pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
        (pa.array([4, 5]).dictionary_encode(), ["4", "5"]),
        (pa.array(["x", None], pa.large_string()), ["x", None]),
        (pa.array([None, None]), [None, None]),
    ],
)
def test_parquet_columns_of_any_plain_kind(values, expected, source_with_table):
    source = source_with_table(parquet_bytes(user=["a", "b"], group=values), "users.parquet")
    assert attribute_rows(source) == list(zip("ab", expected, strict=True))


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64(), pa.string(), pa.large_string()])
def test_ids_become_the_same_text_from_any_type(kind, source_with_table):
    """Ratings have '1001' from a csv; the table may have the number."""
    ids = pa.array([1001, 7, 1001]).cast(kind)
    for users in (ids, ids.dictionary_encode()):
        source = source_with_table(
            parquet_bytes(user=users, group=["left", "left", "right"]), "users.parquet"
        )
        assert attribute_rows(source) == [("7", "left"), ("1001", "right")]


# --- what is refused, without a word of what the table says --------------------------------------------------


@pytest.mark.parametrize(
    ("content", "name", "what", "where"),
    [
        ("user,group\nsecret-1,secret-2,secret-3\n", "t.csv", "does not have 2 columns", "t.csv line 2"),
        ('user,group\n"secret-\n1",left\nsecret-2\n', "t.csv", "does not have 2 columns", "t.csv line 4"),
        ("secret-1,secret-2\nsecret-3,secret-4\n", "t.csv", "no column called 'user'", "t.csv"),
        ("user,secret-1\na,b\n", "t.csv", r"no column called 'group' \(2 columns in all\)", "t.csv"),
        ("user,group,group\na,b,c\n", "t.csv", "2 columns called 'group'", "t.csv"),
        ("user;group\nsecret-1;left\n", "t.csv", r"no column called 'user' \(1 columns", "t.csv"),
        ("user,group\n", "t.csv", "the user table has no users", "t.csv"),
        ("user,group\n,secret-2\n", "t.csv", "the user table has no users", "t.csv"),
        ("", "t.csv", r"no column called 'user' \(0 columns", "t.csv"),
        ('user,group\n"secret-1,left\n', "t.csv", "does not have 2 columns", "t.csv line 2"),
        ('"secret-1' + "x" * 200_000, "t.csv", "the header cannot be read", "t.csv line 1"),
        (b"user,group\nsecret-1,\xff\n", "t.csv", "the text is not utf-8", "t.csv line 2"),
        (b"PAR1 secret-1", "t.parquet", "cannot be read in this format", "t.parquet"),
        (
            gzip.compress(b"user,group\nsecret-1,x\n", mtime=0)[:-9],
            "t.csv.gz",
            "damaged or cut short",
            "t.csv.gz",
        ),
        (
            parquet_bytes(user=[b"secret-1"], group=["x"]),
            "t.parquet",
            "ids must be text or whole numbers",
            "t.parquet",
        ),
        (
            parquet_bytes(user=[1.5], group=["x"]),
            "t.parquet",
            "ids must be text or whole numbers",
            "t.parquet",
        ),
        (parquet_bytes(user=["secret-1"], group=[b"\xff"]), "t.parquet", "'group' holds binary", "t.parquet"),
        (
            parquet_bytes(user=["secret-1"], group=[["secret-2"]]),
            "t.parquet",
            "'group' holds list",
            "t.parquet",
        ),
        (parquet_bytes(user=["secret-1"], other=["x"]), "t.parquet", "no column called 'group'", "t.parquet"),
    ],
)
def test_unusable_table_is_refused(content, name, what, where, source_with_table):
    source = source_with_table(content, name)
    with pytest.raises(UsageError, match=what) as caught:
        attribute_rows(source)
    assert caught.value.where.endswith(where)
    assert "secret" not in "".join(traceback.format_exception(caught.value))  # nor in what led to it


def test_remedies_name_the_tables_own_keys(tmp_path, source_with_table):
    for path, key in (
        (tmp_path / "absent.csv", "source.attributes.path"),
        (tmp_path, "source.attributes.path"),  # a directory without parts
    ):
        for look in (attribute_rows, lambda source: formats.state(source, SNAPSHOT)):
            source = table_source(path).model_copy(update={"format": "synthetic"})
            with pytest.raises(UsageError) as caught:
                look(source)
            assert key in caught.value.remedy
            assert "source.format" not in caught.value.remedy
    with pytest.raises(UsageError) as caught:
        attribute_rows(source_with_table("user,group\na\n"))
    assert "source.attributes.delimiter" in caught.value.remedy


@pytest.mark.parametrize("name", OWN_TABLES)
def test_misshapen_line_of_the_formats_table_is_refused(name, packed_with_table):
    ratings, users, _ = OWN_TABLES[name]
    broken = (users[0], users[1] + b"secret-1\n")
    with pytest.raises(UsageError, match="a line of the user table does not have 5 columns") as caught:
        attribute_rows(Source(format=name, path=str(packed_with_table(ratings, broken)["zip"])))
    assert caught.value.where == f"archive.zip/inner/{users[0]} line 4"
    assert "secret" not in str(caught.value)
    assert "columns = []" in caught.value.remedy


# --- state, size, real data ---------------------------------------------------------------------------------


def test_the_state_changes_with_the_table(packed_with_table, source_with_table, tmp_path):
    ratings, users, _ = OWN_TABLES["movielens-1m"]
    place = packed_with_table(ratings, users)["directory"]
    (tmp_path / "ratings.csv").write_text("user,item,rating\na,x,1\n")
    (tmp_path / "users.csv").write_bytes(CSV)
    other = table_source(tmp_path / "users.csv").model_copy(update={"path": str(tmp_path / "ratings.csv")})
    for source, table in (
        (Source(format="movielens-1m", path=str(place)), place / "sub" / "users.dat"),
        (other, tmp_path / "users.csv"),
    ):
        before = formats.state(source, SNAPSHOT)
        assert len(before) == 2
        assert formats.state(source, SNAPSHOT) == before
        table.write_bytes(table.read_bytes() * 2)
        assert formats.state(source, SNAPSHOT) != before
    (place / "sub" / "users.dat").unlink()
    assert len(formats.state(Source(format="movielens-1m", path=str(place)), SNAPSHOT)) == 1


@pytest.mark.parametrize("name", ["users.csv", "users.parquet"])
def test_a_million_people_take_seconds(name, tmp_path):
    """About one CPU-second each; a loop over people would take several times as long as is allowed here."""
    count, draw = 1_000_000, np.random.default_rng(0)
    numbers = draw.permutation(count)
    table = pa.table(
        {"user": numbers, "group": draw.integers(0, 2, count), "age": draw.integers(10, 90, count)}
    )
    if name.endswith("csv"):
        from pyarrow import csv

        csv.write_csv(table, tmp_path / name)
    else:
        pq.write_table(table, tmp_path / name)
    source = table_source(tmp_path / name, ["group", "age"], edges={"age": [18, 36]})
    before = time.process_time()
    found = formats.attributes(source, SNAPSHOT)
    assert time.process_time() - before < 5
    assert found.num_rows == count
    row = found.slice(123_456, 1).to_pylist()[0]
    age = table["age"][123_456].as_py()
    assert row == {
        "user": str(numbers[123_456]),
        "group": str(table["group"][123_456]),
        "age": "below 18" if age < 18 else "18 to below 36" if age < 36 else "from 36",
    }


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "directory", "people", "women"),
    [("movielens-1m", "ml-1m", 6040, 1709), ("movielens-100k", "ml-100k", 943, 273)],
)
def test_real_people(name, directory, people, women, real_data):
    rows = attribute_rows(Source(format=name, path=str(real_data(directory))))
    assert len(rows) == people
    assert [row[1] for row in rows].count("F") == women
    assert all(value for row in rows for value in row)
    assert len({row[2] for row in rows}) == (7 if name == "movielens-1m" else 3)


@pytest.mark.data
def test_youth_of_rfpp(real_data):
    """Where it describes the data, 72.71 % of the people are youth: those with the codes 18, 25 and 35."""
    groups = {"age": {"youth": [18, 25, 35]}}
    source = Source(format="movielens-1m", path=str(real_data("ml-1m")), attributes={"groups": groups})
    ages = [row[2] for row in attribute_rows(source)]
    assert ages.count("youth") / len(ages) == pytest.approx(0.727, abs=0.0005)
