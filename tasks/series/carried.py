"""Assemble a whole release: groups that are carried over with unchanged bytes, and the groups of the new cohort.

A group is taken from the newest release that lists it, and compared with the digest that the ledger has of its first
publication. All groups get new numbers in a keyed order, so that numbers do not say which ones are new.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.data import profiles, support
from tasks.data.support import Support
from tasks.errors import MurmurError, Refused
from tasks.series.entry import profile_digests
from tasks.series.ledger import Ledger
from tasks.series.row_store import RowStore
from tasks.series.rows import PublishedRelease
from tasks.store import Store, read_json

SUPPORT = "support"  # in a form: whether counts of raters are published


@dataclass(frozen=True)
class CarriedGroups:
    """Hold the groups that are carried over, in the order of `ids`, and who is in them (`place` in that order)."""

    ids: np.ndarray
    sizes: np.ndarray
    people: pa.Array
    place: np.ndarray
    support: Support  # of these groups, numbered by their place in `ids`; items by position in the catalogue


def files_of(store: Store, release: PublishedRelease) -> Path | None:
    """Return the directory of a release's public files, published or withdrawn; None: they are gone."""
    below = store.root / "published" / release.name / release.directory
    withdrawn = store.root / "private" / release.name / release.directory / "withdrawn"
    return next((place for place in (below, withdrawn) if (place / "groups.parquet").exists()), None)


def support_of(directory: Path) -> Path | None:
    """Return the file with a release's counts of raters; None: it publishes none."""
    file = directory / support.FILE
    return file if file.exists() else None


def read_carried(
    store: Store,
    ledger: Ledger,
    wanted: Sequence[int],
    rows: RowStore,
    form: dict[str, object],
    *,
    before: int | None = None,
) -> CarriedGroups:
    """Read the profiles of these groups (by the ledger's numbers) into `rows`, and their people.

    `form` is what their release's manifest must state about method and ratings.
    """
    known = {group.id: group for group in ledger.groups(before=before, state=None)}
    missing = dict.fromkeys(wanted)
    order: list[int] = []
    people: list[pa.Array] = []
    place: list[np.ndarray] = []
    counts = Support.empty()
    for release in reversed(ledger.releases(before=before)):
        numbers = ledger.listed(release.id)
        here = {numbers[one]: one for one in missing if one in numbers}
        directory = files_of(store, release) if here else None
        if directory is None:
            continue
        refuse_other_form(directory, form)
        _verify(directory, {number: known[one].profile for number, one in here.items()})
        read = rows.add_published(directory, np.array(sorted(here)))
        first = len(order)
        order += [here[int(number)] for number in read]
        if (file := support_of(directory)) is not None:
            counts = counts.joined(_support_of_groups(file, read, first))
        owner = pq.read_table(
            store.root / "private" / release.name / release.directory / "membership.parquet"
        )
        label = owner.column("group").to_numpy()
        by_number = np.argsort(read)
        found = by_number[np.minimum(np.searchsorted(read[by_number], label), len(read) - 1)]
        inside = read[found] == label
        people.append(owner.column("user").combine_chunks().filter(pa.array(inside)))
        place.append(first + found[inside])
        for one in here.values():
            del missing[one]
    if missing:
        raise MurmurError(
            f"the files of {len(missing):,} groups that were published are gone",
            where=str(store.root / "published"),
            remedy="restore the published releases from a backup; `murmur ledger CONFIG --check` names what is missing",
        )
    sizes = np.array([known[one].size for one in order], np.int64)
    return CarriedGroups(
        np.array(order, np.int64),
        sizes,
        pa.concat_arrays(people) if people else pa.array([], pa.string()),
        np.concatenate([np.empty(0, np.int64), *place]),
        counts,
    )


def _support_of_groups(file: Path, numbers: np.ndarray, first: int) -> Support:
    """Return the published counts of these groups, numbered from `first` on. Positions of items never change."""
    published = Support.read(file)
    highest = int(max(numbers.max(initial=0), published.group.max(initial=0)))
    place = np.full(highest + 1, -1, np.int32)
    place[numbers] = np.arange(first, first + len(numbers), dtype=np.int32)
    return published.placed(place, np.arange(int(published.item.max(initial=-1)) + 1, dtype=np.int32))


def as_of(ledger: Ledger, groups: Iterable[int], snapshot: str) -> str | None:
    """Return the newest snapshot whose ratings are behind one of these groups (by the ledger's numbers); None: no group
    was first published for a later snapshot than this one."""
    wanted, since = set(groups), {release.id: release.snapshot for release in ledger.releases()}
    first = (since[group.release_id] for group in ledger.groups(state=None) if group.id in wanted)
    newest = max(first, default=snapshot)
    return newest if newest > snapshot else None


def refuse_other_form(directory: Path, form: dict[str, object]) -> None:
    """Refuse to carry groups over into a release of another form: their bytes would mean something else there."""
    before = read_json(directory / "manifest.json")
    before = {**before, SUPPORT: support.FILE in before["files"]}
    changed = [name for name, value in form.items() if before[name] != value]
    if changed:
        raise Refused(
            f"{', '.join(changed)} of this release {'is' if len(changed) == 1 else 'are'} not what earlier releases of "
            "the population have, whose groups are carried over with unchanged bytes",
            where="privacy.method, privacy.rating_step, privacy.support, source.scale",
            remedy="use the settings of the first release, or begin a new population of people never released before",
        )


def _verify(directory: Path, expected: dict[int, str]) -> None:
    """Compare the profiles with the ledger's digests: a changed one must not be published again."""
    items = pq.read_table(directory / "items.parquet").column("item").to_pylist()
    heads = pq.read_table(directory / "groups.parquet", columns=["group"]).column("group").to_numpy()
    counts = support_of(directory)
    found = dict(
        zip(heads.tolist(), profile_digests(directory / "groups.parquet", items, counts), strict=True)
    )
    changed = sum(found.get(number) != digest for number, digest in expected.items())
    if changed:
        raise MurmurError(
            f"{changed:,} published groups are not what the ledger has",
            where=str(directory),
            remedy="restore the release from a backup; a published release never changes",
        )


@dataclass(frozen=True)
class Numbering:
    """Hold the numbers of a release's groups: `of_carried` and `of_cohort` by their own order."""

    of_carried: np.ndarray
    of_cohort: np.ndarray


def number_groups(carried: int, cohort: int, rng: np.random.Generator) -> Numbering:
    """Draw the numbers of all groups of a release."""
    number = rng.permutation(carried + cohort).astype(np.int32)
    return Numbering(number[:carried], number[carried:])


def extend_catalogue(catalogue: list[str], items: list[str]) -> tuple[list[str], list[str], np.ndarray]:
    """Return the catalogue with further items behind it, these items, and the position of each of `items`.

    A batch is sorted by id: an order that follows from the set alone.
    """
    known = set(catalogue)
    entering = sorted((item for item in items if item not in known), key=lambda item: item.encode())
    whole = [*catalogue, *entering]
    place = {item: position for position, item in enumerate(whole)}
    return whole, entering, np.array([place[item] for item in items], np.int32)


def write_whole(path: Path, rows: RowStore, number: np.ndarray, n_items: int) -> None:
    """Write groups.parquet: row r of the store becomes group `number[r]`."""
    order = np.argsort(number)
    profiles.write_tables(path, rows.tables(order, n_items))
