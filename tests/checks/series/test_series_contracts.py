"""Apply the contract of checks to the checks of a series, each with a release that it must refuse."""

import made_series as ms
import numpy as np
import pytest

from tests.contracts import CheckContract


@pytest.fixture(scope="module")
def open_release(tmp_path_factory):
    """Return a series with one published release, in a store of its own."""
    return lambda: ms.clean(tmp_path_factory.mktemp("series") / "store")


class OfSeries(CheckContract):
    """Plant a second release; the harmless one carries the first over and adds a cohort."""

    def harmless(self, opened):
        series = opened()
        return series.judge(series.groups + series.cohort(ms.SECOND))


def regrouped(series):
    shuffled = np.random.default_rng(0).permutation(140).reshape(28, 5)
    return [series.mean_of(row) for row in shuffled]


class TestSeries(OfSeries):
    """The same people in other groups."""

    name = "series"

    def violation(self, opened):
        series = opened()
        return series.judge(regrouped(series))


class TestAveraging(OfSeries):
    """The same people in other groups."""

    name = "averaging"

    def violation(self, opened):
        series = opened()
        return series.judge(regrouped(series))


class TestCarriedOver(OfSeries):
    """One code of one group changed."""

    name = "carried-over"

    def violation(self, opened):
        series = opened()
        return series.judge([series.groups[0].nudged(3), *series.groups[1:]])


class TestDifferencing(OfSeries):
    """One person missing from a group."""

    name = "differencing"

    def violation(self, opened):
        series = opened()
        larger = next(group for group in series.groups if len(group.members) >= ms.K)
        others = [group for group in series.groups if group is not larger]
        return series.judge([*others, series.mean_of(larger.members[1:])])


class TestCohorts(OfSeries):
    """A cohort of k people."""

    name = "cohorts"

    def violation(self, opened):
        series = opened()
        return series.judge([*series.groups, series.mean_of(range(150, 150 + ms.K))])


class TestCatalogue(OfSeries):
    """An item that is not listed any more."""

    name = "catalogue"

    def violation(self, opened):
        series = opened()
        shorter = [group.but(items=tuple(range(59)), codes=group.codes[:59]) for group in series.groups]
        return series.judge(shorter, n_items=59)


class TestPublicFigures(OfSeries):
    """The exact number of people who wait."""

    name = "public-figures"

    def violation(self, opened):
        return opened().judge(manifest={"withheld": {"users": 178, "items": 0, "why": ""}})
