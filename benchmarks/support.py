"""Measure what published counts of raters are worth for ranking.

`python -m benchmarks.support STORE/private/NAME/DATE`: a release's private directory whose intermediate results are
still there. Its shadow release was made from 90 % of the ratings, held out before anything was fitted: the counts that
may be published of the shadow's groups are made from these 90 %, and EASE is trained on them alone
(tasks/recommenders/_support.py). nDCG@10 of the held-out ratings that are relevant (three quarters of the scale or
more), items that the person rated before left out, for

    popularity   the same list for everybody
    original     EASE on the 90 % themselves, with the person's own history
    group        EASE on the counts, with the group's expected shares as history: what any reader can compute
    own          EASE on the counts, with the person's own history: what a person can compute who has the weights
    padded       the group's predicted ratings, without any count

Each for the groups as they are, for counts without the rule (exact, of every cell), for random groups of the same
sizes (--random), and for groups formed by what people rated instead of by what they are predicted to like (--by-choice,
a trial: recursive halving along the first principal axis of 16 singular vectors of the rated cells). --ridge tries
several.

Also: how well support says whether a person was in the data at all. Somebody's score is the largest, over groups, mean
log-ratio of the group's expected share to the item's, over everything the person rated; members against the people whom
the shadow was made without.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score
from sklearn.utils.extmath import randomized_svd

from tasks.data.ratings import Ratings, places
from tasks.kernels.ranking import hits as right
from tasks.kernels.ranking import ndcg, top_items
from tasks.kernels.support import Counts, shown_counts
from tasks.recommenders import Train, ease
from tasks.recommenders._cells import dense
from tasks.recommenders._support import gram_of_groups, shares_of_groups
from tasks.store import read_json
from tasks.studies.compare.utility import LENGTH, RELEVANT_FROM, Held, read_held, read_profiles

RIDGE = 4.0  # chosen on MovieLens 100K
PEOPLE_AT_ONCE = 1000
RANK = 16


class Lists:
    """Hold the people with a relevant held-out rating, and measure lists for them."""

    def __init__(self, held: Held, scale: tuple[float, float]) -> None:
        relevant = held.truth >= scale[0] + RELEVANT_FROM * (scale[1] - scale[0])
        cells = (held.person[relevant], held.item[relevant])
        self.wanted = sp.csr_array((np.ones(len(cells[0]), np.int8), cells), shape=held.known.shape)
        self.number = np.diff(self.wanted.indptr)
        self.people = np.flatnonzero(self.number)
        self.held = held
        rated = held.known
        self.marks = sp.csr_array(
            (np.ones(rated.nnz, np.float32), rated.indices, rated.indptr), shape=rated.shape
        )

    def measure(self, history: Train, row: np.ndarray, weights: np.ndarray | None) -> float:
        """Return the mean nDCG@10 where person p is scored by `history[row[p]] @ weights` (None: the history)."""
        found = []
        for some in np.array_split(self.people, -(-len(self.people) // PEOPLE_AT_ONCE)):
            own = dense(history, row[some])
            scores = own if weights is None else own @ weights
            best = top_items(scores, self.held.known[some], LENGTH)
            found.append(ndcg(right(best, self.wanted[some]), self.number[some]))
        return round(float(np.concatenate(found).mean()), 4)


def count(marks: sp.csr_array, labels: np.ndarray) -> Counts:
    """Count the raters of each item in each group."""
    sizes = np.bincount(labels)
    member = sp.csr_array((np.ones(len(labels), np.float32), (labels, np.arange(len(labels)))))
    found = sp.coo_array(member @ marks)
    group, item = found.coords
    return Counts(group, item, np.rint(found.data).astype(np.int64), sizes, marks.shape[1])


def table_of(counts: Counts, values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return cells as a table groups × items."""
    table = np.zeros((len(counts.sizes), counts.n_items), np.int64)
    table[counts.group[kept], counts.item[kept]] = values[kept]
    return table


