"""What every check is given: the release, the truth, and the sums both sides agree on."""

import datetime
import hashlib
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp

from checks.linkage.postings import Postings
from checks.linkage.rules import HEAVY_ITEMS, World
from checks.raw import RawRelease
from checks.release import Release
from checks.seeds import seeded
from checks.stats import sample_size
from checks.truth import Truth
from tasks.engine import Engine
from tasks.errors import Refused

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

    @cached_property
    def belongs(self) -> sp.csr_array:
        """Groups × users: 1 where the release lists the user, a person of the source, in the group."""
        rows = self.truth.row_of_user
        listed = np.flatnonzero((rows >= 0) & self.truth.seen)
        ones = np.ones(len(listed), dtype=np.float32)
        return sp.csr_array((ones, (rows[listed], listed)), shape=(self.release.n_groups, len(rows)))

    @cached_property
    def contributors(self) -> sp.csr_array:
        """Groups × items: how many members really rated the item."""
        return sorted_rows(self.belongs @ self.truth.pattern)

    @cached_property
    def rating_sums(self) -> sp.csr_array:
        """Groups × items: the sum of the members' real ratings, stored where there are contributors."""
        counts = self.contributors
        sums = sorted_rows(self.belongs @ self.truth.ratings)
        if sums.nnz == counts.nnz and np.array_equal(sums.indices, counts.indices):
            return sums
        return align(sums, counts)  # ratings that cancel out to 0 must not vanish from the pattern

    @cached_property
    def members(self) -> np.ndarray:
        """Real people (in source and membership) listed per group."""
        return np.asarray(self.belongs.sum(axis=1)).ravel().astype(np.int64)

    def targets(self, *names: object, heavy: bool = False) -> np.ndarray:
        """People to attack, all or of the heaviest raters: everybody, or a sample that follows from the release and is
        the same for all who use these names."""
        rated = np.diff(self.truth.ratings.indptr)
        known = np.flatnonzero((self.truth.row_of_user >= 0) & (rated > 0))
        if heavy:
            known = known[rated[known] >= self.heavy_from]
        most = sample_size(HALF_WIDTH)
        if len(known) <= most:
            return known
        # By name, not by place: the order of the membership is the owner's.
        key = hashlib.blake2b(
            "/".join(map(str, (self.truth.salt, *names))).encode(), digest_size=8
        ).hexdigest()
        pseudonyms = self.truth.membership.pseudonyms.take(pa.array(known)).to_numpy(zero_copy_only=False)
        return np.sort(known[np.argsort(pd.util.hash_array(pseudonyms, hash_key=key), kind="stable")[:most]])

    def control_targets(self, *, heavy: bool = False) -> np.ndarray:
        """Every n-th of the people to attack: the raw data are larger than any release, and a control needs no narrow
        interval."""
        targets = self.targets("knowledge", heavy=heavy)
        return targets[:: max(1, -(-len(targets) // CONTROL_TARGETS))]

    @cached_property
    def item_means(self) -> np.ndarray:
        """Mean rating of each item in the truth; the mean of all where nobody rated it."""
        ratings, items = self.truth.ratings, self.release.n_items
        count = np.bincount(ratings.indices, minlength=items)
        total = np.bincount(ratings.indices, weights=ratings.data, minlength=items)
        centre = (self.release.low + self.release.high) / 2
        overall = float(ratings.data.mean(dtype=np.float64)) if ratings.nnz else centre
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

    @cached_property
    def scratch(self) -> tempfile.TemporaryDirectory:
        """The judge's working files: readable by the owner only, beside the private files where there are any
        (workers on other machines see those), gone with the case."""
        try:
            return tempfile.TemporaryDirectory(prefix=".attack-", dir=self.private)
        except OSError:  # an audit may be allowed to read the private files and not to write
            return tempfile.TemporaryDirectory(prefix="murmur-attack-")

    def close(self) -> None:
        """Remove the working files of this case and of those made from it."""
        for name in ("raw", "shadow"):
            other = self.__dict__.get(name)
            if other is not None and other is not self:
                other.close()
        if "scratch" in self.__dict__:
            self.scratch.cleanup()

    @cached_property
    def raw(self) -> "Case":
        """The same people's raw data, as if published with the names removed."""
        if isinstance(self.release, RawRelease):
            return self
        truth = replace(self.truth, row_of_user=np.arange(self.truth.users, dtype=np.int32))
        raw = RawRelease(truth, low=self.release.low, high=self.release.high, k=self.release.k)
        return Case(raw, truth, self.private, self.snapshot, self.engine)

    @cached_property
    def shadow(self) -> "Case":
        """The same method on the ratings of fewer people; refused where there is none."""
        from checks.shadow import open_shadow

        return open_shadow(self)

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
        own = np.concatenate([np.diff(block.indptr) for block in self.release.blocks()] or [np.zeros(0, int)])
        heavy = max(
            _share_above(lengths, HEAVY_ITEMS * items) for lengths in (np.diff(truth.ratings.indptr), own)
        )
        return World(truth.raters, truth.source_users, self.single, truth.half_level, low, high, items, heavy)

    @cached_property
    def cell_of_rating(self) -> np.ndarray:
        """For every rating of a listed user (`listed_ratings`), its entry of `contributors`."""
        users, width = self.rating_rows[self.listed_ratings], np.int64(self.release.n_items)
        keys = self.truth.row_of_user[users] * width + self.truth.ratings.indices[self.listed_ratings]
        return np.searchsorted(cell_keys(self.contributors), keys)

    @cached_property
    def rating_rows(self) -> np.ndarray:
        """The user of every rating."""
        return np.repeat(np.arange(self.truth.users), np.diff(self.truth.ratings.indptr))

    @cached_property
    def listed_ratings(self) -> np.ndarray:
        """Positions of the ratings of users who are in a group."""
        return np.flatnonzero(self.truth.row_of_user[self.rating_rows] >= 0)

    @cached_property
    def published(self) -> np.ndarray:
        """The published value of every entry of `contributors`; NaN where the item is not published there."""
        counts = self.contributors
        values = np.empty(counts.nnz, dtype=np.float32)
        for block in self.release.blocks():
            first, last = counts.indptr[block.start], counts.indptr[block.start + block.rows]
            rows = np.repeat(
                np.arange(block.rows), np.diff(counts.indptr[block.start : block.start + block.rows + 1])
            )
            values[first:last] = block.table()[rows, counts.indices[first:last]]
        return values


def _share_above(lengths: np.ndarray, limit: float) -> float:
    """Share of records longer than this; a handful is no share."""
    above = int((lengths > limit).sum())
    return above / len(lengths) if above > HANDFUL else 0.0


def sorted_rows(matrix: sp.csr_array) -> sp.csr_array:
    """With the columns of each row ascending (sparse products leave them in any order)."""
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    return matrix


def cell_keys(matrix: sp.csr_array) -> np.ndarray:
    """One ascending number per stored entry: row · columns + column."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return rows * matrix.shape[1] + matrix.indices


def align(values: sp.csr_array, pattern: sp.csr_array) -> sp.csr_array:
    """`values` stored exactly where `pattern` stores something, zeros included."""
    data = np.zeros(pattern.nnz, dtype=np.float32)
    data[np.searchsorted(cell_keys(pattern), cell_keys(values))] = values.data
    return sp.csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)
