"""What is known about people beside their ratings, on hand-worked tables: the data sets' own, csv and parquet."""

import datetime
import gzip
import io
import time
import traceback
import zipfile
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import formats
from tasks.config import Source
from tasks.config.source import OWN_ATTRIBUTES
from tasks.errors import UsageError

SNAPSHOT = datetime.date(2026, 1, 1)
OWN = {
    "movielens-1m": (
        ("ratings.dat", b"1::10::5::100\n2::10::3::200\n"),
        ("users.dat", b"1::F::1::10::48067\n2::M::56::16::70072\n22::M::25::15::55117\n"),
        [("1", "F", "1"), ("2", "M", "56"), ("22", "M", "25")],
    ),
    "movielens-100k": (
        ("u.data", b"1\t10\t5\t100\n2\t10\t3\t200\n"),
        ("u.user", b"1|17|M|technician|85711\n2|18|F|other|94043\n22|36|M|writer|32067\n"),
        [("1", "M", "below 18"), ("2", "F", "18 to below 36"), ("22", "M", "from 36")],
    ),
}


def known(source):
    """The rows of the table: (user, one value per attribute); None where there is no table."""
    table = formats.attributes(source, SNAPSHOT)
    return (
        None if table is None else list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    )


@pytest.fixture
def together(tmp_path):
    """Ratings and a user table in a directory, the same compressed, in an archive, and the ratings by themselves."""

    def pack(*files):
        place = tmp_path / "together"
        for way in ("directory/sub", "directory of gz"):
            (place / way).mkdir(parents=True)
        with zipfile.ZipFile(place / "archive.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files:
                (place / "directory" / "sub" / name).write_bytes(content)
                (place / "directory of gz" / f"{name}.gz").write_bytes(gzip.compress(content))
                archive.writestr(f"inner/{name}", content)
        return {
            "directory": place / "directory",
            "directory of gz": place / "directory of gz",
            "zip": place / "archive.zip",
            "ratings alone": place / "directory" / "sub" / files[0][0],
        }

    return pack


@pytest.fixture
def named(tmp_path):
    """A csv source whose user table has this content: (content, file name, keys of source.attributes) → Source."""

    def make(content: bytes | str, name="users.csv", columns=("group",), **keys):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return at(path, columns, **keys)

    return make


def at(path, columns=("group",), **keys):
    table = {"path": str(path), "columns": list(columns), **keys}
    return Source(format="csv", path="ratings.csv", scale=(1, 5), attributes=table)


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


# --- the tables of the data sets ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["directory", "directory of gz", "zip"])
@pytest.mark.parametrize("name", OWN)
def test_the_table_beside_the_ratings(name, way, together):
    ratings, users, expected = OWN[name]
    assert known(Source(format=name, path=str(together(ratings, users)[way]))) == expected


@pytest.mark.parametrize("name", OWN)
def test_nothing_is_known_where_ratings_stand_alone(name, together):
    ratings, users, _ = OWN[name]
    alone = together(ratings, users)["ratings alone"]
    assert known(Source(format=name, path=str(alone))) is None
    asked = Source(format=name, path=str(alone), attributes={"columns": ["gender"]})
    with pytest.raises(UsageError, match="no user table beside the ratings, so nothing is known of gender"):
        known(asked)


def test_what_is_not_asked_for_is_not_known(together):
    ratings, users, _ = OWN["movielens-1m"]
    place = str(together(ratings, users)["zip"])
    only = Source(format="movielens-1m", path=place, attributes={"columns": ["occupation"]})
    assert known(only) == [("1", "10"), ("2", "16"), ("22", "15")]
    assert known(Source(format="movielens-1m", path=place, attributes={"columns": []})) is None
    assert known(Source(format="jester", path=place)) is None


def test_two_tables_are_not_none(tmp_path):
    """Neither of them is taken, and nobody is led to believe that nothing is known."""
    ratings, users, _ = OWN["movielens-1m"]
    for name, content in (ratings, users, ("users.dat.gz", gzip.compress(users[1]))):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match="2 files in there could be meant"):
        known(Source(format="movielens-1m", path=str(tmp_path)))


