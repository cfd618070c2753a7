"""Test the ledger on cases worked out by hand, on SQLite and on PostgreSQL, and that changed rows are found."""

import contextlib
import hashlib
import sqlite3
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import MurmurError, Refused, UsageError
from tasks.series import entry, schema, versions
from tasks.series.database import populations
from tasks.series.entering import numbered_items
from tasks.series.entry import profile_digests
from tasks.series.ledger import Ledger
from tasks.series.publication import exclusive, recover
from tasks.series.rows import NewGroup, RefusedCohort, Spending, Spent, parse_directory
from tasks.store import Store
from tests.tasks.series.made_series import POPULATION, enter, entry_of

SPENDING = Spending(0.25, 1e-7, 1.0, 1e-6, "year", 2.0, 1e-5)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.stack)])
def store(request, tmp_path, monkeypatch):
    """Return an empty store whose ledgers are in SQLite or PostgreSQL."""
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    if request.param == "postgresql":
        request.getfixturevalue("use_postgres")()
    return Store(tmp_path / "store")


@pytest.fixture
def ledger(store):
    with Ledger.open(store, POPULATION) as opened:
        yield opened


def test_two_releases(ledger):
    """Four people in two groups, then two more in a third; the first two groups are carried over."""
    assert (ledger.head, ledger.releases(), ledger.groups()) == ("0" * 64, [], [])
    enter(ledger, "2026-01-01", ["ann", "bob", "cid", "dan"], items=["x", "y"], other_items=["rare"])
    first = ledger.head
    enter(ledger, "2026-02-01", ["eve", "fay"], items=["z"], budget=SPENDING)
    assert [(r.id, r.snapshot, r.state, r.head_before) for r in ledger.releases()] == [
        (1, "2026-01-01", "published", "0" * 64),
        (2, "2026-02-01", "published", first),
    ]
    assert [(g.id, g.release_id, g.place, g.size, g.state) for g in ledger.groups()] == [
        (1, 1, 0, 2, "live"),
        (2, 1, 1, 2, "live"),
        (3, 2, 2, 2, "live"),
    ]
    assert (ledger.listed(1), ledger.listed(2)) == ({1: 0, 2: 1}, {1: 0, 2: 1, 3: 2})
    tokens, groups, states = ledger.people()
    assert tokens == ledger.tokens(["ann", "bob", "cid", "dan", "eve", "fay"])
    assert (groups.tolist(), set(states)) == ([1, 1, 2, 2, 3, 3], {"released"})
    assert (ledger.catalogue(), ledger.items()) == (["x", "y", "z"], ["x", "y", "rare", "z"])
    assert ledger.spent() == [Spent(2, "films", "2026-02-01", SPENDING)]
    assert ledger.problems() == []


def test_the_state_before_a_release(ledger):
    enter(ledger, "2026-01-01", ["ann", "bob"], items=["x", "y"])
    enter(ledger, "2026-02-01", ["eve", "fay"], items=["z"])
    assert [one.id for one in ledger.releases(before=2)] == [1]
    assert [one.id for one in ledger.groups(before=2)] == [1]
    assert ledger.people(before=2)[0] == ledger.tokens(["ann", "bob"])
    assert ledger.catalogue(before=2) == ["x", "y"]
    assert [one[0] for one in ledger.versions(before=2)] == ledger.tokens(["ann", "bob"])


def test_versions_are_what_was_published(ledger):
    enter(ledger, "2026-01-01", ["ann", "bob"], items=["x", "y"])
    ann = ledger.tokens(["ann"])
    [(token, group, items, ratings)] = ledger.versions(tokens=ann)
    assert (token, group, items.tolist(), ratings.tolist()) == (ann[0], 1, [0, 1], [3.0, 4.5])


def test_an_item_may_enter_the_catalogue_later(ledger):
    """`rare` was rated in January and is published in February; its number stays, its position is the next."""
    enter(ledger, "2026-01-01", ["ann", "bob"], items=["x"], other_items=["rare"])
    enter(ledger, "2026-02-01", ["eve", "fay"], items=["rare"])
    assert (ledger.catalogue(), ledger.items()) == (["x", "rare"], ["x", "rare"])
    assert ledger.catalogue(before=2) == ["x"]
    assert ledger.problems() == []


