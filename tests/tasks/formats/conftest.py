"""Shared by the tests of the formats: sources made of a few lines, and everything read from them."""

import datetime
import gzip
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tasks import formats
from tasks.config import Source

SNAPSHOT = datetime.date(2026, 1, 1)


class Reading:
    """What a source holds: (user, item, rating, timestamp) in order, and the account of the other rows."""

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
            self.rejected += block.rejected_rows
            self.offenders += block.offenders
            self.blocks += 1


@pytest.fixture
def reading():
    """Read a source whole; keyword arguments are those of [source], block_bytes as small as one likes."""

    def read(format_: str, path: Path | str, *, block_bytes: int = 2**25, **settings: Any) -> Reading:
        source = Source(format=format_, path=str(path), **settings)
        return Reading(source.model_copy(update={"block_bytes": block_bytes}))

    return read


@pytest.fixture
def packed(tmp_path):
    """The same file plain, as .gz, as .zip, in a .zip with a directory, and in a directory."""

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
