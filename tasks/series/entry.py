"""Hand what a release adds to the ledger from the step `validate` to publication: entry.json and persons.parquet.

persons.parquet has source ids, so both files are the owner's alone; they become tokens when they are read.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.series.rows import Entry, NewGroup, NewPersons, Spending
from tasks.store import owner_only, read_json, restrict, write_bytes

FACTS, PEOPLE = "entry.json", "persons.parquet"
GROUP_COLUMNS = ("place", "size", "profile", "number", "stratum", "pool")
PREFIXES_KEPT = 64
PEOPLE_AT_ONCE = 65_536
PEOPLE_SCHEMA = pa.schema([("user", pa.string()), ("place", pa.int32()), ("version", pa.binary())])


class KnowsPeople(Protocol):
    """Describe the part of an open ledger that an entry needs (tasks/series/ledger.py)."""

    @property
    def head(self) -> str:
        """Return the digest of the last entry."""

    def tokens(self, ids: Iterable[str]) -> list[bytes]:
        """Return the keyed digests of people."""


def write_entry(  # noqa: PLR0913 - a file of so many fields
    place: Path,
    *,
    head: str | None,
    mode: str,
    k: int,
    source: str,
    population: str,
    carried: Sequence[tuple[int, int]],
    groups: pa.Table,
    persons: tuple[pa.Array, np.ndarray, Iterable[bytes]],
    items: Sequence[str],
    other_items: Sequence[str],
    budget: Spending | None = None,
    blocked: str | None = None,
) -> None:
    """Write the two files below `place`, which is made with mode 0700.

    `groups` has the columns place, size, profile, number, stratum (text or null) and pool (int or null); `persons` are
    source ids, the place of each one's group, and versions (tasks/series/versions.py). `head` is null where the release
    does not depend on what else was published.
    """
    users, places, versions = persons
    facts = {
        "head": head,
        "mode": mode,
        "k": k,
        "source": source,
        "population": population,
        "carried": [[int(group), int(number)] for group, number in carried],
        "groups": {name: groups.column(name).to_pylist() for name in GROUP_COLUMNS},
        "items": list(items),
        "other_items": list(other_items),
        "budget": budget and budget._asdict(),
        "blocked": blocked,
    }
    with owner_only():
        place.mkdir(parents=True, exist_ok=True)
        write_bytes(place / FACTS, json.dumps(facts, sort_keys=True).encode())
        _write_people(place / PEOPLE, users.cast(pa.string()), places, iter(versions))
    restrict(place)


def _write_people(path: Path, users: pa.Array, places: np.ndarray, versions: Iterator[bytes]) -> None:
    """Write a row per person, a row group at a time: the ratings of all of them need not fit into memory."""
    with pq.ParquetWriter(path, PEOPLE_SCHEMA, compression="none") as writer:
        for start in range(0, max(1, len(users)), PEOPLE_AT_ONCE):
            some = slice(start, start + PEOPLE_AT_ONCE)
            rated = list(islice(versions, len(users[some])))
            columns = [users[some], pa.array(places[some], pa.int32()), pa.array(rated, pa.binary())]
            writer.write_table(pa.table(columns, schema=PEOPLE_SCHEMA))
    if next(versions, None) is not None:
        raise AssertionError("there are more versions than people")


def has_entry(place: Path) -> bool:
    """Return whether a candidate has what the ledger needs."""
    return (place / FACTS).exists()


def population_of(place: Path) -> str:
    """Return the population that an entry is about."""
    return read_json(place / FACTS)["population"]


def read_entry(
    place: Path, ledger: KnowsPeople, *, name: str, snapshot: str, revision: int, manifest: str, code: str
) -> Entry:
    """Return the entry of a release; people are named by their tokens in this ledger."""
    facts: dict[str, Any] = read_json(place / FACTS)
    people = pq.read_table(place / PEOPLE, columns=["user", "place"])
    groups = facts["groups"]
    budget = facts["budget"]
    return Entry(
        name=name,
        snapshot=snapshot,
        revision=revision,
        head=ledger.head if facts["head"] is None else facts["head"],
        manifest=manifest,
        source=facts["source"],
        mode=facts["mode"],
        k=facts["k"],
        code=code,
        carried=[(group, number) for group, number in facts["carried"]],
        groups=[NewGroup(*row) for row in zip(*(groups[n] for n in GROUP_COLUMNS), strict=True)],
        persons=NewPersons(
            tokens=ledger.tokens(people.column("user").to_pylist()),
            place=people.column("place").to_numpy(),
            versions=StoredVersions(place / PEOPLE),
        ),
        items=facts["items"],
        other_items=facts["other_items"],
        budget=None if budget is None else Spending(**budget),
        blocked=facts.get("blocked"),
    )


class StoredVersions(Sequence[bytes]):
    """Read people's versions from persons.parquet when they are asked for, a row group at a time."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path)
        sizes = [self._file.metadata.row_group(n).num_rows for n in range(self._file.metadata.num_row_groups)]
        self._ends = list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[bytes]:
        for number in range(len(self._ends)):
            yield from self._read(number)

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, int):
            return self[at : at + 1 or None][0]
        start, stop, step = at.indices(len(self))
        assert step == 1
        found: list[bytes] = []
        begin = 0
        for number, end in enumerate(self._ends):
            if start < end and begin < stop:
                found += self._read(number)[max(0, start - begin) : stop - begin]
            begin = end
        return found

    def _read(self, number: int) -> list[bytes]:
        return self._file.read_row_group(number, columns=["version"]).column("version").to_pylist()