def test_numbers_of_new_items():
    assert numbered_items(["a", "b"], ["c", "b"], ["d"]) == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_find_prefers_what_is_offered(ledger):
    enter(ledger, "2026-01-01", ["ann", "bob"], items=["x", "y"])
    assert ledger.find("films", "2026-02-01") is None
    ledger.withdraw(1, "a mistake")
    assert ledger.find("films", "2026-01-01").state == "withdrawn"
    enter(ledger, "2026-01-01", [], revision=1)
    assert ledger.find("films", "2026-01-01").directory == "2026-01-01-r1"
    assert [one.state for one in ledger.releases()] == ["withdrawn", "published"]
    with pytest.raises(UsageError, match="withdrawn already"):
        ledger.withdraw(1, "again")
    assert ledger.problems() == []


def test_erasure(ledger):
    """Ann leaves: her group is withdrawn, Bob waits, and she never returns."""
    enter(ledger, "2026-01-01", ["ann", "bob", "cid", "dan"], items=["x", "y"])
    ann, bob = ledger.tokens(["ann", "bob"])
    touched = ledger.would_erase(ann)
    assert [one.id for one in ledger.groups()] == [1, 2]
    assert ledger.erase(ann) == touched
    assert ([g.id for g in touched.groups], [r.id for r in touched.releases]) == ([1], [1])
    assert (touched.survivors, touched.places) == ((bob,), ((1, 0),))
    assert [one.id for one in ledger.groups()] == [2]
    assert [one.id for one in ledger.groups(state="withdrawn")] == [1]
    assert dict(zip(ledger.people()[0], ledger.people()[2], strict=True))[bob] == "survivor"
    assert ann not in ledger.people()[0]
    assert ledger.blocked() == {ann}
    assert list(ledger.versions(tokens=[ann])) == []
    assert ledger.problems() == []
    head = ledger.head
    ledger.erase(ann)  # again: nothing to do
    assert (ledger.head, ledger.erasures()) == (head, 1)
    with pytest.raises(Refused, match="erased people would be released again"):
        ledger.prepare(entry_of(ledger, "2026-02-01", ["ann", "eve"]))


def test_a_stranger_is_only_blocked(ledger):
    [nobody] = ledger.tokens(["nobody"])
    touched = ledger.erase(nobody)
    assert (touched.groups, touched.releases, touched.survivors) == ((), (), ())
    assert (ledger.blocked(), ledger.problems()) == ({nobody}, [])


def test_survivors_are_pooled_once(ledger):
    """Ann and Cid leave; Bob and Dan, one from each withdrawn group, form a pool's group. Then Bob leaves, too."""
    enter(ledger, "2026-01-01", ["ann", "bob", "cid", "dan"], items=["x", "y"])
    for token in ledger.tokens(["ann", "cid"]):
        ledger.erase(token)
    with pytest.raises(Refused, match="not survivors that wait"):
        ledger.prepare(entry_of(ledger, "2026-02-01", ["bob", "dan"]))  # as if they were newcomers
    with pytest.raises(Refused, match="not survivors that wait"):
        ledger.prepare(entry_of(ledger, "2026-02-01", ["bob", "eve"], pool=1))  # a newcomer in a pool
    enter(ledger, "2026-02-01", ["bob", "dan"], pool=1)
    assert [(g.id, g.state, g.pool) for g in ledger.groups(state=None)] == [
        (1, "withdrawn", 1),
        (2, "withdrawn", 1),
        (3, "live", 1),
    ]
    tokens, groups, states = ledger.people()
    assert (tokens, groups.tolist(), states) == (ledger.tokens(["bob", "dan"]), [3, 3], ["released"] * 2)
    assert len(ledger.memberships()[0]) == 4
    assert ledger.problems() == []
    bob, dan = tokens
    assert ledger.erase(bob).survivors == (dan,)
    assert ledger.memberships()[0] == [dan, dan]
    assert ledger.problems() == []
    with pytest.raises(Refused, match="not survivors that wait"):
        ledger.prepare(entry_of(ledger, "2026-03-01", ["dan", "eve"], pool=2))  # nobody is pooled twice


