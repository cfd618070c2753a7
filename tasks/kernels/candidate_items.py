"""Choose items to add to users' records: eligible items, quotas per user, selection ([RFPP], sections 5.1 and 6.2).

Every user chooses from a list of items in an order of preference. Eligibility is one bit per position of the list, so
that a thousand positions for half a million users fit into memory and are scanned quickly.
"""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numba import njit

Bits = npt.NDArray[np.uint64]
_WORD = 64


def pack_bits(truths: npt.NDArray[np.bool_]) -> Bits:
    """Pack rows of truth values into bits, (rows, words); the unused bits of the last word are 0."""
    rows, width = truths.shape
    words = -(-width // _WORD)
    filled = np.zeros((rows, words * _WORD), bool)
    filled[:, :width] = truths
    return np.packbits(filled, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def find_eligible(ratings: sp.csr_array, items: np.ndarray, similar: Bits | None = None) -> Bits:
    """Return which items of a list each user may receive, as bits, (users, words).

    Eligible items are those the user has not rated and, where `similar` (bits of the list for every item) is given,
    those similar to an item the user rated.
    """
    place = np.full(ratings.shape[1], -1, np.int64)
    place[items] = np.arange(len(items))
    every = pack_bits(np.ones((1, len(items)), bool))[0]
    bits = np.empty((ratings.shape[0], len(every)), np.uint64)
    if similar is None:
        bits[:] = every
    else:
        _any_similar(ratings.indptr, ratings.indices, similar, bits)
    _without_rated(ratings.indptr, ratings.indices, place, bits)
    return bits


def count_eligible(bits: Bits) -> npt.NDArray[np.int64]:
    """Count the eligible positions of each user."""
    return np.bitwise_count(bits).sum(axis=1, dtype=np.int64)


def allocate_quotas(
    total: int, ceilings: np.ndarray, draws: np.ndarray, weights: np.ndarray | None = None
) -> npt.NDArray[np.int64]:
    """Allocate `total` additions to users, equally or in proportion to `weights`, within each user's ceiling.

    Fractions are rounded by `draws` (one per user, in (0, 1)): the lower the draw, the earlier the user gets one
    more. Where the ceilings sum to less than `total`, every user gets the own ceiling.
    """
    if total >= ceilings.sum():
        return ceilings.astype(np.int64)
    weighs = np.ones(len(ceilings), np.int64) if weights is None else weights
    open_ = (ceilings > 0) & (weighs > 0)
    given = np.zeros(len(ceilings), np.float64)
    # Users whose share exceeds the ceiling get the ceiling; the rest is shared again. Every round settles a user.
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


def take_preferred(
    bits: Bits, levels: np.ndarray, quota: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the first eligible positions of every user, up to the user's quota.

    Returns users and positions of the certain choices, then users and positions of the tied ones. `levels` (one per
    position, non-decreasing) says which positions are equally preferred. The caller resolves ties at random, so that
    the order of the list does not decide.
    """
    sizes = np.zeros((len(bits), 2), np.int64)
    nothing = np.empty(0, np.int64)
    _take_preferred(bits, levels, quota, sizes, nothing, nothing, nothing, nothing, False)
    sure, tied = sizes.sum(axis=0)
    rows = np.repeat(np.arange(len(bits)), sizes[:, 0]), np.repeat(np.arange(len(bits)), sizes[:, 1])
    places = np.empty(sure, np.int64), np.empty(tied, np.int64)
    starts = [np.concatenate([[0], np.cumsum(sizes[:, part])]) for part in (0, 1)]
    _take_preferred(bits, levels, quota, sizes, starts[0], places[0], starts[1], places[1], True)
    return rows[0], places[0], rows[1], places[1]


def mark_lowest(rows: np.ndarray, keys: np.ndarray, quota: np.ndarray) -> npt.NDArray[np.bool_]:
    """Mark the cells with the lowest keys of each row, as many as the row's quota; cells must be ordered by row."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(quota)))])
    chosen = np.zeros(len(rows), bool)
    _mark_lowest(starts, np.asarray(keys, np.float64), np.asarray(quota, np.int64), chosen)
    return chosen


def list_eligible(bits: Bits) -> tuple[np.ndarray, np.ndarray]:
    """List all eligible positions as (users, positions), in order."""
    little = np.ascontiguousarray(bits, "<u8").view(np.uint8).reshape(len(bits), -1)
    rows, places = np.nonzero(np.unpackbits(little, axis=1, bitorder="little"))
    return rows, places


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
    """Return the key of the given rank by Hoare's selection; leaves the keys in disorder.

    NumPy's partition takes numba ten seconds to compile.
    """
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
def _mark_lowest(starts: np.ndarray, keys: np.ndarray, quota: np.ndarray, chosen: np.ndarray) -> None:
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
def _take_preferred(
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
    """Take level after level while a whole level fits into the quota; the first level that does not fit is tied.

    With `write` false it only counts, into `sizes`; with `write` true it writes the positions.
    """
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
