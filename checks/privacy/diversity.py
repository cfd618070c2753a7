"""Test (1,l)- and (b,l)-diversity ([Chang2009], definitions 5.2 and 5.3).

Every item, and every set of b items that one person really rated, must lie inside at least l groups, so that knowing
these items leaves l groups to choose from. Where every record is one person's, the groups are people: an item that only
one of them has identifies that person.
"""

import math
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from checks.about import About
from checks.evidence.case import Case
from checks.registry import check
from checks.result import Finding
from tasks.errors import Refused

BLOCK_ITEMS = 512
MAX_SETS = 2_000_000
MAX_PAIRS = 20_000_000_000  # of items together in a record or rated by one person: some ten minutes


@check(
    "diversity",
    threshold=1,
    offline=True,
    larger_is_safer=True,
    whole=True,
    about=About(
        title="Item diversity (l)",
        summary="Count the groups around each item",
        knows="The attacker knows that a person rated an item, or a set of items.",
        tries="They look for the groups that have it.",
        means="With at least l groups to choose from, an item alone does not lead to a group.",
        measure="fewest groups around an item",
        unit="groups",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count the fewest groups around an item or a rated b-set; at least the manifest's l (and the threshold, if
    higher)."""
    release = case.release
    needed = max(release.l, threshold)
    groups = _groups_per_item(case)
    fewest, sets = int(groups.min(initial=2**31)) if len(groups) else 0, release.n_items
    short = int((groups < needed).sum())
    detail = (
        f"(1,{needed:g}): each of {release.n_items:,} items lies in at least {fewest:,} groups "
        f"({short:,} fall short)."
    )
    if release.b > 1:
        if release.complete:
            fewest = min(fewest, release.n_groups)
            detail += (
                f" ({release.b},{needed:g}): every group has every item, so every set lies in all "
                f"{release.n_groups:,}."
            )
        elif case.offline:
            detail += f" ({release.b},{needed:g}) needs the source: not examined here, `murmur audit` does."
        else:
            found, rated, missing = _sets(case, needed)
            if release.manifest.get("series") == "checked" and not missing:
                # How many sets there are depends on which released people are still in the source.
                detail += f" ({release.b},{needed:g}): no set that a person rated falls short."
            else:
                fewest, sets = min(fewest, found), rated
                detail += (
                    f" ({release.b},{needed:g}): {missing:,} of {sets:,} sets that a person rated "
                    f"fall short, fewest {found:,}."
                )
    if release.complete:  # enough groups are then all that it needs
        detail += " Every group holds every item."
    return Finding(fewest >= needed, fewest, sets, detail, threshold=needed, applicable=not release.complete)


def _groups_per_item(case: Case) -> np.ndarray:
    if case.release.complete:
        return np.full(case.release.n_items, case.release.n_groups)
    counts = np.zeros(case.release.n_items, dtype=np.int64)
    for block in case.release.blocks():
        counts += block.rows if block.items is None else np.bincount(block.items, minlength=block.n_items)
    return counts


def _sets(case: Case, needed: float) -> tuple[int, int, int]:
    """Return the fewest groups around a rated b-set, the number of different rated b-sets, and the number that fall
    short."""
    if case.release.b == 2:
        return _pairs(case, needed)
    return _larger_sets(case, needed)


def _pairs(case: Case, needed: float) -> tuple[int, int, int]:
    """Count pairs by two sparse products per block of items: rated together, and published together."""
    ratings = case.truth.ratings
    lengths = (np.diff(ratings.indptr), case.release.lengths)
    if sum(float((own.astype(np.float64) ** 2).sum()) for own in lengths) > MAX_PAIRS:
        raise Refused(
            "(2,l)-diversity cannot be proved: people rated, and groups publish, too many pairs of items to look at "
            "each; promise b = 1, or use predictive-padded, where every group has every item",
            where="privacy.b",
            remedy="lower privacy.b or use predictive-padded",
        )
    ones = np.ones(ratings.nnz, dtype=np.float32)
    rated = sp.csc_array(sp.csr_array((ones, ratings.indices, ratings.indptr), shape=ratings.shape))
    published = sp.csc_array(sp.vstack([block.pattern() for block in case.release.blocks()], format="csr"))
    fewest, total, short = 2**31, 0, 0
    for start in range(0, case.release.n_items, BLOCK_ITEMS):
        part = slice(start, min(start + BLOCK_ITEMS, case.release.n_items))
        together = (rated[:, part].T @ rated).toarray() > 0
        together &= (
            np.arange(case.release.n_items) > np.arange(part.start, part.stop)[:, None]
        )  # each pair once
        groups = (published[:, part].T @ published).toarray()[together]
        fewest = min(fewest, int(groups.min(initial=2**31)))
        total += len(groups)
        short += int((groups < needed).sum())
    return fewest, total, short


def _larger_sets(case: Case, needed: float) -> tuple[int, int, int]:
    """Count sets of three and more by listing them, where that is feasible; otherwise they are not proved,
    so failed."""
    b = case.release.b
    lengths = np.diff(case.truth.ratings.indptr)
    if sum(math.comb(int(length), b) for length in lengths) > MAX_SETS:
        raise Refused(
            f"({b},l)-diversity cannot be proved: people rated too many sets of {b} items to look at each; "
            "promise b = 1 or 2, or use predictive-padded, where every group has every item",
            where="privacy.b",
            remedy="lower privacy.b or use predictive-padded",
        )
    indptr, indices = case.truth.ratings.indptr, case.truth.ratings.indices
    sets = {  # bounded by MAX_SETS above
        tuple(chosen)
        for user in range(case.truth.users)
        for chosen in combinations(indices[indptr[user] : indptr[user + 1]].tolist(), b)
    }
    published = sp.csc_array(sp.vstack([block.pattern() for block in case.release.blocks()], format="csr"))
    bits = np.packbits(published.toarray().astype(bool), axis=0)
    wanted = np.array(sorted(sets), dtype=np.int64).reshape(-1, b)
    counts = np.empty(len(wanted), dtype=np.int64)
    for start in range(0, len(wanted), 100_000):
        part = wanted[start : start + 100_000]
        counts[start : start + 100_000] = np.bitwise_count(np.bitwise_and.reduce(bits[:, part], axis=2)).sum(
            axis=0
        )
    return int(counts.min(initial=2**31)), len(wanted), int((counts < needed).sum())