@pytest.mark.parametrize(
    ("people", "change", "words"),
    [
        (["ann", "eve"], {}, "not survivors"),
        (["eve", "eve"], {}, "twice"),
        (["eve", "fay"], {"items": ["x"]}, "enter the catalogue twice"),
        (["eve", "fay"], {"carried": [(7, 0)]}, "not published"),
        (["eve", "fay"], {"carried": [(1, 0), (1, 5)]}, "carried over"),
        (["eve", "fay"], {"groups": [NewGroup(1, 3, "0" * 64, 1)]}, "size"),
        (["eve", "fay"], {"groups": [NewGroup(1, 2, "0" * 64, 0)]}, "same number"),
        (["eve", "fay"], {"head": "f" * 64}, "moved"),
        (["eve", "fay"], {"mode": "independent"}, "allows one release"),
        (["eve", "fay"], {"snapshot": "2026-01-01"}, "published already"),
    ],
)
def test_what_a_ledger_does_not_allow(ledger, people, change, words):
    enter(ledger, "2026-01-01", ["ann", "bob"], items=["x", "y"])
    entry = entry_of(ledger, "2026-02-01", people)
    with pytest.raises(Refused, match=words):
        ledger.prepare(type(entry)(**{**vars(entry), **change}))
    assert ledger.pending() == []


def test_ratings_of_unknown_items_are_refused(ledger):
    with pytest.raises(Refused, match="does not name"):
        ledger.prepare(entry_of(ledger, "2026-01-01", ["ann", "bob"], items=["x"]))  # they rated two items


def test_one_independent_release(ledger):
    enter(ledger, "2026-01-01", ["ann", "bob"], items=["x", "y"], mode="independent")
    for mode in ("independent", "sticky"):
        with pytest.raises(Refused, match="allows one release") as refusal:
            ledger.prepare(entry_of(ledger, "2026-02-01", ["eve", "fay"], mode=mode))
        assert "sticky" in refusal.value.remedy
    enter(ledger, "2026-01-01", [], mode="independent", revision=1)  # a repaired one offers nothing new


def test_prepare_commit_abandon(ledger):
    entry = entry_of(ledger, "2026-01-01", ["ann", "bob"], items=["x", "y"])
    with pytest.raises(MurmurError, match="not prepared"):
        ledger.commit(entry)
    number = ledger.prepare(entry)
    assert (ledger.releases(), ledger.people()[0]) == ([], [])  # not public yet
    assert [one.id for one in ledger.pending()] == [number]
    for attempt in (
        lambda: ledger.prepare(entry),
        lambda: ledger.erase(b"x" * 16),
        lambda: ledger.withdraw(1, "no"),
    ):
        with pytest.raises(MurmurError, match="interrupted or is under way"):
            attempt()
    ledger.abandon(number)
    assert (ledger.pending(), ledger.problems()) == ([], [])
    ledger.prepare(entry)
    ledger.commit(entry)
    ledger.abandon(1)  # what is published stays
    assert [one.id for one in ledger.releases()] == [1]


def test_populations_know_people_by_different_tokens(store):
    with Ledger.open(store, POPULATION) as one, Ledger.open(store, "others") as other:
        enter(one, "2026-01-01", ["ann", "bob"], items=["x", "y"])
        assert one.tokens(["ann"]) != other.tokens(["ann"])
        assert other.releases() == []
    with Ledger.open(store, POPULATION) as again:
        assert [one.snapshot for one in again.releases()] == ["2026-01-01"]
    assert populations(store) == ["others", POPULATION]
    assert (Ledger.exists(store, POPULATION), Ledger.exists(store, "nobody")) == (True, False)


