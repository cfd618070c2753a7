"""Read the published files as any recipient gets them: strict about their schema, in blocks of groups."""

import math
import tempfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checks.evidence.method_rules import rules_of
from checks.evidence.profiles import Profiles
from checks.evidence.promises import promises_epsilon
from checks.evidence.release_view import LONG_BLOCK_CELLS, Listing, ReleaseView
from checks.evidence.stored_profiles import StoredProfiles
from checks.evidence.support import Support
from checks.evidence.working_files import working_files
from tasks.errors import Refused
from tasks.formats import damaged, most_bytes, read_published, safe_rows
from tasks.store import digest, read_published_json

DATA_FILES = ("groups.parquet", "members.parquet", "items.parquet")
SUPPORT = "support.parquet"
ENCODINGS: dict[str, np.dtype] = {
    "uint8": np.dtype("<u1"),
    "uint16": np.dtype("<u2"),
    "float32": np.dtype("<f4"),
}
MOST_PROMISED, MOST_LEVELS, LARGEST_RATING = 2**31, 2**16, 1e6
HEADS = 16_384  # groups whose number of items is read at once

_SCHEMAS = {
    "groups.parquet": {
        "group": pa.int32(),
        "size": pa.int32(),
        "items": pa.list_(pa.int32()),
        "ratings": pa.binary(),
    },
    "members.parquet": {"user": pa.string(), "group": pa.int32()},
    "items.parquet": {"item": pa.string()},
    SUPPORT: {"group": pa.int32(), "item": pa.int32(), "raters": pa.int32()},
}
_MANIFEST_KEYS = {
    "schema_version", "release", "snapshot", "method", "privacy", "counts", "rating_scale", "rating_step",
    "rating_encoding", "unit", "series", "withheld", "files",
}  # fmt: skip


def data_files(directory: Path) -> tuple[str, ...]:
    """Return the data files that a release has."""
    return (*DATA_FILES, SUPPORT) if (directory / SUPPORT).exists() else DATA_FILES


