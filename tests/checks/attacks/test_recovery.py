"""Test the recovery attack and related checks: they find real ratings, and only those."""

import made_releases as made
import numpy as np
import pytest
from made_verbatim import sole_cells, verbatim

from checks.attacks import recovery
from checks.evidence.case import Case
from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.gain import gain_of_few
from checks.recovery.low_rank_fit import hold_tables, item_means, read_tables, robust_fit
from checks.recovery.outlying_cells import _largest_of_rows
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


@pytest.fixture(scope="module")
def large():
    """A padded release with forty thousand cells."""
    return made.grouped(made.synthetic(500, 400, 0.06), 5, rank=4, rare=21, reg=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["any", "at the ends of the scale"])
def test_a_hundred_verbatim_cells_are_found_by_small_heads(large, tmp_path, which):
    ratings = sole_cells(large)[3]
    among = np.arange(len(ratings)) if which == "any" else np.flatnonzero((ratings == 1) | (ratings == 5))
    chosen = np.random.default_rng(1).choice(among, 100, replace=False)
    clean = result(made.case(large, tmp_path / "clean"), "recovery")
    assert clean.passed, clean.detail
    assert "Exposed: 0 groups, 0 people" in clean.detail
    found = result(made.case(verbatim(large, chosen), tmp_path / "verbatim"), "recovery")
    assert not found.passed
    assert found.control
    assert found.observed > 0.9
    assert "flagged ratings" in found.detail.split(".")[0]
    averages = [each.risk.gain_interval[1] for each in found.outcomes if each.risk.n > 400]
    assert averages
    assert max(averages) < 0.5  # the averages alone would pass it


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3])
def test_groups_whose_outlying_ratings_are_readable_are_exposed(large, tmp_path, number):
    """All flags lie in one or three groups, so a head shows nothing about the release; these groups are exposed."""
    groups, items, _, ratings = sole_cells(large)
    away = np.abs(ratings - large.values[groups, items])
    order = np.argsort(-away, kind="stable")
    chosen = [order[groups[order] == group][:40] for group in (10, 40, 70)[:number]]
    found = result(made.case(verbatim(large, np.concatenate(chosen)), tmp_path / "groups"), "recovery")
    assert not found.passed
    assert f"Exposed: {number} groups" in found.detail


def test_one_person_whose_outlying_ratings_are_readable_is_exposed(large, tmp_path):
    """Forty of one person's ratings, too few groups for a head to be sure of anything."""
    _, _, people, _ = sole_cells(large)
    person = np.bincount(people).argmax()
    own = np.flatnonzero(people == person)
    found = result(made.case(verbatim(large, own), tmp_path / "person"), "recovery")
    assert not found.passed
    assert ", 1 people" in found.detail


def test_a_small_head_is_judged_at_the_lower_bound_and_by_groups():
    """40 of 50 right where 5 are expected; flags of one group say no more than one flag does."""
    right, expected = np.arange(50) < 40, np.full(50, 0.1)
    apart = gain_of_few("links", "by hand", np.arange(50), right, expected)
    assert apart.risk.gain == pytest.approx((0.8 - 0.1) / 0.9)
    # Wilson's lower bound of 40 of 50 is 0.6666, less what is expected: (0.6666 − 0.1) / 0.9.
    assert apart.decisive == pytest.approx(0.6296, abs=1e-3)
    together = gain_of_few("links", "by hand", np.zeros(50), right, expected)
    assert together.decisive < 0.2
    assert gain_of_few("links", "by hand", np.arange(50), right, np.full(50, 0.6)) is None


def test_the_largest_residuals_of_a_group_by_hand():
    table = np.array([[3, 3.5, np.nan, 1, 3.2], [3, 3, 3, 3, 3]], np.float32)
    best = np.full((2, 3), -1)
    scale, popularity = np.array([3, 2, 2], np.float32), np.array([0.1, 0.1, 0.1, 0.1, 9])
    _largest_of_rows(table, np.full((2, 5), 3, np.float32), scale, np.array([1.0, 1.0]), popularity, best)
    # Item 4 is nearly certain anyway, item 2 not published; a residual of zero is none.
    assert best.tolist() == [[3, 1, -1], [-1, -1, -1]]


def test_links_are_judged_only_where_a_release_hides_them(case):
    """A simple release lists what its members rated; a padded one hides it among all items."""
    simple, padded = (result(case(name), "recovery").detail for name in ("simple", "padded"))
    assert "Links are not judged: 100.0% of the published cells are real anyway" in simple
    assert "not judged" not in padded


def test_the_control_dies_with_the_attack(case, monkeypatch):
    monkeypatch.setattr(recovery, "attack", lambda *_, **__: recovery.Found([]))
    opened = case()
    cells = RealCells.of(opened)
    published = hold_tables(read_tables(opened.release))
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
