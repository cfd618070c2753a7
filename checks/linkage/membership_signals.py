"""Measure signals that a person is in the data at all: how well the best record fits what is known about them."""

import math
from pathlib import Path

import numpy as np
from numba import njit

from checks.linkage.dense_walk import add_lists, tables_at_once
from checks.linkage.knowledge import Knowledge
from checks.linkage.postings import Postings
from checks.linkage.ranking import BLOCK_TARGETS
from checks.linkage.rules import Rule
from tasks.engine import Engine

SIGNALS = ("best score", "eccentricity", "items present", "nearness")


def measure_signals(
    postings: Postings, rule: Rule, means: np.ndarray, known: Knowledge, engine: Engine | None = None
) -> np.ndarray:
    """Return per target the signals of being in the data, a column each; larger values make membership likelier.

    - best score: of any record by a decaying `rule`, as a share of the score of complete agreement;
    - eccentricity: the best score above the second, in standard deviations ([Narayanan2008] decide by it whether the
      person is in the data);
    - items present: the most known items any record has, as a share of those known ([Chang2009], definition 3.1);
    - nearness: 1 − the smallest distance of any record to what is known, over that of the items' `means` (which also
      stand for what a record lacks).
    """
    blocks = [known.part(start, start + BLOCK_TARGETS) for start in range(0, len(known), BLOCK_TARGETS)]
    parts = (engine or Engine()).map(
        _measure_signals, blocks, directory=postings.directory, rule=rule, means=means
    )
    return np.concatenate(parts) if parts else np.zeros((0, len(SIGNALS)))


def _measure_signals(known: Knowledge, *, directory: Path, rule: Rule, means: np.ndarray) -> np.ndarray:
    postings = Postings(directory)
    arrays = (
        postings.array("indptr"), postings.array("rows"), postings.array("codes"),
        bool(postings.facts["dense"]), postings.levels.astype(np.float64),
    )  # fmt: skip
    out = np.zeros((len(known), len(SIGNALS)))
    what = (known.indptr, known.items, known.ratings.astype(np.float64))
    how = (rule.weight.astype(np.float64), rule.width, means)
    _measure_block(what, arrays, how, np.zeros((2, postings.records)), out)
    return out


@njit(cache=True, nogil=True)
def _measure_block(what, postings, how, sums, out):  # type: ignore[no-untyped-def]
    starts, items, ratings = what
    indptr, rows, codes, dense, levels = postings
    weight, width, means = how
    score, closer = sums[0], sums[1]
    there = np.zeros(len(score))
    at_once = tables_at_once(len(levels))
    tables = np.empty((at_once, 2, len(levels)))
    for t in range(len(starts) - 1):
        sums[:] = 0
        whole, plain = 0.0, 0.0
        for first in range(starts[t], starts[t + 1], at_once):
            some = items[first : min(first + at_once, starts[t + 1])]
            for number in range(len(some)):
                item, rating = some[number], ratings[first + number]
                from_mean = (rating - means[item]) ** 2
                whole += weight[item]
                plain += from_mean
                if indptr[item + 1] - indptr[item] >= len(levels):
                    for code in range(len(levels)):
                        apart = levels[code] - rating
                        tables[number, 0, code] = weight[item] * math.exp(-abs(apart) / width)
                        tables[number, 1, code] = from_mean - apart * apart
            if dense and len(score) >= len(levels):
                add_lists(codes, indptr[some], tables, sums)
                continue
            for number in range(len(some)):
                item, rating = some[number], ratings[first + number]
                start, stop = indptr[item], indptr[item + 1]
                from_mean = (rating - means[item]) ** 2
                for place in range(start, stop):
                    record, code = place - start if dense else rows[place], codes[place]
                    there[record] += 1
                    if stop - start >= len(levels):
                        score[record] += tables[number, 0, code]
                        closer[record] += tables[number, 1, code]
                    else:
                        apart = levels[code] - rating
                        score[record] += weight[item] * math.exp(-abs(apart) / width)
                        closer[record] += from_mean - apart * apart
        known = starts[t + 1] - starts[t]
        best, second = -np.inf, -np.inf
        for s in score:
            if s > best:
                best, second = s, best
            elif s > second:
                second = s
        spread, closest = score.std(), closer.max()
        present = known if dense else there.max()
        there[:] = 0
        out[t, 0] = best / whole if whole > 0 else 0.0
        out[t, 1] = (best - second) / spread if spread > 1e-9 else 0.0
        out[t, 2] = present / known if known else 0.0
        out[t, 3] = 1 - math.sqrt(max(0.0, 1 - closest / plain)) if plain > 1e-9 else 0.0
