"""Test the search for the cheapest setting: which settings are tried, what follows from them, what is written."""

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.config import parse
from tasks.errors import UsageError
from tasks.studies.plan import words
from tasks.studies.plan.axes import base_of, changed, usual_axes, with_named
from tasks.studies.plan.lattice import Axis, Search
from tasks.studies.plan.page import write_page
from tasks.studies.plan.release_file import write_values
from tasks.studies.plan.trials import Trial, on_frontier

K, C = Axis("privacy.k", (5, 10, 20)), Axis("privacy.min_contributors", (1, 2, 3))


def searched(axes, base, passes):
    """Run a search to its end; return it with the settings in the order of the trials."""
    search, order = Search(axes, base), []
    while (setting := search.next()) is not None:
        order.append(setting)
        search.record(setting, passed=passes(setting))
    return search, order


def test_the_first_trial_is_the_release_files_own_setting():
    assert Search((K, C), (1, 2)).next() == (1, 2)


def test_what_is_weaker_than_a_refused_setting_and_stronger_than_a_passed_one_is_decided():
    search = Search((K, C), (1, 1))
    search.record((1, 1), passed=False)
    assert search.open() == [(0, 2), (1, 2), (2, 0), (2, 1), (2, 2)]
    search.record((2, 0), passed=True)
    assert search.open() == [(0, 2), (1, 2)]
    search.record((1, 2), passed=False)
    assert search.open() == []
    assert search.next() is None


def test_a_limit_that_is_tighter_for_larger_k_says_nothing_about_smaller_k():
    search = Search((K, C), (1, 1))
    search.record((1, 1), passed=False, unordered=("privacy.k",))
    assert (0, 1) in search.open()
    assert (0, 0) in search.open()
    assert (1, 0) not in search.open()


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    thresholds=st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), max_size=3),
    data=st.data(),
)
def test_every_setting_is_decided_as_the_rule_says(sizes, thresholds, data):
    """Where passing is monotone, the weakest settings that pass are all tried, whatever the start."""
    axes = tuple(Axis(f"a.{n}", tuple(range(size))) for n, size in enumerate(sizes))
    base = tuple(data.draw(st.integers(0, size - 1)) for size in sizes)

    def passes(setting):
        return any(all(a >= b for a, b in zip(setting, one, strict=False)) for one in thresholds)

    search, order = searched(axes, base, passes)
    assert len(order) == len(set(order))
    assert search.open() == []
    everything = Search(axes, base).open()
    good = [one for one in everything if passes(one)]
    weakest = [
        one
        for one in good
        if not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in good)
    ]
    assert set(weakest) <= set(order)


def test_where_the_weakest_setting_passes_two_trials_decide_everything():
    _, order = searched((K, C), (1, 2), lambda setting: True)
    assert order == [(1, 2), (0, 0)]


def test_a_long_axis_is_searched_by_halving():
    axis = Axis("privacy.k", tuple(range(100)))
    _, order = searched((axis,), (50,), lambda setting: setting[0] >= 77)
    assert 77 in {one[0] for one in order}
    assert len(order) <= 9


def config(**tables):
    return parse({"release": {"name": "x"}, "source": {"format": "synthetic"}, **tables})


def test_the_usual_axes_hold_the_release_files_own_values():
    made = config(privacy={"k": 7, "min_contributors": 4, "rating_step": 0.2})
    axes = usual_axes(made, 100_000, k_is_fixed=False)
    assert [axis.key for axis in axes] == ["privacy.k", "privacy.min_contributors", "privacy.rating_step"]
    assert axes[0].values == (7, 10, 20, 50)
    assert axes[1].values == (1, 2, 3, 4, 5)
    assert axes[2].values == (0.05, 0.1, 0.2, 0.25, 0.5)
    assert [axis.values[n] for axis, n in zip(axes, base_of(axes, made), strict=True)] == [7, 4, 0.2]
    assert usual_axes(made, 100_000, k_is_fixed=True)[0].values == (7,)
    assert usual_axes(made, 60, k_is_fixed=False)[0].values == (7, 10)  # four groups of 20 need 80 people
    alone = config(privacy={"method": "perturbation"})
    assert [axis.key for axis in usual_axes(alone, 1000, k_is_fixed=False)] == ["privacy.rating_step"]


def test_named_values_replace_and_complete_the_axes():
    made = config()
    axes = with_named([K], ["privacy.k=3,5,8", "padding.rank=4,8", "privacy.rating_step=0.1,1"], made)
    assert [(axis.key, axis.values) for axis in axes] == [
        ("privacy.k", (3, 5, 8)),
        ("padding.rank", (4, 8)),
        ("privacy.rating_step", (0.1, 1.0)),
    ]
    assert changed(made, {"privacy.k": 8}).privacy.k == 8


