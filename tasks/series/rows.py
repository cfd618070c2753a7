"""Hold what goes into a ledger and what comes out of it, as plain records."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

SYNTHETIC = (
    "synthetic"  # the mode of a release of synthetic rows: it spends from a budget and releases nobody
)


class Spending(NamedTuple):
    """Hold what a release spends of its population's privacy budget, and the limit it is published under.

    The mechanism satisfies `failure`-approximate `rho`-zCDP ([Bun2016]); `epsilon` and `delta` are what that means for
    the release by itself. `per` is the period whose releases together must stay within the limit.
    """

    rho: float
    failure: float
    epsilon: float
    delta: float
    per: str
    limit_epsilon: float
    limit_delta: float


class Spent(NamedTuple):
    """Represent what a release that was public has spent; withdrawn or not, it is spent."""

    release_id: int
    name: str
    snapshot: str
    spending: Spending


@dataclass(frozen=True)
class PublishedRelease:
    """Represent a release in the ledger."""

    id: int
    name: str
    snapshot: str
    revision: int
    state: str  # prepared | published | withdrawn
    head_before: str
    manifest: str
    source: str
    mode: str
    k: int
    code: str

    @property
    def directory(self) -> str:
        """Return the name of its directory below published/<name> and private/<name>."""
        return directory_of(self.snapshot, self.revision)


@dataclass(frozen=True)
class Group:
    """Represent a group that was published: where its bytes are, and in which release it first appeared."""

    id: int
    release_id: int
    place: int
    size: int
    profile: str
    state: str  # live | withdrawn
    stratum: str | None
    pool: int | None


def about_people(releases: Iterable[PublishedRelease]) -> list[PublishedRelease]:
    """Return the releases that groups of later ones are planned against: synthetic rows are about nobody."""
    return [release for release in releases if release.mode != SYNTHETIC]


class NewGroup(NamedTuple):
    """Hold what enters the ledger about a newly published group; `place` is its row in groups.parquet."""

    place: int
    size: int
    profile: str
    number: int
    stratum: str | None = None
    pool: int | None = None


@dataclass(frozen=True)
class NewPersons:
    """Hold what enters the ledger about newly released people: parallel columns; `place` is that of the group."""

    tokens: Sequence[bytes] = ()
    place: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    versions: Sequence[bytes] = ()


@dataclass(frozen=True)
class Entry:
    """Hold what a release adds to the ledger."""

    name: str
    snapshot: str
    revision: int
    head: str  # of the ledger when the release was planned
    manifest: str  # digest, as tasks/series/publication.py computes it
    source: str
    mode: str
    k: int
    code: str
    carried: Sequence[tuple[int, int]] = ()  # (group id, number in this release)
    groups: Sequence[NewGroup] = ()
    persons: NewPersons = field(default_factory=NewPersons)
    items: Sequence[str] = ()  # that enter the catalogue, in order
    other_items: Sequence[str] = ()  # that people rated and that stay unpublished
    budget: Spending | None = None
    blocked: str | None = None  # digest of the block-list that was left out of the ratings; None: not needed


class RefusedCohort(NamedTuple):
    """Name an attempt to release newcomers that the gate refused."""

    name: str
    snapshot: str
    attempt: str  # digest of what was judged, and of the thresholds


@dataclass(frozen=True)
class Erased:
    """Represent what an erasure touched: the withdrawn groups, releases that offer them, and who is left of them.

    A person who was never released is only blocked: all three are empty.
    """

    groups: tuple[Group, ...]
    releases: tuple[PublishedRelease, ...]  # published ones that list one of the groups
    survivors: tuple[bytes, ...]  # tokens
    places: tuple[
        tuple[int, int], ...
    ]  # (release id, number of the group there), withdrawn releases included


def directory_of(snapshot: str, revision: int) -> str:
    """Return the name of the directory of a release."""
    return snapshot if revision == 0 else f"{snapshot}-r{revision}"


def parse_directory(name: str) -> tuple[str, int] | None:
    """Return snapshot and revision of a release's directory; None: it is no release's name."""
    found = re.fullmatch(r"(\d{4}-\d{2}-\d{2})(?:-r([1-9]\d*))?", name)
    return (found[1], int(found[2] or 0)) if found else None