@pytest.mark.parametrize("name", formats.registered())
def test_a_format_has_attributes_exactly_where_the_configuration_says_so(name):
    module = import_module(f"tasks.formats.{name.replace('-', '_')}")
    assert hasattr(module, "attributes") == (name in OWN_ATTRIBUTES)
    files = set(OWN_ATTRIBUTES) - {"synthetic"}
    assert hasattr(module, "USER_TABLE") == (name in files)  # part of the state, so that a change is noticed
    if name in files:
        assert set(OWN_ATTRIBUTES[name]) <= set(module.USER_COLUMNS)


# --- a table that is named ----------------------------------------------------------------------------------

CSV = b"user,group,more\na,left,1\nb,right,2\n"
ROWS = [("a", "left"), ("b", "right")]


@pytest.mark.parametrize("way", ["plain", "gz", "zip"])
def test_a_csv_however_it_is_packed(way, packed):
    assert known(at(packed("users.csv", CSV)[way])) == ROWS


@pytest.mark.parametrize("way", ["plain", "gz", "zip", "directory", "directory of gz"])
def test_a_parquet_however_it_is_packed(way, packed):
    content = parquet(user=["a", "b"], group=["left", "right"], more=[1, 2])
    assert known(at(packed("users.parquet", content)[way])) == ROWS


def test_the_parts_of_a_parquet_are_one_table(tmp_path):
    (tmp_path / "part-0.parquet").write_bytes(parquet(user=["a"], group=["left"]))
    (tmp_path / "part-1.parquet").write_bytes(parquet(group=pa.array([7]), user=pa.array([5])))
    for path in (tmp_path, tmp_path / "part-*.parquet"):
        assert known(at(path)) == [("a", "left"), ("5", "7")]


def test_the_snapshot_is_filled_in(tmp_path):
    (tmp_path / "2026-01-01").mkdir()
    (tmp_path / "2026-01-01" / "users.csv").write_bytes(CSV)
    assert known(at(tmp_path / "{snapshot}" / "users.csv")) == ROWS


def test_columns_are_found_by_name(named):
    source = named("x;age;id\n1;30;a\n", user="id", columns=["age", "x"], delimiter=";")
    assert formats.attributes(source, SNAPSHOT).to_pydict() == {"user": ["a"], "age": ["30"], "x": ["1"]}


@pytest.mark.parametrize("name", ["csv", "parquet", "synthetic", "jester", "movielens-1m"])
def test_any_format_may_have_such_a_table_and_it_replaces_its_own(name, tmp_path):
    (tmp_path / "users.csv").write_bytes(CSV)
    table = {"path": str(tmp_path / "users.csv"), "columns": ["group"]}
    assert known(Source(format=name, path="nowhere", scale=(1, 5), attributes=table)) == ROWS


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
def test_the_same_table_written_otherwise(text, encoding, named):
    assert known(named(text.encode(encoding), encoding=encoding)) == ROWS


def test_quoted_ids_hold_anything(named):
    text = 'user,group\n"a,\nb","le""ft"\n" b ",right\n'
    assert known(named(text)) == [("a,\nb", 'le"ft'), (" b ", "right")]


def test_latin_1(named):
    content = "user,group\nzoë,größe\n".encode("latin-1")
    assert known(named(content, encoding="latin-1")) == [("zoë", "größe")]
    with pytest.raises(UsageError, match="the text is not utf-8") as caught:
        known(named(content))
    assert caught.value.where == "users.csv line 2"
    assert "source.attributes.encoding" in caught.value.remedy


def test_of_a_user_named_twice_the_last_row_counts(named):
    text = "user,group\na,left\nb,left\na,right\nc,left\nb,\n"
    assert known(named(text)) == [("a", "right"), ("c", "left"), ("b", None)]
    source = named("user,group\na,seven\na,7\n", edges={"group": [5]})
    assert known(source) == [("a", "from 5")]  # what was said before is not looked at


