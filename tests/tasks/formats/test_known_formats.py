"""Test the public data sets' formats on hand-worked lines: plain, .gz, .zip and in a directory, cut anywhere."""

import datetime
import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks import formats
from tasks.config import Source, parse
from tasks.errors import UsageError

SNAPSHOT = datetime.date(2026, 1, 1)
DAY = 1125964800  # 2005-09-06
ML = [("1", "10", 5.0, 100), ("1", "20", 3.0, 200), ("22", "10", 1.0, 300)]
NETFLIX = [("1488844", "1", 3.0, DAY), ("822109", "1", 5.0, DAY + 86400), ("885013", "17", 4.0, DAY)]
FILES = {
    "movielens-100k": ("u.data", b"1\t10\t5\t100\n1\t20\t3\t200\n22\t10\t1\t300\n", ML),
    "movielens-1m": ("ratings.dat", b"1::10::5::100\n1::20::3::200\n22::10::1::300\n", ML),
    "movielens-csv": (
        "ratings.csv",
        b"userId,movieId,rating,timestamp\r\n1,10,4.5,100\r\n1,20,0.5,200\r\n22,10,1.0,300\r\n",
        [("1", "10", 4.5, 100), ("1", "20", 0.5, 200), ("22", "10", 1.0, 300)],
    ),
    "netflix-prize": (
        "combined_data_1.txt",
        b"1:\n1488844,3,2005-09-06\n822109,5,2005-09-07\n17:\n885013,4,2005-09-06\n",
        NETFLIX,
    ),
    "jester": (
        "jester-data-1.csv",
        ("2,-7.82,8.79" + ",99" * 98 + "\n1" + ",99" * 99 + ",10\n").encode(),
        [
            ("1", "1", pytest.approx(-7.82), None),
            ("1", "2", pytest.approx(8.79), None),
            ("2", "100", 10.0, None),
        ],
    ),
}


@pytest.mark.parametrize("way", ["plain", "gz", "zip", "directory", "directory of gz"])
@pytest.mark.parametrize("name", FILES)
def test_reads_the_same_in_any_packing(name, way, packed, reading):
    file, content, expected = FILES[name]
    result = reading(name, packed(file, content)[way])
    assert result.rows == expected
    assert (result.rows_read, result.rejected) == (3, 0)


@pytest.mark.parametrize("name", ["movielens-100k", "movielens-1m", "movielens-csv", "netflix-prize"])
def test_every_cut_gives_the_same_ratings(name, packed, reading):
    file, content, expected = FILES[name]
    plain = packed(file, content)["plain"]
    for block_bytes in range(1, len(content) + 2):
        result = reading(name, plain, block_bytes=block_bytes)
        assert result.rows == expected, f"block_bytes={block_bytes}"


def test_a_file_is_cut_into_pieces_of_block_size(packed):
    file, content, _ = FILES["movielens-100k"]
    source = Source(format="movielens-100k", path=str(packed(file, content)["plain"]))
    pieces = formats.pieces(source.model_copy(update={"block_bytes": 10}), SNAPSHOT)
    assert [(p.start, p.stop) for p in pieces] == [(0, 10), (10, 20), (20, 30), (30, 34)]


IDS = st.text(st.characters(codec="latin-1", exclude_characters=":\n\r\x1f\x85"), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(IDS, IDS, st.integers(0, 7), st.integers(0, 2**33)), min_size=1, max_size=12),
    block_bytes=st.integers(1, 200),
    ending=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
def test_any_cut_gives_the_same_account(rows, block_bytes, ending, last, tmp_path, reading):
    """Whatever the lines and the cut: accepted rows in order, rejected ones with their own line numbers."""
    text = ending.join(f"{u}::{i}::{r}::{t}" for u, i, r, t in rows) + (ending if last else "")
    path = tmp_path / "ratings.dat"
    path.write_bytes(text.encode("latin-1"))
    result = reading("movielens-1m", path, block_bytes=block_bytes)
    assert result.rows == [row for row in rows if 1 <= row[2] <= 5]
    assert [o.line for o in result.offenders] == [n for n, row in enumerate(rows, 1) if not 1 <= row[2] <= 5]


def test_netflix_files_per_movie(tmp_path, reading):
    training = tmp_path / "training_set"
    training.mkdir()
    (training / "mv_0000017.txt").write_text("17:\n885013,4,2005-09-06\n")
    (training / "mv_0000001.txt").write_text("1:\n1488844,3,2005-09-06\n822109,5,2005-09-07\n")
    (tmp_path / "movie_titles.txt").write_text("1,2003,Dinosaur Planet\n")
    for block_bytes in (1, 10, 2**20):
        assert reading("netflix-prize", tmp_path, block_bytes=block_bytes).rows == NETFLIX
    assert reading("netflix-prize", training / "mv_0000017.txt").rows == NETFLIX[2:]


