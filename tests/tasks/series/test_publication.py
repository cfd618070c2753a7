"""Test that store and ledger agree whatever happens between prepare and commit."""

import contextlib
import os
import random
import re
import shutil
import signal
import stat
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import MurmurError, Refused
from tasks.series import publication
from tasks.series.ledger import Ledger
from tasks.series.publication import exclusive, recover
from tasks.store import Store, files_below, read_json, write_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate

JANUARY, FEBRUARY = "2026-01-01", "2026-02-01"
# `make faults` sets the numbers of a whole campaign; a run of all tests has a part of it.
KILLS = int(os.environ.get("MURMUR_FAULT_KILLS", "12"))
RACES = int(os.environ.get("MURMUR_FAULT_RACES", "3"))


@pytest.fixture(autouse=True)
def _sqlite(monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def january(tmp_path, store):
    """Publish a first release of four people; return its candidate."""
    place = make_candidate(
        tmp_path / "january", store, JANUARY, ["ann", "bob", "cid", "dan"], items=["x", "y"]
    )
    publish_candidate(place, store, JANUARY)
    return place


def problems(store: Store) -> list[str]:
    with Ledger.open(store, POPULATION) as ledger:
        return ledger.problems(store)


def published(store: Store, snapshot: str) -> Path:
    return store.root / "published" / "films" / snapshot


def test_two_releases(tmp_path, store, january):
    """The catalogue grows: old groups are carried over with an explicit list, and have the same digest."""
    place = make_candidate(tmp_path / "february", store, FEBRUARY, ["eve", "fay"], items=["z"])
    publish_candidate(place, store, FEBRUARY)
    with Ledger.open(store, POPULATION) as ledger:
        assert [(one.snapshot, one.state) for one in ledger.releases()] == [
            (JANUARY, "published"),
            (FEBRUARY, "published"),
        ]
        assert len(ledger.people()[0]) == 6
        assert ledger.problems(store) == []
    groups = pq.read_table(published(store, FEBRUARY) / "groups.parquet").to_pylist()
    assert [row["items"] for row in groups] == [[0, 1], [0, 1], None]


def test_what_is_left_is_the_owners_alone(tmp_path, store, january):
    private = store.root / "private" / "films" / JANUARY
    assert sorted(path.name for path in private.iterdir()) == [
        "membership.parquet",
        "utility",
        "validation.json",
        "verdict.json",
    ]
    for path in (store.root / "private").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path.name
    assert [path.name for path in published(store, JANUARY).parent.iterdir()] == [JANUARY]


def test_the_same_again_is_found_published(store, january):
    before = files_below(store.root / "published")
    publish_candidate(january, store, JANUARY)
    assert files_below(store.root / "published") == before
    with Ledger.open(store, POPULATION) as ledger:
        assert len(ledger.releases()) == 1


def test_other_content_is_refused(tmp_path, store, january):
    place = make_candidate(tmp_path / "other", store, JANUARY, ["eve", "fay"], code=3)
    with pytest.raises(Refused, match="published already, with other content"):
        publish_candidate(place, store, JANUARY)
    assert problems(store) == []


def test_a_plan_against_an_older_ledger_is_refused(tmp_path, store, january):
    """Two candidates planned against January's ledger: the second one's plan is out of date."""
    one = make_candidate(tmp_path / "one", store, FEBRUARY, ["eve", "fay"])
    other = make_candidate(tmp_path / "other", store, "2026-03-01", ["eve", "fay"])
    publish_candidate(one, store, FEBRUARY)
    with pytest.raises(Refused, match="moved since the release was planned"):
        publish_candidate(other, store, "2026-03-01")
    assert not published(store, "2026-03-01").exists()
    assert problems(store) == []


def test_a_second_independent_release_is_refused(tmp_path, store):
    first = make_candidate(tmp_path / "1", store, JANUARY, ["ann", "bob"], items=["x"], mode="independent")
    publish_candidate(first, store, JANUARY)
    second = make_candidate(tmp_path / "2", store, FEBRUARY, ["eve", "fay"], mode="independent")
    with pytest.raises(Refused, match="allows one release of a population"):
        publish_candidate(second, store, FEBRUARY)
    assert not published(store, FEBRUARY).exists()
    assert problems(store) == []


def test_a_withdrawn_snapshot_does_not_return(store, january):
    place = published(store, JANUARY)
    with exclusive(store, POPULATION) as ledger:
        ledger.withdraw(1, "a mistake")
    shutil.move(place, store.root / "private" / "films" / JANUARY / "withdrawn")
    place.mkdir()
    write_json(place / "tombstone.json", {"reason": "a mistake"})
    assert problems(store) == []
    with pytest.raises(Refused, match="published and withdrawn"):
        publish_candidate(january, store, JANUARY)


def test_releases_that_the_ledger_does_not_know_block_others(tmp_path, store, january):
    shutil.copytree(published(store, JANUARY), published(store, "2025-12-01"))
    assert problems(store) == ["films 2025-12-01: it was published and is not in the ledger"]
    place = make_candidate(tmp_path / "february", store, FEBRUARY, ["eve", "fay"])
    with pytest.raises(Refused, match="not in the ledger"):
        publish_candidate(place, store, FEBRUARY)


def test_a_changed_candidate_is_refused(tmp_path, store):
    place = make_candidate(tmp_path / "january", store, JANUARY, ["ann", "bob"], items=["x", "y"])
    facts = place / "private" / "ledger" / "entry.json"
    facts.write_text(facts.read_text().replace('"k": 2', '"k": 1'))
    with pytest.raises(Refused, match="not what the gate examined"):
        publish_candidate(place, store, JANUARY)
    assert problems(store) == []


def test_without_an_entry_it_is_published_without_a_ledger(tmp_path, store):
    place = make_candidate(tmp_path / "january", store, JANUARY, ["ann", "bob"], items=["x", "y"])
    shutil.rmtree(place / "private" / "ledger")
    (place / "step.json").unlink()
    write_json(place / "step.json", {"files": files_below(place)})
    publish_candidate(place, store, JANUARY)
    assert (published(store, JANUARY) / "manifest.json").exists()


@pytest.mark.parametrize(
    ("point", "is_public"), [("prepared", False), ("copied", False), ("kept", False), ("renamed", True)]
)
def test_an_error_on_the_way(tmp_path, store, january, monkeypatch, point, is_public):
    """Before the rename nothing is left of it; after it the next run completes it."""
    place = make_candidate(tmp_path / "february", store, FEBRUARY, ["eve", "fay"])

    def fail(name: str) -> None:
        if name == point:
            raise OSError("made up")

    monkeypatch.setattr(publication, "_crash_point", fail)
    with pytest.raises(OSError, match="made up"):
        publish_candidate(place, store, FEBRUARY)
    monkeypatch.undo()
    assert (published(store, FEBRUARY) / "manifest.json").exists() == is_public
    with Ledger.open(store, POPULATION) as ledger:
        assert len(ledger.pending()) == is_public
    assert recover(store, POPULATION) == ([FEBRUARY] if is_public else [])
    assert recover(store, POPULATION) == []
    assert problems(store) == []
    publish_candidate(place, store, FEBRUARY)
    assert problems(store) == []


def test_recovery_needs_the_owners_copy(tmp_path, store, january, monkeypatch):
    place = make_candidate(tmp_path / "february", store, FEBRUARY, ["eve", "fay"])

    def fail(name: str) -> None:
        if name == "synced":
            raise OSError("made up")

    monkeypatch.setattr(publication, "_crash_point", fail)
    with pytest.raises(OSError, match="made up"):
        publish_candidate(place, store, FEBRUARY)
    monkeypatch.undo()
    shutil.rmtree(store.root / "private" / "films" / FEBRUARY / "ledger")
    with pytest.raises(MurmurError, match="must record about it is gone"):
        recover(store, POPULATION)


def test_a_store_without_a_ledger_stays_without(store):
    assert recover(store, POPULATION) == []
    assert not (store.root / "private" / "ledger").exists()


# Killed at any point


def _child(work, place: Path) -> None:
    """Run `work` in a fork; it never returns."""
    code = 1
    try:
        work()
        code = 0
    except MurmurError:
        code = 3
    except BaseException as problem:
        place.write_text(repr(problem))
    finally:
        os._exit(code)


def _events_until(store: Store, place: Path, stop: int | None) -> int:
    """Publish, and count what Python and C functions do between prepare and commit; die at the given one."""
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == stop:
            os.kill(os.getpid(), signal.SIGKILL)

    def at(name: str) -> None:
        if name == "prepared":
            sys.setprofile(count)
        elif name == "committed":
            sys.setprofile(None)

    publication._crash_point = at
    publish_candidate(place, store, FEBRUARY)
    return seen


@pytest.mark.slow
def test_killed_at_any_point(tmp_path, store, january):
    """Kill the publisher at seeded points between prepare and commit; then look, recover, and run it again.

    A point is one call or return of a function of Python or C (a write, a rename, a statement of the database).
    """
    place = make_candidate(tmp_path / "february", store, FEBRUARY, ["eve", "fay"], items=["z"])
    report = tmp_path / "report"

    def copy(number: int) -> Store:
        shutil.copytree(store.root, tmp_path / f"copy{number}")
        return Store(tmp_path / f"copy{number}")

    def in_fork(work) -> int:
        child = os.fork()
        if child == 0:
            _child(work, report)
        return os.waitpid(child, 0)[1]

    whole = copy(0)
    assert in_fork(lambda: report.write_text(str(_events_until(whole, place, None)))) == 0
    total = int(report.read_text())
    assert total > KILLS
    outcomes = {"public": 0, "not public": 0}
    for number, point in enumerate(sorted(random.Random(7).sample(range(1, total + 1), KILLS)), 1):
        copied = copy(number)
        # Runs differ by some events (garbage collection, the file system), so the last points may come too late.
        while not os.WIFSIGNALED(
            in_fork(lambda copied=copied, point=point: _events_until(copied, place, point))
        ):
            assert point > total * 0.9, point
            point -= total // 100
            shutil.rmtree(copied.root)
            copied = copy(number)
        is_public = (published(copied, FEBRUARY) / "manifest.json").exists()
        outcomes["public" if is_public else "not public"] += 1
        recover(copied, POPULATION)
        assert (published(copied, FEBRUARY) / "manifest.json").exists() == is_public, point
        assert _all_is_well(copied, FEBRUARY, released=is_public), point
        publish_candidate(place, copied, FEBRUARY)
        assert _all_is_well(copied, FEBRUARY, released=True), point
        shutil.rmtree(copied.root)
    assert min(outcomes.values()) >= KILLS // 20, outcomes


def _all_is_well(store: Store, snapshot: str, *, released: bool) -> bool:
    """Return whether store and ledger agree, nothing half made is left, and a snapshot is released or not."""
    with Ledger.open(store, POPULATION) as ledger:
        agrees = ledger.problems(store) == [] and ledger.pending() == []
        known = any(one.snapshot == snapshot for one in ledger.releases())
    public = {path.name for path in published(store, snapshot).parent.iterdir()}
    private = [path.name for path in (store.root / "private" / "films").glob("*/*")]
    half_made = [name for name in private if name == "ledger" or name.startswith(".")]
    expected = {JANUARY, snapshot} if released else {JANUARY}
    return agrees and known == released and public == expected and not half_made


@pytest.mark.slow
def test_two_publishers_at_once(tmp_path, store, january):
    """Two candidates planned against the same head, for one snapshot or for two: exactly one wins."""
    for number in range(RACES):
        shutil.copytree(store.root, tmp_path / f"copy{number}")
        copied = Store(tmp_path / f"copy{number}")
        other_snapshot = FEBRUARY if number % 2 else "2026-03-01"
        places = [
            (make_candidate(tmp_path / f"a{number}", copied, FEBRUARY, ["eve", "fay"], code=2), FEBRUARY),
            (
                make_candidate(tmp_path / f"b{number}", copied, other_snapshot, ["eve", "gus"], code=3),
                other_snapshot,
            ),
        ]
        children = []
        for place, snapshot in places:
            child = os.fork()
            if child == 0:
                _child(lambda p=place, t=copied, s=snapshot: publish_candidate(p, t, s), tmp_path / "report")
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert sorted(codes) == [0, 3], (tmp_path / "report").read_text()
        winner = places[codes.index(0)][1]
        assert _all_is_well(copied, winner, released=True)
        shutil.rmtree(copied.root)


@pytest.mark.slow
def test_the_same_candidate_twice_at_once(tmp_path, store, january):
    """A cleared task beside its successor: both succeed, and the release is entered once."""
    for number in range(RACES):
        shutil.copytree(store.root, tmp_path / f"copy{number}")
        copied = Store(tmp_path / f"copy{number}")
        place = make_candidate(tmp_path / f"c{number}", copied, FEBRUARY, ["eve", "fay"])
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                _child(lambda p=place, t=copied: publish_candidate(p, t, FEBRUARY), tmp_path / "report")
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert codes == [0, 0]
        assert _all_is_well(copied, FEBRUARY, released=True)
        shutil.rmtree(copied.root)


# What `problems` finds in files


def _change_json(path: Path) -> None:
    write_json(path, {**read_json(path), "counts": {"users": 99}})


def _change_parquet(path: Path, **columns) -> None:
    table = pq.read_table(path)
    for name, values in columns.items():
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        table = table.set_column(index, field, pa.array(values, field.type))
    pq.write_table(table, path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda pub, _: (pub / "manifest.json").unlink(), "manifest.json is not there"),
        (lambda pub, _: _change_json(pub / "manifest.json"), "manifest is not the one"),
        (lambda pub, _: (pub / "members.parquet").unlink(), "members.parquet is not what was published"),
        (
            lambda pub, _: _change_parquet(pub / "groups.parquet", ratings=[b"\7\7", b"\7\6"]),
            "1 groups have not",
        ),
        (lambda pub, _: _change_parquet(pub / "groups.parquet", group=[1, 0]), "not in the row"),
        (lambda pub, _: _change_parquet(pub / "groups.parquet", group=[0, 9]), "does not offer the groups"),
        (
            lambda pub, _: _change_parquet(pub / "items.parquet", item=["y", "x"]),
            "not those of the catalogue",
        ),
        (
            lambda _, own: _change_parquet(own / "membership.parquet", user=["ann", "cid", "bob", "dan"]),
            "4 rows",
        ),
        (
            lambda _, own: _change_parquet(own / "membership.parquet", user=["ann", "ann", "bob", "dan"]),
            "twice",
        ),
        (lambda _, own: (own / "membership.parquet").unlink(), "cannot be read"),
        (lambda _, own: _change_parquet(own / "membership.parquet", group=[0, 0, 0, 1]), "not the sizes"),
    ],
)
def test_changed_files_are_found(store, january, change, words):
    assert problems(store) == []
    change(published(store, JANUARY), store.root / "private" / "films" / JANUARY)
    found = problems(store)
    assert any(words in one for one in found), found
    assert not re.search(r"\b(ann|bob|cid|dan)\b", " ".join(found))


def test_erased_people_stay_as_marks(store, january):
    """Their rows of membership.parquet keep the group, so that sizes still agree."""
    with exclusive(store, POPULATION) as ledger:
        ledger.erase(ledger.tokens(["ann"])[0])
    assert any("rows of membership.parquet" in one for one in problems(store))
    path = store.root / "private" / "films" / JANUARY / "membership.parquet"
    _change_parquet(path, user=["erased:" + "0" * 32, "bob", "cid", "dan"])
    assert problems(store) == []


def test_an_interrupted_publication_is_reported(tmp_path, store, january, monkeypatch):
    place = make_candidate(tmp_path / "february", store, FEBRUARY, ["eve", "fay"])

    def fail(name: str) -> None:
        if name == "renamed":
            raise OSError("made up")

    monkeypatch.setattr(publication, "_crash_point", fail)
    with contextlib.suppress(OSError):
        publish_candidate(place, store, FEBRUARY)
    assert problems(store) == [f"films {FEBRUARY}: its publication was interrupted; run it again"]
