"""Compare a ledger with the files of the store: manifests, profiles, catalogue and memberships of every release."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.series.budget import ROUNDING, same_period, total
from tasks.series.entry import profile_digests
from tasks.series.manifests import manifest_digest
from tasks.series.rows import SYNTHETIC, Group, PublishedRelease, Spending, Spent, parse_directory
from tasks.store import Store, digest, read_json

PRECISION = 1e-6  # of an epsilon that another machine has computed
SUPPORT = "support.parquet"
ERASED = "erased:"  # begins what stands for the source id of an erased person in membership.parquet


class LedgerRows(Protocol):
    """Describe what of an open ledger is compared (tasks/series/ledger.py)."""

    def tokens(self, ids: Iterable[str]) -> list[bytes]:
        """Return the keyed digests of people."""

    def releases(self) -> list[PublishedRelease]:
        """Return all releases."""

    def pending(self) -> list[PublishedRelease]:
        """Return releases that are being published."""

    def groups(self, *, state: str | None) -> list[Group]:
        """Return all groups."""

    def listed(self, release_id: int) -> dict[int, int]:
        """Return the groups of a release."""

    def memberships(self) -> tuple[list[bytes], np.ndarray]:
        """Return who is in which group."""

    def catalogue(self, before: int) -> list[str]:
        """Return the published items."""

    def spent(self) -> list[Spent]:
        """Return what every release with a privacy budget spent."""


def file_problems(ledger: LedgerRows, store: Store) -> list[str]:
    """Return what in the files of all releases is not what the ledger says; nobody is named."""
    tokens, group_ids = ledger.memberships()
    groups = {group.id: group for group in ledger.groups(state=None)}
    spent = {one.release_id: one.spending for one in ledger.spent()}
    found = []
    for release in ledger.releases():
        listed = ledger.listed(release.id)
        expected = {
            token: listed[group]
            for token, group in zip(tokens, group_ids.tolist(), strict=True)
            if group in listed
        }
        sizes = {number: groups[group].size for group, number in listed.items()}
        files = _Files(store, release)
        compared = (
            files.problems(ledger, groups, listed),
            files.wrong_members(ledger, expected, sizes),
            files.wrong_spending(spent.get(release.id)),
        )
        words = f"{release.name} {release.directory}"
        found += [f"{words}: {one}" for part in compared for one in _until_unreadable(part)]
    return [*found, *_overspent(ledger.spent()), *_unknown(ledger, store)]


def _overspent(spent: list[Spent]) -> Iterator[str]:
    """Add up again, for each release, what its period had spent with it, and compare with the limit it was published
    under."""
    for place, one in enumerate(spent):
        wanted = one.spending
        before = same_period(spent[:place], wanted.per, one.snapshot)
        together = total([*before, wanted], wanted.limit_delta).epsilon
        if together > wanted.limit_epsilon * (1 + ROUNDING):
            yield f"{one.name} {one.snapshot}: more than the privacy budget of its period was spent with it"


def _until_unreadable(found: Iterator[str]) -> Iterator[str]:
    """Yield what is wrong up to a file that cannot be read; the text of that error may quote the file."""
    try:
        yield from found
    except (OSError, ValueError, KeyError, pa.ArrowException) as problem:
        yield f"further files cannot be read ({type(problem).__name__})"


class _Files:
    """Hold where the files of a release are: in public, or withdrawn."""

    def __init__(self, store: Store, release: PublishedRelease) -> None:
        self.release = release
        self.published = store.root / "published" / release.name / release.directory
        self.private = store.root / "private" / release.name / release.directory
        self.place = self.published if release.state == "published" else self.private / "withdrawn"

    def problems(self, ledger: LedgerRows, groups: dict[int, Group], listed: dict[int, int]) -> Iterator[str]:
        """Compare the published files with the ledger."""
        if self.release.state == "withdrawn":
            if not (self.published / "tombstone.json").exists():
                yield "it was withdrawn, and no tombstone.json says so"
            if (self.published / "manifest.json").exists():
                yield "it was withdrawn and is still offered"
        if not (self.place / "manifest.json").exists():
            yield "its manifest.json is not there"
            return
        manifest = read_json(self.place / "manifest.json")
        if manifest_digest(manifest) != self.release.manifest:
            yield "its manifest is not the one that was published"
        for name, expected in manifest["files"].items():
            if not (self.place / name).exists() or digest(self.place / name) != expected:
                yield f"{name} is not what was published"
        if self.release.mode == SYNTHETIC:
            return  # neither its rows nor its items are those of groups
        items = pq.read_table(self.place / "items.parquet").column("item").to_pylist()
        if items != ledger.catalogue(before=self.release.id + 1)[: len(items)]:
            yield "its items are not those of the catalogue"
        yield from self._wrong_profiles(items, groups, listed)

    def _wrong_profiles(
        self, items: list[str], groups: dict[int, Group], listed: dict[int, int]
    ) -> Iterator[str]:
        path = self.place / "groups.parquet"
        table = pq.read_table(path, columns=["group", "size"])
        numbers = table.column("group").to_pylist()
        if sorted(numbers) != sorted(listed.values()):
            yield "it does not offer the groups that the ledger lists"
        id_of_number = {number: group for group, number in listed.items()}
        wrong: Counter[str] = Counter()
        counts = self.place / SUPPORT if (self.place / SUPPORT).exists() else None
        rows = zip(
            numbers, table.column("size").to_pylist(), profile_digests(path, items, counts), strict=True
        )
        for row, (number, size, profile) in enumerate(rows):
            if (group := groups.get(id_of_number.get(number, -1))) is None:
                continue
            if (group.size, group.profile) != (size, profile):
                wrong["have not the bytes of their first publication"] += 1
            if group.release_id == self.release.id and group.place != row:
                wrong["are not in the row that the ledger says"] += 1
        for words, count in wrong.items():
            yield f"{count:,} groups {words}"

    def wrong_spending(self, entered: Spending | None) -> Iterator[str]:
        """Compare what the release says that it spent with what the ledger entered, and its epsilon with its rho."""
        privacy = read_json(self.place / "manifest.json").get("privacy") or {}
        if (self.release.mode == SYNTHETIC) != (entered is not None):
            yield "it spent a privacy budget that the ledger does not have, or the reverse"
        if entered is None:
            return
        budget = privacy["budget"]
        stated = Spending(
            **{name: privacy[name] for name in ("rho", "failure", "epsilon", "delta")},
            per=budget["per"],
            limit_epsilon=budget["epsilon"],
            limit_delta=budget["delta"],
        )
        if stated != entered:
            yield "what its manifest says that it spent is not what the ledger entered"
        alone = total([stated], stated.delta).epsilon
        if abs(alone - stated.epsilon) > PRECISION * alone:
            yield "the epsilon of its manifest does not follow from its rho"

    def wrong_members(
        self, ledger: LedgerRows, expected: dict[bytes, int], sizes: dict[int, int]
    ) -> Iterator[str]:
        """Compare the owner's membership, and the published one, with the ledger."""
        owner = _released(pq.read_table(self.private / "membership.parquet", columns=["user", "group"]))
        is_erased = pc.starts_with(owner.column("user"), ERASED)
        present = owner.filter(pc.invert(is_erased))
        tokens = ledger.tokens(present.column("user").to_pylist())
        found = dict(zip(tokens, present.column("group").to_pylist(), strict=True))
        if len(found) < len(tokens):
            yield "somebody is twice in membership.parquet"
        differ = len(found.items() ^ expected.items())
        if differ:
            yield f"{differ:,} rows of membership.parquet and of the ledger disagree about who is in which group"
        if _counts(owner) != sizes:
            yield "groups of membership.parquet have not the sizes that were published"
        public = self.place / "members.parquet"
        if public.exists() and _counts(pq.read_table(public, columns=["group"])) != sizes:
            yield "groups of members.parquet have not the sizes that were published"


def _released(owner: pa.Table) -> pa.Table:
    return owner.filter(pc.greater_equal(owner.column("group"), 0))


def _counts(table: pa.Table) -> dict[Any, Any]:
    values, counts = np.unique(table.column("group").to_numpy(), return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def unknown_releases(ledger: LedgerRows, store: Store, names: set[str]) -> Iterator[str]:
    """Find releases of these names that were public and that the ledger does not have."""
    known = {(one.name, one.directory) for one in (*ledger.releases(), *ledger.pending())}
    for name in sorted(names):
        for place in sorted((store.root / "published" / name).glob("*")):
            if parse_directory(place.name) and (name, place.name) not in known and _was_public(place):
                yield f"{name} {place.name}"


def _unknown(ledger: LedgerRows, store: Store) -> Iterator[str]:
    names = {one.name for one in ledger.releases()}
    for words in unknown_releases(ledger, store, names):
        yield f"{words}: it was published and is not in the ledger"
    for pending in ledger.pending():
        yield f"{pending.name} {pending.directory}: its publication was interrupted; run it again"


def _was_public(place: Path) -> bool:
    return (place / "manifest.json").exists() or (place / "tombstone.json").exists()
