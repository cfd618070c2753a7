"""Measure whether the release itself ranks above popularity: the judge trains on its published rows.

The figures of the shadow run (checks/evidence/shadow_ranking.py) are about the shadow. Whether the release is as useful
is tested on its own rows: the judge learns item-to-item weights from them, with its own implementation of EASE
([Steck2019]), asks them with the histories of the people whom the shadow run asked, and compares the ranks of what they
liked with the ranks by popularity. Rows of random or shuffled items rank as if by chance, and rows drawn from the
popularity of items rank as popularity does. A blank cell of support.parquet is not 0: it gets its share of the item's
raters that no published cell shows, fewer than min_contributors where others are shown, since popularity is nearly
public; what ranks above popularity must then come from which group has which count. The release was made from all
ratings, what is looked for here included, so this is no measure of usefulness, and passing it is not enough.

    asked.parquet   user (source id) · number (as in ranking.parquet) · item (name) · liked (held out, and relevant)
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.linalg
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.release import Release
from checks.evidence.shadow_ranking import Mean, Ranks, ndcg
from tasks.errors import Refused

FILE = "asked.parquet"
SUPPORT = "support.parquet"
RIDGE = 4.0  # of the mean diagonal of the Gram matrix
MOST_ITEMS = 4_000  # the most listed ones; a Gram matrix of so many takes 128 MB
ROWS_AT_ONCE = 1_024
PEOPLE_AT_ONCE = 256
_COLUMNS = ("number", "item", "liked")


def support_of(case: Case) -> Path | None:
    """Return the file with the numbers of raters of each group, where the release has one."""
    directory = getattr(case.release, "directory", None)
    path = directory / SUPPORT if directory else None
    return path if path is not None and path.exists() else None


def above_popularity(case: Case, ranks: Ranks) -> Mean:
    """Return by how much the release's own rows rank what was liked above popularity, in nDCG@10."""
    release = case.release
    assert case.private is not None
    assert isinstance(release, Release)
    asked = _read(case.private / "utility" / FILE)
    rows, fill, sizes = _rows(case)
    listed = np.asarray(rows.sum(axis=0)).ravel() + fill * rows.shape[0]
    chosen = np.sort(np.argsort(-listed, kind="stable")[:MOST_ITEMS])
    place = np.full(release.n_items + 1, -1, np.int64)  # the last is for items that are not released
    place[chosen] = np.arange(len(chosen))
    weights = _ease(sp.csr_array(rows[:, chosen]), fill[chosen], sizes)
    found = pc.index_in(asked.column("item").combine_chunks().cast(pa.string()), value_set=release.items)
    item = place[pc.fill_null(found, release.n_items).to_numpy()]
    person, liked = (asked.column(name).to_numpy() for name in ("number", "liked"))
    rank = _ranks(weights, person, item, liked)
    of_release, by_popularity = ndcg(person[liked], rank), ranks.ndcg("popularity")
    # People who were erased are missing in one of the files.
    _, one, other = np.intersect1d(
        np.unique(person[liked]), ranks.people, assume_unique=True, return_indices=True
    )
    if not len(one):
        raise Refused("nobody is left whose ranks could be compared", where=FILE)
    return Mean.of(of_release[one] - by_popularity[other])


def _read(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path, columns=list(_COLUMNS)).combine_chunks()
    except (OSError, pa.ArrowException):
        raise Refused(
            "the shadow run left no histories to ask the release with",
            where=FILE,
            remedy="run the release anew",
        ) from None
    if any(table.column(name).null_count for name in _COLUMNS):
        raise Refused("the histories have nulls", where=FILE)
    return table.sort_by("number")


def _rows(case: Case) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Return what the release says of who rated what, and the number of people of each row: shares of raters where it
    has them, else the listed items. A row is the sparse one plus the second result, the same for all."""
    release = case.release
    support = support_of(case)
    sizes = release.sizes.astype(np.float64)
    if support is None:
        blocks = [block.pattern() for block in release.blocks()]
        return sp.csr_array(sp.vstack(blocks, format="csr")), np.zeros(release.n_items, np.float32), sizes
    table = pq.read_table(support)
    group, item, raters = (table.column(name).to_numpy() for name in ("group", "item", "raters"))
    if len(group) and (
        min(group.min(), item.min()) < 0 or group.max() >= len(sizes) or item.max() >= release.n_items
    ):
        raise Refused("it has cells outside the release", where=SUPPORT)
    raters_of_item = case.truth.item_totals[0]
    shown, people = (
        np.bincount(item, weights=of, minlength=release.n_items) for of in (raters, sizes[group])
    )
    rest = np.maximum(raters_of_item - shown, 0) / np.maximum(sizes.sum() - people, 1)
    # The highest count of an item may stand for more raters than it says: they are not in the blank cells.
    most = np.where(people > 0, (max(1, release.min_contributors) - 1) / np.median(sizes), 1.0)
    fill = np.minimum(rest, most).astype(np.float32)
    apart = (raters / np.maximum(sizes, 1)[group]).astype(np.float32) - fill[item]
    return sp.csr_array((apart, (group, item)), shape=(len(sizes), release.n_items)), fill, sizes


def _ease(rows: sp.csr_array, fill: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return item-to-item weights B = −P/diag(P), P = (G + λI)⁻¹."""
    gram = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, rows.shape[0], ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        block = (rows[some].toarray() + fill) * np.sqrt(sizes[some]).astype(np.float32)[:, None]
        gram += block.T @ block
    diagonal = np.einsum("ii->i", gram)
    diagonal += max(RIDGE * diagonal.mean(), np.finfo(np.float32).tiny) if len(diagonal) else 0
    inverse = scipy.linalg.inv(gram, overwrite_a=True, assume_a="pos")
    weights = (inverse / -np.diag(inverse)).astype(np.float32)
    np.fill_diagonal(weights, 0)
    return weights


def _ranks(weights: np.ndarray, person: np.ndarray, item: np.ndarray, liked: np.ndarray) -> np.ndarray:
    """Return the rank of each liked item among all items outside the person's history, the worst of a tie; 0 where the
    item takes no part. `person` is ascending."""
    people, place = np.unique(person, return_inverse=True)
    ranks = np.zeros(int(liked.sum()), np.int64)
    number = np.cumsum(liked) - 1
    for start in range(0, len(people), PEOPLE_AT_ONCE):
        cells = slice(*np.searchsorted(place, [start, start + PEOPLE_AT_ONCE]).tolist())
        row, column, wanted = place[cells] - start, item[cells], liked[cells]
        known = ~wanted & (column >= 0)
        history = np.zeros((min(PEOPLE_AT_ONCE, len(people) - start), weights.shape[0]), np.float32)
        history[row[known], column[known]] = 1
        scores = history @ weights
        scores[history > 0] = np.nan  # no comparison with it is true
        some = np.flatnonzero(wanted & (column >= 0))
        own = scores[row[some], column[some]]
        ranks[number[cells][some]] = (scores[row[some]] >= own[:, None]).sum(axis=1)
    return ranks
