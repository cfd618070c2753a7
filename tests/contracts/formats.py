"""Test what every format of ratings must keep (tasks/formats)."""

import pickle
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tasks import formats
from tasks.config import Source
from tasks.config import formats as declarations
from tasks.errors import UsageError
from tests.conftest import SNAPSHOT

Row = tuple[str, str, float, int | None]


def rows_of(blocks: Iterable[formats.RatingBlock]) -> list[Row]:
    """Return (user, item, rating, timestamp) of every rating, in order."""
    rows: list[Row] = []
    for block in blocks:
        times = [None] * len(block.ratings) if block.timestamps is None else block.timestamps.tolist()
        rows += zip(
            block.users.to_pylist(), block.items.to_pylist(), block.ratings.tolist(), times, strict=True
        )
    return rows


class FormatContract:
    """Require that a format reads the same ratings however its file is cut, and notices when the file changes.

    A subclass gives a small file and the ratings in it. A format whose source is no such file overrides `write`, which
    returns the path for `source.path`, or None where the format has none.
    """

    name: ClassVar[str]
    file: ClassVar[str] = ""
    content: ClassVar[bytes] = b""
    rows: ClassVar[list[Row]]
    settings: ClassVar[dict[str, Any]] = {}  # further keys of [source]

    def write(self, place: Path) -> Path | None:
        """Write the sample and return its path."""
        (place / self.file).write_bytes(self.content)
        return place / self.file

    def change(self, path: Path) -> None:
        """Change the sample so that it can still be read."""
        with path.open("ab") as file:
            file.write(b"\n")

    @pytest.fixture
    def path(self, tmp_path):
        """Return the path of the sample, or None."""
        return self.write(tmp_path)

    @pytest.fixture
    def source(self, path):
        """Return the [source] table that names the sample."""
        named: dict[str, Any] = {} if path is None else {"path": str(path)}
        return Source(format=self.name, **named, **self.settings)

    def test_registered(self):
        """The format is found by its name."""
        assert self.name in formats.registered()

    def test_declaration(self):
        """The configuration reads the declaration without importing the format, and reads it right."""
        module = import_module(f"tasks.formats.{self.name.replace('-', '_')}")
        assert declarations.declared(self.name) == module.FORMAT
        assert hasattr(module, "attributes") == bool(module.FORMAT.attributes)

    def test_rows(self, source):
        """Every rating is read, in the order of the file, and nothing is rejected."""
        blocks = list(formats.read_all(source, SNAPSHOT))
        assert rows_of(blocks) == self.rows
        assert not any(block.rejected for block in blocks)
        assert sum(block.rows_read for block in blocks) >= 1

    def test_scale(self, source):
        """Every rating lies on the scale of the source."""
        low, high = source.scale
        assert all(low <= rating <= high for _, _, rating, _ in self.rows)

    @pytest.mark.parametrize("block_bytes", [1, 7, 64])
    def test_cuts(self, source, block_bytes):
        """Where the file is cut into blocks does not change what is read."""
        small = source.model_copy(update={"block_bytes": block_bytes})
        assert rows_of(formats.read_all(small, SNAPSHOT)) == self.rows

    def test_pieces(self, source):
        """Pieces can be sent to another process and read there, in any order."""
        small = source.model_copy(update={"block_bytes": 16})
        pieces = formats.pieces(small, SNAPSHOT)
        read = [
            rows_of(formats.read(pickle.loads(pickle.dumps(piece)), small, SNAPSHOT))
            for piece in reversed(pieces)
        ]
        assert [row for rows in reversed(read) for row in rows] == self.rows

    def test_state(self, source, path):
        """The state is the same until the file changes; results made from the old file are then not used again."""
        before = formats.state(source, SNAPSHOT)
        assert formats.state(source, SNAPSHOT) == before
        if path is not None:
            self.change(path)
            assert formats.state(source, SNAPSHOT) != before

    def test_missing(self, source, path):
        """A source that is not there is refused with the path and a remedy."""
        if path is not None:
            path.unlink()
            with pytest.raises(UsageError) as refusal:
                rows_of(formats.read_all(source, SNAPSHOT))
            assert refusal.value.where or str(path) in str(refusal.value)
            assert refusal.value.remedy