def test_nobody_else_publishes_meanwhile(store):
    """`exclusive` holds a lock of the database, too, where it is shared; it lets go of it at the end."""
    for snapshot, people in (("2026-01-01", ["ann", "bob"]), ("2026-02-01", ["eve", "fay"])):
        with exclusive(store, POPULATION) as ledger:
            ledger.prepare(
                entry_of(ledger, "2025-01-01", ["gus", "hal"], items=[f"{snapshot} x", f"{snapshot} y"])
            )
        with exclusive(store, POPULATION) as ledger:  # what was prepared and never public is removed
            assert ledger.pending() == []
            enter(ledger, snapshot, people, items=[f"{snapshot} x", f"{snapshot} y"])
    assert recover(store, POPULATION) == []
    with Ledger.open(store, POPULATION) as ledger:
        assert (len(ledger.releases()), ledger.problems()) == (2, [])


def test_a_lost_key_is_not_replaced(store):
    with Ledger.open(store, POPULATION) as ledger:
        enter(ledger, "2026-01-01", ["ann", "bob"], items=["x", "y"])
    key = store.root / "private" / "ledger" / f"{POPULATION}.key"
    key.unlink()
    with pytest.raises(MurmurError, match="key of this ledger"), Ledger.open(store, POPULATION):
        pass
    assert not key.exists()


def test_names_that_are_no_population(store):
    for name in ("", "../x", "a/b", "x" * 65):
        with pytest.raises(UsageError, match="no name of a population"), Ledger.open(store, name):
            pass


# SQLite: what somebody with an editor could do


@pytest.fixture
def filled(tmp_path, monkeypatch):
    """Return a store whose ledger has rows in every table."""
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    store = Store(tmp_path)
    with Ledger.open(store, POPULATION) as ledger:
        enter(ledger, "2026-01-01", ["ann", "bob", "cid", "dan"], items=["x", "y"], budget=SPENDING)
        enter(ledger, "2026-02-01", ["eve", "fay"], items=["z"], other_items=["rare"])
        for token in ledger.tokens(["ann", "cid"]):
            ledger.erase(token)
        for number in (1, 2):
            ledger.withdraw(number, "erasure")
        enter(ledger, "2026-03-01", ["bob", "dan"], pool=1)
        assert ledger.problems() == []
    return store


def _problems(store: Store) -> list[str]:
    try:
        with Ledger.open(store, POPULATION) as ledger:
            return ledger.problems()
    except MurmurError as problem:
        return [problem.what]


# The chain does not cover these two: nothing that is published follows from them (tasks/series/refused_cohorts.py).
NOT_IN_CHAIN = (schema.refused_cohorts, schema.refused_people)
COVERED = [table for table in schema.metadata.sorted_tables if table not in NOT_IN_CHAIN]


def _cells() -> list[tuple[str, str]]:
    return [(table.name, column.name) for table in COVERED for column in table.c]


@pytest.mark.parametrize(("table", "column"), _cells())
def test_a_changed_cell_is_found(filled, table, column):
    """Change one cell, of every row in turn; the ledger notices each."""
    file = filled.root / "private" / "ledger" / f"{POPULATION}.db"
    before = file.read_bytes()
    keys = [c.name for c in schema.metadata.tables[table].primary_key]
    values = _read(file, table, keys, column)
    assert values
    unnoticed = []
    for *key, value in values:
        with contextlib.closing(sqlite3.connect(file)) as db, contextlib.suppress(sqlite3.IntegrityError):
            chosen = " AND ".join(f'"{name}" = ?' for name in keys)
            db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {chosen}', (_other(value), *key))
            db.commit()
        if _read(file, table, keys, column) != values and not _problems(filled):
            unnoticed.append(key)
        for beside in file.parent.glob(f"{file.name}-*"):
            beside.unlink()
        file.write_bytes(before)
    assert unnoticed == []


@pytest.mark.parametrize("table", [table.name for table in COVERED])
def test_a_removed_row_is_found(filled, table):
    file = filled.root / "private" / "ledger" / f"{POPULATION}.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        keys = ", ".join(c.name for c in schema.metadata.tables[table].primary_key)
        db.execute(
            f'DELETE FROM "{table}" WHERE ({keys}) IN (SELECT {keys} FROM "{table}" ORDER BY {keys} LIMIT 1)'
        )
        db.commit()
    assert _problems(filled)


