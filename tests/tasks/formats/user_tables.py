"""Hold user tables worked by hand, and read what a source knows of its users."""

import datetime
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks import formats
from tasks.config import Source

SNAPSHOT = datetime.date(2026, 1, 1)
OWN_TABLES = {
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


def attribute_rows(source):
    """Return the rows of the table: (user, one value per attribute); None where there is no table."""
    table = formats.attributes(source, SNAPSHOT)
    return (
        None if table is None else list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    )


def table_source(path, columns=("group",), **keys):
    table: Any = {"path": str(path), "columns": list(columns), **keys}
    return Source(format="csv", path="ratings.csv", scale=(1, 5), attributes=table)


def parquet_bytes(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()
