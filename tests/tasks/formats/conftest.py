"""Provide sources made of a few lines, and everything read from them."""

import datetime
import gzip
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tasks import formats
from tasks.config import Source
from tests.tasks.formats.user_tables import table_source

SNAPSHOT = datetime.date(2026, 1, 1)


class Reading:
    """Hold all a source has: (user, item, rating, timestamp) in order, and the account of the other rows."""

    def __init__(self, source: Source) -> None:
        self.rows: list[tuple] = []
        self.rows_read = self.rejected = self.blocks = 0
        self.offenders: list[formats.BadRow] = []
        for block in formats.read_all(source, SNAPSHOT):
            times = [None] * len(block.ratings) if block.timestamps is None else block.timestamps.tolist()
            self.rows += zip(
                block.users.to_pylist(), block.items.to_pylist(), block.ratings.tolist(), times, strict=True
            )
            self.rows_read += block.rows_read
            self.rejected += sum(block.rejected.values())
            self.offenders += block.offenders
            self.blocks += 1


@pytest.fixture
def reading():
    """Read a source whole; keyword arguments are those of [source], block_bytes as small as one likes."""

    def read(format_: Any, path: Path | str, *, block_bytes: int = 2**25, **settings: Any) -> Reading:
        source = Source(format=format_, path=str(path), **settings)
        return Reading(source.model_copy(update={"block_bytes": block_bytes}))

    return read


@pytest.fixture
def packed(tmp_path):
    """Pack a file plain, as .gz, as .zip, in a .zip with a directory, and in a directory."""

    def pack(name: str, content: bytes) -> dict[str, Path]:
        place = tmp_path / "packed"
        (place / "dir" / "sub").mkdir(parents=True)
        (place / "gzdir").mkdir()
        ways = {
            "plain": place / name,
            "gz": place / f"{name}.gz",
            "zip": place / "archive.zip",
            "directory": place / "dir",
            "directory of gz": place / "gzdir",
        }
        ways["plain"].write_bytes(content)
        (ways["directory"] / "sub" / name).write_bytes(content)
        (ways["directory"] / "README").write_text("not this one")
        ways["gz"].write_bytes(gzip.compress(content))
        (ways["directory of gz"] / f"{name}.gz").write_bytes(gzip.compress(content))
        with zipfile.ZipFile(ways["zip"], "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"inner/{name}", content)
        return ways

    return pack


@pytest.fixture
def packed_with_table(tmp_path):
    """Pack ratings and a user table in a directory, compressed, in an archive, and the ratings by themselves."""

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
def source_with_table(tmp_path):
    """Return a csv source with a user table: (content, file name, keys of source.attributes) → Source."""

    def make(content: bytes | str, name="users.csv", columns=("group",), **keys):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return table_source(path, columns, **keys)

    return make
