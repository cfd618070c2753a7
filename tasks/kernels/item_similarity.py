"""Measure how similar two items are by the ratings of users who rated both ([RFPP], section 5.1, equation 6).

Only the requested rows are computed, those of candidates against all items, one candidate after the other over the
rows of its raters: the sums of one candidate (items × a few numbers) stay in the cache, and nothing of the size items
× items exists unless all items are candidates.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numba import njit

from tasks.kernels.candidate_items import pack_bits

_AT_ONCE = 64  # candidates whose sums are in memory
SIMILARITIES = ("compound", "pearson", "cosine", "adjusted-cosine", "jaccard")
QUOTIENTS = {
    "exp(-n)": lambda n: np.exp(-n),
    "1/n": lambda n: 1 / n,
    "1/sqrt(n)": lambda n: 1 / np.sqrt(n),
    "1/(1+log(n))": lambda n: 1 / (1 + np.log(n)),
    "1": lambda n: np.ones_like(n),
}


def similarities(
    ratings: sp.csr_array, candidates: np.ndarray, similarity: str = "compound", quotient: str = "exp(-n)"
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the similarity of some candidates at a time to every item, (candidates at once, items), in the
    candidates' order.

    The value is −∞ where no user rated both or the measure is undefined (a correlation of constants). All measures
    but Jaccard run over users who rated both, like equation 6: [RFPP] treats them as measures of rating, and Jaccard
    as the measure of common raters.

    - compound: 1 − mean|Δ| · quotient(n), with n users who rated both
    - pearson: about the means of both items among these users; cosine: about 0
    - adjusted-cosine: about every user's own mean rating
    - jaccard: n / users who rated either
    """
    if similarity not in SIMILARITIES or quotient not in QUOTIENTS:
        raise ValueError(
            f"similarity must be one of {', '.join(SIMILARITIES)} and quotient one of {', '.join(QUOTIENTS)}, "
            f"got '{similarity}' and '{quotient}'"
        )
    values = ratings.data.astype(np.float64)
    if similarity == "adjusted-cosine":
        counts = np.diff(ratings.indptr)
        row = np.repeat(np.arange(len(counts)), counts)
        values -= (np.bincount(row, values, len(counts)) / np.maximum(counts, 1))[row]
    by_user = sp.csr_array((values, ratings.indices, ratings.indptr), shape=ratings.shape)
    by_item = sp.csc_array(by_user)
    raters = np.diff(by_item.indptr)
    products = similarity not in ("compound", "jaccard")
    for start in range(0, len(candidates), _AT_ONCE):
        some = np.asarray(candidates[start : start + _AT_ONCE], np.int64)
        sums = np.zeros((len(some), 6 if products else 2, ratings.shape[1]))
        _overlap(
            by_item.indptr, by_item.indices, by_item.data, by_user.indptr, by_user.indices, by_user.data, some, sums
        )  # fmt: skip
        with np.errstate(divide="ignore", invalid="ignore"):
            yield _measure(sums, similarity, quotient, raters, some)


def _measure(
    sums: np.ndarray, similarity: str, quotient: str, raters: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    both = sums[:, 0]
    if similarity == "jaccard":
        found = both / (raters[candidates][:, None] + raters - both)
    elif similarity == "compound":
        found = 1 - sums[:, 1] / both * QUOTIENTS[quotient](both)
    else:
        left, right, product, left_square, right_square = (sums[:, part] for part in range(1, 6))
        if similarity == "pearson":
            product = product - left * right / both
            left_square, right_square = left_square - left**2 / both, right_square - right**2 / both
        # Constants have no variance; what is left of it is rounding.
        spread = (left_square > 1e-9) & (right_square > 1e-9)
        found = np.where(spread, product / np.sqrt(np.where(spread, left_square * right_square, 1)), -np.inf)
    return np.where(both > 0, found, -np.inf)


def find_similar(
    ratings: sp.csr_array,
    candidates: np.ndarray,
    threshold: float,
    similarity: str = "compound",
    quotient: str = "exp(-n)",
) -> npt.NDArray[np.uint64]:
    """Return the candidates that every item is similar to, above the threshold β, as bits, (items, words)."""
    above = [block > threshold for block in similarities(ratings, candidates, similarity, quotient)]
    empty = np.zeros((0, ratings.shape[1]), bool)
    return pack_bits(np.concatenate([*above, empty]).T)


@njit(cache=True, nogil=True)
def _overlap(
    item_indptr: np.ndarray,
    item_users: np.ndarray,
    item_values: np.ndarray,
    user_indptr: np.ndarray,
    user_items: np.ndarray,
    user_values: np.ndarray,
    candidates: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Sum per candidate and item over users who rated both: their number, then Σ|x−y| or Σx Σy Σxy Σx² Σy²."""
    products = sums.shape[1] > 2
    for c in range(len(candidates)):
        here = sums[c]
        both, first = here[0], here[1]
        for p in range(item_indptr[candidates[c]], item_indptr[candidates[c] + 1]):
            u, x = item_users[p], item_values[p]
            for q in range(user_indptr[u], user_indptr[u + 1]):
                i, y = user_items[q], user_values[q]
                both[i] += 1
                if products:
                    first[i] += x
                    here[2][i] += y
                    here[3][i] += x * y
                    here[4][i] += x * x
                    here[5][i] += y * y
                else:
                    first[i] += abs(x - y)