def test_netflix_both_editions_at_once_are_refused(tmp_path, reading):
    (tmp_path / "mv_0000001.txt").write_text("1:\n1,3,2005-09-06\n")
    (tmp_path / "combined_data_1.txt").write_text("1:\n1,3,2005-09-06\n")
    with pytest.raises(UsageError, match="which have the same ratings"):
        reading("netflix-prize", tmp_path)


def test_netflix_ratings_before_any_movie_are_set_aside(tmp_path, reading):
    path = tmp_path / "combined_data_1.txt"
    path.write_text("5,3,2005-09-06\n1:\n5,3,2005-09-06\nbroken\n6,9,2005-09-06\n7,3,2005-13-45\n")
    for block_bytes in (3, 17, 2**20):
        result = reading("netflix-prize", path, block_bytes=block_bytes)
        assert result.rows == [("5", "1", 3.0, DAY)]
        assert [(o.line, o.reason) for o in result.offenders] == [
            (1, "the item id is empty"),
            (4, "the line does not have 3 columns"),
            (5, "the rating is off the scale [1, 5]"),
            (6, "the timestamp is neither seconds since 1970 nor an ISO date"),
        ]


def test_netflix_looks_back_past_its_window(tmp_path, reading, monkeypatch):
    from tasks.formats import netflix_prize

    monkeypatch.setattr(netflix_prize, "_LOOK_BACK_BYTES", 4)
    path = tmp_path / "combined_data_1.txt"
    path.write_text("3:\n1,1,2005-09-06\n123:\n" + "".join(f"{u},3,2005-09-06\n" for u in range(50)))
    whole = reading("netflix-prize", path).rows
    assert {row[1] for row in whole[1:]} == {"123"}
    assert reading("netflix-prize", path, block_bytes=40).rows == whole


def test_jester_sets_bad_cells_and_lines_aside(tmp_path, reading):
    """A line of the file is a user's id: only the column of a bad rating is reported."""
    path = tmp_path / "jester-data-1.csv.gz"
    lines = ["1,1.5" + ",99" * 99, "1,11" + ",99" * 99, "1,2,3", "", "1,x" + ",99" * 98 + ",2"]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    result = reading("jester", path)
    assert result.rows == [("1", "1", 1.5, None), ("5", "100", 2.0, None)]
    assert {str(offender) for offender in result.offenders} == {
        "jester-data-1.csv.gz column 2: the rating is off the scale [-10, 10]",
        "jester-data-1.csv.gz: the line does not have 101 columns",
        "jester-data-1.csv.gz column 2: the rating is not a finite number",
    }
    assert {offender.line for offender in result.offenders} == {None}


def test_jester_never_names_a_line(tmp_path, reading):
    path = tmp_path / "jester-data-1.csv"
    path.write_bytes(b"1,1.5" + b",99" * 99 + b"\n1,\xff" + b",99" * 99)
    with pytest.raises(UsageError, match="the text is not utf-8") as refusal:
        reading("jester", path)
    assert refusal.value.where == path.name


def test_several_jester_files_are_refused(tmp_path, reading):
    for number in (1, 2):
        (tmp_path / f"jester-data-{number}.csv").write_text("1,1" + ",99" * 99)
    with pytest.raises(UsageError, match="2 files in it match"):
        reading("jester", tmp_path)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "directory", "users", "items", "ratings", "mean"),
    [
        ("movielens-100k", "ml-100k", 943, 1682, 100_000, 3.52986),
        ("movielens-1m", "ml-1m", 6040, 3706, 1_000_209, 3.581564),
        ("jester", "jester-1", 24_983, 100, 1_810_455, None),
    ],
)
def test_real_data(name, directory, users, items, ratings, mean, real_data):
    config = parse({"release": {"name": "x"}, "source": {"format": name, "path": str(real_data(directory))}})
    seen_users, seen_items, count, total = set(), set(), 0, 0.0
    for block in formats.read_all(config.source, SNAPSHOT):
        seen_users.update(block.users.unique().to_pylist())
        seen_items.update(block.items.unique().to_pylist())
        count += len(block.ratings)
        total += block.ratings.sum(dtype="float64")
        assert not block.rejected
    assert (len(seen_users), len(seen_items), count) == (users, items, ratings)
    assert mean is None or total / count == pytest.approx(mean, abs=1e-5)
