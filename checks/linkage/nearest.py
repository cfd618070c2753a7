"""Find the published record nearest to a whole profile, over posting lists (distance-based record linkage,
[Casino2015]).

Missing ratings are filled with a constant or with one value per item, so on values centred at the fill only rated items
count: |x − y|² = |x|² + |y|² − 2xy, and xy is a sum over the posting lists of the profile's items. Nothing is ever as
large as people × items; memory is one array of distances per worker.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numba import njit

from checks.evidence.case import Case
from checks.linkage.kernel import FIELDS, rank_target
from checks.linkage.postings import Postings, postings_of
from checks.linkage.ranking import BLOCK_TARGETS, Ranks
from tasks.engine import Engine

GRID = 1e6  # squared distances are equal when they agree to a millionth: ties must not depend on rounding


@dataclass(frozen=True)
class Nearest:
    """Hold per profile the `ranks` by distance (`best_at` is the nearest record, the first of a tie; `best_people` the
    people behind all that tie), the `distance` to it, and `hit`, the share of the nearest records with the own label.
    """

    ranks: Ranks
    distance: np.ndarray
    hit: np.ndarray

    def __len__(self) -> int:
        return len(self.distance)


def nearest_records(
    case: Case,
    profiles: sp.csr_array,
    *,
    own: np.ndarray | None = None,
    leave_out: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    own_label: np.ndarray | None = None,
    fill: float | np.ndarray | None = None,
    rated_only: bool = False,
    weights: np.ndarray | None = None,
) -> Nearest:
    """Find the records of a case nearest to each row of `profiles` (ratings on the case's items).

    `own` is each profile's own record (−1: none) and `leave_out` a record that must not be found; `labels` names the
    records (default: their numbers) and `own_label` what counts as a hit (default: the own record). `fill` stands for
    missing ratings, one value or one per item (default: the centre of the scale); with `rated_only`, items the profile
    lacks are not compared at all. `weights` is the weight of each item's squared distance (default: 1).
    """
    postings = postings_of(case)
    no_record = np.full(profiles.shape[0], -1, dtype=np.int64)
    own = no_record if own is None else own.astype(np.int64)
    leave_out = no_record if leave_out is None else leave_out.astype(np.int64)
    labels = np.arange(postings.records) if labels is None else labels
    own_label = own if own_label is None else own_label
    centre = (case.release.low + case.release.high) / 2 if fill is None else fill
    filled = np.full(profiles.shape[1], centre, dtype=np.float64)
    weights = np.ones(profiles.shape[1]) if weights is None else weights
    norms = np.zeros(postings.records)
    if not rated_only:
        _add_norms(norms, _arrays(postings), filled, weights)
    blocks = []
    for start in range(0, profiles.shape[0], BLOCK_TARGETS):
        part = slice(start, start + BLOCK_TARGETS)
        rows = profiles[part]
        blocks.append((rows.indptr, rows.indices, rows.data, own[part], leave_out[part], own_label[part]))
    tables = (case.engine or Engine()).map(
        _nearest, blocks, directory=postings.directory, filled=filled, norms=postings.keep(norms),
        labels=postings.keep(labels.astype(np.int64)), rated_only=rated_only, weights=weights,
    )  # fmt: skip
    table = np.concatenate(tables) if tables else np.zeros((0, len(FIELDS) + 2))
    return Nearest(Ranks(table[:, :-2]), table[:, -2], table[:, -1])


def have_no_twin(raw: Case, targets: np.ndarray) -> np.ndarray:
    """Mark which of these people have a record in the raw data that no other person equals.

    Twins cannot be distinguished, nor missed when one of them is removed, so no control may count on them.
    """
    gone = nearest_records(raw, raw.truth.ratings[targets], leave_out=raw.record_of(targets))
    return gone.distance > 0


def _nearest(
    block: tuple[np.ndarray, ...],
    *,
    directory: Path,
    filled: np.ndarray,
    norms: Path,
    labels: Path,
    rated_only: bool,
    weights: np.ndarray,
) -> np.ndarray:
    indptr, items, ratings, own, leave_out, own_label = block
    postings = Postings(directory)
    centred = _exact(ratings) - filled[items]
    out = np.zeros((len(own), len(FIELDS) + 2))
    _nearest_block(
        indptr.astype(np.int64), items.astype(np.int64), centred, own, leave_out, np.load(labels),
        own_label.astype(np.int64), _arrays(postings), filled, np.load(norms), postings.people, postings.lengths,
        rated_only, weights, out,
    )  # fmt: skip
    return out


def _arrays(postings: Postings) -> tuple:
    return (
        postings.array("indptr"), postings.array("rows"), postings.array("codes"),
        bool(postings.facts["dense"]), _exact(postings.levels),
    )  # fmt: skip


def _exact(ratings: np.ndarray) -> np.ndarray:
    """Return float32 ratings as the decimal numbers they stand for, so that equal distances come out equal."""
    return np.round(ratings.astype(np.float64), 6)


@njit(cache=True, nogil=True)
def _add_norms(norms, postings, filled, weights):  # type: ignore[no-untyped-def]
    """Add up |y|² of every record, on values centred at the fill."""
    indptr, rows, codes, dense, levels = postings
    for item in range(len(indptr) - 1):
        start = indptr[item]
        for place in range(start, indptr[item + 1]):
            apart = levels[codes[place]] - filled[item]
            norms[place - start if dense else rows[place]] += weights[item] * apart * apart


@njit(cache=True, nogil=True)
def _nearest_block(  # type: ignore[no-untyped-def]
    starts, items, centred, own, leave_out, labels, own_label, postings, filled, norms, people, lengths,
    rated_only, weights, out,
):  # fmt: skip
    indptr, rows, codes, dense, levels = postings
    nearness = np.zeros(len(norms))
    no_norms = np.zeros(0, dtype=np.float32)
    for t in range(len(starts) - 1):
        length = 0.0
        for q in range(starts[t], starts[t + 1]):
            length += weights[items[q]] * centred[q] * centred[q]
        for c in range(len(norms)):
            nearness[c] = -length - norms[c]
        for q in range(starts[t], starts[t + 1]):
            first, last = indptr[items[q]], indptr[items[q] + 1]
            twice, base, weight = 2 * centred[q], filled[items[q]], weights[items[q]]
            for place in range(first, last):
                y = levels[codes[place]] - base
                alike = twice * y - (y * y if rated_only else 0.0)
                nearness[place - first if dense else rows[place]] += weight * alike
        for c in range(len(norms)):
            nearness[c] = np.rint(nearness[c] * GRID) / GRID
        rank_target(
            nearness, no_norms, lengths, people, own[t], leave_out[t], np.float32(-1), np.inf, False, out[t]
        )
        best = nearness.max()
        ties, hits = 0, 0
        for c in range(len(norms)):
            if nearness[c] == best:
                ties += 1
                hits += labels[c] == own_label[t]
        out[t, -2] = np.sqrt(max(0.0, -best))
        out[t, -1] = hits / ties