def group_by_choice(marks: sp.csr_array, k: int) -> np.ndarray:
    """Return groups of at least k people who rated similar items."""
    people, popularity = np.diff(marks.indptr), np.bincount(marks.indices, minlength=marks.shape[1])
    scaled = marks.copy()
    scaled.data = (
        scaled.data / np.repeat(np.sqrt(np.maximum(people, 1)), people) / popularity[marks.indices] ** 0.25
    )
    left, values, _ = randomized_svd(scaled, RANK, random_state=0)
    points, labels, waiting, number = (
        left * values,
        np.empty(len(people), np.int64),
        [np.arange(len(people))],
        0,
    )
    while waiting:
        some = waiting.pop()
        parts = len(some) // k
        if parts < 2:
            labels[some], number = number, number + 1
            continue
        apart = points[some] - points[some].mean(axis=0)
        order = some[np.argsort(apart @ np.linalg.svd(apart, full_matrices=False)[2][0], kind="stable")]
        half = (parts // 2) * len(some) // parts
        waiting += [order[:half], order[half:]]
    return labels


def measure_groups(
    test: Lists, labels: np.ndarray, c: int, ridges: list[float], exact: bool
) -> dict[str, Any]:
    """Return the figures of counts by the rule, or of exact ones, for these groups."""
    counts = count(test.marks, labels)
    if exact:
        everything = np.ones(len(counts.raters), bool)
        shares = (table_of(counts, counts.raters, everything) / counts.sizes[:, None]).astype(np.float32)
        shown = everything
    else:
        values = shown_counts(counts, c)
        shown = values > 0
        shares = shares_of_groups(table_of(counts, values, shown), counts.sizes, c)
    found: dict[str, Any] = {
        "groups": len(counts.sizes),
        "cells": int(shown.sum()),
        "links_in_cells": round(float(counts.raters[shown].sum() / counts.raters.sum()), 4),
    }
    matrix = gram_of_groups(shares, counts.sizes)
    for ridge in ridges:
        weights = ease.solve(matrix.copy(), ridge)
        key = f" ridge {ridge:g}" if len(ridges) > 1 else ""
        found[f"group{key}"] = test.measure(shares, labels, weights)
        found[f"own{key}"] = test.measure(test.marks, np.arange(len(labels)), weights)
    return found


def membership(test: Lists, release: Path, ingest: Path, c: int) -> dict[str, float]:
    """Return the area under the curve of being in the data, of everybody and of the tenth with the most ratings."""
    counts = count(test.marks, test.held.groups)
    values = shown_counts(counts, c)
    shares = shares_of_groups(table_of(counts, values, values > 0), counts.sizes, c)
    usual = (shares * counts.sizes[:, None]).sum(axis=0) / counts.sizes.sum()
    ratio = np.log((shares + 1e-3) / (usual + 1e-3)).T
    ratings = Ratings(ingest)
    owner = pq.read_table(release / "membership.parquet")
    absent = owner.filter(pc.less(owner.column("group"), 0)).column("user").combine_chunks()
    items = pq.read_table(release / "items.parquet").column("item").combine_chunks()
    rows = sp.csr_array(ratings.by_user.take(places(absent, ratings.user_ids())))
    rows = sp.csr_array(rows[:, places(items, pa.array(ratings.item_ids(), pa.string()))])
    rows = sp.csr_array((np.ones(rows.nnz, np.float32), rows.indices, rows.indptr), shape=rows.shape)
    both = sp.vstack([test.marks, rows]).tocsr()
    number = np.maximum(np.diff(both.indptr), 1)
    score = (both @ ratio).max(axis=1) / number
    inside = np.arange(len(score)) < test.marks.shape[0]
    heavy = number >= np.quantile(number, 0.9)
    areas = {
        "all": roc_auc_score(inside, score),
        "most active tenth": roc_auc_score(inside[heavy], score[heavy]),
    }
    return {name: round(float(area), 3) for name, area in areas.items()} | {"absent": len(absent)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("private", type=Path)
    parser.add_argument("--ridge", type=float, nargs="+", default=[RIDGE])
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--by-choice", action="store_true")
    options = parser.parse_args()
    release, ingest = options.private / "utility" / "shadow-release", options.private / "work" / "ingest"
    manifest = read_json(release / "manifest.json")
    c, k = manifest["privacy"]["min_contributors"], manifest["privacy"]["k"]
    held = read_held(release, ingest)
    test = Lists(held, tuple(manifest["rating_scale"]))
    everybody = np.arange(held.known.shape[0])
    popularity = np.bincount(held.known.indices, minlength=held.known.shape[1]).astype(np.float32)
    train, _, numbers = read_profiles(release)
    order = np.argsort(numbers)
    found: dict[str, Any] = {
        "people": len(test.people),
        "popularity": test.measure(popularity[None, :], np.zeros_like(everybody), None),
        "original": test.measure(
            test.marks, everybody, ease.solve((test.marks.T @ test.marks).toarray(), ease.RIDGE)
        ),
        "padded": test.measure(train, order[np.searchsorted(numbers, held.groups, sorter=order)], None),
    }
    groupings = {"groups as released": held.groups}
    if options.random:
        groupings["random groups"] = np.random.default_rng(1).permutation(held.groups)
    if options.by_choice:
        groupings["groups by choice"] = group_by_choice(test.marks, k)
    for name, labels in groupings.items():
        for exact in (False, True):
            key = f"{name}, {'exact counts' if exact else 'counts by the rule'}"
            found[key] = measure_groups(test, labels, c, options.ridge, exact)
    found["membership (area)"] = membership(test, release, ingest, c)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
