"""Test how figures are written and where charts place them, by hand."""

import numpy as np
import pytest

from checks.report import charts
from checks.report.charts import BEYOND_AT, LIMIT_AT, Point, Scale
from checks.report.rendering import decimal, number, quantity, share, with_code


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "not stated"),
        (float("nan"), "not stated"),
        (0, "0"),
        (5.306e-05, "below 0.001"),
        (-5.306e-05, "above −0.001"),
        (0.123456, "0.123"),
        (-1.23456, "−1.23"),
        (12.3456, "12.3"),
        (999.4, "999"),
        (123456, "123,456"),
    ],
)
def test_numbers_have_three_digits(value, said):
    assert number(value) == said


def test_quantities_have_units():
    assert share(0.0212) == "2.12\u00a0%"
    assert quantity(1, "people") == "1\u00a0person"
    assert quantity(2, "contradictions") == "2\u00a0contradictions"
    assert quantity(1, "contradictions") == "1\u00a0contradiction"
    assert quantity(0.57, "") == "0.57"
    assert quantity(None, "people") == "not stated"
    assert (decimal(0.89), decimal(1.0047)) == ("0.890", "1.00")


def test_code_is_set_and_text_is_escaped():
    assert with_code("run `a < b` & go") == "run <code>a &lt; b</code> &amp; go"


def test_a_scale_begins_at_guessing_and_ends_beyond_the_limit():
    scale = Scale(0.5, 0.7)
    assert scale.point(0.5) == Point(0.0)
    assert scale.point(0.4) == Point(0.0)
    assert scale.point(0.6).at == pytest.approx(LIMIT_AT / 2)
    assert scale.point(0.7).at == pytest.approx(LIMIT_AT)
    assert scale.point(0.9) == Point(BEYOND_AT, beyond=True)
    assert scale.point(None) is None


def test_where_nothing_is_allowed_anything_is_beyond():
    assert Scale(0.0, 0.0).point(0.0) == Point(0.0)
    assert Scale(0.0, 0.0).point(1e-6) == Point(BEYOND_AT, beyond=True)


def test_bars_of_two_series_lie_side_by_side_in_their_bin():
    edges = np.array([0.5, 1.5, 2.5])
    plot = charts.histogram(
        edges,
        {"a": np.array([1.0, 4.0]), "b": np.array([2.0, 0.0])},
        title="T",
        x="x",
        y="y",
        caption="c",
        whole=True,
    )
    first, second = plot.series["a"][0], plot.series["b"][0]
    assert 0 <= first.left < first.left + first.width == pytest.approx(second.left)
    assert second.left + second.width < 0.5
    assert [bar.height for bar in plot.series["a"]] == [0.25, 1.0]
    assert plot.words == "T. a: 1: 1, 2: 4; b: 1: 2, 2: 0"
    assert plot.ticks == [(0.25, "1"), (0.75, "2")]


def test_named_bins_are_equally_wide():
    edges = np.array([1, 1.5, 2.5, 3])
    plot = charts.histogram(
        edges,
        {"a": np.array([0.25, 0.5, 0.25])},
        title="T",
        x="x",
        y="y",
        caption="",
        unit="%",
        names=["1", "2", "3"],
    )
    assert len({round(bar.width, 6) for bar in plot.series["a"]}) == 1
    assert plot.highest == "50\u00a0%"


def test_many_sizes_share_bins():
    edges, heights = charts.counts_by_size(np.arange(1, 1001))
    assert len(heights) <= charts.MOST_BARS
    assert heights.sum() == 1000
    edges, heights = charts.counts_by_size(np.array([5, 5, 7]))
    assert edges.tolist() == [4.5, 5.5, 6.5, 7.5]
    assert heights.tolist() == [2, 0, 1]
