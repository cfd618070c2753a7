"""Test the check of published counts of raters: what is right passes, and every planted violation is refused."""

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_support import GROUPS, ITEMS, K, cells_by_rule, count, release, write_support

from checks import gate
from checks.recovery import support_cells
from checks.registry import registered
from tasks.kernels.support import Counts, published_cells


def judged(tmp_path, cells, change=lambda made_release: made_release, released=None):
    """Put the counts beside the release and run the check."""
    released = change(release() if released is None else released)
    published, private = made.write(released, tmp_path / "release")
    write_support(published, cells)
    made.seal(published)
    case = made.reopen(released, published, private)
    return gate.run_check(registered()["support-disclosure"], case, 0)


def test_counts_by_the_rule_pass(tmp_path):
    found = judged(tmp_path, cells_by_rule(release()))
    assert (found.passed, found.applicable, found.void) == (True, True, False), found.detail
    assert found.observed == 0
    assert found.n == (cells_by_rule(release()) > 0).sum()


def test_without_counts_it_is_not_applicable(tmp_path):
    found = gate.run_check(registered()["support-disclosure"], made.case(release(), tmp_path / "release"), 0)
    assert (found.passed, found.applicable, found.void) == (True, False, False)


def test_exact_counts_fail(tmp_path):
    """Unrounded counts of every cell: neither the rounding nor the limit of half of the group is kept."""
    found = judged(tmp_path, count(release()))
    assert not found.passed
    assert "are not rounded" in found.detail
    assert "above half of the group" in found.detail
    assert not found.void


def test_a_count_of_the_whole_group_fails(tmp_path):
    """One cell says that all twelve members rated an item."""
    released = release(everybody=(3, 5))
    cells = cells_by_rule(released)
    assert count(released)[3, 5] == K
    cells[3, 5] = K
    found = judged(tmp_path, cells, released=released)
    assert not found.passed
    assert f"{K:,} members have a certain link" in found.detail