@pytest.mark.parametrize(
    ("named", "what"),
    [
        ("privacy.k", "names no values"),
        ("privacy.kay=5", "there is no setting"),
        ("privacy.k=8,9", "own value 5 is not among them"),
        ("privacy.k=5,5", "named twice"),
        ("privacy.k=1,5", "k"),
        ("privacy.k=five,5", "own value 5"),
    ],
)
def test_unusable_values_are_refused(named, what):
    with pytest.raises(UsageError, match=what) as refused:
        with_named([], [named], config())
    assert named in refused.value.where


FILE = """# films
[release]
name = "films"        # its name

[privacy]
# the promise
k = 5                 # people
rating_step = 0.1
[padding]
rank = 8
"""


def test_values_are_written_and_comments_stay(tmp_path):
    path = tmp_path / "films.toml"
    path.write_text(FILE)
    path.chmod(0o640)
    assert write_values(path, {"privacy.k": 10, "privacy.min_contributors": 2, "gate.recovery": 0.4}) == {
        "privacy.k": 10,
        "privacy.min_contributors": 2,
        "gate.recovery": 0.4,
    }
    text = path.read_text()
    assert "k = 10                # people\n" in text
    assert text.startswith('# films\n[release]\nname = "films"        # its name\n')
    assert path.stat().st_mode & 0o777 == 0o640
    assert tomllib.loads(text) == {
        "release": {"name": "films"},
        "privacy": {"k": 10, "rating_step": 0.1, "min_contributors": 2},
        "padding": {"rank": 8},
        "gate": {"recovery": 0.4},
    }
    before = path.stat().st_mtime_ns
    assert write_values(path, {"privacy.k": 10}) == {}  # nothing differs
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "text", ["privacy = { k = 5 }\n", "privacy.k = 5\n", '[privacy]\nx = """\nk = 5"""\n']
)
def test_a_file_of_another_form_is_not_touched(text, tmp_path):
    path = tmp_path / "films.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        write_values(path, {"privacy.k": 10})
    assert "privacy.k = 10" in refused.value.remedy
    assert path.read_text() == text


def trial(k, passed=True, risk=0.1, lost=0.02, failed=()):
    values = {"privacy.k": k}
    return Trial(values, passed, tuple(failed), None, risk, "scoring", lost, 0.2, 10.0)


def test_the_frontier_is_what_nothing_else_beats_in_both():
    passed = [trial(5, risk=0.2, lost=0.01), trial(10, risk=0.1, lost=0.02), trial(20, risk=0.1, lost=0.03)]
    assert [on_frontier(one, passed) for one in passed] == [True, True, False]
    assert not on_frontier(trial(2, passed=False), passed)


def answer(trials, cheapest, **more):
    rows = [{**one.to_json(), "on_frontier": one.passed} for one in trials]
    own = trials[0]
    found = None if cheapest is None else {"values": cheapest.values, "lost": cheapest.lost}
    return {
        "axes": {"privacy.k": [5, 10]},
        "settings": 3,
        "undecided": 0,
        "stopped": None,
        "k_is_fixed": False,
        "trials": rows,
        "others": [],
        "others_left_out": [],
        "own": {"passed": own.passed, "lost": own.lost, "failed": list(own.failed)},
        "cheapest": found,
        "own_is_cheapest": cheapest is own,
        "cpu_seconds": 20.0,
        **more,
    }


def test_words():
    first, second = trial(5, lost=0.03), trial(10, lost=0.02)
    better = words.verdict(answer([first, second], second))
    assert "privacy.k = 10" in better
    assert "loses 0.0200" in better
    assert "own setting 0.0300" in better
    assert words.verdict(answer([first], first)).startswith("The release file's own setting is the cheapest")
    refused = trial(5, passed=False, failed=["sybil"])
    assert "own setting is refused" in words.verdict(answer([refused, second], second))
    assert (
        words.verdict(answer([refused], None))
        == "No setting that was tried passes (its own setting fails sybil)."
    )
    said = words.scope(
        answer([first], first, undecided=1, stopped="900 CPU seconds are used", k_is_fixed=True)
    )
    assert said.startswith("1 of 3 settings were tried; 1 follow from them")
    assert "1 are open: 900 CPU seconds are used" in said
    assert "cannot change" in said


def test_the_page_stands_alone_and_shows_every_trial(tmp_path):
    refused = trial(5, passed=False, failed=["<sybil>"], risk=None, lost=None)
    given = answer([trial(5), trial(10, lost=0.03), refused], trial(5))
    write_page(given, "films <b>", tmp_path / "plan.html")
    text = (tmp_path / "plan.html").read_text()
    assert "<sybil>" not in text
    assert "films &lt;b&gt;" in text
    assert text.count("<circle") == 2  # the third has no figures
    assert text.count('<th scope="row">') == 3
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org)|@import|url\(", text)
    for x in re.findall(r'cx="([\d.]+)"', text):
        assert 64 <= float(x) <= 450
    write_page(answer([refused], None), "none", tmp_path / "plan.html")
    assert "<svg" not in (tmp_path / "plan.html").read_text()