class Release(ReleaseView):
    """Represent a published (or candidate) release as read from its files.

    Opening it refuses anything that docs/release-format.md does not allow. With a `private` directory a large release
    is decoded once, into working files there; without one it is decoded in every pass.
    """

    def __init__(self, directory: str | Path, private: Path | None = None) -> None:
        self.directory = Path(directory)
        manifest = _manifest(self.directory)
        for name in data_files(self.directory):
            safe_rows(self.directory / name, 1)
            _strict_schema(self.directory / name)
        listing = _listing(self.directory)
        step, dtype = float(manifest["rating_step"] or 0), ENCODINGS[manifest["rating_encoding"]]
        super().__init__(manifest, listing, step=step, dtype=dtype, private=private)
        if len(self.lengths) != self.n_groups:
            raise Refused(
                "the columns of the groups have different lengths",
                where=str(self.directory / "groups.parquet"),
                remedy="publish the release anew",
            )
        if self.cells * dtype.itemsize > most_bytes(
            self.directory / "groups.parquet"
        ):  # a text that is stored once can stand in every row
            raise Refused(
                f"the groups claim {self.cells:,} ratings, more than such a file can hold",
                where=str(self.directory / "groups.parquet"),
                remedy="publish the release anew",
            )

    def close(self) -> None:
        """Remove the working files."""
        if "_files" in self.__dict__:
            self._files.cleanup()

    @cached_property
    def fingerprint(self) -> str:
        """A digest of what is published about people.

        The judge's draws follow from it: nobody can know before publishing whom an audit will attack, and every audit
        attacks the same people.
        """
        about = [name for name in data_files(self.directory) if name != "items.parquet"]
        return "".join(digest(self.directory / name) for name in about)

    @cached_property
    def support(self) -> Support | None:  # type: ignore[override]
        """The published counts of raters; None: there are none."""
        path = self.directory / SUPPORT
        return Support.read(path, self.groups) if path.exists() else None

    @cached_property
    def lengths(self) -> np.ndarray:  # type: ignore[override]
        """Number of published items of every group."""
        path = self.directory / "groups.parquet"
        with damaged(path), pq.ParquetFile(path, pre_buffer=False) as file:
            batches = file.iter_batches(batch_size=HEADS, columns=["items"])
            parts = [self._list_lengths(batch.column("items")) for batch in batches]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def blocks(self) -> Iterator[Profiles]:
        """Yield the groups in blocks; a small release is decoded once and kept."""
        if self.small:
            yield from self._decoded
        elif self.private is None:
            yield from self._read()
        else:
            for start, stop in self.ranges():
                yield self.decoded_files.block(start, stop)

    def long_blocks(self) -> Iterable[Profiles]:
        """Return the groups in longer blocks where they are read from working files."""
        if self.small or self.private is None:
            return self.blocks()
        return (self.decoded_files.block(start, stop) for start, stop in self.ranges(LONG_BLOCK_CELLS))

    @property
    def decoded_files(self) -> StoredProfiles:
        """The decoded release in working files."""
        return self._written[0]

    @cached_property
    def _written(self) -> tuple[StoredProfiles, np.ndarray]:
        """The working files, and the digest of every group's content."""
        place, dense = Path(self._files.name), self.complete
        stored = StoredProfiles(place, self.dtype, self.n_items, self.low, self.step, dense)
        return stored, stored.write(self._read())

    @cached_property
    def _files(self) -> tempfile.TemporaryDirectory:
        return working_files(self.private)

    @cached_property
    def _decoded(self) -> list[Profiles]:
        return list(self._read())

    @property
    def _digests(self) -> np.ndarray:
        if self.private is not None and not self.small:
            return self._written[1]
        return super()._digests

    def _list_lengths(self, lists: pa.ListArray) -> np.ndarray:
        return pc.fill_null(pc.list_value_length(lists), self.n_items).to_numpy().astype(np.int64)

    def _read(self) -> Iterator[Profiles]:
        path, start = self.directory / "groups.parquet", 0
        rows = safe_rows(path, self.rows_per_block())
        with damaged(path), pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=rows, columns=["items", "ratings"]):
                yield self._decode(batch, start)
                start += batch.num_rows
        if start != self.n_groups:
            raise Refused("groups are missing", where=str(path), remedy="publish the release anew")

    def _decode(self, batch: pa.RecordBatch, start: int) -> Profiles:
        where = f"{self.directory / 'groups.parquet'}, rows {start} to {start + batch.num_rows - 1}"
        lists, ratings = batch.column("items"), batch.column("ratings")
        if ratings.null_count:
            raise Refused("a group has no ratings", where=where, remedy="publish the release anew")
        offsets = np.frombuffer(ratings.buffers()[1], dtype=np.int32)[ratings.offset :][: len(ratings) + 1]
        data = ratings.buffers()[2] if len(ratings) and offsets[-1] > offsets[0] else None
        raw = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]] if data else np.empty(0, np.uint8)
        counts = self._list_lengths(lists)
        if not np.array_equal(np.diff(offsets), counts * self.dtype.itemsize):
            raise Refused(
                "a group has more or fewer ratings than items", where=where, remedy="publish the release anew"
            )
        indptr = np.concatenate([[0], np.cumsum(counts)])
        items = None if lists.null_count == len(lists) else self._positions(lists, indptr, where)
        codes = raw.view(self.dtype)
        if codes.dtype == np.float32 and not np.isfinite(codes).all():
            raise Refused(
                "a published rating is not a number (NaN or infinite)",
                where=where,
                remedy="publish the release anew",
            )
        return Profiles(start, indptr, items, codes, self.n_items, self.low, self.step)

    def _positions(self, lists: pa.ListArray, indptr: np.ndarray, where: str) -> np.ndarray:
        if lists.null_count:
            whole = pa.scalar(list(range(self.n_items)), pa.list_(pa.int32()))
            lists = pc.fill_null(lists, whole)
        flat = lists.flatten()
        if flat.null_count:
            raise Refused("an item position is null", where=where, remedy="publish the release anew")
        items = flat.to_numpy()
        if len(items) and (items.min() < 0 or items.max() >= self.n_items):
            raise Refused(
                "an item position is not in items.parquet", where=where, remedy="publish the release anew"
            )
        ascending = np.diff(items) > 0
        firsts = indptr[1:-1]
        ascending[firsts[(firsts > 0) & (firsts < len(items))] - 1] = True
        if not ascending.all():
            raise Refused("item positions are not ascending", where=where, remedy="publish the release anew")
        return items


