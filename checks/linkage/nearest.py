"""Find the published record nearest to a whole profile, over posting lists (distance-based record linkage,
[Casino2015]).

Missing ratings are filled with a constant or with one value per item, so on values centred at the fill only rated items
count: |x − y|² = |x|² + |y|² − 2xy, and xy is a sum over the posting lists of the profile's items. Nothing is ever as
large as people × items; memory is one array of distances per worker and way to compare, and all ways share one walk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numba import njit

from checks.evidence.case import Case
from checks.linkage.dense_walk import add_lists, tables_at_once
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


@dataclass(frozen=True)
class Way:
    """Describe how profiles are compared with records.

    `fill` stands for missing ratings, one value or one per item (default: the centre of the scale); with `rated_only`,
    items the profile lacks are not compared at all. `weights` is the weight of each item's squared distance
    (default: 1).
    """

    fill: float | np.ndarray | None = None
    rated_only: bool = False
    weights: np.ndarray | None = None


BY_DISTANCE = Way()


def nearest_records(
    case: Case,
    profiles: sp.csr_array,
    *,
    own: np.ndarray | None = None,
    leave_out: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    own_label: np.ndarray | None = None,
    way: Way = BY_DISTANCE,
) -> Nearest:
    """Find the records of a case nearest to each row of `profiles` (ratings on the case's items).

    `own` is each profile's own record (−1: none) and `leave_out` a record that must not be found; `labels` names the
    records (default: their numbers) and `own_label` what counts as a hit (default: the own record).
    """
    (found,) = nearest_by_each(
        case, profiles, [way], own=own, leave_out=leave_out, labels=labels, own_label=own_label
    )
    return found


def nearest_by_each(
    case: Case,
    profiles: sp.csr_array,
    ways: Sequence[Way],
    *,
    own: np.ndarray | None = None,
    leave_out: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    own_label: np.ndarray | None = None,
) -> list[Nearest]:
    """Find the nearest records by each way to compare, in walks over the posting lists that several ways share."""
    postings = postings_of(case)
    no_record = np.full(profiles.shape[0], -1, dtype=np.int64)
    own = no_record if own is None else own.astype(np.int64)
    leave_out = no_record if leave_out is None else leave_out.astype(np.int64)
    labels = np.arange(postings.records) if labels is None else labels
    own_label = own if own_label is None else own_label
    centre = (case.release.low + case.release.high) / 2
    filled, weights = (np.empty((len(ways), profiles.shape[1])) for _ in range(2))
    norms = np.zeros((len(ways), postings.records))
    for number, way in enumerate(ways):
        filled[number] = centre if way.fill is None else way.fill
        weights[number] = 1 if way.weights is None else way.weights
        if not way.rated_only:
            _add_norms(norms[number], _arrays(postings), filled[number], weights[number])
    # A published record has every item: as parts of a task graph, some hundred of them would be a hundred megabytes.
    rows = tuple(postings.keep(array) for array in (profiles.indptr, profiles.indices, profiles.data))
    blocks = []
    for start in range(0, profiles.shape[0], BLOCK_TARGETS):
        part = slice(start, start + BLOCK_TARGETS)
        blocks.append((part, own[part], leave_out[part], own_label[part]))
    tables = (case.engine or Engine()).map(
        _nearest, blocks, directory=postings.directory, rows=rows, filled=filled, norms=postings.keep(norms),
        labels=postings.keep(labels.astype(np.int64)), rated_only=np.array([way.rated_only for way in ways]),
        weights=weights,
    )  # fmt: skip
    table = np.concatenate(tables) if tables else np.zeros((0, len(ways), len(FIELDS) + 2))
    return [
        Nearest(Ranks(table[:, number, :-2]), table[:, number, -2], table[:, number, -1])
        for number in range(len(ways))
    ]


def have_no_twin(raw: Case, targets: np.ndarray) -> np.ndarray:
    """Mark which of these people have a record in the raw data that no other person equals.

    Twins cannot be distinguished, nor missed when one of them is removed, so no control may count on them.
    """
    gone = nearest_records(raw, raw.truth.ratings[targets], leave_out=raw.record_of(targets))
    return gone.distance > 0


def _nearest(
    block: tuple[slice, np.ndarray, np.ndarray, np.ndarray],
    *,
    directory: Path,
    rows: tuple[Path, ...],
    filled: np.ndarray,
    norms: Path,
    labels: Path,
    rated_only: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    part, own, leave_out, own_label = block
    indptr, items, ratings = (np.load(path, mmap_mode="r") for path in rows)
    indptr = indptr[part.start : part.start + len(own) + 1].astype(np.int64)
    cells = slice(indptr[0], indptr[-1])
    postings = Postings(directory)
    out = np.zeros((len(own), len(rated_only), len(FIELDS) + 2))
    _nearest_block(
        (indptr - indptr[0], items[cells].astype(np.int64), _exact(ratings[cells]), own, leave_out),
        (np.load(labels), own_label.astype(np.int64)), _arrays(postings), (filled, weights, rated_only),
        (np.load(norms), postings.people, postings.lengths), out,
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
def _nearest_block(targets, labelled, postings, ways, crowd, out):  # type: ignore[no-untyped-def]
    starts, items, ratings, own, leave_out = targets
    labels, own_label = labelled
    indptr, _, codes, dense, levels = postings
    filled, weights, _ = ways
    norms, people, lengths = crowd
    sums = np.empty(norms.shape)
    at_once = tables_at_once(len(levels))
    tables = np.empty((at_once, len(norms), len(levels)))
    no_norms = np.zeros(0, dtype=np.float32)
    for t in range(len(starts) - 1):
        for way in range(len(norms)):
            length = 0.0
            for q in range(starts[t], starts[t + 1]):
                centred = ratings[q] - filled[way, items[q]]
                length += weights[way, items[q]] * centred * centred
            for c in range(sums.shape[1]):
                sums[way, c] = -length - norms[way, c]
        for first in range(starts[t], starts[t + 1], at_once):
            some = items[first : min(first + at_once, starts[t + 1])]
            for number in range(len(some)):
                if indptr[some[number] + 1] - indptr[some[number]] >= len(levels):
                    _table(some[number], ratings[first + number], levels, ways, tables[number])
            if dense and sums.shape[1] >= len(levels):
                add_lists(codes, indptr[some], tables, sums)
                continue
            for number in range(len(some)):
                _add_list(some[number], ratings[first + number], postings, ways, tables[number], sums)
        for way in range(len(norms)):
            nearness = sums[way]
            for c in range(len(nearness)):
                nearness[c] = np.rint(nearness[c] * GRID) / GRID
            found = out[t, way]
            rank_target(
                nearness,
                no_norms,
                lengths,
                people,
                own[t],
                leave_out[t],
                np.float32(-1),
                np.inf,
                False,
                found,
            )
            best = nearness.max()
            ties, hits = 0, 0
            for c in range(len(nearness)):
                if nearness[c] == best:
                    ties += 1
                    hits += labels[c] == own_label[t]
            found[-2] = np.sqrt(max(0.0, -best))
            found[-1] = hits / ties


@njit(cache=True, nogil=True)
def _add_list(item, rating, postings, ways, table, sums):  # type: ignore[no-untyped-def]
    """Add one list; it is read off the table if it is longer than that."""
    indptr, rows, codes, dense, levels = postings
    start, stop = indptr[item], indptr[item + 1]
    for way in range(len(sums)):
        own, by_code = sums[way], table[way]
        if stop - start < len(levels):
            for place in range(start, stop):
                own[place - start if dense else rows[place]] += _nearer(
                    item, rating, levels[codes[place]], ways, way
                )
        elif dense:
            for place in range(start, stop):
                own[place - start] += by_code[codes[place]]
        else:
            for place in range(start, stop):
                own[np.uint32(rows[place])] += by_code[codes[place]]


@njit(cache=True, nogil=True)
def _nearer(item, rating, level, ways, way):  # type: ignore[no-untyped-def]
    """Return how much nearer a record's rating of an item makes it to this rating."""
    filled, weights, rated_only = ways
    base = filled[way, item]
    y = level - base
    return weights[way, item] * (2 * (rating - base) * y - (y * y if rated_only[way] else 0.0))


@njit(cache=True, nogil=True)
def _table(item, rating, levels, ways, table):  # type: ignore[no-untyped-def]
    """Table this for every code, by each way to compare."""
    for code in range(len(levels)):
        for way in range(len(ways[0])):
            table[way, code] = _nearer(item, rating, levels[code], ways, way)
