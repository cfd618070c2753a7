"""Test the whitened view of a release, and the signals of membership that it gives."""

import made_releases as made
import numpy as np
import pytest

from checks.evidence import release_view
from checks.evidence.views.raw import raw_view
from checks.linkage import whitened_view as whitened
from checks.linkage.knowledge import Knowledge
from checks.linkage.whitened_signals import POWERS, RIDGE, SIGNALS, measure_whitened_signals
from checks.linkage.whitened_view import WhitenedView, whitened_view


def low_rank(groups=40, items=60, rank=3, seed=1):
    draw = np.random.default_rng(seed)
    table = 3 + 0.2 * draw.normal(size=(groups, rank)) @ draw.normal(size=(rank, items))
    return np.clip(table, 1, 5)


def opened(values, root, **changes):
    ratings = made.synthetic(len(values) * 5, values.shape[1], 0.2)
    release = made.Made(ratings, np.arange(len(values) * 5) // 5, values.astype(np.float32), k=5)
    return made.case(release.but(**changes), root)


@pytest.mark.parametrize("blocks", [1, 4])
def test_directions_are_those_of_the_decomposition(tmp_path, monkeypatch, blocks):
    monkeypatch.setattr(release_view, "BLOCK_CELLS", 40 * 60 // blocks)
    values = low_rank()
    view = whitened_view(opened(values, tmp_path / "x", step=0.0))
    rest = values - values.mean(axis=0)
    rest -= rest.mean(axis=1, keepdims=True)
    left, spectrum, right = np.linalg.svd(rest, full_matrices=False)
    assert view.values[:3] == pytest.approx(spectrum[:3], rel=1e-4)
    assert np.abs(np.sum(view.items[:, :3] * right[:3].T, axis=0)) == pytest.approx(np.ones(3), abs=1e-3)
    assert np.abs(np.sum(view.groups[:, :3] * left[:, :3], axis=0)) == pytest.approx(np.ones(3), abs=1e-3)
    assert np.linalg.norm(view.unit_items, axis=1) == pytest.approx(np.ones(60))


def test_directions_below_the_noise_of_rounding_are_dropped(tmp_path):
    table = low_rank()
    assert len(whitened_view(opened(table, tmp_path / "x", step=0.1)).values) == 3
    flat = whitened_view(opened(np.full((40, 60), 3.0), tmp_path / "y", step=0.1))
    assert flat.items.shape == (60, 0)


def test_gaps_count_as_the_mean(tmp_path):
    """A sparse release gives the directions of its table with the gaps filled."""
    values = low_rank()
    values[np.random.default_rng(2).random(values.shape) < 0.3] = np.nan
    view = whitened_view(opened(values, tmp_path / "x", step=0.0, method="predictive-simple"))
    rest = values - np.nanmean(values, axis=0)
    rest = np.nan_to_num(rest - np.nanmean(rest, axis=1, keepdims=True))
    assert view.values[:3] == pytest.approx(np.linalg.svd(rest)[1][:3], rel=1e-4)


def test_single_records_have_a_view_too(case):
    assert len(whitened_view(raw_view(case())).values) == whitened.MOST_DIRECTIONS


def test_signals_by_hand(case):
    """Two directions, four items; item means 3. The first person's ratings lie in the first direction."""
    shadow = case()
    items = np.zeros((shadow.release.n_items, 2))
    items[:4] = [[1, 0], [-2, 0], [0, 1], [0, -1]]
    shadow._cache["whitened"] = WhitenedView(np.zeros((1, 2)), items, np.ones(2))
    shadow.__dict__["item_means"] = np.full(shadow.release.n_items, 3.0)
    shadow.truth.__dict__["item_totals"] = (
        np.full(shadow.release.n_items, 4),
        np.zeros(shadow.release.n_items),
    )
    known = Knowledge(
        "by hand", np.arange(4), np.array([0, 2, 4, 5, 7]), np.array([0, 1, 0, 2, 3, 0, 1]),
        np.float32([5, 1, 5, 1, 4, 4, 4]),
    )  # fmt: skip
    found = measure_whitened_signals(shadow, known)
    assert found.shape == (4, len(SIGNALS))
    # First: residuals 2 and −2 on directions 1 and −1: one slope 4 / (2 + ridge), errors 2 − slope. Left out, each is
    # predicted by the other: 2 / (1 + ridge). Second: on directions of their own, slopes 2 / (1 + ridge); left out,
    # nothing predicts them. All items have four raters, so every power weighs them alike.
    first = [1 - (1 - 2 / (2 + RIDGE)) ** 2, 1 - (1 - 1 / (1 + RIDGE)) ** 2]
    second = [1 - (1 - 1 / (1 + RIDGE)) ** 2, 0]
    assert found[0].tolist() == pytest.approx(first * len(POWERS))
    assert found[1].tolist() == pytest.approx(second * len(POWERS))
    assert (found[2:] == 0).all()  # one rating, or equal ones, have no direction


def test_rare_items_weigh_more(case):
    """The first item has one rater and is explained, the second has sixteen and has no direction."""
    shadow = case()
    items = np.zeros((shadow.release.n_items, 1))
    items[0] = 1
    shadow._cache["whitened"] = WhitenedView(np.zeros((1, 1)), items, np.ones(1))
    shadow.__dict__["item_means"] = np.zeros(shadow.release.n_items)
    raters = np.full(shadow.release.n_items, 16)
    raters[0] = 1
    shadow.truth.__dict__["item_totals"] = (raters, np.zeros(len(raters)))
    known = Knowledge("by hand", np.arange(1), np.array([0, 2]), np.array([0, 1]), np.float32([5, 1]))
    for place, power in enumerate(POWERS):
        weight = np.array([1, 16**-power]) * 2 / (1 + 16**-power)
        rest = np.array([5, 1]) - (weight * [5, 1]).mean()
        error = rest * [RIDGE / (weight[0] + RIDGE), 1]
        expected = 1 - (weight * error**2).sum() / (weight * rest**2).sum()
        assert measure_whitened_signals(shadow, known)[0, 2 * place] == pytest.approx(expected)
