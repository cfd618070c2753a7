"""Test a method and a recommender from outside the repository in `murmur compare`: nothing else changes."""

import json

import pytest

from tasks.cli import main
from tasks.config import parse
from tasks.errors import UsageError
from tasks.recommenders import compared
from tasks.studies.compare.entries import parse_entries
from tests.conftest import SNAPSHOT
from tests.tasks import toy_plugins

BUILT_IN = ("popularity", "bias", "als", "item_knn", "user_knn", "ease")
RELEASE = """
[release]
name = "films"
[source]
format = "synthetic"
[source.synthetic]
users = 120
items = 30
ratings_per_user = 12.0
[privacy]
protect = ["gender"]
[padding]
neutral = ["gender"]
"""


def test_the_built_in_recommenders_and_their_order():
    assert compared() == BUILT_IN


@pytest.fixture
def _plugins(add_plugin):
    add_plugin("tasks.methods.toy_levels", toy_plugins.METHOD)
    add_plugin("tasks.profilers.toy_levels", toy_plugins.PROFILER)
    add_plugin("tasks.recommenders.toy_constant", toy_plugins.RECOMMENDER)


@pytest.mark.slow
@pytest.mark.usefixtures("_plugins")
def test_they_are_compared_like_any_other(tmp_path, capsys):
    """The release file has a setting that the toy method refuses (padding.neutral): compared is without it."""
    (tmp_path / "films.toml").write_text(RELEASE)
    options = ["--snapshot", SNAPSHOT.isoformat(), "--store", str(tmp_path / "store"), "--json"]
    options += ["--methods", "toy-levels:k=6:metric=euclidean", "--plot", str(tmp_path / "plot.svg")]
    assert main(["compare", str(tmp_path / "films.toml"), *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    [row] = answer["rows"]
    assert (row["method"], row["settings"]) == ("toy-levels", {"k": 6, "metric": "euclidean"})
    assert row["status"] in ("passed", "refused")
    assert row["why"] is None
    assert tuple(row["recommenders"]) == ("popularity", "toy_constant", *BUILT_IN[1:])
    assert row["recommenders"]["toy_constant"] == {
        **row["recommenders"]["toy_constant"],
        "rmse": answer["original"]["recommenders"]["toy_constant"]["rmse"],
    }
    assert -1 <= row["utility"]["kendall_tau"] <= 1
    plot = (tmp_path / "plot.svg").read_text()
    assert ">toy-levels</text>" in plot  # the legend
    assert "toy-levels (k 6, metric euclidean): " in plot


@pytest.mark.usefixtures("_plugins")
def test_an_entry_sets_only_keys_of_the_tables_the_method_declares():
    base = parse({"release": {"name": "x"}, "source": {"format": "synthetic"}})
    with pytest.raises(UsageError, match="no setting 'rank'") as refusal:
        parse_entries("toy-levels:rank=4", base)
    assert "[clustering] metric" in refusal.value.remedy


def test_a_file_that_declares_no_recommender_is_named(add_plugin):
    add_plugin("tasks.recommenders.toy_silent", "def fit(train, weights=None): ...")
    with pytest.raises(UsageError, match="does not declare RECOMMENDER") as refusal:
        compared()
    assert refusal.value.where.endswith("toy_silent.py")
