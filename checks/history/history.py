"""Arrange a release with every earlier one of its store: persons, and the groups they were published in.

Nothing that a release says about its series or its population is read: all memberships of the store are compared by
source id, so another name does not make other people of the same ones.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checks.evidence.case import Case
from checks.evidence.method_rules import rules_of
from checks.evidence.release import Release, data_files
from checks.history.ledgers import ledgers_of
from checks.history.member_sets import MemberSets
from checks.history.past_release import ERASED, SeriesRelease, read_manifest
from checks.history.places import Place, ever_public, own_place, refuse_gap
from checks.history.publication_order import in_order
from tasks.store import digest

FIRST = "This is the first release about these people."
NO_STORE = (
    "not examined: the private directory belongs to no store in which earlier releases could be found. Groups of two "
    "releases about the same people can be intersected."
)


@dataclass(frozen=True)
class History:
    """Hold the release that is judged and all that were public before it, in the order of publication.

    `in_store` is False where the private directory belongs to no store: nothing can then be said about a series.
    """

    own: SeriesRelease
    earlier: list[SeriesRelease]
    in_store: bool = True

    @classmethod
    def of(cls, case: Case) -> "History":
        """Return the history of a case, read once for all checks."""
        return case.as_published.cached("history", lambda: cls._read(case))

    @classmethod
    def _read(cls, case: Case) -> "History":
        place = own_place(case.private)
        if place is None:
            return cls(SeriesRelease.judged(case, "", ""), [], in_store=False)
        private = place.parents[1]
        own = SeriesRelease.judged(case, place.parent.name, place.name)
        places = ever_public(private)
        manifests = [read_manifest(other) for other in places]
        about_people = [not is_about_nobody(*one) for one in zip(places, manifests, strict=True)]
        places, manifests = list(compress(places, about_people)), list(compress(manifests, about_people))
        order = in_order(places, manifests, private)
        before = []
        for at in order:
            if places[at].private.resolve() == place and _same_release(case, places[at]):
                break  # judged again: what was published later does not change the verdict
            before.append(SeriesRelease.past(places[at], manifests[at]))
        return cls(own, before)

    # Persons

    @property
    def all(self) -> list[SeriesRelease]:
        """The earlier releases, then the one that is judged."""
        return [*self.earlier, self.own]

    @cached_property
    def ids(self) -> pa.StringArray:
        """Every person in a group of any release, once. Secret."""
        listed = [one.membership.users.filter(pa.array(one.listed)) for one in self.all]
        return pa.concat_arrays(listed).unique()

    @cached_property
    def persons(self) -> list[np.ndarray]:
        """For each release the persons (places in `ids`) in its groups, in the order of its membership."""
        return [
            pc.index_in(one.membership.users.filter(pa.array(one.listed)), value_set=self.ids)
            .to_numpy(zero_copy_only=False)
            .astype(np.int64)
            for one in self.all
        ]

    @cached_property
    def numbers(self) -> list[np.ndarray]:
        """For each release the group number of each of `persons`."""
        return [one.membership.groups[one.listed] for one in self.all]

    @cached_property
    def released_before(self) -> np.ndarray:
        """Which persons were in an earlier release."""
        return self._marked(self.persons[:-1])

    @cached_property
    def in_own(self) -> np.ndarray:
        """Which persons are in the release that is judged."""
        return self._marked(self.persons[-1:])

    @property
    def newcomers(self) -> np.ndarray:
        """Which persons are in this release and in none before it."""
        return self.in_own & ~self.released_before

    @cached_property
    def erased(self) -> np.ndarray:
        """Which persons were erased: a random text stands for their id."""
        return pc.starts_with(self.ids, ERASED).to_numpy(zero_copy_only=False).astype(bool)

    def _marked(self, persons: list[np.ndarray]) -> np.ndarray:
        marks = np.zeros(len(self.ids), bool)
        for own in persons:
            marks[own] = True
        return marks

    # Releases

    @cached_property
    def sharing(self) -> list[int]:
        """The earlier releases with a person of this one."""
        return [at for at, own in enumerate(self.persons[:-1]) if self.in_own[own].any()]

    @cached_property
    def related(self) -> list[int]:
        """The earlier releases about this population: of its name, or with people of any release of it."""
        found = np.array([one.name == self.own.name for one in self.earlier], bool)
        people = self.in_own.copy()
        while True:
            for at in np.flatnonzero(found):
                people[self.persons[at]] = True
            wider = found | np.array([people[own].any() for own in self.persons[:-1]], bool)
            if (wider == found).all():
                return np.flatnonzero(found).tolist()
            found = wider

    @cached_property
    def sets(self) -> MemberSets:
        """Who was published together with whom, over all releases."""
        return MemberSets.of(self.persons, self.numbers, len(self.ids))

    # Groups of the release that is judged

    @cached_property
    def own_rows(self) -> np.ndarray:
        """The row of the group of each of the judged release's persons."""
        return self.own.rows_of(self.numbers[-1])

    @cached_property
    def own_sets(self) -> np.ndarray:
        """For each row of the judged release the number of its set of members; −1 for a group without any."""
        return self.set_of_rows(len(self.all) - 1)

    def set_of_rows(self, at: int) -> np.ndarray:
        """Return for each row of a release the number of its group's set of members; −1 for a group without any."""
        one = self.all[at]
        rows = np.full(len(one.facts.numbers), -1, np.int64)
        found = one.rows_of(self.sets.numbers[at])
        rows[found[found >= 0]] = self.sets.of_group[at][found >= 0]
        return rows

    @cached_property
    def carried(self) -> np.ndarray:
        """Which rows equal an earlier published group in members, size, item ids and ratings."""
        own = set_keys(self.own_sets, self.own.facts.profiles)
        known = [
            set_keys(self.set_of_rows(at), self.earlier[at].facts.profiles)
            for at in self.sharing  # nobody else's group has these members
        ]
        return np.isin(own, np.concatenate(known)) if known else np.zeros(len(own), bool)

    @cached_property
    def as_of(self) -> str | None:
        """The newest snapshot for which one of the groups was first published; None: none later than this one's."""
        own, since = set_keys(self.own_sets, self.own.facts.profiles), self.own.snapshot
        found = np.full(len(own), since)
        for at in reversed(self.sharing):  # the first publication is written last
            same = np.isin(own, set_keys(self.set_of_rows(at), self.earlier[at].facts.profiles))
            found[same] = self.earlier[at].snapshot
        newest = max(found.tolist(), default=since)
        return newest if newest > since else None

    @cached_property
    def of_newcomers(self) -> np.ndarray:
        """Which rows have new members only."""
        new = self.newcomers[self.persons[-1]]
        return self._with_member(new) & ~self._with_member(~new)

    @cached_property
    def mixed(self) -> np.ndarray:
        """Which rows have both new members and members who were released before."""
        new = self.newcomers[self.persons[-1]]
        return self._with_member(new) & self._with_member(~new)

    def _with_member(self, marked: np.ndarray) -> np.ndarray:
        """Return which rows have a member among the marked ones of the judged release's persons."""
        rows = self.own_rows[marked & (self.own_rows >= 0)]
        return np.bincount(rows, minlength=len(self.own.facts.numbers)) > 0

    @cached_property
    def with_erased(self) -> np.ndarray:
        """Which rows have a member who was erased."""
        return self._with_member(self.erased[self.persons[-1]])


