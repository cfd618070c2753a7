"""Test that `murmur check` reports what a method promises, which tables it does not read, and how far it reaches."""

import datetime
import json
import re
import tomllib
from pathlib import Path

import pytest

from tasks.cli import _source_survey
from tasks.cli._preview import preview
from tasks.cli._starter import starter
from tasks.config import formats, load, parse
from tasks.config.budget import Budget
from tasks.config.microaggregation import Microaggregation
from tasks.config.obfuscation import Obfuscation
from tasks.config.perturbation import Perturbation
from tasks.config.source import Attributes
from tasks.config.suppression import Suppression
from tasks.config.synthesis import Synthesis
from tasks.errors import UsageError
from tasks.groupings import mdav
from tasks.methods import registered

SNAPSHOT = datetime.date(2026, 1, 1)
WORLD = {"users": 60, "items": 20, "ratings_per_user": 8.0}
STARTER = starter("films")


def seen(method, **tables):
    source = {"format": "synthetic", "synthetic": WORLD}
    settings = {"release": {"name": "x"}, "source": source, "privacy": {"method": method, "k": 4}, **tables}
    return preview(parse(settings), SNAPSHOT)


def test_groups_are_promised_by_those_who_make_groups():
    assert seen("predictive-simple")["promise"] == {"k": 4, "l": 2, "b": 1, "min_contributors": 3}
    single = "one record per person, risk at most 1/4 as judged by the gate"
    assert seen("perturbation")["promise"] == {"records": single, "l": 2, "b": 1}


@pytest.mark.parametrize(
    ("method", "unused"),
    [
        ("predictive-padded", "[microaggregation], [perturbation], [suppression]"),
        ("microaggregation", "[perturbation], [suppression]"),
        ("perturbation", "[microaggregation], [suppression]"),
        ("suppression", "[microaggregation], [perturbation]"),
    ],
)
def test_tables_of_other_methods_are_named(method, unused):
    both = {
        "microaggregation": {"variable": True},
        "perturbation": {"amount": 0.5},
        "suppression": {"share": 0.5},
    }
    assert seen(method, **both)["not_used_by_this_method"] == unused
    assert seen(method)["not_used_by_this_method"] is None


@pytest.mark.parametrize("method", ["obfuscation", "predictive-padded"])
def test_obfuscation_is_used_whatever_follows_it(method):
    found = seen(method, obfuscation={"attribute": "gender"})
    assert found["not_used_by_this_method"] is None
    assert found["steps"].startswith("ingest → obfuscation → ")


def test_what_mdav_cannot_reach_is_refused_before_anything_runs(monkeypatch):
    found = seen("microaggregation")
    users, items = found["source"]["users_read"], found["source"]["items_read"]
    assert (users, items) == (60, 20)
    assert "60 users × 20 items" in found["reach"]
    monkeypatch.setattr(mdav, "MOST_CELLS", users * items - 1)
    with pytest.raises(UsageError, match="within_bins = true"):
        seen("microaggregation")
    assert "bins" in seen("microaggregation", microaggregation={"within_bins": True})["reach"]
    assert seen("predictive-padded")["reach"] is None


@pytest.fixture
def two_files(tmp_path):
    """Ratings of a, b and c and a table of users with this text: (text, protected, block_bytes) → the answer."""

    def look(text, protect=(), block_bytes=2**23, more=""):
        ratings, users = tmp_path / "ratings.csv", tmp_path / "users.csv"
        ratings.write_text("user,item,rating\na,x,1\nb,x,2\nc,y,3\n" + more)
        users.write_text("user,side,more\n" + text)
        source = {"format": "csv", "path": str(ratings), "scale": [1, 5], "block_bytes": block_bytes}
        source["attributes"] = {"path": str(users), "columns": ["side", "more"]}
        privacy = {"k": 2, "l": 1, "protect": list(protect)}
        return preview(parse({"release": {"name": "x"}, "source": source, "privacy": privacy}), SNAPSHOT)

    return look


def test_what_is_known_is_told_in_numbers(two_files):
    answer = two_files("a,zq-left,zq-1\nb,zq-right,\nz,zq-up,zq-2\n", ["side"])
    assert answer["attributes"] == {
        "side": {"users_read": 3, "known": 2, "classes": 2, "protected": True},
        "more": {"users_read": 3, "known": 1, "classes": 1, "protected": False},
    }
    assert "zq" not in json.dumps(answer)
    assert seen("predictive-padded")["attributes"]["gender"]["known"] == 60
    assert (
        seen("predictive-padded", source={"format": "synthetic", "attributes": {"columns": []}})["attributes"]
        == {}
    )


def test_attributes_are_refused_as_the_run_would_refuse_them(two_files):
    for text, protect, what in (
        ("a,left,1\nb,left,2\nz,right,3\n", ["side"], "do not differ in it"),
        ("A,left,1\nB,right,2\n", [], "has no user who has ratings"),
        ("a,left\n", [], "does not have 3 columns"),
    ):
        with pytest.raises(UsageError, match=what):
            two_files(text, protect)


def test_a_part_of_the_source_does_not_judge_the_table(two_files, monkeypatch):
    """Of the users in the first blocks the table may say nothing; the numbers are still reported."""
    more = "".join(f"user-{n},item-{n},3\n" for n in range(3000))
    part = {"block_bytes": 2**12, "more": more}
    monkeypatch.setattr(_source_survey, "MOST_ROWS", 100)
    answer = two_files("user-2998,left,1\nuser-2999,right,2\n", ["side"], **part)
    assert answer["source"]["users_read"] < 3000
    assert answer["attributes"]["side"]["known"] == 0
    with pytest.raises(UsageError, match="do not differ in it"):  # nobody in the table does
        two_files("user-2998,left,1\nuser-2999,left,2\n", ["side"], **part)


