"""Test that numbers, names, rows and metadata do not reveal whose records they are.

Group numbers, pseudonyms and the rows of the files are drawn by key, so they must be independent of everything the
source orders people by: ids, rows of the source, activity, admission (the day of the first rating). A release numbered
by the lowest source id of each group has the right values and betrays the order all the same. Under an honest numbering
every order is equally likely, whatever the data are: the tests are exact, and 10⁻⁶ each keeps honest releases from
being refused by chance. The chances are of people who are still in the source: only one below the limit is stated, for
a smallest one would change with a released person's departure.

Not a violation: members in the order of their pseudonyms, groups in the order of their numbers, items in the order of
their ids (a catalogue is public). Items in any other order must be independent of the rows of the source, whose first
items are the first people's. Parquet footers may hold what follows from the published columns and nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.file_metadata import dated_before_their_data, foreign_metadata, row_group_sizes
from checks.evidence.source_matrix import NOWHERE
from checks.history.history import listed_before
from checks.privacy.pseudonyms import pseudonym_cores, ranks_of, strip_common_ends
from checks.registry import check
from checks.result import Finding
from checks.stats import chance_of_neighbours, chance_of_order, runs

LEAST_CHANCE = 1e-6
MOST_NAMED = 3  # dependences named in the detail


@dataclass(frozen=True)
class Dependence:
    """Hold one test: which order was compared with what of the source, and how likely chance explains it."""

    order: str
    source: str
    chance: float


@check(
    "ordering",
    threshold=0,
    as_published=True,
    whole=True,
    about=About(
        title="Ordering",
        summary="Look for the source's order in numbers and rows",
        knows="The attacker knows an order of the source: ids, rows, activity or first day.",
        tries="They compare it with group numbers, pseudonyms, rows and file metadata.",
        means="Numbers that follow the source name their owners one by one. None is allowed.",
        measure="orders and metadata that follow the source",
        unit="findings",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count orders of the release that follow an order of the source, and metadata that no published column explains;
    none is allowed."""
    tests = list(_tests(case))
    found = sorted((one for one in tests if one.chance < LEAST_CHANCE), key=lambda one: one.chance)
    metadata = foreign_metadata(case.release)
    metadata += dated_before_their_data(case.release, case.truth.days)
    named = "; ".join(f"{one.order} by {one.source} (p = {one.chance:.1g})" for one in found[:MOST_NAMED])
    return Finding(
        len(found) + len(metadata) <= threshold,
        len(found) + len(metadata),
        len(tests),
        f"{len(tests):,} orders of numbers, pseudonyms, rows and row groups were compared with ids, rows, activity and "
        f"admission in the source: {f'{len(found):,} follow it: {named}' if found else 'none follows it'} "
        f"(no p below {LEAST_CHANCE:g} is allowed). Metadata: {'; '.join(metadata) or 'none of its own'}.",
    )


def _tests(case: Case) -> Iterator[Dependence]:
    """Yield all tests; each draws from a stream of its own where values are equal."""
    known = _known_of_people(case)
    for (order, places), (source, values) in _pairs(_orders_of_people(case), known):
        yield from _compared(case, order, source, places, values)
    groups = dict(_known_of_groups(case, known))
    rows = np.arange(case.release.n_groups)
    numbers = {"group numbers": case.release.groups, "rows of groups": rows}
    for (order, places), (source, values) in _pairs(numbers, groups):
        yield from _compared(case, order, source, places, values)
    yield from _row_groups(case, groups)
    yield from _items(case)


def _pairs(
    orders: dict[str, np.ndarray], known: dict[str, np.ndarray]
) -> Iterator[tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]]:
    return ((order, source) for order in orders.items() for source in known.items())


def _compared(
    case: Case, order: str, source: str, places: np.ndarray, values: np.ndarray
) -> Iterator[Dependence]:
    """Yield whether an order follows values of the source, and whether neighbours in it do; NaN: not known."""
    there = ~np.isnan(values) & ~np.isnan(places)
    places, values, draw = places[there], values[there], case.draw("ordering", order, source)
    yield Dependence(order, source, chance_of_order(places, values, draw))
    chance = chance_of_neighbours(places, values, draw)
    yield Dependence(f"neighbours among {order}", source, chance)


