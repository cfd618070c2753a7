"""Apply the contract of formats to every format."""

from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import formats
from tasks.config import Source
from tests.conftest import SNAPSHOT
from tests.contracts import FormatContract
from tests.contracts.formats import rows_of

MOVIELENS = [("1", "10", 5.0, 100), ("1", "20", 3.0, 200), ("22", "10", 1.0, 300)]
DAY = 1125964800  # 2005-09-06


class TestMovielens100k(FormatContract):
    name = "movielens-100k"
    file = "u.data"
    content = b"1\t10\t5\t100\n1\t20\t3\t200\n22\t10\t1\t300\n"
    rows: ClassVar = MOVIELENS


class TestMovielens1m(FormatContract):
    name = "movielens-1m"
    file = "ratings.dat"
    content = b"1::10::5::100\n1::20::3::200\n22::10::1::300\n"
    rows: ClassVar = MOVIELENS


class TestMovielensCsv(FormatContract):
    name = "movielens-csv"
    file = "ratings.csv"
    content = b"userId,movieId,rating,timestamp\r\n1,10,4.5,100\r\n1,20,0.5,200\r\n22,10,1.0,300\r\n"
    rows: ClassVar = [("1", "10", 4.5, 100), ("1", "20", 0.5, 200), ("22", "10", 1.0, 300)]


class TestNetflixPrize(FormatContract):
    name = "netflix-prize"
    file = "combined_data_1.txt"
    content = b"1:\n1488844,3,2005-09-06\n822109,5,2005-09-07\n17:\n885013,4,2005-09-06\n"
    rows: ClassVar = [
        ("1488844", "1", 3.0, DAY),
        ("822109", "1", 5.0, DAY + 86400),
        ("885013", "17", 4.0, DAY),
    ]


class TestJester(FormatContract):
    name = "jester"
    file = "jester-data-1.csv"
    content = ("2,-7.5,8.75" + ",99" * 98 + "\n1" + ",99" * 99 + ",10\n").encode()
    rows: ClassVar = [("1", "1", -7.5, None), ("1", "2", 8.75, None), ("2", "100", 10.0, None)]


class TestCsv(FormatContract):
    name = "csv"
    file = "ratings.csv"
    content = b"user,item,rating,timestamp\nann,film,2.5,100\nbob,film,4,200\nann,song,0,300\n"
    rows: ClassVar = [("ann", "film", 2.5, 100), ("bob", "film", 4.0, 200), ("ann", "song", 0.0, 300)]
    settings: ClassVar = {"scale": (0, 5)}


class TestParquet(FormatContract):
    name = "parquet"
    file = "ratings.parquet"
    rows: ClassVar = [("ann", "film", 2.5, 100), ("bob", "film", 4.0, 200), ("ann", "song", 0.0, 300)]
    settings: ClassVar = {"scale": (0, 5)}

    def write(self, place):
        columns = [list(column) for column in zip(*self.rows, strict=True)]
        table = pa.table(dict(zip(("user", "item", "rating", "timestamp"), columns, strict=True)))
        pq.write_table(table, place / self.file, row_group_size=1)
        return place / self.file

    def change(self, path):
        pq.write_table(pq.read_table(path).slice(1), path)


class TestSynthetic(FormatContract):
    """The ratings follow from the snapshot: those of one reading are the sample of the others."""

    name = "synthetic"
    settings: ClassVar = {"synthetic": {"users": 30, "items": 12, "ratings_per_user": 4.0}}

    @pytest.fixture(scope="class", autouse=True)
    def _sample(self, request):
        request.cls.rows = rows_of(
            formats.read_all(Source(format="synthetic", synthetic=self.settings["synthetic"]), SNAPSHOT)
        )

    def write(self, place):
        return None