def test_empty_values_are_not_known_and_rows_without_an_id_are_nobody(named):
    text = 'user,group\na,\nb,"  "\n,left\nc,right\n""," "\n'
    assert known(named(text)) == [("a", None), ("b", None), ("c", "right")]
    content = parquet(user=["a", None, "", "b"], group=[None, "left", "left", "right"])
    assert known(named(content, "users.parquet")) == [("a", None), ("b", "right")]


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
def test_parquet_columns_of_any_plain_kind(values, expected, named):
    source = named(parquet(user=["a", "b"], group=values), "users.parquet")
    assert known(source) == list(zip("ab", expected, strict=True))


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64(), pa.string(), pa.large_string()])
def test_ids_are_the_same_text_whatever_they_were_written_as(kind, named):
    """Ratings have '1001' from a csv; the table may have the number."""
    ids = pa.array([1001, 7, 1001]).cast(kind)
    for users in (ids, ids.dictionary_encode()):
        source = named(parquet(user=users, group=["left", "left", "right"]), "users.parquet")
        assert known(source) == [("7", "left"), ("1001", "right")]


# --- values put together ------------------------------------------------------------------------------------

AGES = "user,age\na,18\nb,25\nc,56\nd,\ne,1\n"


def test_groups(named):
    groups = {"age": {"youth": [18, "25", 35.0], "old": [56]}}
    source = named(AGES, columns=["age"], groups=groups)
    assert [value for _, value in known(source)] == ["youth", "youth", "old", None, "other"]


def test_groups_of_truth_values(named):
    source = named(
        parquet(user=["a", "b"], group=[True, False]), "users.parquet", groups={"group": {"y": [True]}}
    )
    assert known(source) == [("a", "y"), ("b", "other")]


def test_groups_that_nobody_is_in_are_a_mistake(named):
    with pytest.raises(UsageError, match=r"no user has any of the values in source\.attributes\.groups\.age"):
        known(named(AGES, columns=["age"], groups={"age": {"youth": ["eighteen"]}}))


def test_edges(named):
    source = named(AGES, columns=["age"], edges={"age": [18, 25, 56.5]})
    assert [value for _, value in known(source)] == [
        "18 to below 25",
        "25 to below 56.5",
        "25 to below 56.5",
        None,
        "below 18",
    ]


def test_ranges_of_large_numbers_stay_apart(named):
    text = "user,age\n" + "".join(f"u{n},{1_000_000 + n}\n" for n in range(5))
    source = named(text, columns=["age"], edges={"age": [1_000_001, 1_000_002, 1_000_003, 1_000_004]})
    assert len({value for _, value in known(source)}) == 5


@pytest.mark.parametrize("odd", ["secret", "nan", "inf", "3,5", "0x10", "1 2"])
def test_edges_over_what_is_no_number(odd, named):
    source = named(AGES + f'f,"{odd}"\ng,"{odd}"\n', columns=["age"], edges={"age": [18]})
    with pytest.raises(
        UsageError, match="1 different values of the attribute 'age' are not numbers"
    ) as caught:
        known(source)
    assert odd not in caught.value.what


def test_the_years_of_the_small_data_set_can_be_put_together_otherwise(together):
    ratings, users, _ = OWN["movielens-100k"]
    place = str(together(ratings, users)["zip"])
    cut = Source(format="movielens-100k", path=place, attributes={"edges": {"age": [20]}})
    assert [row[2] for row in known(cut)] == ["below 20", "below 20", "from 20"]
    put = Source(format="movielens-100k", path=place, attributes={"groups": {"age": {"teens": [17, 18]}}})
    assert [row[2] for row in known(put)] == ["teens", "teens", "other"]


