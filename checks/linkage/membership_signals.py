"""Measure signals that a person is in the data at all: how well the best record fits what is known about them."""

import math
from pathlib import Path

import numpy as np
from numba import njit

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
    sums = np.zeros((3, postings.records))
    what = (known.indptr, known.items, known.ratings.astype(np.float64))
    _measure_block(what, arrays, rule.weight.astype(np.float64), rule.width, means, sums, out)
    return out


@njit(cache=True, nogil=True)
def _measure_block(what, postings, weight, width, means, sums, out):  # type: ignore[no-untyped-def]
    starts, items, ratings = what
    indptr, rows, codes, dense, levels = postings
    score, there, closer = sums[0], sums[1], sums[2]
    agree = np.zeros(len(levels))
    for t in range(len(starts) - 1):
        sums[:] = 0
        whole, plain = 0.0, 0.0
        for q in range(starts[t], starts[t + 1]):
            item, rating = items[q], ratings[q]
            first, last = indptr[item], indptr[item + 1]
            from_mean = (rating - means[item]) ** 2
            whole += weight[item]
            plain += from_mean
            tabled = last - first >= len(levels)
            if tabled:
                for code in range(len(levels)):
                    agree[code] = math.exp(-abs(levels[code] - rating) / width)
            for place in range(first, last):
                record = place - first if dense else rows[place]
                apart = levels[codes[place]] - rating
                score[record] += weight[item] * (
                    agree[codes[place]] if tabled else math.exp(-abs(apart) / width)
                )
                there[record] += 1
                closer[record] += from_mean - apart * apart
        best, second = -np.inf, -np.inf
        for s in score:
            if s > best:
                best, second = s, best
            elif s > second:
                second = s
        spread = score.std()
        known = starts[t + 1] - starts[t]
        out[t, 0] = best / whole if whole > 0 else 0.0
        out[t, 1] = (best - second) / spread if spread > 1e-9 else 0.0
        out[t, 2] = there.max() / known if known else 0.0
        out[t, 3] = 1 - math.sqrt(max(0.0, 1 - closer.max() / plain)) if plain > 1e-9 else 0.0
