"""Test that added items are restored in recommendation lists, by score, and only for the users who got them."""

import csv
import json
import stat

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.cli import main
from tasks.errors import UsageError
from tasks.obfuscators._recommendation_restorer import _read_private_table, restore

# Anna got two items, Ben one, Carl none.
PEOPLE = {"anna": "aa11", "ben": "bb22", "carl": "cc33"}
ADDED = [("anna", "x", 4.0), ("anna", "y", 2.0), ("ben", "x", 3.0)]


@pytest.fixture
def private(tmp_path):
    place = tmp_path / "private"
    place.mkdir()
    owner = {
        "user": list(PEOPLE),
        "pseudonym": list(PEOPLE.values()),
        "group": pa.array([0, 1, 2], pa.int32()),
    }
    pq.write_table(pa.table(owner), place / "membership.parquet")
    users, items, ratings = zip(*ADDED, strict=True)
    names = [PEOPLE[user] for user in users]
    added = {"user": users, "pseudonym": names, "item": items, "rating": pa.array(ratings, pa.float32())}
    pq.write_table(
        pa.table({name: pa.array(column) for name, column in added.items()}), place / "added.parquet"
    )
    return place


@pytest.fixture
def restored(tmp_path, private):
    def run(text):
        (tmp_path / "lists.csv").write_text(text)
        run.summary = restore(tmp_path / "lists.csv", private, tmp_path / "out.csv")
        with (tmp_path / "out.csv").open() as file:
            return list(csv.reader(file))

    return run


def test_added_items_are_inserted_by_score(restored, tmp_path):
    rows = restored("user,item,score\nbb22,p,4.50\nbb22,q,2.25\naa11,p,3.0\naa11,q,1\ncc33,q,5\n")
    assert rows == [
        ["user", "item", "score"],
        ["bb22", "p", "4.50"],  # as the recommender wrote it
        ["bb22", "x", "3"],
        ["bb22", "q", "2.25"],
        ["aa11", "x", "4"],
        ["aa11", "p", "3.0"],
        ["aa11", "y", "2"],
        ["aa11", "q", "1"],
        ["cc33", "q", "5"],
    ]
    assert restored.summary == {
        "status": "restored",
        "out": str(tmp_path / "out.csv"),
        "users": 3,
        "recommended": 5,
        "put_back": 3,
        "recommended_anyway": 0,
    }
    assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) == 0o600


def test_source_ids_are_accepted_and_ranks_renumbered(restored):
    rows = restored("user,item,rating,rank\nanna,p,3,1\nanna,q,3,2\n")
    assert rows[0] == ["user", "item", "rating", "rank"]
    assert rows[1:] == [
        ["anna", "x", "4", "1"],
        ["anna", "p", "3", "2"],
        ["anna", "q", "3", "3"],
        ["anna", "y", "2", "4"],
    ]


def test_recommended_item_keeps_its_score(restored):
    assert restored("user,item,score\naa11,x,1.5\n")[1:] == [["aa11", "y", "2"], ["aa11", "x", "1.5"]]
    assert (restored.summary["put_back"], restored.summary["recommended_anyway"]) == (1, 1)


def test_own_item_precedes_an_added_one_of_equal_score(restored):
    assert [row[1] for row in restored("user,item,score\naa11,p,4\n")[1:]] == ["p", "x", "y"]


def test_users_without_a_list_get_none(restored):
    assert {row[0] for row in restored("user,item,score\ncc33,p,4\n")[1:]} == {"cc33"}
    assert restored.summary["put_back"] == 0


def test_an_empty_list_stays_empty(restored):
    assert restored("user,item,score\n") == [["user", "item", "score"]]