def _known_of_people(case: Case) -> dict[str, np.ndarray]:
    """Return what the source orders people by, a row per person of the membership."""
    truth = case.truth
    there = (truth.row_of_user >= 0) & truth.seen
    rated = np.diff(truth.ratings.indptr)
    users = truth.membership.users
    known = {
        "source id": ranks_of(users),
        "source id as text": _as_text(users),  # the order in which ingest lists people
        "activity": rated,
    }
    if truth.first_rows is not None:
        known["source row"] = np.where(truth.first_rows < NOWHERE, truth.first_rows, np.nan)
    if truth.days is not None and truth.ratings.nnz:
        known["admission"] = np.full(len(rated), np.nan)
        starts = truth.ratings.indptr[:-1][rated > 0]
        known["admission"][rated > 0] = np.minimum.reduceat(truth.days, starts)
    return {name: np.where(there, values, np.nan) for name, values in known.items()}


def _orders_of_people(case: Case) -> dict[str, np.ndarray]:
    """Return the orders in which a release shows people."""
    people, release = case.truth.membership, case.release
    row = pc.index_in(people.pseudonyms, value_set=release.pseudonyms).to_numpy(zero_copy_only=False)
    return {
        "pseudonyms": ranks_of(pseudonym_cores(people)).astype(float),
        "rows of members": np.asarray(row, dtype=float),
    }


def _known_of_groups(case: Case, known: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the lowest, the mean and the highest of the members' values, and that of the member who is listed first."""
    groups = case.groups
    row = _orders_of_people(case)["rows of members"][groups.members]
    owner = np.repeat(np.arange(case.release.n_groups), groups.sizes)
    for name, values in known.items():
        own = values[groups.members]
        there = ~np.isnan(own)
        numbers, bounds = runs(owner[there])  # members lie by group
        value, starts = own[there], bounds[:-1]
        if not len(numbers):
            continue
        summaries = {"lowest": np.minimum.reduceat(value, starts)}
        if not case.single:
            listed_first = np.lexsort((row[there], owner[there]))[starts]
            summaries |= {
                "mean": np.add.reduceat(value, starts) / np.diff(bounds),
                "highest": np.maximum.reduceat(value, starts),
                "first member's": value[listed_first],
            }
        for which, summary in summaries.items():
            whole = np.full(case.release.n_groups, np.nan)
            whole[numbers] = summary
            yield f"{which} {name}", whole


def _row_groups(case: Case, groups: dict[str, np.ndarray]) -> Iterator[Dependence]:
    """Yield whether the sizes of the file's row groups follow what is known of the groups in them.

    Row groups are filled in the order of the group numbers, which is random: equal sizes, and sizes that follow from
    their number alone, depend on nothing.
    """
    sizes = row_group_sizes(case.release)
    if sum(sizes) != case.release.n_groups or len(set(sizes[:-1])) < 2:
        return
    owner = np.repeat(np.arange(len(sizes) - 1), sizes[:-1])  # the last one has what is left over
    for source, values in groups.items():
        known = ~np.isnan(values[: len(owner)])
        count = np.bincount(owner[known], minlength=len(sizes) - 1)
        total = np.bincount(owner[known], weights=values[: len(owner)][known], minlength=len(sizes) - 1)
        mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        yield from _compared(case, "sizes of row groups", source, np.array(sizes[:-1], dtype=float), mean)


def _items(case: Case) -> Iterator[Dependence]:
    """Yield whether items that are not in the order of their ids are in that of the source.

    The catalogue of a series grows by batches, which follow time: only the order inside the newest batch is tested.
    """
    items, first = case.release.items, case.truth.first_item_rows
    numbers = pa.array(strip_common_ends(items.to_pylist()), pa.string())  # "item 2" before "item 10"
    catalogue = (ranks_of(items), _as_text(items), ranks_of(numbers))
    if first is None or any((np.diff(rank) > 0).all() for rank in catalogue):
        return
    values = np.where((first < NOWHERE) & ~listed_before(case), first, np.nan)
    yield from _compared(case, "items", "source row", np.arange(len(items), dtype=float), values)


def _as_text(names: pa.Array) -> np.ndarray:
    return pc.rank(names).to_numpy().astype(np.int64)
