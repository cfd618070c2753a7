"""Find copies of people among synthetic rows: a row that has nearly all of a person's items with the same ratings.

A row drawn from noisy sums resembles people by chance only, and long records never. So both directions are measured:
how many rows are copies of anybody, and how many people have a copy. Similarity is the share of (item, rating) pairs
that row and person have in common, of all that either has; a *copy* has at least 0.7 of them, where both have at least
12 ratings of the chosen items. Shorter records may agree by chance: the shadows' absent people, of whom no row can be a
copy, show how often.

What gates: copies are at most one row in a thousand beyond the share of absent people who seem to have one; and no row
of 20 ratings and more may agree with anybody in 0.9 of them, however many rows there are. All rows and people are
compared, of large data a sample of the rows; complete agreement is looked for among all rows. The control replaces one
row in a hundred by a person's record of which a tenth of the ratings were changed: it must be found.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from checks.about import About
from checks.evidence.case import Case
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk
from checks.synthetic.people import people_of, rows_of, shadows_of
from checks.synthetic.similarity import Pairs, nearest, pairs_of

COPY = 0.7  # more than two thirds of what either has is the same: no longer a similar taste
FEWEST = 12  # ratings: of shorter records a few popular films are most
VERBATIM = 0.9
LONG = 20  # ratings of which nine in ten never agree by chance
PLANTED_SHARE = 0.01
CHANGED_SHARE = 0.1
MOST_COMPARED = 60_000_000  # rows × people that are compared: some seconds
MOST_LEVELS = 21


@dataclass(frozen=True)
class Copies:
    """Hold how many of the long records of one side have a copy on the other."""

    copied: int
    verbatim: int
    records: int

    @property
    def share(self) -> float:
        """Share of the records."""
        return self.copied / self.records if self.records else 0.0


@check(
    "copied-rows",
    threshold=0.001,
    controlled=True,
    whole=True,
    as_published=True,
    units=("synthetic",),
    about=About(
        title="Copied rows",
        summary="Find copies of people among synthetic rows",
        knows="The attacker has all synthetic rows and the full record of every person.",
        tries="It looks for rows that agree with a person in most items and ratings.",
        means="A copied row is a person's record. Only as many are allowed as chance explains.",
        measure="share of rows that are copies of a person, beyond chance",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count rows that are copies of a person's record, and people who have a copy, beyond what chance explains."""
    ratings = people_of(case).on(case.release.items)
    levels = _levels(ratings)
    people, rows = pairs_of(ratings, levels), pairs_of(rows_of(case.release), levels)
    compared = rows.take(_some(case, rows, people))
    of_rows = count_copies(compared, people)
    of_people = count_copies(people.take(_some(case, people, compared)), compared)
    equal = equal_records(rows, people)
    by_chance = _chance(case, levels)
    allowed = threshold + by_chance.share
    planted = count_copies(_planted(case, len(compared), people, len(levels)), people)
    found_share = planted.copied / max(1, len(compared))
    worst = max(of_rows.share, of_people.share)
    detail = (
        f"of {of_rows.records:,} rows with at least {FEWEST} ratings {of_rows.copied:,} are copies of somebody "
        f"({of_rows.verbatim:,} nearly verbatim, {equal:,} equal among all rows), of {of_people.records:,} people "
        f"{of_people.copied:,} have a copy; of {by_chance.records:,} people left out of shadows "
        f"{by_chance.copied:,} seem to have one. Control, 1 % of the rows replaced by records with a tenth of the "
        f"ratings changed: {planted.copied:,} of {planted.records:,} found."
    )
    return Finding(
        worst <= allowed and not of_rows.verbatim and not of_people.verbatim and not equal,
        worst,
        of_rows.records + of_people.records,
        detail,
        control=not planted.records or found_share > threshold,
        threshold=allowed,
        outcomes=(
            Outcome("rows", Risk(of_rows.copied, of_rows.records, by_chance.share)),
            Outcome("people", Risk(of_people.copied, of_people.records, by_chance.share)),
        ),
        applicable=bool(of_rows.records and of_people.records),
    )


def count_copies(some: Pairs, among: Pairs) -> Copies:
    """Count the long records of `some` that agree with one of `among`."""
    long = np.flatnonzero(some.lengths >= FEWEST)
    others = among.take(np.flatnonzero(among.lengths >= FEWEST))
    best = nearest(some.take(long), others)
    verbatim = (best >= VERBATIM) & (some.lengths[long] >= LONG)
    return Copies(int((best >= COPY).sum()), int(verbatim.sum()), len(long))


def equal_records(rows: Pairs, people: Pairs) -> int:
    """Count the rows of at least FEWEST ratings that are exactly a person's record, among all of them."""
    draw = np.random.default_rng(len(rows))
    token = draw.integers(0, 2**63, rows.sets.shape[1], dtype=np.int64)
    of_rows, of_people = (_sums(side, token)[side.lengths >= FEWEST] for side in (rows, people))
    return int(np.isin(of_rows, of_people).sum())


def _sums(side: Pairs, token: np.ndarray) -> np.ndarray:
    """Return the sum of the tokens of each record's pairs: equal records have equal sums, others hardly ever."""
    total = np.concatenate(
        [[0], np.cumsum(token[side.sets.indices])]
    )  # wraps around, which keeps differences
    found: np.ndarray = total[side.sets.indptr[1:]] - total[side.sets.indptr[:-1]]
    return found


def _some(case: Case, side: Pairs, other: Pairs) -> np.ndarray:
    most = max(1, MOST_COMPARED // max(1, len(other)))
    if len(side) <= most:
        return np.arange(len(side))
    return np.sort(case.draw("copied rows", len(side)).permutation(len(side))[:most])


def _chance(case: Case, levels: np.ndarray) -> Copies:
    """Count the absent people of all shadows who seem to have a copy in them."""
    found = [
        count_copies(pairs_of(one.absent, levels), pairs_of(one.rows, levels)) for one in shadows_of(case)
    ]
    return Copies(
        sum(one.copied for one in found),
        sum(one.verbatim for one in found),
        sum(one.records for one in found),
    )


def _planted(case: Case, rows: int, people: Pairs, width: int) -> Pairs:
    """Return people's records in which a tenth of the ratings changed: as many as one in a hundred rows."""
    draw = case.draw("planted copies")
    long = np.flatnonzero(people.lengths >= FEWEST)
    if not len(long):
        return people.take(long)
    copies = people.take(draw.choice(long, max(1, round(PLANTED_SHARE * rows))))
    columns = copies.sets.indices.copy()
    other = draw.random(len(columns)) < CHANGED_SHARE
    item, level = np.divmod(columns, width)
    columns[other] = (item * width + (level + 1) % width)[other]
    changed = sp.csr_array((copies.sets.data, columns, copies.sets.indptr), shape=copies.sets.shape)
    return Pairs(changed, copies.lengths)


def _levels(ratings: sp.csr_array) -> np.ndarray:
    values = np.unique(ratings.data)
    return values if len(values) <= MOST_LEVELS else np.linspace(values[0], values[-1], MOST_LEVELS)