def _listing(directory: Path) -> Listing:
    items = read_published(directory / "items.parquet", ["item"]).column("item").combine_chunks()
    members = read_published(directory / "members.parquet")
    pseudonyms = members.column("user").combine_chunks()
    heads = read_published(directory / "groups.parquet", ["group", "size"])
    listing = Listing(
        items,
        _ints(heads.column("group"), "groups.parquet: group"),
        _ints(heads.column("size"), "groups.parquet: size"),
        pseudonyms,
        _ints(members.column("group"), "members.parquet: group"),
    )
    if pc.any(pc.is_null(pseudonyms)).as_py() or pc.any(pc.is_null(items)).as_py():
        raise Refused("there are null ids", where=str(directory), remedy="publish the release anew")
    return listing


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / "manifest.json"
    try:
        manifest = read_published_json(path)
    except (OSError, ValueError):
        raise Refused(
            "there is no readable manifest", where=str(path), remedy="name the directory of a release"
        ) from None
    problem = _manifest_problem(manifest)
    if problem:
        raise Refused(
            f"the manifest does not follow docs/release-format.md: {problem}",
            where=str(path),
            remedy="publish the release anew",
        )
    return manifest


def _manifest_problem(manifest: Any) -> str:
    """Return what is wrong with a manifest, in words; an empty text when it can be used."""
    if not isinstance(manifest, dict):
        return "it is not an object"
    if missing := sorted(_MANIFEST_KEYS - manifest.keys()):
        return f"without {', '.join(missing)}"
    privacy, scale, step = manifest["privacy"], manifest["rating_scale"], manifest["rating_step"]
    if not isinstance(privacy, dict):
        return "privacy is not an object"
    if rules_of(manifest["method"]).is_synthetic:
        if not promises_epsilon(privacy):
            return "privacy needs epsilon, delta, rho, failure and budget {epsilon, delta, per, releases}"
    elif any(
        type(privacy.get(name)) is not int or not least <= privacy[name] < MOST_PROMISED
        for name, least in {"k": 2, "l": 1, "b": 1, "min_contributors": 1}.items()
    ):
        return "privacy needs k (at least 2), l, b and min_contributors (at least 1) as whole numbers"
    if not (
        isinstance(scale, list) and len(scale) == 2 and all(_finite(v) for v in scale) and scale[0] < scale[1]
    ):
        return "rating_scale is not [lowest, highest]"
    if manifest["rating_encoding"] not in ENCODINGS:
        return f"rating_encoding is none of {', '.join(ENCODINGS)}"
    if manifest["rating_encoding"] != "float32" and not (_finite(step) and step > 0):
        return "rating_step is not a positive number"
    if manifest["rating_encoding"] != "float32" and (scale[1] - scale[0]) / step > MOST_LEVELS:
        return "rating_scale and rating_step make more than 65,536 levels"
    if max(map(abs, scale)) > LARGEST_RATING:
        return "rating_scale is out of range"
    if not all(isinstance(manifest[name], dict) for name in ("counts", "withheld", "files")):
        return "counts, withheld and files must be objects"
    if not isinstance(manifest["method"], str) or not isinstance(manifest["unit"], str):
        return "method and unit must be texts"
    if any(Path(name).name != name or name in ("", ".", "..") for name in manifest["files"]):
        return "files lists one that is not in the directory of the release"
    lines = manifest.get("checks", [])
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        return "checks is no list of objects"
    return ""


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _strict_schema(path: Path) -> None:
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        raise Refused(
            "this file of the release cannot be read", where=str(path), remedy="publish the release anew"
        ) from None
    expected = _SCHEMAS[path.name]
    # Compared by kind: the name of a list's element field differs between Parquet writers.
    found = {field.name: _plain(field.type) for field in schema}
    if list(found.items()) != list(expected.items()):
        raise Refused(
            f"columns are {_show(found)}, expected {_show(expected)}",
            where=str(path),
            remedy="publish the release anew",
        )


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind


def _show(columns: dict[str, pa.DataType]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _ints(column: pa.ChunkedArray, what: str) -> np.ndarray:
    if column.null_count:
        raise Refused(f"{what} has nulls", where=what, remedy="publish the release anew")
    return column.to_numpy().astype(np.int32)