def test_quoted_ids_survive(tmp_path, private):
    (tmp_path / "lists.csv").write_text('user,item,score\naa11,"p, ""the"" first",5\n')
    restore(tmp_path / "lists.csv", private, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        assert [row[1] for row in csv.reader(file)] == ["item", 'p, "the" first', "x", "y"]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(PEOPLE)), st.sampled_from("opqrxyz"), st.integers(0, 500)),
        unique_by=lambda row: row[:2],
    )
)
def test_every_item_is_listed_once(tmp_path, private, rows):
    source, out = tmp_path / "lists.csv", tmp_path / "out.csv"
    source.write_text("user,item,score\n" + "".join(f"{u},{i},{s / 100}\n" for u, i, s in rows))
    out.unlink(missing_ok=True)
    restore(source, private, out)
    with out.open() as file:
        found = [(u, i, float(s)) for u, i, s in list(csv.reader(file))[1:]]
    asked = {user for user, _, _ in rows}
    cells = [(user, item) for user, item, _ in found]
    assert len(cells) == len(set(cells))
    assert {(u, i, s / 100) for u, i, s in rows} <= set(found)
    assert {(u, i) for u, i, _ in ADDED if u in asked} <= set(cells)
    assert len(found) == len(set(cells) | {(u, i) for u, i, _ in ADDED if u in asked})
    for user in asked:
        scores = [s for u, _, s in found if u == user]
        assert scores == sorted(scores, reverse=True)
    assert [u for u, _ in cells] == sorted((u for u, _ in cells), key=[u for u, _, _ in rows].index)


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("user,item\naa11,p\n", "lacks the columns score", "lists.csv"),
        ("person,item,score\naa11,p,1\n", "lacks the columns user", "lists.csv"),
        ("user,item,score,age\naa11,p,1,30\n", "should not have: age", "lists.csv"),
        ("user,item,score,rating\naa11,p,1,1\n", "two score columns", "lists.csv"),
        ("user,item,score\naa11,p,much\n", "a score is not a number", "row 1"),
        ("user,item,score\naa11,p,1\naa11,q,nan\n", "a score is not a number", "row 2"),
        ("user,item,score\naa11,p,1\nnobody,q,1\n", "1 of 2 users are not in this release", "row 2"),
        ("user,item,score\naa11,p,1\nben,q,1\n", "1 of 2 users are not in this release", "row 2"),
        ("", "cannot be read as a csv table", "lists.csv"),
    ],
)
def test_unusable_lists_are_refused_without_quoting_ids(tmp_path, private, text, what, where):
    (tmp_path / "lists.csv").write_text(text)
    with pytest.raises(UsageError) as refusal:
        restore(tmp_path / "lists.csv", private, tmp_path / "out.csv")
    assert what in refusal.value.what
    assert where in refusal.value.where
    assert refusal.value.remedy
    assert not any(name in str(refusal.value) for name in ("nobody", "ben", "aa11"))
    assert not (tmp_path / "out.csv").exists()


def test_unusable_paths_are_refused(tmp_path, private):
    lists, out = tmp_path / "lists.csv", tmp_path / "out.csv"
    with pytest.raises(UsageError, match="does not exist"):
        restore(lists, private, out)
    lists.write_text("user,item,score\naa11,p,1\n")
    with pytest.raises(UsageError, match="added to this release"):
        restore(lists, tmp_path, out)
    with pytest.raises(UsageError, match="no such directory"):
        restore(lists, private, tmp_path / "nowhere" / "out.csv")
    out.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        restore(lists, private, out)
    assert out.read_text() == "mine"


def test_restore_command(tmp_path, private, capsys):
    (tmp_path / "lists.csv").write_text("user,item,score\naa11,p,1\n")
    command = [
        "restore",
        str(tmp_path / "lists.csv"),
        "--private",
        str(private),
        "--out",
        str(tmp_path / "o.csv"),
    ]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["put_back"] == 2
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err


def test_private_tables_of_a_refused_release_are_found(tmp_path):
    """The candidate's files stay in the validate step's directory; damaged ones are reported."""
    kept = tmp_path / "work" / "validate" / "private"
    kept.mkdir(parents=True)
    pq.write_table(pa.table({"user": ["a"]}), kept / "added.parquet")
    assert _read_private_table(tmp_path, "added.parquet").num_rows == 1
    (kept / "added.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(UsageError, match="cannot be read"):
        _read_private_table(tmp_path, "added.parquet")
    with pytest.raises(UsageError, match="no record of ratings added to this release"):
        _read_private_table(tmp_path, "membership.parquet")