def _read(file, table: str, keys: list[str], column: str) -> list:
    names = ", ".join(f'"{name}"' for name in keys)
    with contextlib.closing(sqlite3.connect(file)) as db:
        return db.execute(f'SELECT {names}, "{column}" FROM "{table}" ORDER BY {names}').fetchall()


def _other(value):
    """Return another value of the same kind."""
    if value is None:
        return 1
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    return value + 1000 if isinstance(value, int | float) else f"{value}x"


def test_an_erased_person_leaves_no_bytes(tmp_path, monkeypatch):
    """Token, salt and ratings are in no file of the ledger afterwards, free pages and log included."""
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    store = Store(tmp_path)
    directory = store.root / "private" / "ledger"

    def holds(secret: bytes) -> bool:
        return any(secret in file.read_bytes() for file in directory.glob(f"{POPULATION}.db*"))

    with Ledger.open(store, POPULATION) as ledger:
        ann = "ann"
        entry = entry_of(ledger, "2026-01-01", [ann, "bob"], items=["x", "y"])
        rated = versions.encode(np.array([0, 1]), np.array([3.125, 0.0625]))
        persons = type(entry.persons)(
            entry.persons.tokens, entry.persons.place, [rated, entry.persons.versions[1]]
        )
        entry = type(entry)(**{**vars(entry), "persons": persons})
        ledger.prepare(entry)
        ledger.commit(entry)
        with contextlib.closing(sqlite3.connect(directory / f"{POPULATION}.db")) as db:
            [salt] = db.execute("SELECT salt FROM persons WHERE id = 1").fetchone()
        assert holds(rated)
        assert holds(salt)
        ledger.erase(ledger.tokens([ann])[0])
        assert not holds(rated)
        assert not holds(salt)


def test_modes_of_files(filled):
    place = filled.root / "private" / "ledger"
    with Ledger.open(filled, POPULATION) as ledger:
        assert ledger.releases()
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()}
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert f"{POPULATION}.db-wal" in modes
    assert set(modes.values()) == {0o600}


# Refused cohorts


def test_refused_cohorts_are_counted_until_their_people_are_released(ledger):
    """ann and bob are refused in January (twice, with other settings) and with cid in February."""
    tokens = ledger.tokens
    enter(ledger, "2025-12-01", ["yan", "zoe"], items=["x", "y"])
    head = ledger.head
    for attempt in ("first", "second", "second"):
        ledger.enter_refused(RefusedCohort("films", "2026-01-01", attempt), tokens(["ann", "bob"]))
    ledger.enter_refused(RefusedCohort("films", "2026-02-01", "third"), tokens(["ann", "bob", "cid"]))
    assert ledger.times_refused("films", "2026-03-01", tokens(["ann", "dan"])) == 3
    assert ledger.times_refused("films", "2026-03-01", tokens(["cid", "dan"])) == 1
    assert ledger.times_refused("films", "2026-03-01", tokens(["dan"])) == 0
    assert (
        ledger.times_refused("films", "2026-02-01", tokens(["ann"])) == 2
    )  # attempts.json has its own snapshot's
    assert ledger.times_refused("others", "2026-02-01", tokens(["ann"])) == 3
    assert (ledger.head, ledger.problems()) == (head, [])
    ledger.erase(tokens(["bob"])[0])
    assert ledger.times_refused("films", "2026-03-01", tokens(["bob"])) == 0
    enter(ledger, "2026-03-01", ["ann", "eve"])
    assert ledger.times_refused("films", "2026-04-01", tokens(["ann"])) == 0
    assert ledger.times_refused("films", "2026-04-01", tokens(["cid"])) == 1
    assert ledger.problems() == []


def test_a_ledger_from_before_refused_cohorts_were_kept(store):
    with Ledger.open(store, POPULATION) as opened, opened._database.writing() as db:
        for table in (schema.refused_people, schema.refused_cohorts):
            table.drop(db)
    with Ledger.open(store, POPULATION) as opened:
        assert opened.times_refused("films", "2026-01-01", opened.tokens(["ann"])) == 0


