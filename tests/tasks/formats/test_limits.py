"""Test that files which expand too far are refused before they fill the memory or the disk."""

import gzip
import io
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import formats
from tasks.config import Source
from tasks.errors import UsageError
from tasks.formats import _limits
from tasks.formats._limits import BoundedStream, file_budgets
from tests.conftest import SNAPSHOT

SCALE = (1.0, 5.0)
HEADER = b"user,item,rating\n"
ROW = b"a,x,1\n"
MILLION = 10**6


def rows(count: int) -> bytes:
    return HEADER + ROW * count


def refused(reading, name, path, **settings) -> UsageError:
    """Return the refusal, which names the file and what to do."""
    with pytest.raises(UsageError) as problem:
        reading(name, path, scale=SCALE, **settings)
    assert str(path) in problem.value.where or path.name in problem.value.where
    assert problem.value.remedy
    return problem.value


def test_gzip_within_the_limit_is_read(tmp_path, reading):
    content = rows(1000)
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(content))
    found = reading("csv", tmp_path / "r.csv.gz", scale=SCALE, max_decompressed_bytes=len(content))
    assert found.rows_read == 1000


def test_gzip_bomb(tmp_path, reading):
    """Ten megabytes of rows in ten kilobytes: the reader stops at the limit, and memory holds a few blocks."""
    path = tmp_path / "r.csv.gz"
    path.write_bytes(gzip.compress(rows(10 * MILLION // len(ROW))))
    assert path.stat().st_size < 50_000
    tracemalloc.start()
    problem = refused(reading, "csv", path, max_decompressed_bytes=MILLION, block_bytes=2**16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "exceeds 1,000,000 bytes" in problem.what
    assert "source.max_decompressed_bytes" in problem.remedy
    assert peak < 8 * MILLION


def test_gzip_bomb_without_line_breaks(tmp_path, reading):
    path = tmp_path / "r.csv.gz"
    path.write_bytes(gzip.compress(bytes(10 * MILLION)))
    assert "exceeds 100,000 bytes" in refused(reading, "csv", path, max_decompressed_bytes=100_000).what


def test_many_concatenated_gzip_members(tmp_path, reading):
    """A .gz file may have several parts, and the size in its last bytes is that of the last one."""
    path = tmp_path / "r.csv.gz"
    path.write_bytes(gzip.compress(rows(100_000)) * 4 + gzip.compress(b""))
    assert "exceeds" in refused(reading, "csv", path, max_decompressed_bytes=MILLION).what


def test_ratio(tmp_path, reading, monkeypatch):
    """What is larger than harmless must not expand more than a hundredfold."""
    path = tmp_path / "r.csv.gz"
    path.write_bytes(gzip.compress(rows(500_000)))
    assert reading("csv", path, scale=SCALE).rows_read == 500_000  # 3 MB are harmless, however compressed
    monkeypatch.setattr(_limits, "HARMLESS_BYTES", 10_000)
    most = path.stat().st_size * 100
    assert most < 3 * MILLION
    problem = refused(reading, "csv", path)
    assert f"exceeds {most:,} bytes" in problem.what
    assert "source.max_compression_ratio" in problem.remedy
    assert reading("csv", path, scale=SCALE, max_compression_ratio=1000.0).rows_read == 500_000


def test_budgets_add_up(tmp_path):
    """Workers read files independently: what all may expand to is divided among them beforehand."""
    source = Source(format="csv", path="x", scale=SCALE, max_decompressed_bytes=1000)
    assert file_budgets(["a.gz"], [10], source) == (1000,)
    assert file_budgets(["a.gz", "b.gz"], [10, 90], source) == (300, 700)
    assert file_budgets(["a.gz", "b.gz"], [None, None], source) == (500, 500)
    assert file_budgets(["a.csv", "b.gz"], [5, 90], source) == (5, 1000)
    assert file_budgets(["a.csv", "b.gz"], [400, 90], source, taken=400) == (400, 600)
    assert file_budgets([], [], source) == ()


def test_several_gzip_files_share_the_limit(tmp_path, reading):
    place = tmp_path / "netflix"
    place.mkdir()
    for movie in (1, 2, 3):
        text = f"{movie}:\n" + "".join(f"{user},3,2005-09-06\n" for user in range(1000))
        (place / f"mv_{movie:07}.txt.gz").write_bytes(gzip.compress(text.encode()))
    whole = sum(len(gzip.decompress(file.read_bytes())) for file in place.iterdir())
    assert reading("netflix-prize", place, max_decompressed_bytes=whole + 1000).rows_read == 3000
    with pytest.raises(UsageError, match="exceeds"):
        reading("netflix-prize", place, max_decompressed_bytes=whole // 2)


def zipped(path, members: dict[str, bytes], how=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_zip_bomb(tmp_path, reading):
    """An archive says how large its members are; it is refused before one byte of them is decompressed."""
    path = zipped(tmp_path / "r.zip", {"r.csv": rows(10 * MILLION // len(ROW))})
    assert "exceeds 1,000,000 bytes" in refused(reading, "csv", path, max_decompressed_bytes=MILLION).what
    assert reading("csv", path, scale=SCALE).rows_read == 10 * MILLION // len(ROW)


def test_zip_members_share_the_limit(tmp_path, reading):
    text = {f"mv_{m:07}.txt": (f"{m}:\n" + "1,3,2005-09-06\n" * 1000).encode() for m in range(1, 6)}
    path = zipped(tmp_path / "netflix.zip", text)
    assert "exceeds" in refused(reading, "netflix-prize", path, max_decompressed_bytes=40_000).what


def lie_about_the_size(path, size: int) -> None:
    """Write another uncompressed size into both headers of an archive's only member."""
    content = bytearray(path.read_bytes())
    local, central = content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, local + 22, size)
    struct.pack_into("<I", content, central + 24, size)
    path.write_bytes(content)


@pytest.mark.parametrize("claim", [len(rows(3)), 0])
def test_zip_with_a_lying_header(tmp_path, reading, claim):
    """A member that is larger than its header says is read as far as it says, and then found to be damaged."""
    path = zipped(tmp_path / "r.zip", {"r.csv": rows(10 * MILLION // len(ROW))})
    lie_about_the_size(path, claim)
    tracemalloc.start()
    with pytest.raises(UsageError, match=r"damaged or cut short|no column|no ratings"):
        reading("csv", path, scale=SCALE, max_decompressed_bytes=MILLION)
    assert tracemalloc.get_traced_memory()[1] < 8 * MILLION
    tracemalloc.stop()


def test_gzip_inside_zip(tmp_path, reading):
    """A small member that expands a second time has a budget as well."""
    path = zipped(tmp_path / "r.zip", {"r.csv.gz": gzip.compress(rows(10 * MILLION // len(ROW)))})
    assert "exceeds" in refused(reading, "csv", path, max_decompressed_bytes=MILLION).what


def test_zip_with_too_many_members(tmp_path, reading, monkeypatch):
    path = zipped(tmp_path / "r.zip", {f"{number}.txt": b"" for number in range(50)} | {"r.csv": rows(1)})
    monkeypatch.setattr(_limits, "MOST_MEMBERS", 50)
    assert "lists more than 50 files" in refused(reading, "csv", path).what
    monkeypatch.setattr(_limits, "MOST_MEMBERS", 100)
    monkeypatch.setattr(_limits, "DIRECTORY_BYTES", 1000)
    assert "very long names" in refused(reading, "csv", path).what


def test_zip_that_is_packed_in_another_way(tmp_path, reading):
    """Python decompresses these at once, however much comes out."""
    path = zipped(tmp_path / "r.zip", {"r.csv": rows(10)}, zipfile.ZIP_BZIP2)
    assert "another way than deflate" in refused(reading, "csv", path).what


def test_names_inside_an_archive_lead_nowhere(tmp_path, reading):
    """Members are read, never unpacked, whatever directory their names point to."""
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    path = zipped(place / "r.zip", {f"{tmp_path}/outside.csv": rows(2), "../../above.csv": rows(9)})
    assert reading("csv", path, scale=SCALE).rows_read == 2  # a name with dots counts as hidden
    assert sorted(found.name for found in tmp_path.rglob("*")) == ["a", "b", "r.zip"]


def test_parquet_bomb(tmp_path, reading):
    """A million equal rows take a few kilobytes; they count by what they are as rows."""
    size = 1_100_000
    table = pa.table(
        {
            "user": pa.DictionaryArray.from_arrays(np.zeros(size, np.int32), ["a"]),
            "item": pa.DictionaryArray.from_arrays(np.zeros(size, np.int32), ["x"]),
            "rating": np.ones(size, np.float32),
        }
    )
    path = tmp_path / "r.parquet"
    pq.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 100_000
    assert "exceeds" in refused(reading, "parquet", path, max_decompressed_bytes=size).what
    assert "exceeds 67,108,864 bytes" in refused(reading, "parquet", path).what  # the ratio
    source = Source(format="parquet", path=str(path), scale=SCALE, max_compression_ratio=1e6)
    assert sum(block.rows_read for block in formats.read_all(source, SNAPSHOT)) == size


def test_parquet_inside_gzip(tmp_path, reading):
    """A reader that jumps to the end of a compressed file must not decompress it without bound."""
    path = tmp_path / "r.parquet.gz"
    path.write_bytes(gzip.compress(bytes(10 * MILLION)))
    assert "exceeds" in refused(reading, "parquet", path, max_decompressed_bytes=MILLION).what


def test_bounded_stream_is_a_file():
    """Reading, seeking and telling are those of the decompressed bytes."""
    content = os.urandom(5000)
    stream = io.BufferedReader(
        BoundedStream(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(content))), 5000, "x")
    )
    assert stream.read(10) == content[:10]
    assert stream.seek(4000) == 4000
    assert stream.read(5) == content[4000:4005]
    assert stream.seek(-10, io.SEEK_END) == 4990
    assert stream.read() == content[-10:]
    assert stream.seek(1) == 1
    assert stream.seek(2, io.SEEK_CUR) == 3
    assert stream.read() == content[3:]
    assert stream.tell() == 5000


def test_user_tables_are_bounded_too(tmp_path):
    (tmp_path / "r.csv").write_bytes(rows(3))
    (tmp_path / "users.csv.gz").write_bytes(gzip.compress(b"user,gender\n" + b"a,f\n" * MILLION))
    source = Source(
        format="csv",
        path=str(tmp_path / "r.csv"),
        scale=SCALE,
        attributes={"path": str(tmp_path / "users.csv.gz"), "columns": ["gender"]},
        max_decompressed_bytes=MILLION,
    )
    with pytest.raises(UsageError, match="exceeds 1,000,000 bytes"):
        formats.attributes(source, SNAPSHOT)