def test_too_many_classes(named):
    text = "user,group\n" + "".join(f"u{n},{n}\n" for n in range(33))
    with pytest.raises(UsageError, match="'group' has 33 different values, more than 32") as caught:
        known(named(text))
    assert caught.value.where.endswith("users.csv")
    assert len(known(named(text, edges={"group": [20]}))) == 33
    assert len(known(named(text.replace("u32,32", "u32,0")))) == 33


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
        (gzip.compress(b"user,group\nsecret-1,x\n")[:-9], "t.csv.gz", "damaged or cut short", "t.csv.gz"),
        (
            parquet(user=[b"secret-1"], group=["x"]),
            "t.parquet",
            "ids must be text or whole numbers",
            "t.parquet",
        ),
        (parquet(user=[1.5], group=["x"]), "t.parquet", "ids must be text or whole numbers", "t.parquet"),
        (parquet(user=["secret-1"], group=[b"\xff"]), "t.parquet", "'group' holds binary", "t.parquet"),
        (parquet(user=["secret-1"], group=[["secret-2"]]), "t.parquet", "'group' holds list", "t.parquet"),
        (parquet(user=["secret-1"], other=["x"]), "t.parquet", "no column called 'group'", "t.parquet"),
    ],
)
def test_a_table_that_cannot_be_used(content, name, what, where, named):
    source = named(content, name)
    with pytest.raises(UsageError, match=what) as caught:
        known(source)
    assert caught.value.where.endswith(where)
    assert "secret" not in "".join(traceback.format_exception(caught.value))  # nor in what led to it


def test_remedies_name_the_tables_own_keys(tmp_path, named):
    for path, key in (
        (tmp_path / "absent.csv", "source.attributes.path"),
        (tmp_path, "source.attributes.path"),  # a directory without parts
    ):
        for look in (known, lambda source: formats.state(source, SNAPSHOT)):
            source = at(path).model_copy(update={"format": "synthetic"})
            with pytest.raises(UsageError) as caught:
                look(source)
            assert key in caught.value.remedy
            assert "source.format" not in caught.value.remedy
    with pytest.raises(UsageError) as caught:
        known(named("user,group\na\n"))
    assert "source.attributes.delimiter" in caught.value.remedy


@pytest.mark.parametrize("name", OWN)
def test_a_misshapen_line_of_the_own_table(name, together):
    ratings, users, _ = OWN[name]
    broken = (users[0], users[1] + b"secret-1\n")
    with pytest.raises(UsageError, match="a line of the user table does not have 5 columns") as caught:
        known(Source(format=name, path=str(together(ratings, broken)["zip"])))
    assert caught.value.where == f"archive.zip/inner/{users[0]} line 4"
    assert "secret" not in str(caught.value)
    assert "columns = []" in caught.value.remedy


# --- state, size, real data ---------------------------------------------------------------------------------


def test_the_state_changes_with_the_table(together, named, tmp_path):
    ratings, users, _ = OWN["movielens-1m"]
    place = together(ratings, users)["directory"]
    (tmp_path / "ratings.csv").write_text("user,item,rating\na,x,1\n")
    (tmp_path / "users.csv").write_bytes(CSV)
    other = at(tmp_path / "users.csv").model_copy(update={"path": str(tmp_path / "ratings.csv")})
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
    source = at(tmp_path / name, ["group", "age"], edges={"age": [18, 36]})
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
    rows = known(Source(format=name, path=str(real_data(directory))))
    assert len(rows) == people
    assert [row[1] for row in rows].count("F") == women
    assert all(value for row in rows for value in row)
    assert len({row[2] for row in rows}) == (7 if name == "movielens-1m" else 3)


@pytest.mark.data
def test_the_youth_of_paper_004(real_data):
    """Where it describes the data, 72.71 % of the people are youth: those with the codes 18, 25 and 35."""
    groups = {"age": {"youth": [18, 25, 35]}}
    source = Source(format="movielens-1m", path=str(real_data("ml-1m")), attributes={"groups": groups})
    ages = [row[2] for row in known(source)]
    assert ages.count("youth") / len(ages) == pytest.approx(0.727, abs=0.0005)