def profile_digests(groups: Path, items: Sequence[str], support: Path | None = None) -> list[str]:
    """Return the digest of each group's profile in a groups.parquet, in the order of its rows.

    A profile is (size, item ids, ratings): two groups have the same digest exactly when readers see the same, whether
    the items are listed or null for every item of that release. `items` are those of its items.parquet. Where counts of
    raters are published (`support`), those of the group belong to it, too.
    """
    counts = None if support is None else _counts_of_groups(support, items)
    names = [item.encode("utf-8", "surrogatepass") + b"\0" for item in items]
    # Most groups share their items with others: what precedes the ratings is digested once for each size and list.
    prefixes: dict[tuple[int, bytes | None], Any] = {}
    found: list[str] = []
    file = pq.ParquetFile(groups)
    for number in range(file.num_row_groups):
        named = ["group"] if counts is not None else []
        table = file.read_row_group(number, columns=[*named, "size", "items", "ratings"])
        numbers = table.column("group").to_pylist() if named else [0] * len(table)
        sizes = table.column("size").to_pylist()
        lists = (one for chunk in table.column("items").chunks for one in _as_bytes(chunk))
        ratings = (one.as_buffer() for chunk in table.column("ratings").chunks for one in chunk)
        for group, size, positions, codes in zip(numbers, sizes, lists, ratings, strict=True):
            state = prefixes.get((size, positions))
            if state is None:
                listed = (
                    names
                    if positions is None
                    else [names[i] for i in np.frombuffer(positions, "<i4").tolist()]
                )
                state = hashlib.sha256(size.to_bytes(8, "big") + b"".join(listed))
                if len(prefixes) < PREFIXES_KEPT:
                    prefixes[size, positions] = state
            digest = state.copy()
            digest.update(codes)
            if counts is not None:
                digest.update(b"support\0" + counts.get(group, b""))
            found.append(digest.hexdigest())
    return found


def _counts_of_groups(support: Path, items: Sequence[str]) -> dict[int, bytes]:
    """Return what is published of each group's raters as bytes: item ids and counts, in the order of the ids."""
    table = pq.read_table(support)
    group, item, raters = (table.column(name).to_pylist() for name in ("group", "item", "raters"))
    cells: dict[int, list[tuple[str, int]]] = {}
    for one, position, count in zip(group, item, raters, strict=True):
        cells.setdefault(one, []).append((items[position], count))
    return {one: json.dumps(sorted(listed)).encode() for one, listed in cells.items()}


def _as_bytes(lists: pa.ListArray) -> list[bytes | None]:
    """Return each list of positions as bytes; None: the list is null."""
    values = np.ascontiguousarray(lists.values.to_numpy(), "<i4")
    offsets = lists.offsets.to_numpy().tolist()
    is_null = lists.is_null().to_pylist()
    return [
        None if is_null[row] else values[offsets[row] : offsets[row + 1]].tobytes()
        for row in range(len(lists))
    ]
