"""Test a format from outside the repository: one file, and nothing else changes."""

import json
import sys

import pytest

from tasks import pipeline
from tasks.cli import main
from tasks.config import Source, formats, load
from tasks.data.ratings import Ratings
from tasks.engine import Engine
from tasks.errors import UsageError
from tasks.store import Store
from tests.conftest import SNAPSHOT
from tests.tasks import toy_plugins


@pytest.fixture(autouse=True)
def _plugin(add_plugin):
    add_plugin("tasks.formats.toy_lines", toy_plugins.FORMAT)


@pytest.fixture
def release(tmp_path):
    """A release file of the toy format beside its data: 12 people, 3 items, ratings from 1 to 9."""
    lines = [f"p{user}|i{item}|{(user + 3 * item) % 9 + 1}" for user in range(12) for item in range(3)]
    (tmp_path / "ratings.toy").write_text("\n".join(lines) + "\n")
    people = [f"p{user}|{30 + user}|{'Ulm' if user % 2 else 'Bonn'}" for user in range(12)]
    (tmp_path / "people.toy").write_text("\n".join(people) + "\n")
    path = tmp_path / "films.toml"
    path.write_text(
        f"[release]\nname = 'films'\n[source]\nformat = 'toy-lines'\npath = '{tmp_path}'\n[privacy]\nk = 2\nl = 1\n"
    )
    return path


def test_the_configuration_reads_its_declaration_without_importing_it(release):
    sys.modules.pop("tasks.formats.toy_lines", None)
    source = load(release).source
    assert source.scale == (0.0, 10.0)
    assert source.attribute_names == ("age",)  # of its own attributes, the usual ones
    assert source.attribute_edges == {"age": (40.0,)}
    assert "tasks.formats.toy_lines" not in sys.modules


def test_check_shows_it(release, capsys):
    assert main(["check", str(release), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["source"]["format"] == "toy-lines"
    assert (answer["source"]["rows_read"], answer["source"]["scale"]) == (36, [0.0, 10.0])
    assert answer["attributes"]["age"] == {"users_read": 12, "known": 12, "classes": 2, "protected": False}


def test_ingest_reads_it(release, tmp_path):
    run = pipeline.open_run(
        load(release).alone(), SNAPSHOT, Store(tmp_path / "store"), Engine(), lambda *_: None
    )
    done = pipeline.execute("ingest", run)
    ratings = Ratings(tmp_path / "store" / "private" / "films" / SNAPSHOT.isoformat() / "work" / "ingest")
    assert (done["counts"]["users"], done["counts"]["items"], done["counts"]["ratings"]) == (12, 3, 36)
    assert ratings.by_user.values.max() == 9
    assert ratings.attributes()["age"].to_pylist().count("from 40") == 2


@pytest.mark.parametrize(
    ("stem", "text", "what"),
    [
        ("toy_silent", "LAYOUT = 1", "does not declare itself"),
        ("toy_number", "FORMAT = 1", "not a call of Format"),
        ("toy_name", "FORMAT = Format(scale=(LOW, 5.0))", "cannot be read"),
        ("toy_misspelt", "FORMAT = Format(scales=(1.0, 5.0))", "cannot be read"),
        ("toy_position", "FORMAT = Format((1.0, 5.0))", "keywords only"),
    ],
)
def test_a_declaration_that_cannot_be_read_is_named(add_plugin, stem, text, what):
    add_plugin(f"tasks.formats.{stem}", text)
    with pytest.raises(UsageError, match=what) as refusal:
        Source(format=stem.replace("_", "-"), path="x")
    assert refusal.value.where.endswith(f"{stem}.py")
    assert "literal" in refusal.value.remedy


def test_a_built_in_format_is_declared_by_its_own_file():
    assert formats.declared("jester").scale == (-10.0, 10.0)