def is_about_nobody(place: Place, manifest: dict[str, Any]) -> bool:
    """Test whether a past release has nobody in it, not by its claim alone: it has neither groups that could be
    intersected nor a catalogue that later releases must keep."""
    if not rules_of(manifest.get("method")).is_synthetic:
        return False
    try:
        return not any(
            pq.read_metadata(file).num_rows
            for file in (place.private / "membership.parquet", place.files / "members.parquet")
        )
    except (OSError, pa.ArrowException):
        raise refuse_gap("the membership", place) from None


def set_keys(sets: np.ndarray, profiles: np.ndarray) -> np.ndarray:
    """Return a text per group that is equal exactly where members and profile are."""
    return np.char.add(np.char.add(sets.astype("S20"), b"/"), profiles)


def known_people(case: Case) -> np.ndarray:
    """Return which rows of the membership are real people: they are in the source, or an earlier release of this store
    had them. Whoever left the source stays in the groups of a series (docs/release-format.md)."""
    seen = case.truth.seen
    if seen.all():
        return seen
    history = History.of(case)
    before = np.zeros(len(seen), bool)
    own = history.persons[-1]
    before[np.flatnonzero(history.own.listed)] = history.released_before[own] & ~history.erased[own]
    return seen | before


def erased_people(case: Case) -> int:
    """Return how many people the ledgers of this store keep out of all releases. Their ids are not known here, so how
    many of them are still in the source is not, either."""
    place = own_place(case.private)
    return sum(ledger.erased() for ledger in ledgers_of(place.parents[1])) if place else 0


def listed_before(case: Case) -> np.ndarray:
    """Return which items an earlier release about the same population listed: they stay when their raters leave."""
    items = case.release.items
    history = History.of(case)
    listed = [history.earlier[at].facts.items for at in history.related]
    if not listed:
        return np.zeros(len(items), bool)
    return pc.is_in(items, value_set=pa.concat_arrays(listed)).to_numpy(zero_copy_only=False).astype(bool)


def _same_release(case: Case, place: Place) -> bool:
    """Test whether a release of this place is the one that is judged, not an earlier one that it would replace."""
    release = case.as_published.release
    if place.withdrawn or not isinstance(release, Release):
        return False
    files = data_files(release.directory)
    return files == data_files(place.files) and all(
        (place.files / name).exists() and digest(place.files / name) == digest(release.directory / name)
        for name in files
    )
