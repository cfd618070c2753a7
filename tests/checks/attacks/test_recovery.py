"""Test the recovery attack and related checks: they find real ratings, and only those."""

import made_releases as made
import numpy as np
import pytest

from checks.attacks import recovery
from checks.evidence.case import Case
from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.low_rank_fit import item_means, robust_fit
from checks.recovery.real_cells import RealCells, hold_real_ratings
from checks.registry import registered


def result(case, name):
    check = registered()[name]
    return check.run(case, check.threshold)


def test_predictions_alone_pass(case):
    for name in ("padded", "simple"):
        found = result(case(name), "recovery")
        assert found.passed, found.detail
        assert found.control
        assert found.ci_high < 0.45


def test_observed_ratings_kept_in_the_means_are_found(case):
    found = result(case("observed kept"), "recovery")
    assert not found.passed
    assert found.ci_low > 0.6
    assert "links" in found.detail


def test_single_contributors_are_found_by_both_checks(case):
    opened = case("single contributors")
    for name, least in (("recovery", 0.9), ("contributors", 0.9)):
        found = result(opened, name)
        assert not found.passed
        assert found.ci_low > least
    share = (RealCells.of(opened).number == 1).sum() / opened.truth.ratings.nnz
    assert f"Of all ratings {share:.1%} are published unchanged" in found.detail


def test_contributor_rule_covers_averages_with_a_prediction(case, releases, tmp_path):
    """Half the rating, half a prediction is no protection: the prediction can be guessed and subtracted."""
    good, bad = releases["simple"], releases["single contributors"]
    mixed = good.but(values=(good.values + bad.values) / 2)
    assert not result(made.case(mixed, tmp_path / "mixed"), "recovery").passed


def test_links_are_judged_only_where_a_release_hides_them(case):
    """A simple release lists what its members rated; a padded one hides it among all items."""
    simple, padded = (result(case(name), "recovery").detail for name in ("simple", "padded"))
    assert "Links are not judged: 100.0% of the published cells are real anyway" in simple
    assert "not judged" not in padded


def test_the_control_dies_with_the_attack(case, monkeypatch):
    monkeypatch.setattr(recovery, "attack", lambda *_, **__: [])
    opened = case()
    cells = RealCells.of(opened)
    published = recovery._held((block.start, block.table()) for block in opened.release.blocks())
    succeeded, control_text = recovery._control(
        opened, cells, published, CellBaseline.fitted(opened, cells), 0.5
    )
    assert not succeeded
    assert "nor can" in control_text


def test_too_few_cells_to_attack_fail(tmp_path):
    ratings = made.csr(np.arange(6), np.zeros(6, int), np.full(6, 3.0), (6, 1))
    tiny = made.Made(ratings, np.repeat([0, 1], 3), np.full((2, 1), 3.0, np.float32), k=3)
    found = result(made.case(tiny, tmp_path / "tiny"), "recovery")
    assert not found.passed
    assert "too few cells" in found.detail


def rare_ratings():
    """Ratings with thirty further items that one person each rated, high or low."""
    common = made.synthetic(200, 60, 0.4)
    rng = np.random.default_rng(5)
    users, items = rng.choice(200, 30, replace=False), np.arange(60, 90)
    rows = np.concatenate([np.repeat(np.arange(200), np.diff(common.indptr)), users])
    values = np.concatenate([common.data, rng.choice([1.0, 5.0], 30)])
    return made.csr(rows, np.concatenate([common.indices, items]), values, (200, 90))


def test_rare_items_leak_only_if_the_model_saw_them(tmp_path):
    ratings = rare_ratings()
    ruled = made.case(made.grouped(ratings, 5, rare=3, rank=6), tmp_path / "ruled")
    found = result(ruled, "rare-items")
    assert found.passed
    assert (found.observed, found.n) == (0.0, 30)
    assert not found.applicable
    unruled = made.case(made.grouped(ratings, 5, rare=0, rank=6), tmp_path / "unruled")
    found = result(unruled, "rare-items")
    assert not found.passed
    assert found.observed > 0.7


def test_few_cells_within_chance_pass_and_verbatim_cells_fail(case, monkeypatch):
    found = result(case("padded"), "contributors")
    assert found.passed
    assert found.ci_high < 0.05
    opened = case("single contributors")
    sole = np.flatnonzero(RealCells.of(opened).number == 1)[:5]
    monkeypatch.setattr(Case, "group_blocks", _only(sole))
    found = result(opened, "contributors")
    assert found.n == 5
    assert not found.passed


def _only(places):
    """Blocks in which nothing but these cells (as they are counted over all blocks) is published."""
    whole = Case.group_blocks

    def blocks(case):
        first = 0
        for block in whole(case):
            hidden = ~np.isin(first + np.arange(len(block.items)), places)
            block.published[hidden] = np.nan
            first += len(block.items)
            yield block

    return blocks


def low_rank(groups=60, items=80, rank=3, seed=2):
    rng = np.random.default_rng(seed)
    table = 3 + rng.normal(0, 0.5, (groups, rank)) @ rng.normal(0, 0.5, (rank, items))
    return (table + rng.normal(0, 0.3, items)).astype(np.float32)


def tables(table, rows=17):
    """A table in blocks, as a release is read."""
    return lambda: ((start, table[start : start + rows]) for start in range(0, len(table), rows))


def test_the_fit_is_exact_where_the_release_is_low_rank():
    table = low_rank()
    fit = robust_fit(tables(table), table.shape, 3, 0.0)
    assert np.abs(fit.rows(0, 60) - table).max() < 1e-3
    groups, items = np.array([0, 59, 30]), np.array([79, 0, 12])
    assert fit.cells(groups, items) == pytest.approx(table[groups, items], abs=1e-3)


def test_the_fit_is_not_bent_by_outliers_nor_by_gaps():
    table = low_rank()
    spoiled = np.rint(table / 0.1) * np.float32(0.1)
    rng = np.random.default_rng(0)
    outlier = rng.random(table.shape) < 0.03
    spoiled[outlier] += rng.choice([-0.5, 0.5], outlier.sum()).astype(np.float32)
    spoiled[rng.random(table.shape) < 0.1] = np.nan
    fitted = robust_fit(tables(spoiled), table.shape, 3, 0.1).rows(0, 60)
    assert np.sqrt(np.mean((fitted - table) ** 2)) < 0.03
    assert np.abs(fitted - table)[outlier].mean() < 0.05


def test_the_fit_does_not_depend_on_the_blocks():
    table = low_rank()
    one, many = (robust_fit(tables(table, rows), table.shape, 3, 0.1).rows(0, 60) for rows in (60, 7))
    assert one == pytest.approx(many, abs=1e-3)


def test_item_means_skip_what_is_not_published():
    table = np.array([[1, np.nan], [3, np.nan]], dtype=np.float32)
    assert item_means(tables(table), (2, 2)).mean.tolist() == [2, 2]


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_chance_adds_up_to_the_real_ratings(case, name):
    opened = case(name)
    chance = CellBaseline.fitted(opened, RealCells.of(opened))
    there = np.concatenate([block.pattern().toarray() for block in opened.release.blocks()]) > 0
    keys = np.flatnonzero(there)
    expected = np.zeros(there.shape)
    expected.flat[keys] = chance.of(keys)
    real = hold_real_ratings(opened, np.arange(there.size)).reshape(there.shape) & there
    assert expected.sum(axis=0) == pytest.approx(real.sum(axis=0), abs=0.5)
    assert expected.sum(axis=1) == pytest.approx(real.sum(axis=1), abs=0.5)
