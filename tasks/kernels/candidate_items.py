"""Which ratings are added: what may be, how many each person gets, and which ones (paper 004, sections 5.1 and 6.2).

Everybody chooses from a list of items in an order of preference. What may be chosen is a bit for each place of the
list, so that a thousand places of half a million people fit into memory and are looked through quickly.
"""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numba import njit

Bits = npt.NDArray[np.uint64]
_WORD = 64


def packed(truths: npt.NDArray[np.bool_]) -> Bits:
    """Rows of truth values as bits, (rows, words); what fills up the last word is 0."""
    rows, width = truths.shape
    words = -(-width // _WORD)
    filled = np.zeros((rows, words * _WORD), bool)
    filled[:, :width] = truths
    return np.packbits(filled, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def eligible(ratings: sp.csr_array, items: np.ndarray, similar: Bits | None = None) -> Bits:
    """Which of a list's items each person may be given: those not rated and, where `similar` (bits of the list for
    every item) says so, similar to something the person rated. (people, words)"""
    place = np.full(ratings.shape[1], -1, np.int64)
    place[items] = np.arange(len(items))
    every = packed(np.ones((1, len(items)), bool))[0]
    bits = np.empty((ratings.shape[0], len(every)), np.uint64)
    if similar is None:
        bits[:] = every
    else:
        _any_similar(ratings.indptr, ratings.indices, similar, bits)
    _without_rated(ratings.indptr, ratings.indices, place, bits)
    return bits


def count(bits: Bits) -> npt.NDArray[np.int64]:
    """How many places each person may choose from."""
    return np.bitwise_count(bits).sum(axis=1, dtype=np.int64)


def quotas(
    total: int, ceilings: np.ndarray, draws: np.ndarray, weights: np.ndarray | None = None
) -> npt.NDArray[np.int64]:
    """How many everybody gets: `total` in all, as equal as whole numbers and ceilings allow, or in proportion to
    `weights`. What does not divide goes by `draws` (one per person, in (0, 1)): the lower, the sooner. Where the
    ceilings sum up to less than `total`, everybody gets the own ceiling."""
    if total >= ceilings.sum():
        return ceilings.astype(np.int64)
    weighs = np.ones(len(ceilings), np.int64) if weights is None else weights
    open_ = (ceilings > 0) & (weighs > 0)
    given = np.zeros(len(ceilings), np.float64)
    # Whoever would get more than the ceiling gets that; the rest is shared anew. Every round settles somebody.
    left = total
    while open_.any():
        share = left / weighs[open_].sum() * weighs
        full = open_ & (share >= ceilings)
        if not full.any():
            given[open_] = share[open_]
            break
        given[full] = ceilings[full]
        left -= int(ceilings[full].sum())
        open_ &= ~full
    whole = np.floor(given).astype(np.int64)
    while (missing := total - int(whole.sum())) > 0:
        room = np.flatnonzero(whole < ceilings)
        sooner = np.argsort((draws - (given - whole))[room], kind="stable")
        whole[room[sooner[:missing]]] += 1
    return whole


def first(
    bits: Bits, levels: np.ndarray, quota: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first places everybody may choose, up to the own quota: people and places of those that are certain, then
    of those that are tied. `levels` (one per place, never falling) says which places are equally preferred; of the
    tied ones somebody else decides, by chance and not by order."""
    sizes = np.zeros((len(bits), 2), np.int64)
    nothing = np.empty(0, np.int64)
    _first(bits, levels, quota, sizes, nothing, nothing, nothing, nothing, False)
    sure, tied = sizes.sum(axis=0)
    rows = np.repeat(np.arange(len(bits)), sizes[:, 0]), np.repeat(np.arange(len(bits)), sizes[:, 1])
    places = np.empty(sure, np.int64), np.empty(tied, np.int64)
    starts = [np.concatenate([[0], np.cumsum(sizes[:, part])]) for part in (0, 1)]
    _first(bits, levels, quota, sizes, starts[0], places[0], starts[1], places[1], True)
    return rows[0], places[0], rows[1], places[1]


def lowest(rows: np.ndarray, keys: np.ndarray, quota: np.ndarray) -> npt.NDArray[np.bool_]:
    """Which of everybody's cells have the lowest keys, as many as the quota of the row says. Cells lie in the order of
    the rows."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(quota)))])
    chosen = np.zeros(len(rows), bool)
    _lowest(starts, np.asarray(keys, np.float64), np.asarray(quota, np.int64), chosen)
    return chosen


def cells(bits: Bits) -> tuple[np.ndarray, np.ndarray]:
    """All places that may be chosen, as people and places in order."""
    little = np.ascontiguousarray(bits, "<u8").view(np.uint8).reshape(len(bits), -1)
    rows, places = np.nonzero(np.unpackbits(little, axis=1, bitorder="little"))
    return rows, places


def together(ratings: sp.csr_array, added: sp.csr_array) -> sp.csr_array:
    """Ratings and additions in one matrix (equation 5). A rating of 0 stays a rating: SciPy's sum would drop it."""
    people = np.arange(ratings.shape[0])
    row = np.concatenate([np.repeat(people, np.diff(part.indptr)) for part in (ratings, added)])
    item = np.concatenate([ratings.indices, added.indices])
    order = np.lexsort((item, row))
    indptr = np.asarray(ratings.indptr, np.int64) + added.indptr
    values = np.concatenate([ratings.data, added.data.astype(ratings.dtype)])
    return sp.csr_array((values[order], item[order], indptr), shape=ratings.shape)


def put_back(
    items: np.ndarray, values: np.ndarray, added: sp.csr_array
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Recommendations as people are to see them: the reverse operator (section 5.2, equation 7).

    `items` and `values` (people, places; item −1: nothing there) are what a recommender gave that took the additions
    for things people had, and so never recommended them. They are put back with the ratings they were added with, and
    the best of both remain; a recommendation goes before an addition of the same value.
    """
    people, places = items.shape
    there = items >= 0
    row = np.concatenate([np.nonzero(there)[0], np.repeat(np.arange(people), np.diff(added.indptr))])
    item = np.concatenate([items[there], added.indices]).astype(np.int64)
    value = np.concatenate([values[there], added.data]).astype(np.float32)
    order = np.lexsort((np.arange(len(row)), -value, row))
    row, item, value = row[order], item[order], value[order]
    place = np.arange(len(row)) - np.concatenate([[0], np.cumsum(np.bincount(row, minlength=people))])[row]
    kept = place < places
    best, worth = np.full(items.shape, -1, np.int64), np.full(items.shape, -np.inf, np.float32)
    best[row[kept], place[kept]], worth[row[kept], place[kept]] = item[kept], value[kept]
    return best, worth


@njit(cache=True, nogil=True)
def _any_similar(indptr: np.ndarray, indices: np.ndarray, similar: Bits, bits: Bits) -> None:
    for u in range(len(bits)):
        mine = bits[u]
        mine[:] = 0
        for p in range(indptr[u], indptr[u + 1]):
            other = similar[indices[p]]
            for w in range(len(mine)):
                mine[w] |= other[w]


@njit(cache=True, nogil=True)
def _without_rated(indptr: np.ndarray, indices: np.ndarray, place: np.ndarray, bits: Bits) -> None:
    for u in range(len(bits)):
        mine = bits[u]
        for p in range(indptr[u], indptr[u + 1]):
            at = place[indices[p]]
            if at >= 0:
                mine[at // _WORD] &= ~(np.uint64(1) << np.uint64(at % _WORD))


@njit(cache=True, nogil=True)
def _smallest(keys: np.ndarray, rank: int) -> float:
    """The key of that rank, by Hoare's selection; the keys are left in disorder. (NumPy's partition takes numba ten
    seconds to compile.)"""
    low, high = 0, len(keys) - 1
    while low < high:
        pivot = keys[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while keys[left] < pivot:
                left += 1
            while keys[right] > pivot:
                right -= 1
            if left <= right:
                keys[left], keys[right] = keys[right], keys[left]
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return keys[rank]


@njit(cache=True, nogil=True)
def _lowest(starts: np.ndarray, keys: np.ndarray, quota: np.ndarray, chosen: np.ndarray) -> None:
    for u in range(len(quota)):
        mine, take = keys[starts[u] : starts[u + 1]], chosen[starts[u] : starts[u + 1]]
        wanted = min(quota[u], len(mine))
        if wanted <= 0:
            continue
        highest = _smallest(mine.copy(), wanted - 1)
        for at in range(len(mine)):
            if mine[at] < highest:
                take[at] = True
                wanted -= 1
        for at in range(len(mine)):
            if wanted > 0 and mine[at] == highest:
                take[at] = True
                wanted -= 1


@njit(cache=True, nogil=True)
def _first(
    bits: Bits,
    levels: np.ndarray,
    quota: np.ndarray,
    sizes: np.ndarray,
    sure_starts: np.ndarray,
    sure: np.ndarray,
    tied_starts: np.ndarray,
    tied: np.ndarray,
    write: bool,
) -> None:
    """Level after level as long as all of it fits into the quota; the level that does not is tied. First only
    counts, then writes."""
    for u in range(len(bits)):
        mine = bits[u]
        taken = 0
        of_level = 0
        begin = 0
        done = quota[u] <= 0
        for at in range(len(levels) + 1):
            if done:
                break
            if at == len(levels) or (at > begin and levels[at] != levels[begin]):
                if of_level > 0:
                    fits = taken + of_level <= quota[u]
                    if not write:
                        sizes[u, 0 if fits else 1] += of_level
                    else:
                        spot = (sure_starts[u] + taken) if fits else tied_starts[u]
                        target = sure if fits else tied
                        for back in range(begin, at):
                            if mine[back // _WORD] >> np.uint64(back % _WORD) & np.uint64(1):
                                target[spot] = back
                                spot += 1
                    if fits:
                        taken += of_level
                    done = not fits or taken == quota[u]
                of_level = 0
                begin = at
            if at < len(levels) and mine[at // _WORD] >> np.uint64(at % _WORD) & np.uint64(1):
                of_level += 1
