"""Test the sample of groups: it holds what the whole release has there, and promises are never sampled."""

import dataclasses

import made_releases as made
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.evidence.case import Case
from checks.evidence.profiles import Profiles
from checks.evidence.release_view import ReleaseView
from checks.evidence.views import sample
from checks.evidence.views.sample import SampledRelease, sample_text, sampled, select_rows
from checks.recovery import outlying_cells as flags
from checks.recovery.cell_baseline import CellBaseline
from checks.recovery.low_rank_fit import item_means, robust_fit
from checks.recovery.real_cells import RealCells, hold_real_ratings
from checks.recovery.whole_release_baseline import extend_to_all_groups
from checks.registry import registered


def result(case, name):
    check = registered()[name]
    return check.run(case, check.threshold)


def table(case):
    return np.concatenate([block.table() for block in case.release.blocks()])


@pytest.fixture
def some(monkeypatch):
    """From here on, 20 groups of 200 items are a sample."""
    monkeypatch.setattr(sample, "MOST_CELLS", 20 * 200)


def test_a_small_release_is_taken_whole(case):
    opened = case()
    part = sampled(opened, "test")
    assert part is opened
    assert sample_text(part, opened) == ""


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_a_sample_has_its_groups_people_and_ratings(case, some, name):
    opened = case(name)
    part = sampled(opened, "test")
    chosen = part.release.groups  # made releases are numbered by row
    assert len(chosen) == part.release.n_groups == 20
    assert np.array_equal(table(part), table(opened)[chosen], equal_nan=True)
    assert part.release.lengths.tolist() == opened.release.lengths[chosen].tolist()
    assert part.release.complete == opened.release.complete
    assert part.members.tolist() == opened.members[chosen].tolist()
    assert part.release.listed.tolist() == opened.release.listed[chosen].tolist()
    assert part.single is False
    whole, here = RealCells.of(opened), RealCells.of(part)
    wanted = np.isin(whole.groups, chosen)
    assert chosen[here.groups].tolist() == whole.groups[wanted].tolist()
    for column in ("items", "number", "total", "published", "rater"):
        assert np.array_equal(getattr(here, column), getattr(whole, column)[wanted], equal_nan=True)
    assert part.truth.ratings is opened.truth.ratings  # all ratings stay known
    assert f"20 of {opened.release.n_groups} groups" in sample_text(part, opened)


def test_sample_follows_from_the_fingerprint(case, some):
    opened = case()
    other = dataclasses.replace(opened, given_truth=dataclasses.replace(opened.truth, salt="another"))
    first, again, else_ = (sampled(c, "test").release.groups.tolist() for c in (opened, opened, other))
    assert first == again != else_
    assert sampled(opened, "another check").release.groups.tolist() != first


def test_real_cells_by_hand(tmp_path):
    ratings = made.csr(
        np.array([0, 0, 1, 2, 3]), np.array([0, 1, 0, 2, 2]), np.array([5, 4, 1, 2, 3]), (4, 3)
    )
    values = np.array([[3, 4, np.nan], [2, np.nan, 2]], dtype=np.float32)
    opened = made.case(made.Made(ratings, np.array([0, 0, 1, 1]), values, k=2), tmp_path / "hand")
    cells = RealCells.of(opened)
    assert list(zip(cells.groups, cells.items, cells.number, cells.total, strict=True)) == [
        (0, 0, 2, 6),
        (0, 1, 1, 4),
        (1, 2, 2, 5),
    ]
    assert cells.published.tolist() == pytest.approx([3, 4, 2], abs=1e-6)
    assert cells.rows(1, 1) == slice(2, 3)
    assert hold_real_ratings(opened, np.array([0, 1, 2, 5])).tolist() == [True, True, False, True]
    assert sorted(cells.rated.tolist()) == [1, 1, 1, 2]
    assert sorted(cells.rating_sums.tolist()) == [1, 2, 3, 9]


lists = st.lists(st.sets(st.integers(0, 5), max_size=6), min_size=1, max_size=12)


@settings(deadline=None)
@given(lists, st.booleans(), st.integers(1, 4), st.data())
def test_selected_rows_are_the_chosen_rows(items, dense, size, data):
    items = [set(range(6)) for _ in items] if dense else items
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, len(items) - 1), min_size=1))))
    blocks = []
    for start in range(0, len(items), size):
        rows = [sorted(own) for own in items[start : start + size]]
        indptr = np.cumsum([0, *map(len, rows)])
        flat = np.array([item for row in rows for item in row], dtype=np.int32)
        codes = ((flat + 7 * np.repeat(np.arange(len(rows)) + start, np.diff(indptr))) % 40).astype(np.uint8)
        blocks.append(Profiles(start, indptr, None if dense else flat, codes, 6, 1.0, 0.1))
    whole = np.concatenate([block.table() for block in blocks])
    picked = np.concatenate([select_rows(block, chosen).table() for block in blocks])
    assert np.array_equal(picked, whole[chosen], equal_nan=True)

    class Whole:
        n_items = 6
        rows_per_block = ReleaseView.rows_per_block

        def blocks(self):
            return iter(blocks)

    gathered = sample._gathered(Whole(), chosen)  # type: ignore[arg-type]
    assert np.array_equal(np.concatenate([g.table() for g in gathered]), whole[chosen], equal_nan=True)
    assert [g.start for g in gathered] == np.cumsum([0, *(g.rows for g in gathered)])[:-1].tolist()