def test_a_blank_that_is_certain_fails(tmp_path):
    """Everybody of one group rated an item, half of every other one: the only blank cell can be read."""
    released = release(only_blank=(3, 7))
    counts = count(released)
    assert counts[3, 7] == K
    assert (np.delete(counts[:, 7], 3) == K // 2).all()
    cells = cells_by_rule(released)
    cells[:, 7] = np.where(counts[:, 7] <= K // 2, counts[:, 7] // 3 * 3, 0)
    found = judged(tmp_path, cells, released=released)
    assert not found.passed
    assert f"{K:,} members have a certain link" in found.detail


@pytest.mark.parametrize("step", [-3, 3])
def test_one_edited_cell_fails(tmp_path, step):
    cells = cells_by_rule(release())
    group, item = np.argwhere(cells == (6 if step < 0 else 3))[0]
    cells[group, item] += step
    found = judged(tmp_path, cells)
    assert not found.passed
    assert "below the real count: 1" in found.detail or "1 do not lie within" in found.detail


def test_leaving_out_the_highest_counts_fails(tmp_path):
    """What is left out must be drawn by chance: otherwise a blank cell says what would have been there."""
    cells = cells_by_rule(release())
    found = judged(tmp_path, np.where(cells == 6, 0, cells))
    assert not found.passed
    assert "the counts left out differ" in found.detail


def test_leaving_out_cells_by_chance_passes(tmp_path):
    cells = cells_by_rule(release())
    drawn = np.random.default_rng(2).random(cells.shape) < 0.3
    found = judged(tmp_path, np.where(drawn, 0, cells))
    assert found.passed, found.detail


def test_a_count_of_nobody_fails(tmp_path):
    cells = cells_by_rule(release())
    group, item = np.argwhere(count(release()) == 0)[0]
    cells[group, item] = 3
    assert not judged(tmp_path, cells).passed


def test_counts_of_small_groups_fail(tmp_path):
    """The release promises k = 5 only, though its groups are larger."""
    found = judged(tmp_path, cells_by_rule(release()), lambda one: one.but(k=5))
    assert not found.passed
    assert "k = 5" in found.detail


def test_counts_in_steps_of_two_fail(tmp_path):
    found = judged(tmp_path, cells_by_rule(release()), lambda one: one.but(c=2))
    assert not found.passed


def test_posterior_by_hand():
    """Four groups of ten; an item's counts are 9, 9, 3 and 0, and 3 is shown: 18 of 30 people behind blank cells."""
    one = {name: np.zeros((1, 4)) for name in support_cells.SUMS}
    one["links"][0, 0], one["shown_links"][0, 0], one["shown_people"][0, 0] = 21, 3, 10
    one["allowed"][0, 0] = 1
    tallies = support_cells.Tallies(
        **one,
        squares=np.array([(81 + 81 + 9) / 10]),
        people=np.array([40.0, 0, 0, 0]),
        sizes=np.full(4, 10),
        wrong={},
        certain=0,
        c=3,
    )
    found = support_cells.confidence_in_blanks(tallies)
    assert found.by_attacker["who knows the item's counts"] == pytest.approx(0.6)
    assert support_cells.allowed(np.array([21 / 40]))[0] == pytest.approx(0.625)
    assert found.by_attacker["who also knows the groups' activity"] == pytest.approx(0.6)


def test_other_columns_are_refused(tmp_path):
    released = release()
    published, _ = made.write(released, tmp_path / "release")
    pq.write_table(pa.table({"group": pa.array([0], pa.int32())}), published / "support.parquet")
    made.seal(published)
    verdict = gate.verify(published)
    assert not verdict.passed
    assert "support.parquet" in verdict.checks[0].detail or "columns" in verdict.checks[0].detail


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(0, 1, 3), (0, 0, 3)], "out of order"),
        ([(0, 1, 3), (0, 1, 3)], "out of order or twice"),
        ([(0, ITEMS, 3)], "of no group or no item"),
        ([(GROUPS, 0, 3)], "of no group or no item"),
        ([(0, 1, 0)], "not positive"),
    ],
)
def test_damaged_files_fail_integrity(tmp_path, rows, words):
    published, _ = made.write(release(), tmp_path / "release")
    columns = {
        name: pa.array([row[at] for row in rows], pa.int32())
        for at, name in enumerate(("group", "item", "raters"))
    }
    pq.write_table(pa.table(columns), published / "support.parquet")
    made.seal(published)
    [integrity] = [one for one in gate.verify(published).checks if one.name == "integrity"]
    assert not integrity.passed
    assert words in integrity.detail


def test_what_is_made_passes(tmp_path):
    """The program's choice of cells passes the judge. Groups are alike, so that cells must be left out."""
    released = release(alike=True)
    counts = count(released)
    group, item = np.nonzero(counts)
    sizes = np.bincount(released.group_of)
    made_counts = Counts(group, item, counts[group, item], sizes, ITEMS)
    shown = published_cells(made_counts, 3, np.random.default_rng(0))
    cells = np.zeros_like(counts)
    cells[group[shown], item[shown]] = counts[group[shown], item[shown]] // 3 * 3
    found = judged(tmp_path, cells, released=released)
    assert found.observed == 0, found.detail
    may = (counts >= 3) & (2 * counts <= K)
    assert 0 < (may & (cells == 0)).sum() < may.sum() / 2, "some are left out, and not most"


def test_all_counts_that_the_rule_allows_are_too_many(tmp_path):
    """Where none is left out, a blank cell of an item that nearly half of the people rated has a high count."""
    counts = count(release(alike=True))
    cells = np.where((counts >= 3) & (2 * counts <= K), counts // 3 * 3, 0)
    found = judged(tmp_path, cells, released=release(alike=True))
    assert not found.passed
    assert " 0 items exceed" not in found.detail
