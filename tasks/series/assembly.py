"""Make the contents of a release: of a series, carried-over groups and a cohort; else what the steps made.

Whatever the mode, the ledger enters who was released in which group: an independent release must have no successor.
"""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.data import support
from tasks.data.candidate import Contents, Declaration, read_withheld, recorded_digest
from tasks.data.profiles import read_sizes
from tasks.data.ratings import Ratings, user_blocks
from tasks.data.support import Support
from tasks.series import versions
from tasks.series.carried import (
    SUPPORT,
    CarriedGroups,
    as_of,
    extend_catalogue,
    number_groups,
    read_carried,
    write_whole,
)
from tasks.series.cohort_ratings import read_plan, withheld_in_public
from tasks.series.entry import profile_digests, write_entry
from tasks.series.ledger import Ledger
from tasks.series.row_store import RowStore
from tasks.series.rows import Spending
from tasks.store import Store, digest, remove


@dataclass(frozen=True)
class Request:
    """Hold which release is made."""

    store: Store
    population: str
    release: str
    snapshot: datetime.date
    declared: Declaration
    source: str  # the state of the source and of the settings, by which a rerun is recognised


@dataclass(frozen=True)
class Cohort:
    """Hold the results of the steps: the people who are released for the first time, their groups and profiles."""

    ratings: Ratings
    labels: np.ndarray
    groups: Path

    @classmethod
    def read(cls, ratings: Path, groups: Path, profiles: Path) -> "Cohort | None":
        """Return the results; None: the steps had nothing to do."""
        labels = groups / "labels.npy"
        return (
            cls(Ratings(ratings), np.load(labels), profiles / "groups.parquet") if labels.exists() else None
        )

    def support(self, declared: Declaration) -> Support:
        """Return what may be published of these groups' counts of raters, numbered as in the labels."""
        return Support.of_cohort(self.ratings, self.labels, declared.privacy["min_contributors"])


@dataclass(frozen=True)
class Released:
    """Hold the contents of a release, who is in it (`labels`: group numbers), and what the ledger will enter."""

    contents: Contents
    ids: pa.Array
    labels: np.ndarray
    request: Request
    mode: str
    head: str | None  # of the ledger that it was planned against; None: it depends on nothing in there
    carried: Sequence[tuple[int, int]]  # the ledger's number of a group, its number here
    cohort: Cohort | None
    new_numbers: np.ndarray  # of the cohort's groups
    entering: list[str]
    place: np.ndarray  # of the cohort's items in the catalogue
    budget: Spending | None = None
    blocked: str | None = None

    @property
    def newcomers(self) -> int:
        """Return how many people are released for the first time, pooled survivors included."""
        return 0 if self.cohort is None else len(self.cohort.labels)

    def write_entry(self, private: Path) -> None:
        """Write what the ledger enters when this release is published, beside the owner's files."""
        write_entry(
            private / "ledger",
            head=self.head,
            mode=self.mode,
            k=self.request.declared.privacy.get("k", 0),
            source=self.request.source,
            population=self.request.population,
            carried=self.carried,
            groups=self._new_groups(),
            persons=self._new_persons(),
            items=self.entering,
            other_items=[],
            budget=self.budget,
            blocked=self.blocked,
        )

    def _new_groups(self) -> pa.Table:
        """Return a row for each new group; its place is its number, since rows are in the order of the numbers."""
        number = np.sort(self.new_numbers)
        strata = self._of_groups("strata.npy", number)
        pools = self._of_groups("pools.npy", number)
        shown = self.contents
        profile = profile_digests(shown.groups, shown.items, shown.support) if len(number) else []
        columns = {
            "place": pa.array(number, pa.int32()),
            "size": pa.array(read_sizes(self.contents.groups)[number], pa.int32()),
            "profile": pa.array([profile[one] for one in number.tolist()], pa.string()),
            "number": pa.array(number, pa.int32()),
            "stratum": pa.array([str(one) for one in strata.tolist()], pa.string()),
            "pool": pa.array(pools, pa.int32(), mask=pools < 0),
        }
        return pa.table(columns)

    def _of_groups(self, file: str, numbers: np.ndarray) -> np.ndarray:
        """Return what the cohort's plan says of the members of each new group, who all have the same; −1: nothing."""
        found = np.full(len(numbers), -1, np.int32)
        if self.cohort is not None and (path := self.cohort.ratings.directory / file).exists():
            found[np.searchsorted(numbers, self.new_numbers[self.cohort.labels])] = np.load(path)
        return found

    def _new_persons(self) -> tuple[pa.Array, np.ndarray, Iterator[bytes]]:
        """Return source ids, the row of each one's group, and the ratings that the release was made of."""
        if self.cohort is None:
            return pa.array([], pa.string()), np.empty(0, np.int32), iter(())
        return self.cohort.ratings.user_ids(), self.new_numbers[self.cohort.labels], self._versions()

    def _versions(self) -> Iterator[bytes]:
        """Yield what the ledger keeps of each of the cohort's people, in their order."""
        assert self.cohort is not None
        for block in user_blocks(self.cohort.ratings):
            yield from versions.encode_rows(block.indptr, self.place[block.items()], block.values())


