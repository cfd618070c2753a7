"""Test that no published figure changes when a released person leaves the source."""

import made_series as ms
import numpy as np
import pytest

from checks.gate import judge_case, run_check
from checks.registry import registered
from tests.checks.series.test_planted_series import erase_one_each


@pytest.fixture
def series(tmp_path):
    return ms.clean(tmp_path / "store")


def published(case):
    """The lines of checks.json."""
    return judge_case(case, {}).to_json()["checks"]


def lines_of_whole(case):
    """The lines of the checks that judge the whole release; the others see new groups alone, whose people are there."""
    checks = [check for check in registered().values() if check.whole]
    return [run_check(check, case, check.threshold).to_json() for check in checks]


def test_carried_groups_alone(series):
    before = published(series.judge())
    assert all(line["passed"] for line in before if line["severity"] == "gate"), before
    for gone in ({3}, {77}, {3, 4, 5, 77}):
        series.gone = gone
        assert published(series.judge()) == before


def test_beside_a_cohort(series):
    before = lines_of_whole(series.judge(series.groups + series.cohort(ms.SECOND)))
    series.gone = {3}
    assert lines_of_whole(series.judge(series.groups + series.cohort(ms.SECOND))) == before


def test_beside_a_pool(series):
    withdrawn = erase_one_each(series, ms.K)
    series.publish(series.groups + series.pooled(withdrawn, 4))
    before = lines_of_whole(series.judge())
    assert all(line["passed"] for line in before), before
    averaging = next(line for line in before if line["name"] == "averaging")
    assert (averaging["applicable"], averaging["observed"], averaging["n"]) == (True, None, 4 * ms.K)
    everybody_pooled = {member for group in series.groups[-4:] for member in group.members}
    for gone in ({min(everybody_pooled)}, everybody_pooled, {series.groups[0].members[0]}):
        series.gone = gone
        assert lines_of_whole(series.judge()) == before


def test_rated_sets_of_a_series_are_not_counted(tmp_path):
    """(2,l): how many pairs of items people rated depends on who is there."""
    series = ms.Series.start(tmp_path / "store")
    groups = series.cohort(ms.FIRST)
    some = [
        group.but(items=tuple(range(59)), codes=group.codes[:59]) if number % 2 else group
        for number, group in enumerate(groups)
    ]
    privacy = {"privacy": {"k": ms.K, "l": 2, "b": 2, "min_contributors": 3}}
    series.publish(some, manifest=privacy)
    one = run_check(registered()["diversity"], series.judge(manifest=privacy), 1)
    assert one.passed
    series.gone = set(range(100))
    assert run_check(registered()["diversity"], series.judge(manifest=privacy), 1) == one


def test_refusals_keep_their_figures(series):
    """A refused release is not published: its owner sees what was found."""
    shuffled = np.random.default_rng(0).permutation(140).reshape(28, 5)
    found = run_check(registered()["averaging"], series.judge([series.mean_of(row) for row in shuffled]), 0)
    assert not found.passed
    assert found.observed > 0
    assert "Nearest of all people" in found.detail
    larger = next(group for group in series.groups if len(group.members) >= ms.K)
    others = [group for group in series.groups if group is not larger]
    case = series.judge([*others, series.mean_of(larger.members[1:])])
    found = run_check(registered()["differencing"], case, 0)
    assert not found.passed
    assert "Positive control" in found.detail