def test_recovery_on_a_sample_separates_good_from_bad(case, monkeypatch):
    monkeypatch.setattr(sample, "MOST_CELLS", 40 * 200)
    good, bad = (result(case(name), "recovery") for name in ("padded", "observed kept"))
    assert good.passed
    assert good.control
    assert not bad.passed
    assert (
        "ratings and control: 40 of 60 groups, drawn by the release's fingerprint; flags are of all 60"
        in good.detail
    )


@pytest.mark.slow
def test_leak_outside_the_sample_is_found(tmp_path, monkeypatch):
    ratings = made.synthetic(users=1000, items=1500, density=0.08)
    good = made.grouped(ratings, 5)
    leaking = made.grouped(ratings, 5, keep_observed=True, c=1)
    assert good.group_of.tolist() == leaking.group_of.tolist()
    monkeypatch.setattr(sample, "MOST_CELLS", 60 * 1500)  # of 200 groups
    clean = made.case(good, tmp_path / "clean")
    assert result(clean, "recovery").passed
    values = good.values.copy()
    values[:8] = leaking.values[:8]
    opened = made.case(good.but(values=values), tmp_path / "few")
    # Only what lies outside the sample may give it away.
    monkeypatch.setattr(Case, "draw", lambda *_: _Outside(8))
    assert sampled(opened, "recovery").release.groups.min() >= 8
    found = result(opened, "recovery")
    assert not found.passed
    assert found.control
    assert "links" in found.detail


class _Outside:
    """Draws groups, but never one of the first."""

    def __init__(self, first):
        self.first = first

    def choice(self, count, most, replace):
        return self.first + np.random.default_rng(0).choice(count - self.first, most, replace=replace)


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_extended_baseline_matches_a_fit_of_all_groups(case, monkeypatch, name):
    opened = case(name)
    cells = RealCells.of(opened)
    whole = CellBaseline.fitted(opened, cells)
    monkeypatch.setattr(sample, "MOST_CELLS", 20 * 200)
    part = sampled(opened, "test")
    found = extend_to_all_groups(opened, CellBaseline.fitted(part, RealCells.of(part)))
    assert found.share.tolist() == whole.share.tolist()
    assert found.overall == whole.overall
    there = np.concatenate([block.pattern().toarray() for block in opened.release.blocks()]) > 0
    keys = np.flatnonzero(there)
    assert found.of(keys) == pytest.approx(whole.of(keys), abs=0.03)
    assert found.open_cells.sum() == pytest.approx(whole.open_cells.sum(), rel=0.05)


def test_unfitted_groups_are_solved_by_item_factors():
    rng = np.random.default_rng(4)
    true = 3 + rng.normal(0, 0.5, (90, 3)) @ rng.normal(0, 0.5, (3, 120)).astype(np.float32)
    table = true.astype(np.float32)
    table[rng.random(table.shape) < 0.1] = np.nan
    table[80:][rng.random((10, 120)) < 0.05] += 1  # in groups the fit does not see
    fit = robust_fit(lambda: [(0, table[:60])], (60, 120), 3, 0.1)
    assert fit.basis.T @ fit.basis == pytest.approx(np.eye(3), abs=1e-4)
    assert np.abs(fit.solved(table[60:]) - true[60:]).max() < 0.05
    assert np.abs(fit.solved(table[:60]) - fit.rows(0, 60)).max() < 0.05
    means = item_means(lambda: [(0, table[:60])], (60, 120))
    assert means.solved(table[60:]) == pytest.approx(np.tile(means.mean, (30, 1)))


scores = st.lists(st.integers(0, 6).map(lambda n: n / 2), min_size=1, max_size=40)


@given(scores, st.integers(1, 12), st.integers(1, 9))
def test_largest_of_a_stream_are_the_largest_of_all(values, size, block):
    values = np.array(values, np.float32)
    head = flags._Largest(size)
    for start in range(0, len(values), block):
        part = values[start : start + block]
        enough = np.flatnonzero(part >= head.least)
        head.add(enough + start, part[enough])
    assert head.keys().tolist() == np.lexsort((np.arange(len(values)), -values))[:size].tolist()


def test_contributors_are_counted_in_all_groups(case, monkeypatch):
    whole = [result(case(name), "contributors") for name in ("padded", "single contributors")]
    monkeypatch.setattr(sample, "MOST_CELLS", 20 * 200)
    part = [result(case(name), "contributors") for name in ("padded", "single contributors")]
    assert [found.n for found in part] == [found.n for found in whole]
    assert [found.passed for found in part] == [True, False]
    assert "chance was estimated in 20 of them" in part[0].detail
    assert "estimated in" not in whole[0].detail


def test_a_sampled_release_is_closed_like_any(case, some):
    part = sampled(case(), "test").release
    assert isinstance(part, SampledRelease)
    part.close()
    assert len(list(part.blocks())) == 1
