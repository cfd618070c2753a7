"""What every check is given: the release, the truth, and the sums both sides agree on."""

import datetime
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from checks.groups import GroupBlock, Groups
from checks.linkage.knowledge import Knowledge, Model, known
from checks.linkage.postings import Postings
from checks.linkage.rules import HEAVY_ITEMS, World
from checks.raw import RawRelease
from checks.reconstruction.scale import RatingScale
from checks.release import Release
from checks.scratch import working_files
from checks.seeds import seeded
from checks.stats import sample_size
from checks.truth import Truth
from tasks.engine import Engine
from tasks.errors import Refused

if TYPE_CHECKING:
    from checks.inference.records import Records
    from checks.reconstruction.reading import Kind

HALF_WIDTH = 0.022  # of the interval of any risk: about two thousand targets
HANDFUL = 5
CONTROL_TARGETS = 400
HEAVY_SHARE = 0.1  # the top decile of raters: those most at risk, and those who write in forums


@dataclass(frozen=True)
class Case:
    """One release before the gate. Offline (`murmur verify`) there is nothing but the published files."""

    release: Release
    given_truth: Truth | None = None
    private: Path | None = None
    snapshot: datetime.date | None = None
    engine: Engine | None = None
    protect: tuple[str, ...] = ()  # attributes of people that the release must not tell

    @property
    def offline(self) -> bool:
        """True when only the published files are at hand."""
        return self.given_truth is None

    @property
    def truth(self) -> Truth:
        """The source's ratings; checks that need them cannot run offline."""
        if self.given_truth is None:
            raise Refused(
                "this check needs the source and the private membership", remedy="run `murmur audit`"
            )
        return self.given_truth

    def group_blocks(self) -> Iterator[GroupBlock]:
        """The blocks of the release, each with what the members of its groups really rated."""
        for profiles in self.release.blocks():
            yield self.groups.block(profiles)

    @cached_property
    def groups(self) -> Groups:
        """Who is in which group."""
        return Groups(self.truth, self.release.n_groups)

    @property
    def members(self) -> np.ndarray:
        """Real people (in source and membership) listed per group."""
        return self.groups.sizes

    def targets(self, *names: object, heavy: bool = False) -> np.ndarray:
        """People to attack, all or of the heaviest raters: everybody, or a sample that follows from the release and is
        the same for all who use these names."""
        if (names, heavy) not in self._chosen:
            self._chosen[names, heavy] = self._choose(names, heavy)
        return self._chosen[names, heavy]

    @cached_property
    def _chosen(self) -> dict[tuple[tuple[object, ...], bool], np.ndarray]:
        return {}

    def _choose(self, names: tuple[object, ...], heavy: bool) -> np.ndarray:
        rated = np.diff(self.truth.ratings.indptr)
        known = np.flatnonzero((self.truth.row_of_user >= 0) & (rated > 0))
        if heavy:
            known = known[rated[known] >= self.heavy_from]
        most = sample_size(HALF_WIDTH)
        return known if len(known) <= most else np.sort(self.in_drawn_order(known, *names)[:most])

    def in_drawn_order(self, people: np.ndarray, *names: object) -> np.ndarray:
        """These people in an order that follows from the release and is the same for all who use these names."""
        # By name, not by place: the order of the membership is the owner's.
        key = hashlib.blake2b(
            "/".join(map(str, (self.truth.salt, *names))).encode(), digest_size=8
        ).hexdigest()
        pseudonyms = self.truth.membership.pseudonyms.take(pa.array(people)).to_numpy(zero_copy_only=False)
        return people[np.argsort(pd.util.hash_array(pseudonyms, hash_key=key), kind="stable")]

    def control_targets(self, *, heavy: bool = False) -> np.ndarray:
        """Every n-th of the people to attack: the raw data are larger than any release, and a control needs no narrow
        interval."""
        targets = self.targets("knowledge", heavy=heavy)
        return targets[:: max(1, -(-len(targets) // CONTROL_TARGETS))]

    def known(self, targets: np.ndarray, model: Model) -> Knowledge:
        """What is known about these people: the same for every attack, so drawn once."""
        key = (model, targets.tobytes())
        if key not in self._knowledge:
            self._knowledge[key] = known(self.truth, targets, model)
        return self._knowledge[key]

    @cached_property
    def _knowledge(self) -> dict[tuple[Model, bytes], Knowledge]:
        return {}

    @cached_property
    def item_means(self) -> np.ndarray:
        """Mean rating of each item in the truth; the mean of all where nobody rated it."""
        count, total = self.truth.item_totals
        centre = (self.release.low + self.release.high) / 2
        overall = total.sum() / count.sum() if count.any() else centre
        return np.where(count > 0, total / np.maximum(count, 1), overall)

    def draw(self, *names: object) -> np.random.Generator:
        """The judge's random stream for these names, for this release."""
        return seeded(self.truth.salt, *names)

    @cached_property
    def heavy_from(self) -> int:
        """Ratings from which somebody counts as a heavy rater."""
        rated = np.diff(self.truth.ratings.indptr)
        return int(np.quantile(rated[rated > 0], 1 - HEAVY_SHARE)) if (rated > 0).any() else 0

    # Records: the different published profiles, and the real people behind each.

    @cached_property
    def people(self) -> np.ndarray:
        """Real people behind each different profile."""
        profile = self.release.profile_of_group
        count = int(profile.max(initial=-1)) + 1
        return np.bincount(profile, weights=self.members, minlength=count).astype(np.int64)

    @property
    def ceiling(self) -> float:
        """The most that finding the right record can tell: one over the fewest people behind any."""
        return 1 / max(1, int(self.people.min())) if len(self.people) else 1.0

    def record_of(self, users: np.ndarray) -> np.ndarray:
        """The profile each of these people (rows of the truth) has in the release; −1: none."""
        rows = self.truth.row_of_user[users]
        return np.where(rows >= 0, self.release.profile_of_group[np.maximum(rows, 0)], -1)

    @property
    def single(self) -> bool:
        """True when every published record is one person's (perturbation, suppression, the raw data)."""
        return bool(self.release.n_groups) and bool((self.release.listed == 1).all())

    @cached_property
    def postings(self) -> Postings:
        """The different profiles turned round, for attacks that search them."""
        place = Path(self.scratch.name) / "postings"
        return Postings.build(self.release, self.release.profile_of_group, self.people, place)

    def records(self, people: np.ndarray) -> "Records":
        """The published records of these people (rows of the truth), in working files for those who learn from
        them."""
        from checks.inference.records import stored

        key = people.tobytes()
        if key not in self._records:
            place = Path(self.scratch.name) / f"records-{len(self._records)}"
            self._records[key] = stored(self, people, place)
        return self._records[key]

    @cached_property
    def _records(self) -> dict[bytes, "Records"]:
        return {}

    @cached_property
    def scratch(self) -> tempfile.TemporaryDirectory:
        """The working files of this case, gone with it."""
        return working_files(self.private)

    def close(self) -> None:
        """Remove the working files of this case, of what it judges and of the cases made from it."""
        for name in ("raw", "shadow", "as_ratings"):
            other = self.__dict__.get(name)
            if other is not None and other is not self:
                other.close()
        if "scratch" in self.__dict__:
            self.scratch.cleanup()
        self.release.close()
        if self.given_truth is not None:
            self.given_truth.close()

    def forget(self) -> None:
        """Let go of the pages of the truth that were touched so far; they come back when they are needed."""
        if self.given_truth is not None:
            self.given_truth.forget()

    @cached_property
    def raw(self) -> "Case":
        """The same people's raw data, as if published with the names removed."""
        if isinstance(self.release, RawRelease):
            return self
        truth = self.truth.listed_at(np.arange(self.truth.users, dtype=np.int32))
        raw = RawRelease(truth, low=self.release.low, high=self.release.high, k=self.release.k)
        return replace(self, release=raw, given_truth=truth)

    @cached_property
    def as_ratings(self) -> "Case":
        """The release as an attacker reads it: where z-scores are published, the ratings he makes of them."""
        from checks.read import ReadRelease

        if self.release.unit == "rating" or isinstance(self.release, ReadRelease):
            return self
        read = ReadRelease(self.release, self.reading, self.rating_scale)
        case = replace(self, release=read)
        case.__dict__["as_published"] = self
        return case

    @cached_property
    def as_published(self) -> "Case":
        """The release as it stands, where this case is what an attacker reads in it."""
        return self

    @cached_property
    def reading(self) -> "Kind":
        """Which entries of single people's records an attacker takes for rated (checks/reconstruction/reading.py)."""
        from checks.reconstruction.reading import choose

        return choose(self)

    @cached_property
    def rating_scale(self) -> RatingScale:
        """The ratings people can give, as everybody knows them."""
        truth = self.truth
        values = truth.value_counts[0]
        if len(values) and len(truth.common_levels):
            # The ends too, however rare: k-means counts its clusters from there.
            return RatingScale(np.union1d(truth.common_levels, values[[0, -1]]), truth.half_level)
        return RatingScale.segments(self.release.low, self.release.high)

    @cached_property
    def shadow(self) -> "Case":
        """The same method on the ratings of fewer people; refused where there is none. Read as this case is."""
        from checks.read import ReadRelease
        from checks.shadow import open_shadow

        shadow = open_shadow(self)
        return shadow.as_ratings if isinstance(self.release, ReadRelease) else shadow

    @cached_property
    def absent(self) -> tuple[np.ndarray, np.ndarray]:
        """People this case (a shadow) was made without, and the record nearest to all that each rated."""
        from checks.linkage.absent import nearest_profile
        from checks.shadow import absent_people

        people = absent_people(self)
        return people, nearest_profile(self, people)

    @cached_property
    def world(self) -> World:
        """What everybody knows about the data at large."""
        low, high = self.release.low, self.release.high
        truth = self.truth
        items = len(truth.raters) + truth.unlisted_items
        both = (np.diff(truth.ratings.indptr), self.release.lengths)
        heavy = max(_share_above(lengths, HEAVY_ITEMS * items) for lengths in both)
        return World(truth.raters, truth.source_users, self.single, truth.half_level, low, high, items, heavy)


def _share_above(lengths: np.ndarray, limit: float) -> float:
    """Share of records longer than this; a handful is no share."""
    above = int((lengths > limit).sum())
    return above / len(lengths) if above > HANDFUL else 0.0
