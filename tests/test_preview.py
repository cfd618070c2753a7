"""`murmur check` knows the method: what it promises, what it does not read, and how far it reaches."""

import datetime
import json
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from tasks.config import load, parse
from tasks.config.microaggregation import Microaggregation
from tasks.config.obfuscation import Obfuscation
from tasks.config.perturbation import Perturbation
from tasks.config.suppression import Suppression
from tasks.errors import UsageError
from tasks.groupings import mdav
from tasks.methods import registered
from tasks.preview import preview

SNAPSHOT = datetime.date(2026, 1, 1)
WORLD = {"users": 60, "items": 20, "ratings_per_user": 8.0}
STARTER = files("tasks").joinpath("starter.toml").read_text(encoding="utf-8").replace("@NAME@", "films")


def seen(method, **tables):
    source = {"format": "synthetic", "synthetic": WORLD}
    told = {"release": {"name": "x"}, "source": source, "privacy": {"method": method, "k": 4}, **tables}
    return preview(parse(told), SNAPSHOT)


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


def test_the_starter_names_every_method():
    for method in registered():
        assert method in STARTER


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
    [("obfuscation", Obfuscation, {"attribute": "gender"}), ("suppression", Suppression, {"share": 0.5})],
)
def test_commented_tables_that_need_a_choice_show_one_and_the_defaults(tmp_path, table, settings, must):
    lines = STARTER.splitlines()
    start = lines.index(f"# [{table}]")
    shown = "\n".join(line.removeprefix("# ") for line in lines[start : lines.index("", start)])
    assert tomllib.loads(shown)[table] == settings(**must).model_dump()
    file = tmp_path / "films.toml"
    chosen = STARTER.replace('method = "predictive-padded"', f'method = "{table}"')
    source = chosen.replace(
        "scale = [1.0, 5.0] ",
        'attributes = { path = "users.csv", columns = ["gender"] }\nscale = [1.0, 5.0] ',
    )
    file.write_text(f"{source}\n{shown}\n")
    assert load(file).privacy.method == table


def test_the_page_on_methods_has_every_method_and_key_with_its_default():
    page = (Path(__file__).parents[1] / "docs" / "methods.md").read_text(encoding="utf-8")
    assert [method for method in registered() if f"`{method}`" not in page] == []
    for settings in (Microaggregation(), Perturbation(), Obfuscation(), Suppression()):
        for key, default in settings.model_dump().items():
            shown = "absent" if default is None else json.dumps(default)
            assert f"| `{key}` | {shown} |" in page
