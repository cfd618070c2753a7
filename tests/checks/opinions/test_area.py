"""Test the area under the curve and its interval against hand-worked and brute-force figures."""

import numpy as np
import pytest

from checks.opinions.area import Area, area_under_curve, mean_area


def test_by_hand():
    """Likes 3, 2, 2 against dislikes 1, 2: of six pairs four are right and two tie."""
    score, liked = np.array([3.0, 2, 2, 1, 2]), np.array([True, True, True, False, False])
    found = area_under_curve(score, liked, np.arange(5))
    assert found.value == pytest.approx(5 / 6)
    # Parts of likes 1, 3/4, 3/4, of dislikes 1, 2/3; squared distances from 5/6 over the squared class sizes.
    likes, dislikes = np.array([1, 0.75, 0.75]) - 5 / 6, np.array([1, 2 / 3]) - 5 / 6
    expected = 5 / 4 * ((likes**2).sum() / 9 + (dislikes**2).sum() / 4)
    assert found.error == pytest.approx(np.sqrt(expected))


def test_perfect_reversed_and_unknown():
    score = np.arange(6.0)
    liked = score > 2
    assert area_under_curve(score, liked, score).value == 1
    assert area_under_curve(-score, liked, score).value == 0
    assert area_under_curve(-score, liked, score).turned.value == 1
    assert area_under_curve(-score, liked, score).most == 1
    assert area_under_curve(score, np.ones(6, bool), score).most == 1


def test_error_is_that_of_repeated_draws():
    draw = np.random.default_rng(3)
    found = []
    for _ in range(400):
        liked = draw.random(200) < 0.5
        found.append(area_under_curve(draw.normal(0.4 * liked, 1), liked, np.arange(200)))
    spread = np.std([area.value for area in found])
    assert np.mean([area.error for area in found]) == pytest.approx(spread, rel=0.12)


def test_several_opinions_of_one_person_are_not_independent():
    """Every person's five opinions are the same: the error is that of the people."""
    draw = np.random.default_rng(4)
    liked = draw.random(60) < 0.5
    score = draw.normal(liked, 1)
    one = area_under_curve(score, liked, np.arange(60))
    five = area_under_curve(np.repeat(score, 5), np.repeat(liked, 5), np.repeat(np.arange(60), 5))
    assert five.value == pytest.approx(one.value)
    assert five.error == pytest.approx(one.error)


def test_mean_of_halves():
    found = mean_area([Area(0.6, 0.03), Area(0.7, 0.04)])
    assert found.value == pytest.approx(0.65)
    assert found.error == pytest.approx(0.025)