# Encodings


def test_a_version_by_hand():
    """Items 3 and 7 (steps 3, 4), 1.5 and 5 stars (codes 3, 10): format 0, three bytes each way."""
    assert versions.encode(np.array([7, 3]), np.array([5.0, 1.5])) == bytes([0, 3, 4, 3, 10])
    assert versions.last_item(bytes([0, 3, 4, 3, 10])) == 7
    assert versions.last_item(versions.encode(np.array([], int), np.array([]))) == -1


def test_versions_come_back():
    """In any order and of any size: small and large steps, half stars, hundredths, other numbers, nobody's."""
    cases = [
        ([5, 3], [0.5, -63.5]),
        ([70_000, 3], [9.99, -7.82]),
        ([], []),
        ([1, 1_000_000], [3.14159, 2.0]),
        ([255, 0, 256], [1e9, 0.1, 300.0]),
    ]
    indptr = np.cumsum([0, *(len(items) for items, _ in cases)])
    items = np.array([item for items, _ in cases for item in items])
    ratings = np.array([rating for _, ratings in cases for rating in ratings])
    for (given, values), data in zip(cases, versions.encode_rows(indptr, items, ratings), strict=True):
        order = np.argsort(given)
        found_items, found = versions.decode(data)
        assert found_items.tolist() == np.array(given, int)[order].tolist()
        assert found.tolist() == np.array(values, np.float32)[order].tolist()
        assert data == versions.encode(np.array(given, int), np.array(values))


def test_versions_are_written_and_read_in_blocks(tmp_path, monkeypatch):
    """Of a large release they do not fit into memory together."""
    monkeypatch.setattr(entry, "PEOPLE_AT_ONCE", 3)
    rated = [versions.encode(np.arange(number), np.full(number, 3.0)) for number in range(7)]
    users = pa.array([f"person {number}" for number in range(7)])
    place, path = np.arange(7), tmp_path / "persons.parquet"
    entry._write_people(path, users, place, iter(rated))
    assert pq.read_table(path).to_pydict() == {
        "user": users.to_pylist(),
        "place": place.tolist(),
        "version": rated,
    }
    assert pq.read_metadata(path).num_row_groups == 3
    stored = entry.StoredVersions(path)
    assert list(stored) == rated
    assert [stored[number] for number in range(-7, 7)] == [*rated, *rated]
    for start in range(8):
        for stop in range(start, 9):
            assert stored[start:stop] == rated[start:stop]
    entry._write_people(path, users[:0], place[:0], iter(()))
    assert len(entry.StoredVersions(path)) == 0
    with pytest.raises(pa.ArrowInvalid):
        entry._write_people(path, users, place, iter(rated[:5]))
    with pytest.raises(AssertionError, match="more versions"):
        entry._write_people(path, users, place, iter([*rated, b"x"]))


def test_profile_digests_by_hand(tmp_path):
    """A list of both items and null for every item are the same profile; another size or item is another."""
    items = ["x", "ü"]
    table = pa.table(
        {
            "size": pa.array([2, 2, 3, 2], pa.int32()),
            "items": pa.array([None, [0, 1], None, [1]], pa.list_(pa.int32())),
            "ratings": pa.array([b"\1\2", b"\1\2", b"\1\2", b"\2"], pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "groups.parquet", row_group_size=3)
    two, three = (2).to_bytes(8, "big"), (3).to_bytes(8, "big")
    every = b"x\0" + "ü".encode() + b"\0"
    expected = [two + every + b"\1\2"] * 2 + [three + every + b"\1\2", two + "ü".encode() + b"\0\2"]
    found = profile_digests(tmp_path / "groups.parquet", items)
    assert found == [hashlib.sha256(data).hexdigest() for data in expected]


def test_names_of_directories():
    assert parse_directory("2026-01-01") == ("2026-01-01", 0)
    assert parse_directory("2026-01-01-r12") == ("2026-01-01", 12)
    assert [parse_directory(name) for name in ("2026-01-01-r0", ".2026-01-01.arriving", "x")] == [None] * 3