def test_protecting_is_refused_where_ratings_stand_alone(tmp_path):
    (tmp_path / "ratings.dat").write_text("".join(f"{user}::1::5::1\n" for user in range(12)))
    source = {"format": "movielens-1m", "path": str(tmp_path / "ratings.dat")}
    assert seen("predictive-padded", source=source)["attributes"] == {}
    with pytest.raises(UsageError, match="there is no user table"):
        seen("predictive-padded", source=source, privacy={"protect": ["gender"]})


def test_the_starters_attributes_can_be_switched_on(tmp_path):
    """Without their `#` the lines are a table and a key that are understood."""
    shown = re.sub(
        r"^# (?=protect = |\[source\.\w+\]|(path|user|columns|edges|item|title|genres) = )",
        "",
        STARTER,
        flags=re.M,
    )
    file = tmp_path / "films.toml"
    file.write_text(shown)
    config = load(file)
    assert config.privacy.protect == ["gender"]
    assert config.source.attribute_names == ("gender", "age")
    assert config.source.attributes.user == Attributes().user
    assert config.source.attribute_edges == {"age": (18.0, 36.0)}
    assert config.source.catalogue.title == "title"


def test_the_page_on_attributes_has_every_key_and_an_example_that_is_understood():
    page = (Path(__file__).parents[3] / "docs" / "attributes.md").read_text(encoding="utf-8")
    example = tomllib.loads(re.search(r"```toml\n(.*?)```", page, re.S).group(1))
    example["source"] |= {"format": "csv", "path": "ratings.csv", "scale": [1, 5]}
    config = parse({"release": {"name": "x"}, **example})
    assert config.needed_attributes == ("gender",)
    keys = re.findall(
        r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?`) \| .* \| ", page.partition("| key of")[2], re.M))
    )
    assert sorted(keys) == sorted(Attributes.model_fields)
    for name in formats.names():
        if not (own := formats.declared(name).attributes):
            continue
        row = re.search(rf"^\| `{name}` \|.*$", page, re.M).group()
        assert all(f"`{attribute}`" in row for attribute in own)


def test_the_starter_lists_every_method_and_format():
    for method in registered().values():
        assert re.search(rf"^# {method.name} +{re.escape(method.summary)}$", STARTER, re.M)
    assert f"# formats: {' '.join(formats.names())}\n" in STARTER
    assert "@" not in STARTER
    assert all(len(line) <= 120 for line in STARTER.splitlines())


@pytest.mark.parametrize(
    ("table", "settings", "elsewhere"),
    [("microaggregation", Microaggregation, {"gamma"}), ("perturbation", Perturbation, {"clip"})],
)
def test_the_starters_commented_tables_are_the_defaults(tmp_path, table, settings, elsewhere):
    """Without their `#` they are a table of every key with its default; the rest is named in a remark."""
    lines = STARTER.splitlines()
    start = lines.index(f"# [{table}]")
    stop = lines.index("", start)
    shown = "\n".join(line.removeprefix("# ") for line in lines[start:stop])
    assert tomllib.loads(shown)[table] == settings().model_dump(exclude=elsewhere)
    assert all(f"{key} = " in shown for key in elsewhere)
    file = tmp_path / "films.toml"
    chosen = STARTER.replace('method = "predictive-padded"', f'method = "{table}"')
    file.write_text(f"{chosen}\n{shown}\n")
    assert load(file).privacy.method == table


@pytest.mark.parametrize(
    ("table", "settings", "must"),
    [
        ("obfuscation", Obfuscation, {"attribute": "gender", "share": 0.1}),
        ("suppression", Suppression, {"share": 0.5}),
        ("synthesis", Synthesis, {"items": 500, "rows": 10_000}),
    ],
)
def test_commented_tables_that_need_a_choice_show_one_and_the_defaults(tmp_path, table, settings, must):
    lines = STARTER.splitlines()
    start = lines.index(f"# [{table}]")
    shown = "\n".join(line.removeprefix("# ") for line in lines[start : lines.index("", start)])
    assert tomllib.loads(shown)[table] == settings(**must).model_dump()
    file = tmp_path / "films.toml"
    method = {"synthesis": "dp-synthetic"}.get(table, table)
    chosen = STARTER.replace('method = "predictive-padded"', f'method = "{method}"')
    source = chosen.replace(
        "scale = [1.0, 5.0] ",
        'attributes = { path = "users.csv", columns = ["gender"] }\nscale = [1.0, 5.0] ',
    )
    budget = "[privacy.budget]\nepsilon = 3.0\n" if table == "synthesis" else ""
    file.write_text(f"{source}\n{budget}{shown}\n")
    assert load(file).privacy.method == method


def test_the_commented_budget_is_valid_and_shows_the_defaults():
    lines = STARTER.splitlines()
    start = lines.index("# [privacy.budget]")
    shown = "\n".join(line.removeprefix("# ") for line in lines[start : lines.index("", start)])
    assert tomllib.loads(shown)["privacy"]["budget"] == Budget(epsilon=3.0).model_dump()


def test_the_page_on_methods_has_every_method_and_key_with_its_default():
    page = (Path(__file__).parents[3] / "docs" / "methods.md").read_text(encoding="utf-8")
    assert [method for method in registered() if f"`{method}`" not in page] == []
    for settings in (
        Microaggregation(),
        Perturbation(),
        Obfuscation(),
        Suppression(),
        Synthesis(),
        Budget(epsilon=1.0),
    ):
        for key, default in settings.model_dump(exclude={"epsilon"}).items():  # which has no default
            shown = "absent" if default is None else json.dumps(default)
            assert f"| `{key}` | {shown} |" in page
