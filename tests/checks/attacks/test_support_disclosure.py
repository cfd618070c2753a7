"""Test the check of published counts of raters: what is right passes, and every planted violation is refused."""

import dataclasses

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_support import GROUPS, ITEMS, K, cells_by_rule, count, release, write_support

from checks import gate
from checks.recovery import support_cells
from checks.registry import registered
from tasks.kernels.support import Counts, shown_counts


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
    """Unrounded counts of every cell: neither the rounding nor the limit is kept."""
    found = judged(tmp_path, count(release()))
    assert not found.passed
    assert "are neither rounded" in found.detail
    assert "are below min_contributors" in found.detail
    assert " 0 items exceed" not in found.detail
    assert not found.void


def test_the_rule_without_top_codes_fails(tmp_path):
    """Counts are rounded, but a group in which nearly everybody rated an item says so."""
    counts = count(release())
    found = judged(tmp_path, np.where(counts >= 3, counts // 3 * 3, 0))
    assert not found.passed
    assert "all follow the rule" not in found.detail or " 0 items exceed" not in found.detail


def test_top_codes_that_are_one_step_too_high_fail(tmp_path):
    """Every item's highest count is raised to the next multiple of three, where counts reach it."""
    counts, cells = count(release()), cells_by_rule(release())
    highest = cells.max(axis=0)
    raised = highest // 3 * 3 + 3
    coded = ((counts >= raised) & (cells == highest)).any(axis=0) & (highest > 0)
    assert coded.sum() > 5
    again = np.where(coded & (counts >= raised), raised, np.where(counts >= 3, counts // 3 * 3, 0))
    found = judged(tmp_path, np.where(coded, again, cells))
    assert not found.passed
    assert " 0 items exceed" not in found.detail


def test_a_count_of_the_whole_group_fails(tmp_path):
    """One cell says that all twelve members rated an item."""
    released = release(everybody=(3, 5))
    cells = cells_by_rule(released)
    assert count(released)[3, 5] == K
    cells[3, 5] = K
    found = judged(tmp_path, cells, released=released)
    assert not found.passed
    assert f"{K:,} members have a certain link" in found.detail


def test_a_highest_count_that_is_certain_fails(tmp_path):
    """Everybody of one group rated an item, half of every other one: its top code alone says that."""
    released = release(only_blank=(3, 7))
    counts = count(released)
    assert counts[3, 7] == K
    assert (np.delete(counts[:, 7], 3) == K // 2).all()
    cells = cells_by_rule(released)
    cells[:, 7] = np.where(counts[:, 7] > K // 2, K // 2 + 1, counts[:, 7] // 3 * 3)
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
    assert ("1 show more members" if step > 0 else "1 do not lie within") in found.detail


def test_leaving_out_a_count_fails(tmp_path):
    """A blank cell says that fewer than three rated the item, and of the others that the rule is kept: who leaves a
    high count out may let its blank cell be read."""
    cells = cells_by_rule(release())
    found = judged(tmp_path, np.where(cells == 6, 0, cells))
    assert not found.passed
    assert "are blank where the rule shows a count" in found.detail


def test_an_item_of_which_nothing_is_shown_passes(tmp_path):
    cells = cells_by_rule(release())
    cells[:, :5] = 0
    found = judged(tmp_path, cells)
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
    """Four groups of ten; an item's counts are 9, 3, 2 and 0. The first two show 3, the highest: 12 of 20 people."""
    one = {name: np.zeros((1, 3)) for name in (*support_cells.SUMS, "most_below")}
    one["links"][:], one["shown_links"][:], one["shown_people"][:] = 14, 12, 20
    one["top_links"][:], one["top_people"][:] = 12, 20
    tallies = support_cells.Tallies(
        **one,
        people=np.array([40, 40, 40]),
        part_of=np.arange(3),
        top=np.array([3]),
        coded=np.array([False]),
        squares=np.array([(81 + 9 + 4) / 10]),
        sizes=np.full(4, 10),
        wrong={},
        c=3,
    )
    found = support_cells.confidence_in_links(tallies)
    assert support_cells.allowed(np.array([14 / 40]))[0] == pytest.approx(0.5)
    assert found.by_attacker["who knows the item's counts"] == pytest.approx(0.6)
    assert found.by_attacker["who also compares groups of one size"] == pytest.approx(0.6)
    assert (found.items, found.certain, found.excess) == (1, 0, pytest.approx(0.1))
    by_law = support_cells.confidence_in_links(dataclasses.replace(tallies, coded=np.array([True])))
    assert by_law.by_attacker["who knows the item's popularity and spread"] > 0.6
    assert (found.blank[0], found.highest[0]) == (pytest.approx(0.1), pytest.approx(0.6))


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
    """What the program shows passes the judge, and is what a plain loop over the rule gives."""
    released = release()
    counts = count(released)
    group, item = np.nonzero(counts)
    sizes = np.bincount(released.group_of)
    made_counts = Counts(group, item, counts[group, item], sizes, ITEMS)
    cells = np.zeros_like(counts)
    cells[group, item] = shown_counts(made_counts, 3)
    assert (cells == cells_by_rule(released)).all()
    found = judged(tmp_path, cells, released=released)
    assert found.observed == 0, found.detail
    assert (cells % 3 > 0).any(), "some items have a top code"
