"""Define what every check is given: the release, the source ratings, and whom to attack.

What only one kind of attack needs (posting lists, knowledge, records) belongs to that kind of attack, which keeps it in
the case's cache (`Case.cached`): this module imports no attack.
"""

import datetime
import hashlib
import tempfile
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from checks.evidence.groups import GroupBlock, Groups
from checks.evidence.release_view import ReleaseView
from checks.evidence.seeds import seeded
from checks.evidence.truth import Truth
from checks.evidence.working_files import working_files
from checks.stats import sample_size
from tasks.config import Source
from tasks.engine import Engine
from tasks.errors import Refused

HALF_WIDTH = 0.022  # of the interval of any risk: about two thousand targets
CONTROL_TARGETS = 400
HEAVY_SHARE = 0.1  # the top decile of raters: the people most at risk, and those who write in forums

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Case:
    """Represent one release before the gate; offline (`murmur verify`) only the published files are at hand.

    `protect` names the attributes of people that the release must not reveal; `published` is the case with the
    numbers as published, where this one shows an attacker's estimates of them (checks/evidence/views/as_ratings.py).
    `source` is where the ratings come from, for checks of releases in which nobody is listed.
    """

    release: ReleaseView
    given_truth: Truth | None = None
    private: Path | None = None
    snapshot: datetime.date | None = None
    engine: Engine | None = None
    protect: tuple[str, ...] = ()
    published: "Case | None" = None
    source: Source | None = None

    @property
    def offline(self) -> bool:
        """True when only the published files are at hand."""
        return self.given_truth is None

    @property
    def truth(self) -> Truth:
        """The source ratings; checks that need them cannot run offline."""
        if self.given_truth is None:
            raise Refused(
                "this check needs the source and the private membership", remedy="run `murmur audit`"
            )
        return self.given_truth

    @property
    def as_published(self) -> "Case":
        """The case with the numbers as published: this one, unless it shows estimates of them."""
        return self if self.published is None else self.published

    def with_release(self, release: ReleaseView, truth: Truth | None = None) -> "Case":
        """Return a case about another view of the data, with a cache of its own."""
        return replace(self, release=release, given_truth=truth or self.given_truth, published=None)

    # Kept for several checks

    def cached(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """Return what `make` returned when this key was first asked for; a case made here is closed with this one."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    @cached_property
    def _cache(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def scratch(self) -> tempfile.TemporaryDirectory:
        """The directory of this case's working files; it is removed with the case."""
        return working_files(self.private)

    def close(self) -> None:
        """Remove the working files of this case, of its release and of the cases derived from it."""
        for kept in list(self._cache.values()):
            for derived in kept if isinstance(kept, list) else [kept]:
                if isinstance(derived, Case) and derived is not self:
                    derived.close()
        if "scratch" in self.__dict__:
            self.scratch.cleanup()
        self.release.close()
        if self.given_truth is not None:
            self.given_truth.close()

    def forget(self) -> None:
        """Release the memory of the source ratings touched so far; they are read again when they are needed."""
        if self.given_truth is not None:
            self.given_truth.forget()

    # Groups and published profiles

    def group_blocks(self) -> Iterator[GroupBlock]:
        """Yield the blocks of the release, each with what the members of its groups really rated."""
        for profiles in self.release.blocks():
            yield self.groups.block(profiles)

    @cached_property
    def groups(self) -> Groups:
        """Who is in which group."""
        return Groups(self.truth, self.release.n_groups)

    @property
    def members(self) -> np.ndarray:
        """Number of real people (in source and membership) listed per group."""
        return self.groups.sizes

    @cached_property
    def people(self) -> np.ndarray:
        """Number of real people behind each different profile."""
        profile = self.release.profile_of_group
        count = int(profile.max(initial=-1)) + 1
        return np.bincount(profile, weights=self.members, minlength=count).astype(np.int64)

    @property
    def ceiling(self) -> float:
        """The largest chance of naming a person that finding the right profile can give: one over the fewest people
        behind any profile."""
        return 1 / max(1, int(self.people.min())) if len(self.people) else 1.0

    def keeps_by_construction(self, allowed: float) -> bool:
        """Return whether nobody can be named more often than this, whatever the attack: so many people share every
        profile. An attack that only looks for profiles then cannot fail."""
        return self.ceiling <= allowed + 1e-9

    @property
    def single(self) -> bool:
        """True when every published record is one person's (perturbation, suppression, the raw data)."""
        return bool(self.release.n_groups) and bool((self.release.listed == 1).all())

    def record_of(self, users: np.ndarray) -> np.ndarray:
        """Return the number of the published profile of each of these people (rows of the truth); −1: none."""
        rows = self.truth.row_of_user[users]
        return np.where(rows >= 0, self.release.profile_of_group[np.maximum(rows, 0)], -1)

    # Whom to attack

    def targets(self, *names: object, heavy: bool = False) -> np.ndarray:
        """Return the people to attack, of all or of the heaviest raters.

        Everyone, or a sample that follows from the release and is the same for all callers that use these names.
        """
        return self.cached(("targets", names, heavy), lambda: self._choose_targets(names, heavy))

    def _choose_targets(self, names: tuple[object, ...], heavy: bool) -> np.ndarray:
        rated = np.diff(self.truth.ratings.indptr)
        known = np.flatnonzero((self.truth.row_of_user >= 0) & (rated > 0))
        if heavy:
            known = known[rated[known] >= self.heavy_from]
        most = sample_size(HALF_WIDTH)
        return known if len(known) <= most else np.sort(self.in_drawn_order(known, *names)[:most])

    def in_drawn_order(self, people: np.ndarray, *names: object) -> np.ndarray:
        """Return these people in an order that follows from the release and is the same for all who use these
        names."""
        # By pseudonym, not by row: the order of the membership is the owner's.
        key = hashlib.blake2b(
            "/".join(map(str, (self.truth.salt, *names))).encode(), digest_size=8
        ).hexdigest()
        pseudonyms = self.truth.membership.pseudonyms.take(pa.array(people)).to_numpy(zero_copy_only=False)
        return people[np.argsort(pd.util.hash_array(pseudonyms, hash_key=key), kind="stable")]

    def control_targets(self, *, heavy: bool = False) -> np.ndarray:
        """Return every n-th of the people to attack, for controls.

        The raw data are larger than any release, and a control needs no narrow interval.
        """
        targets = self.targets("knowledge", heavy=heavy)
        return targets[:: max(1, -(-len(targets) // CONTROL_TARGETS))]

    def draw(self, *names: object) -> np.random.Generator:
        """Return the judge's random stream of these names for this release."""
        return seeded(self.truth.salt, *names)

    @cached_property
    def heavy_from(self) -> int:
        """The number of ratings from which a person counts as a heavy rater."""
        rated = np.diff(self.truth.ratings.indptr)
        return int(np.quantile(rated[rated > 0], 1 - HEAVY_SHARE)) if (rated > 0).any() else 0

    @cached_property
    def item_means(self) -> np.ndarray:
        """The mean source rating of each item; the overall mean for items without a rating."""
        count, total = self.truth.item_totals
        centre = (self.release.low + self.release.high) / 2
        overall = total.sum() / count.sum() if count.any() else centre
        return np.where(count > 0, total / np.maximum(count, 1), overall)
