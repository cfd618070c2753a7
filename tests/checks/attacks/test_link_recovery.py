"""Test the spectral attack on links: what it flags, what it is compared with, and whom it exposes."""

import made_releases as made
import numpy as np
import pytest

from checks.attacks import link_recovery
from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.flagged_links import Flags, flag_links, rare_items
from checks.recovery.rare_baseline import extend_rare_baseline, fit_rare_baseline
from checks.recovery.rating_model import fit_taste
from checks.recovery.real_cells import RealCells
from checks.recovery.spectral import Score, centred, find_directions


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A release of 80 groups and 600 items, whose model was fitted on its members."""
    release = made.grouped(made.synthetic(400, 600, 0.04), 5, rank=8)
    return made.case(release, tmp_path_factory.mktemp("links") / "release")


def held(case):
    blocks = [(block.start, block.table()) for block in case.release.blocks()]
    return lambda: blocks


def test_centred_values_by_hand():
    table = np.array([[1, 3, np.nan], [5, 5, 5]], np.float32)
    mean = np.array([3, 4, 5], np.float32)
    # Less the means: [-2, -1, none] of level -1.5, and [2, 1, 0] of level 1.
    assert centred(table, mean).tolist() == [[-0.5, 0.5, 0], [1, 0, -1]]


def test_directions_of_a_low_rank_release():
    rng = np.random.default_rng(0)
    table = (3 + rng.normal(size=(40, 2)) @ rng.normal(size=(2, 60))).astype(np.float32)
    whole = find_directions(lambda: [(0, table)], table.shape)
    parts = find_directions(lambda: [(0, table[:13]), (13, table[13:])], table.shape)
    exact = np.linalg.svd(centred(table, table.mean(axis=0)), compute_uv=False)
    assert whole.strength[:2] == pytest.approx(exact[:2], rel=1e-3)
    assert np.abs(whole.basis[:, :2].T @ parts.basis[:, :2]) == pytest.approx(np.eye(2), abs=1e-2)
    groups = whole.groups(table)[:, :2]
    assert groups.T @ groups == pytest.approx(np.eye(2), abs=1e-2)
    lengths = np.linalg.norm(whole.items(Score(2, True, True)), axis=1)
    assert lengths == pytest.approx(np.ones(60), abs=1e-4)


def test_what_is_left_over_of_a_low_rank_release():
    """One cell of a release of rank 2 was moved: nothing else stands out of what rank 2 explains."""
    rng = np.random.default_rng(0)
    table = (3 + rng.normal(size=(40, 2)) @ rng.normal(size=(2, 60))).astype(np.float32)
    directions = find_directions(lambda: [(0, table)], table.shape)
    moved = table.copy()
    moved[7, 11] += 0.5
    score = Score(2, False, False, left_over=True)
    rest = directions.groups(moved)[:, :2] @ directions.items(score).T - centred(moved, directions.mean)
    assert np.unravel_index(np.abs(rest).argmax(), rest.shape) == (7, 11)
    assert np.abs(rest[7, 11]) == pytest.approx(0.5, abs=0.1)
    assert np.abs(np.delete(rest, 7, axis=0)).max() < 1e-3


def test_rated_cells_that_stand_out_are_refused(tmp_path):
    """A hundred cells of rare items that were rated are a little higher than predicted: their ratings cannot be read,
    but that they are ratings can."""
    release = made.grouped(made.synthetic(600, 800, 0.015), 5, rank=4, rare=21, reg=0.4)
    good = made.case(release, tmp_path / "good")
    assert link_recovery.run(good, 0.1).passed
    cells = RealCells.of(good)
    rare = np.isin(cells.items, rare_items(CellBaseline.fitted(good, cells)))
    chosen = np.random.default_rng(2).choice(np.flatnonzero(rare), 100, replace=False)
    values = release.values.copy()
    values[cells.groups[chosen], cells.items[chosen]] += 0.3
    found = link_recovery.run(made.case(release.but(values=values), tmp_path / "nudged"), 0.1)
    assert not found.passed
    assert "left over" in found.detail


def test_the_rare_baseline_adds_up_and_serves_the_whole(opened):
    cells, tables = RealCells.of(opened), held(opened)
    chance = CellBaseline.fitted(opened, cells)
    items = rare_items(chance)
    rare = fit_rare_baseline(opened, cells, tables, items, chance)
    groups = opened.release.n_groups
    keys = (np.arange(groups)[:, None] * opened.release.n_items + items).ravel()
    expected = rare.of(keys).reshape(groups, -1)
    real = np.zeros((groups, opened.release.n_items))
    real[cells.groups, cells.items] = 1
    assert expected.sum(axis=1) == pytest.approx(real[:, items].sum(axis=1), abs=0.5)
    assert expected.sum(axis=0) == pytest.approx(real[:, items].sum(axis=0), abs=0.5)
    extended = extend_rare_baseline(opened, rare, items)
    assert extended.activity == pytest.approx(rare.activity, rel=0.05, abs=0.05)


def test_flags_are_the_highest_scores_whatever_the_blocks(opened):
    cells = RealCells.of(opened)
    chance = CellBaseline.fitted(opened, cells)
    items, tables = rare_items(chance), held(opened)
    shape = (opened.release.n_groups, opened.release.n_items)
    directions = find_directions(tables, shape)
    whole = np.concatenate([table for _, table in tables()])
    one = flag_links(lambda: [(0, whole)], directions, chance, items)
    two = flag_links(lambda: [(0, whole[:31]), (31, whole[31:])], directions, chance, items)
    for first, second in zip(one, two, strict=True):
        assert len(np.setdiff1d(first.overall, second.overall)) <= 0.02 * len(first.overall)
        assert len(first.of_groups) in (0, len(whole))
        inside = first.of_groups[first.of_groups >= 0]
        assert np.isin(inside % opened.release.n_items, items).all()


def test_taste_never_sees_the_attacked_people():
    """People of one half change nothing of the other half's factors."""
    ratings = made.synthetic(120, 80, 0.3)
    model = fit_taste(ratings[:60], 4.0, np.random.default_rng(0))
    other = ratings.copy()
    other.data[other.indptr[60] :] = 1
    again = fit_taste(other[:60], 4.0, np.random.default_rng(0))
    assert (model.items == again.items).all()
    error = ratings[60:].toarray()
    table = model.profiles(model.people(ratings[60:]))
    rated = error > 0
    assert np.sqrt(np.mean((table[rated] - error[rated]) ** 2)) < ratings.data.std()


def test_a_group_whose_flags_are_all_real_is_exposed(opened, monkeypatch):
    """Flags that a clairvoyant would draw: of one group everything it really rated; of the others what they did not."""
    cells = RealCells.of(opened)
    chance = CellBaseline.fitted(opened, cells)
    n_items, groups = opened.release.n_items, opened.release.n_groups
    real = np.zeros((groups, n_items), bool)
    real[cells.groups, cells.items] = True
    unlikely = chance.share <= 0.2
    flags = np.full((groups, 50), -1)
    busiest = int((real & unlikely).sum(axis=1).argmax())
    for group in range(groups):
        items = np.flatnonzero(unlikely & (real[group] == (group == busiest)))[:50]
        flags[group, : len(items)] = group * n_items + items
    found = [Flags(Score(4, True, True), flags[flags >= 0], flags)]
    assert link_recovery._exposed(opened, chance, found)[0] == 1
    found = [Flags(Score(4, True, True), flags[flags >= 0], np.roll(flags, 1, axis=0) * 0 - 1)]
    assert link_recovery._exposed(opened, chance, found) == (0, 0)


def test_simple_releases_are_left_to_link_existence(case):
    found = link_recovery.run(case("simple"), 0.1)
    assert found.passed
    assert not found.applicable
