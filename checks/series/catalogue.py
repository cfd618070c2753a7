"""Test the catalogue of a series: items only enter, in batches that several newcomers explain.

A line of items.parquet that appears or disappears between two releases is a fact about whoever caused it: a new line
that one newcomer rated, or one that is gone after an erasure. So the catalogue is append-only over all releases about
the same people, an item's position never changes, and an item enters only with at least c of its raters and l of the
groups holding it new in that release. Groups keep the items of their first publication. (1,l) counts the different
groups of all releases since an item's entry, withdrawn ones included: an attacker holds them all.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.release_view import ReleaseView
from checks.history.history import FIRST, History
from checks.history.past_release import SeriesRelease
from checks.registry import check
from checks.result import Finding


@check(
    "catalogue",
    threshold=0,
    as_published=True,
    whole=True,
    about=About(
        title="Catalogue",
        summary="Look for items that enter, leave or move",
        knows="The attacker holds every release about these people.",
        tries="They look for items that appear, disappear or move between two releases.",
        means=(
            "An item that appears is a fact about whoever rated it; so items only enter, in batches that several "
            "newcomers explain. No rule may be broken."
        ),
        measure="items and groups that break a rule",
        unit="findings",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count items and groups that break a rule of the catalogue; none is allowed."""
    history = History.of(case)
    if not history.related:
        return Finding(True, None, 0, FIRST, applicable=False)
    release = history.own.release
    earlier = [history.earlier[at] for at in history.related]
    known = _catalogue(earlier)
    moved, gone = _changes(known, release.items)
    listed_before = pc.is_in(release.items, value_set=known).to_numpy(zero_copy_only=False)
    entering = np.flatnonzero(~listed_before)
    raters = _new_raters(case, history)[entering]
    holders = _groups_holding(release, history.of_newcomers)[entering]
    few_raters = int((raters < release.min_contributors).sum())
    few_groups = int((holders < release.l).sum())
    relisted = int(_relisted(history).sum())
    in_series = _groups_in_series(history, release)
    short = int((in_series < release.l).sum())
    problems = [
        (gone, "items of earlier releases are not listed any more"),
        (moved, "items have another position than before"),
        (few_raters, f"new items have fewer than {release.min_contributors} raters among the newcomers"),
        (few_groups, f"new items are held by fewer than {release.l} new groups"),
        (relisted, "carried-over groups hold other items than when they were first published"),
        (short, f"items lie in fewer than {release.l} groups of all releases together"),
    ]
    wrong = sum(count for count, _ in problems)
    detail = (
        f"{len(known):,} items were listed before and {len(entering):,} are new; the catalogue only grows, and what is "
        "new is explained by several newcomers."
        if not wrong
        else " ".join(f"{count:,} {words}." for count, words in problems if count)
    )
    return Finding(wrong <= threshold, wrong, release.n_items, detail)


def _catalogue(earlier: list[SeriesRelease]) -> pa.StringArray:
    """Return all items listed so far, in the order in which they entered."""
    return pa.concat_arrays([one.facts.items for one in earlier]).unique()


def _changes(known: pa.StringArray, items: pa.StringArray) -> tuple[int, int]:
    """Count the items that were listed before and have another position, and those that are gone."""
    place = pc.index_in(known, value_set=items)
    there = pc.is_valid(place).to_numpy(zero_copy_only=False)
    found = pc.fill_null(place, -1).to_numpy(zero_copy_only=False)
    return int((there & (found != np.arange(len(known)))).sum()), int((~there).sum())


def _new_raters(case: Case, history: History) -> np.ndarray:
    """Count the newcomers who rated each item of the release, from the source."""
    rows = np.flatnonzero(history.own.listed)[history.newcomers[history.persons[-1]]]
    return np.bincount(case.truth.ratings[rows].indices, minlength=history.own.release.n_items)


def _groups_holding(release: ReleaseView, chosen: np.ndarray) -> np.ndarray:
    """Count the groups among the chosen rows that hold each item."""
    count = np.zeros(release.n_items, np.int64)
    for block in release.blocks():
        inside = chosen[block.rows_slice]
        if block.items is None:
            count += int(inside.sum())
        else:
            count += np.bincount(block.items[inside[block.row_numbers()]], minlength=release.n_items)
    return count


@dataclass(frozen=True)
class _FirstLists:
    """Hold for sets of members the digest of the item ids of their first publication."""

    sets: np.ndarray
    lists: np.ndarray


def _relisted(history: History) -> np.ndarray:
    """Return which groups hold other items than their members' set did when it was first published."""
    own, lists = history.own_sets, history.own.facts.item_lists
    first = history.sets.first[np.maximum(own, 0)]
    wrong = np.zeros(len(own), bool)
    for at in history.sharing:
        before = _first_lists(history, at)
        inside = np.flatnonzero((own >= 0) & (first == at))
        place = np.searchsorted(before.sets, own[inside])
        wrong[inside] = before.lists[np.minimum(place, len(before.sets) - 1)] != lists[inside]
    return wrong


def _first_lists(history: History, at: int) -> _FirstLists:
    sets = history.set_of_rows(at)
    rows = np.flatnonzero(sets >= 0)
    order = rows[np.argsort(sets[rows], kind="stable")]
    return _FirstLists(sets[order], history.earlier[at].facts.item_lists[order])


def _groups_in_series(history: History, release: ReleaseView) -> np.ndarray:
    """Count the different groups that hold each item, over this release and all related ones; an upper limit of l is
    all that is needed, so past files are read only for items that this release alone does not cover."""
    count = _groups_holding(release, np.ones(release.n_groups, bool))
    present = history.own_sets
    for at in reversed(history.related):
        if (count >= release.l).all():
            break
        one = history.earlier[at]
        sets = history.set_of_rows(at)
        fresh = (sets >= 0) & ~np.isin(sets, present)
        present = np.union1d(present, sets[fresh])
        past = one.release
        held = _groups_holding(past, fresh)
        place = pc.fill_null(pc.index_in(release.items, value_set=past.items), -1).to_numpy(
            zero_copy_only=False
        )
        count += np.where(place >= 0, held[np.maximum(place, 0)], 0)
    return count