def assemble(
    request: Request,
    ingest: Path,
    cohort: Cohort | None,
    out: Path,
    rng: np.random.Generator,
) -> Released:
    """Make the contents of a release in `out`; `ingest` has the plan, where the release belongs to a series. `rng`
    numbers the groups.

    Without the cohort that was planned, its people wait like all others.
    """
    plan = read_plan(ingest)
    with Ledger.open(request.store, request.population) as ledger:
        published = ledger.find(request.release, request.snapshot.isoformat())
        before = published.id if published else None
        if plan is None:
            assert cohort is not None
            head = published.head_before if published else ledger.head
            return _alone(request, cohort, head, out)
        rows = RowStore(out / "rows", request.declared.coding.dtype)
        carried = read_carried(
            request.store, ledger, plan["carried"], rows, _form(request.declared), before=before
        )
        catalogue = ledger.catalogue(before=before)
        newest = as_of(ledger, plan["carried"], request.snapshot.isoformat())
    items = [] if cohort is None else cohort.ratings.item_ids()
    whole, entering, place = extend_catalogue(catalogue, items)
    new = 0 if cohort is None else int(cohort.labels.max()) + 1
    numbers = number_groups(len(carried.ids), new, rng)
    if cohort is not None:
        rows.add_cohort(cohort.groups, place)
    groups = out / "groups.parquet"
    write_whole(groups, rows, np.concatenate([numbers.of_carried, numbers.of_cohort]), len(whole))
    remove(out / "rows")
    counts = None
    if request.declared.support:
        every = np.arange(len(whole), dtype=np.int32)
        counts = carried.support.placed(numbers.of_carried, every)
        if cohort is not None:
            counts = counts.joined(cohort.support(request.declared).placed(numbers.of_cohort, place))
    waiting = plan["waiting"] + (plan["cohort"] + plan["pooled"] if cohort is None else 0)
    withheld = withheld_in_public(waiting, request.declared.privacy["k"])
    return Released(
        contents=Contents(groups, digest(groups), whole, withheld, "checked", newest, _written(counts, out)),
        ids=_people(carried, cohort),
        labels=_labels(carried, cohort, numbers.of_carried, numbers.of_cohort),
        request=request,
        mode="sticky",
        head=plan["head"],
        carried=list(zip(carried.ids.tolist(), numbers.of_carried.tolist(), strict=True)),
        cohort=cohort,
        new_numbers=numbers.of_cohort,
        entering=entering,
        place=place,
    )


def _form(declared: Declaration) -> dict[str, object]:
    """Return what the manifests of all releases of a population must agree in."""
    return {
        "method": declared.method,
        "rating_scale": list(declared.scale),
        "rating_step": declared.coding.step,
        "rating_encoding": declared.coding.encoding,
        "unit": declared.coding.unit,
        SUPPORT: declared.support,
    }


def _written(counts: Support | None, out: Path) -> Path | None:
    """Write the counts of raters, where they are published."""
    if counts is None:
        return None
    counts.write(out / support.FILE)
    return out / support.FILE


def _alone(request: Request, cohort: Cohort, head: str, out: Path) -> Released:
    """Return the contents of an independent release: as the steps made them."""
    items = cohort.ratings.item_ids()
    counts = cohort.support(request.declared) if request.declared.support else None
    return Released(
        contents=Contents(
            cohort.groups,
            recorded_digest(cohort.groups),
            items,
            read_withheld(cohort.ratings.directory),
            support=_written(counts, out),
        ),
        ids=cohort.ratings.user_ids(),
        labels=cohort.labels,
        request=request,
        mode="independent",
        head=head,
        carried=[],
        cohort=cohort,
        new_numbers=np.arange(int(cohort.labels.max()) + 1),
        entering=items,
        place=np.arange(len(items)),
    )


def _people(carried: CarriedGroups, cohort: Cohort | None) -> pa.Array:
    own = pa.array([], pa.string()) if cohort is None else cohort.ratings.user_ids()
    return pa.concat_arrays([carried.people.cast(pa.string()), own])


def _labels(
    carried: CarriedGroups, cohort: Cohort | None, of_carried: np.ndarray, of_cohort: np.ndarray
) -> np.ndarray:
    own = np.empty(0, np.int32) if cohort is None else of_cohort[cohort.labels]
    return np.concatenate([of_carried[carried.place], own]).astype(np.int32)
