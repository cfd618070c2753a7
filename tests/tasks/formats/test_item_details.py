"""Test titles and genres of items: tables of data sets and named ones, worked by hand."""

import datetime

import pyarrow as pa
import pytest
from user_tables import parquet_bytes

from tasks import formats
from tasks.config import Source
from tasks.errors import UsageError

SNAPSHOT = datetime.date(2026, 1, 1)
FLAGS = {"Action": 1, "Comedy": 5, "Drama": 8}


def u_item(number, title, *genres):
    flags = ["0"] * 19
    for genre in genres:
        flags[FLAGS[genre]] = "1"
    return "|".join([number, title, "01-Jan-1995", "", "http://x.invalid", *flags]) + "\n"


OWN_TABLES = {
    "movielens-100k": (
        ("u.data", b"1\t10\t5\t100\n"),
        (
            "u.item",
            (u_item("10", "Caf\u00e9 (1995)", "Action", "Drama") + u_item("11", "B, the (1996)")).encode(
                "latin-1"
            ),
        ),
    ),
    "movielens-1m": (
        ("ratings.dat", b"1::10::5::100\n"),
        ("movies.dat", "10::Caf\u00e9 (1995)::Action|Drama\n11::B, the (1996)::\n".encode("latin-1")),
    ),
    "movielens-csv": (
        ("ratings.csv", b"userId,movieId,rating,timestamp\n1,10,5,100\n"),
        (
            "movies.csv",
            'movieId,title,genres\n10,Caf\u00e9 (1995),Action|Drama\n11,"B, the (1996)",(no genres listed)\n'.encode(),
        ),
    ),
}


def details(source, *items):
    table = formats.item_details(source, SNAPSHOT, pa.array(items))
    return None if table is None else table.to_pydict()


@pytest.fixture(params=OWN_TABLES)
def data_set(request, tmp_path):
    for name, content in OWN_TABLES[request.param]:
        (tmp_path / name).write_bytes(content)
    return Source(format=request.param, path=str(tmp_path))


def test_tables_of_data_sets(data_set):
    assert details(data_set, "11", "12", "10") == {
        "title": ["B, the (1996)", None, "Caf\u00e9 (1995)"],
        "genres": [None, None, "Action|Drama"],
    }
    assert details(data_set, "11") == {"title": ["B, the (1996)"]}  # nothing is known of any genre
    assert details(data_set, "12") is None


def test_they_are_part_of_the_source(data_set, tmp_path):
    """A changed title makes the release another one, so nothing that was made before is used again."""
    before, (_, (name, content)) = formats.state(data_set, SNAPSHOT), OWN_TABLES[data_set.format]
    (tmp_path / name).write_bytes(content.replace(b"B, the", b"C, the longer"))
    assert formats.state(data_set, SNAPSHOT) != before
    assert details(data_set, "11") == {"title": ["C, the longer (1996)"]}


def test_none_is_needed(data_set, tmp_path):
    (tmp_path / OWN_TABLES[data_set.format][1][0]).unlink()
    assert details(data_set, "10") is None


def test_they_need_not_be_published(data_set):
    silent = data_set.model_copy(
        update={"catalogue": data_set.catalogue.model_copy(update={"publish": False})}
    )
    assert details(silent, "10") is None


def named(path, **keys):
    return Source(format="csv", path="ratings.csv", scale=(1, 5), catalogue={"path": str(path), **keys})


def test_a_named_table(tmp_path):
    """The first row of an item counts; a title that is empty is not known; formulas and tags stay as they are."""
    file = tmp_path / "items.csv"
    file.write_text('isbn;name\n1;" =1+1 "\n2;\n1;second\n3;<b>\u00fc</b>\n')
    source = named(file, item="isbn", title="name", delimiter=";")
    assert details(source, "3", "2", "1") == {"title": ["<b>\u00fc</b>", None, "=1+1"]}


def test_a_named_parquet_with_numbers_as_ids(tmp_path):
    file = tmp_path / "items.parquet"
    file.write_bytes(parquet_bytes(item=[7, 8], kind=["a|b", None]))
    assert details(named(file, genres="kind"), "8", "7") == {"genres": [None, "a|b"]}


@pytest.mark.parametrize(
    ("content", "keys", "what", "remedy"),
    [
        (
            "item,name\n1,a\n",
            {"title": "title"},
            "item table has no column called 'title'",
            "source.catalogue.item, title",
        ),
        (
            "item,title\n1,a,b\n",
            {"title": "title"},
            "line of the item table does not have 2",
            "source.catalogue.delimiter",
        ),
    ],
)
def test_a_table_that_cannot_be_read(tmp_path, content, keys, what, remedy):
    (tmp_path / "items.csv").write_text(content)
    with pytest.raises(UsageError) as refused:
        details(named(tmp_path / "items.csv", **keys), "1")
    assert what in refused.value.what
    assert remedy in refused.value.remedy


def test_a_missing_table_is_refused(tmp_path):
    with pytest.raises(UsageError):
        details(named(tmp_path / "items.csv", title="title"), "1")


@pytest.mark.parametrize(
    ("keys", "words"), [({"path": "x.csv"}, "name the column of titles"), ({"title": "t"}, "name the table")]
)
def test_keys_that_say_nothing_are_refused(keys, words):
    with pytest.raises(ValueError, match=words):
        Source(format="csv", path="ratings.csv", scale=(1, 5), catalogue=keys)
