"""Test a method from outside the repository: a file for the method, one for its profiler, and nothing else changes."""

import html
import json

import pytest

from checks.evidence.method_rules import STRICTEST, rules_of
from tasks.cli import main
from tasks.cli._starter import starter
from tasks.config import load, parse
from tasks.data.remedies import of_settings
from tasks.errors import UsageError
from tests.conftest import SNAPSHOT
from tests.tasks import toy_plugins

RELEASE = """
[release]
name = "films"
[source]
format = "synthetic"
[source.synthetic]
users = 200
items = 40
ratings_per_user = 15.0
[privacy]
method = "toy-levels"
"""
SECRET = b"k" * 32


@pytest.fixture(autouse=True)
def _plugin(add_plugin):
    add_plugin("tasks.methods.toy_levels", toy_plugins.METHOD)
    add_plugin("tasks.profilers.toy_levels", toy_plugins.PROFILER)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store with a secret, and a release file of the toy method in it."""
    root = tmp_path_factory.mktemp("toy")
    (root / "films.toml").write_text(RELEASE)
    (root / "secret").write_bytes(SECRET)
    (root / "secret").chmod(0o600)
    return root


@pytest.fixture
def murmur(place, monkeypatch, capsys):
    """Call a command on the release file: (command, further options) → (exit code, answer)."""
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(place / "secret"))

    def call(command, *options):
        code = main(
            [command, str(place / "films.toml"), "--snapshot", SNAPSHOT.isoformat(), "--json", *options]
        )
        return code, json.loads(capsys.readouterr().out)

    return call


def test_it_is_released_with_its_own_words(murmur, place):
    code, answer = murmur("run", "--store", str(place))
    assert (code, answer["status"]) == (0, "published")
    published = place / "published" / "films" / SNAPSHOT.isoformat()
    manifest = json.loads((published / "manifest.json").read_text())
    assert manifest["method"] == "toy-levels"
    assert manifest["counts"]["users"] == 200
    for name in ("report.html", "README.md"):
        text = html.unescape((published / name).read_text())
        assert "Every group is published with the toy's levels." in text, name


def test_check_and_init_know_it(murmur):
    code, answer = murmur("check")
    assert code == 0
    assert answer["promise"] == {"k": 5, "l": 2, "b": 1, "min_contributors": 3}
    assert answer["steps"].endswith("clustering → homogenization → evaluate → validate → publish")
    assert "# toy-levels          a toy: item means and the group's level\n" in starter("films")


def test_its_remedy_is_what_a_refusal_says(place):
    said = of_settings(load(place / "films.toml"), ["recovery"], SNAPSHOT)
    assert said.startswith("use less of a toy; the report says more")


def test_the_judge_allows_it_no_more_than_any_method():
    assert rules_of("toy-levels") == STRICTEST
    assert (STRICTEST.unit, STRICTEST.verbatim, STRICTEST.z_scores) == ("group", False, False)


def test_settings_it_refuses_are_refused(config):
    with pytest.raises(UsageError, match=r"padding.neutral: method 'toy-levels'"):
        config(privacy={"method": "toy-levels"}, padding={"neutral": ["gender"]})


@pytest.mark.parametrize(("stem", "text"), [("toy_empty", ""), ("toy_copied", toy_plugins.METHOD)])
def test_a_file_that_does_not_declare_its_method_is_named(add_plugin, config, stem, text):
    add_plugin(f"tasks.methods.{stem}", text)
    with pytest.raises(UsageError, match="does not declare METHOD") as refusal:
        config(privacy={"method": stem.replace("_", "-")})
    assert refusal.value.where.endswith(f"{stem}.py")


def test_an_unknown_method_is_refused_with_the_list():
    with pytest.raises(UsageError, match=r"there is no method 'toys'; use one of: .*, toy-levels") as refusal:
        parse({"release": {"name": "x"}, "source": {"format": "synthetic"}, "privacy": {"method": "toys"}})
    assert "privacy.method" in refusal.value.what
