"""Test the judge's own reader of ledgers: the order of publication, and versions for a re-issue."""

import hmac
import sqlite3

import made_series as ms
import numpy as np
import pytest

from checks.gate import run_check
from checks.history.history import History
from checks.history.ledgers import ledgers_of
from checks.registry import registered
from tasks.errors import Refused

KEY = bytes(range(32))


def write_ledger(series, releases, people=(), name="films"):
    """A ledger with releases in this order, and with the ratings of these people as published versions."""
    directory = series.root / "private" / "ledger"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.key").write_bytes(KEY)
    with sqlite3.connect(directory / f"{name}.db") as db:
        db.executescript(
            "CREATE TABLE releases (id INTEGER, name TEXT, snapshot TEXT, revision INTEGER, state TEXT);"
            "CREATE TABLE items (id INTEGER, item TEXT);"
            "CREATE TABLE persons (id INTEGER, token BLOB);"
            "CREATE TABLE versions (person_id INTEGER, ratings BLOB);"
        )
        for number, (snapshot, revision, state) in enumerate(releases, start=1):
            db.execute(
                "INSERT INTO releases VALUES (?, 'films', ?, ?, ?)", (number, snapshot, revision, state)
            )
        items = [(number + 1, f"item {number}") for number in range(series.n_items)]
        db.executemany("INSERT INTO items VALUES (?, ?)", items)
        for number, person in enumerate(people):
            row = series.ratings[[person]]
            steps = np.diff(row.indices + 1, prepend=0).astype("u1").tobytes()
            data = b"\0" + steps + (row.data * 2).astype("i1").tobytes()
            token = hmac.digest(KEY, series.user(person).encode(), "sha256")[:16]
            db.execute("INSERT INTO persons VALUES (?, ?)", (number, token))
            db.execute("INSERT INTO versions VALUES (?, ?)", (number, data))


def test_order_is_the_ledgers(tmp_path):
    """The clocks of the manifests say otherwise; a release that was only prepared has no place."""
    series = ms.clean(tmp_path / "store")
    series.publish(directory="2025-06-01")
    series.withdraw("2025-06-01")
    series.publish(directory="2025-06-01-r1")
    order = [("2025-06-01", 0, "withdrawn"), ("2026-01-01", 0, "published"), ("2025-06-01", 1, "published")]
    write_ledger(series, [*order, ("2027-01-01", 0, "prepared")])
    found = [one.directory for one in History.of(series.judge(directory="2026-09-01")).earlier]
    assert found == ["2025-06-01", "2026-01-01", "2025-06-01-r1"]


def test_versions_are_read(tmp_path):
    series = ms.clean(tmp_path / "store")
    write_ledger(series, [("2026-01-01", 0, "published")], people=[3, 9])
    [ledger] = ledgers_of(series.root / "private")
    found = ledger.versions([series.user(3), series.user(4)])
    assert list(found) == [series.user(3)]
    items, ratings = found[series.user(3)]
    own = series.ratings[[3]]
    assert items == [f"item {number}" for number in own.indices]
    assert ratings.tolist() == own.data.tolist()


def test_unreadable_ledger_refuses(tmp_path):
    series = ms.clean(tmp_path / "store")
    directory = series.root / "private" / "ledger"
    directory.mkdir()
    (directory / "films.db").write_bytes(b"no database")
    with pytest.raises(Refused, match="a ledger of this store cannot be read"):
        History.of(series.judge())


def change(series, person, cells):
    """Give a person other ratings in so many cells."""
    row = series.ratings.indptr[person]
    for cell in range(row, row + cells):
        series.ratings.data[cell] = 6 - series.ratings.data[cell] if series.ratings.data[cell] != 3 else 4


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [((5, 5, 5, 5, 5), True), ((5, 5, 5, 5, 4), False), ((5, 0, 0, 0, 0), False), (None, False)],
)
def test_reissue(tmp_path, changed, allowed):
    """A changed rating is two (item, rating): ten of each member's allow a re-issue; without a ledger nothing does."""
    series = ms.Series.start(tmp_path / "store")
    rated = np.diff(series.ratings.indptr)
    members = np.flatnonzero(rated >= 6)[:5].tolist()
    old = series.mean_of(members)
    others = series.cohort(set(ms.FIRST) - set(members))
    series.publish([old, *others])
    if changed:
        write_ledger(series, [("2026-01-01", 0, "published")], people=members)
        for member, cells in zip(members, changed, strict=True):
            change(series, member, cells)
    case = series.judge([series.mean_of(members).nudged(3), *others])
    for name in ("carried-over", "differencing"):
        check = registered()[name]
        assert run_check(check, case, check.threshold).passed is allowed, name
