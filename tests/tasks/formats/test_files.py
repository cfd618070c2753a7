"""Test finding and opening: fsspec paths, snapshots in paths, files that are missing, damaged or locked."""

import datetime
import gzip
import os
import zipfile

import fsspec
import pytest

from tasks import formats
from tasks.config import Source
from tasks.errors import UsageError

SNAPSHOT = datetime.date(2026, 1, 1)
CSV = b"user,item,rating\na,x,1\nb,y,2\n"
ROWS = [("a", "x", 1.0, None), ("b", "y", 2.0, None)]
SCALE = (1.0, 5.0)


@pytest.mark.parametrize("name", ["ratings.csv", "ratings.csv.gz", "ratings.zip"])
def test_memory_and_file_urls(name, tmp_path, reading):
    content = CSV if name.endswith("csv") else gzip.compress(CSV)
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("any name.csv", CSV)
        content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content)
    memory = fsspec.filesystem("memory")
    memory.pipe(f"/formats/{name}", content)
    try:
        assert reading("csv", f"memory://formats/{name}", scale=SCALE).rows == ROWS
        assert reading("csv", f"file://{tmp_path}/{name}", scale=SCALE).rows == ROWS
        assert reading("csv", tmp_path / name, scale=SCALE, block_bytes=9).rows == ROWS
    finally:
        memory.rm("/formats", recursive=True)


def test_a_directory_in_memory(reading):
    memory = fsspec.filesystem("memory")
    memory.pipe("/ml/sub/u.data", b"1\t2\t3\t4\n")
    try:
        assert reading("movielens-100k", "memory://ml").rows == [("1", "2", 3.0, 4)]
    finally:
        memory.rm("/ml", recursive=True)


def test_the_snapshot_is_filled_in(tmp_path, reading):
    (tmp_path / "2026-01-01").mkdir()
    (tmp_path / "2026-01-01" / "r-2026-01-01.csv").write_bytes(CSV)
    assert reading("csv", tmp_path / "{snapshot}" / "r-{snapshot}.csv", scale=SCALE).rows == ROWS


def test_pieces_do_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "ratings.csv").write_bytes(CSV)
    monkeypatch.chdir(tmp_path)
    source = Source(format="csv", path="ratings.csv", scale=SCALE)
    pieces = formats.pieces(source, SNAPSHOT)
    monkeypatch.chdir("/")
    assert [b.users.to_pylist() for p in pieces for b in formats.read(p, source, SNAPSHOT)] == [["a", "b"]]


def test_missing_file(tmp_path, reading):
    with pytest.raises(UsageError, match="no such file") as caught:
        reading("csv", tmp_path / "absent.csv", scale=SCALE)
    assert caught.value.where.endswith("absent.csv")


def test_unknown_protocol(reading):
    with pytest.raises(UsageError, match="cannot be opened"):
        reading("csv", "nowhere://x/y.csv", scale=SCALE)


def test_directory_without_a_matching_file_is_refused(tmp_path, reading):
    (tmp_path / "README").write_text("x")
    with pytest.raises(UsageError, match=r"no file called ratings\.dat in it"):
        reading("movielens-1m", tmp_path)


def test_csv_needs_a_file(tmp_path, reading):
    with pytest.raises(UsageError, match="this is not a file"):
        reading("csv", tmp_path, scale=SCALE)


def test_csv_in_an_archive_with_several_files(tmp_path, reading):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", CSV)
        archive.writestr("b.csv", CSV)
    with pytest.raises(UsageError, match="2 files in it match"):
        reading("csv", tmp_path / "two.zip", scale=SCALE)


def test_an_archive_with_one_file_and_hidden_ones(tmp_path, reading):
    path = tmp_path / "one.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__MACOSX/._a.csv", "not ours")
    with pytest.raises(UsageError, match="only hidden ones"):
        reading("csv", path, scale=SCALE)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a.csv", CSV)
    assert reading("csv", path, scale=SCALE).rows


def _lines(count: int) -> bytes:
    return b"user,item,rating\n" + b"".join(b"u%d,i%d,%d\n" % (n, n * n, n % 5 + 1) for n in range(count))


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.999])
def test_truncated_gz(kept, tmp_path, reading):
    whole = gzip.compress(_lines(5000))
    path = tmp_path / "ratings.csv.gz"
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(UsageError, match=r"damaged or cut short|no column"):
        reading("csv", path, scale=SCALE)


def test_file_that_is_not_gzip_is_refused(tmp_path, reading):
    (tmp_path / "ratings.csv.gz").write_bytes(CSV)
    with pytest.raises(UsageError, match="damaged or cut short"):
        reading("csv", tmp_path / "ratings.csv.gz", scale=SCALE)


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_zip(damage, tmp_path, reading):
    path = tmp_path / "ratings.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ratings.csv", _lines(5000))
    content = bytearray(path.read_bytes())
    content = content[: len(content) // 2] if damage == "cut" else content
    if damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(UsageError, match="damaged or cut short"):
        reading("csv", path, scale=SCALE)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path, reading):
    path = tmp_path / "ratings.csv"
    path.write_bytes(CSV)
    path.chmod(0)
    with pytest.raises(UsageError, match="may not be read"):
        reading("csv", path, scale=SCALE)


def test_many_members_are_gathered_into_few_pieces(tmp_path):
    with zipfile.ZipFile(tmp_path / "netflix.zip", "w") as archive:
        for movie in range(1, 301):
            archive.writestr(f"training_set/mv_{movie:07}.txt", f"{movie}:\n1,3,2005-09-06\n")
    source = Source(format="netflix-prize", path=str(tmp_path / "netflix.zip"), block_bytes=4096)
    pieces = formats.pieces(source, SNAPSHOT)
    assert len(pieces) == 2
    blocks = [block for piece in pieces for block in formats.read(piece, source, SNAPSHOT)]
    assert [item for block in blocks for item in block.items.to_pylist()] == [str(m) for m in range(1, 301)]


def test_state_changes_with_the_file(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_bytes(CSV)
    source = Source(format="csv", path=str(path), scale=SCALE)
    before = formats.state(source, SNAPSHOT)
    assert formats.state(source, SNAPSHOT) == before
    path.write_bytes(CSV + b"c,z,3\n")
    assert formats.state(source, SNAPSHOT) != before
    assert formats.state(Source(format="synthetic"), SNAPSHOT) == {}


def test_content_changes_with_the_bytes_alone(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_bytes(CSV)
    source = Source(format="csv", path=str(path), scale=SCALE)
    before = formats.content(source, SNAPSHOT)
    os.utime(path, (1, 1))
    assert formats.content(source, SNAPSHOT) == before
    path.write_bytes(CSV + b"c,z,3\n")
    assert formats.content(source, SNAPSHOT) != before
    with fsspec.open("memory://content/ratings.csv", "wb") as file:
        file.write(CSV)
    remote = Source(format="csv", path="memory://content/ratings.csv", scale=SCALE)
    assert formats.content(remote, SNAPSHOT) is None


def test_reading_may_stop_early(tmp_path):
    """`murmur check` looks at the first block only; nothing may hang or stay open."""
    path = tmp_path / "ratings.csv.gz"
    path.write_bytes(gzip.compress(_lines(200_000)))
    source = Source(format="csv", path=str(path), scale=SCALE, block_bytes=4096)
    blocks = formats.read(formats.pieces(source, SNAPSHOT)[0], source, SNAPSHOT)
    first = next(blocks)
    blocks.close()
    assert first.users[0].as_py() == "u0"
    assert len(first.ratings) < 200_000
