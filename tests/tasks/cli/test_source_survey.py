"""Test that `murmur check` says about a source what a run would say, and what the owner probably does not mean."""

import datetime
import json

import pytest

from tasks.cli import _source_survey, main
from tasks.cli._source_survey import survey, to_note
from tasks.config import parse
from tasks.errors import UsageError

SNAPSHOT = datetime.date(2026, 1, 1)


@pytest.fixture
def config(tmp_path):
    """Make a configuration of a csv file with these rows."""

    def make(rows, *, header="user,item,rating", scale=(1, 5), k=2, **source):
        path = tmp_path / "ratings.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        table = {"format": "csv", "path": str(path), "scale": list(scale), **source}
        return parse({"release": {"name": "x"}, "source": table, "privacy": {"k": k}})

    return make


def people(count, items=4):
    return [f"u{user},i{item},{1 + (user + item) % 5}" for user in range(count) for item in range(items)]


@pytest.mark.parametrize(
    ("users", "more", "what"),
    [
        (943, {"k": 5000}, "943 users, fewer than privacy.k = 5,000"),
        (7, {"k": 5}, "7 users form at most 1 group of privacy.k = 5, fewer than privacy.l = 2"),
        (0, {}, "the source has no ratings"),
        (40, {"scale": (1, 4)}, "the rating is off the scale"),
    ],
)
def test_what_a_run_refuses_is_refused(config, users, more, what):
    with pytest.raises(UsageError, match=what):
        survey(config(people(users), **more), SNAPSHOT)


def test_a_scale_that_is_too_narrow_is_named_with_what_was_seen(config):
    with pytest.raises(UsageError) as refused:
        survey(config(people(40), scale=(2, 3)), SNAPSHOT)
    assert "ratings from 1 to 5 were seen beside those on [2, 3]: set source.scale" in refused.value.remedy


def test_a_scale_that_is_too_wide_is_noted(config):
    made = config(people(60), scale=(0, 10))
    (note,) = to_note(made, survey(made, SNAPSHOT))
    assert "source.scale is [0, 10], and the ratings are 1 to 5" in note


def test_duplicates_are_counted_once_whatever_block_they_are_in(config):
    rows = people(60)
    for block_bytes in (2**12, 2**23):
        made = config([*rows, *rows[:60]], block_bytes=block_bytes)
        found = survey(made, SNAPSHOT)
        assert (found.duplicates, found.ratings, len(found.users)) == (60, 240, 60)
        (note,) = to_note(made, found)
        assert note.startswith("20.0% of the rows rate an item that the same person rates in another row")
    few = config([*rows, rows[0]])
    assert to_note(few, survey(few, SNAPSHOT)) == []


def test_a_cohort_that_is_too_small_is_noted(config):
    made = config(people(20))
    (note,) = to_note(made, survey(made, SNAPSHOT))
    assert "the source has 20 people, and a cohort needs 50" in note


def test_bad_rows_below_the_limit_are_noted(config):
    made = config([*people(60), "u1,i9,x"], max_bad_rows=0.1)
    (note,) = to_note(made, survey(made, SNAPSHOT))
    assert note.startswith("1 rows cannot be used")


def test_of_a_part_nothing_is_concluded_about_the_rest(config, monkeypatch):
    monkeypatch.setattr(_source_survey, "MOST_ROWS", 10)
    found = survey(config(people(400), k=399, block_bytes=2**12), SNAPSHOT)
    assert not found.whole
    assert len(found.users) < 400


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("who,film,stars", "the columns are: who, film, stars"),
        ("who;film;stars", "the columns are: who;film;stars"),
        ("anna,film,5", "3 columns in all"),  # a row of data
        ("anna;film;5", "1 columns in all"),
        (",film,stars", "3 columns in all"),
    ],
)
def test_the_columns_there_are_are_listed_unless_they_may_be_data(config, header, shown):
    with pytest.raises(UsageError) as refused:
        survey(config(people(3), header=header), SNAPSHOT)
    assert shown in refused.value.what
    assert "anna" not in str(refused.value)


def test_a_missing_column_of_times_is_called_optional(config):
    made = config(people(3), columns={"timestamp": "when"})
    with pytest.raises(UsageError) as refused:
        survey(made, SNAPSHOT)
    assert "or leave it out: times are optional" in refused.value.remedy


def test_the_command_ends_in_a_few_lines(tmp_path, capsys):
    rows = ["user,item,rating", *people(60), *people(60)]
    (tmp_path / "ratings.csv").write_text("\n".join(rows) + "\n")
    file = tmp_path / "films.toml"
    file.write_text(
        f'[release]\nname = "films"\n[source]\nformat = "csv"\npath = "{tmp_path}/ratings.csv"\nscale = [0, 9]\n'
    )
    assert main(["check", str(file)]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 10
    assert "2 things to note" in out
    assert f"next     murmur run {file} --snapshot 2026-01-01" in out
    assert "u1" not in out
    assert main(["check", str(file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["source"]["duplicates"], answer["source"]["ratings"]) == (240, 240)
    assert len(answer["notes"]) == 2
    assert main(["check", str(file), "--verbose"]) == 0
    assert "first rows (users hidden)" in capsys.readouterr().out
