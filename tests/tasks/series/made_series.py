"""Make tiny candidates of a series, as the step `validate` leaves them: two people a group, a rating of every item."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.data.profiles import SCHEMA
from tasks.series import versions
from tasks.series.entering import numbered_items
from tasks.series.entry import profile_digests, write_entry
from tasks.series.ledger import Ledger
from tasks.series.publication import publish
from tasks.series.rows import Entry, NewGroup, NewPersons, Spending
from tasks.store import Store, digest, files_below, make_private, write_json

K = 2
POPULATION = "people"


def entry_of(
    ledger: Ledger,
    snapshot: str,
    people: Sequence[str],
    *,
    items: Sequence[str] = (),
    other_items: Sequence[str] = (),
    pool: int | None = None,
    mode: str = "sticky",
    revision: int = 0,
    budget: Spending | None = None,
    blocked: str | None = None,
) -> Entry:
    """Return an entry without files: all live groups are carried over, and people enter in pairs."""
    carried = [(group.id, number) for number, group in enumerate(ledger.groups())]
    places = [len(carried) + n // K for n in range(len(people))]
    groups = [
        NewGroup(place, K, f"{snapshot} {place}".encode().hex().ljust(64, "0"), place, "2026-01", pool)
        for place in sorted(set(places))
    ]
    rated = versions.encode(np.array([0, 1]), np.array([3.0, 4.5]))
    persons = NewPersons(ledger.tokens(people), np.array(places, np.int32), [rated] * len(people))
    return Entry(
        name="films",
        snapshot=snapshot,
        revision=revision,
        head=ledger.head,
        manifest="0" * 64,
        source="source",
        mode=mode,
        k=K,
        code="code",
        carried=carried,
        groups=groups,
        persons=persons,
        items=items,
        other_items=other_items,
        budget=budget,
        blocked=blocked,
    )


def enter(ledger: Ledger, snapshot: str, people: Sequence[str], **more) -> None:
    """Enter a release without files."""
    entry = entry_of(ledger, snapshot, people, **more)
    ledger.prepare(entry)
    ledger.commit(entry)


def make_candidate(
    place: Path,
    store: Store,
    snapshot: str,
    newcomers: Sequence[str],
    *,
    items: Sequence[str] = (),
    mode: str = "sticky",
    code: int = 7,
    name: str = "films",
) -> Path:
    """Write a candidate planned against the present ledger; `code` is the rating of every new cell.

    All live groups are carried over with the bytes of their first publication.
    """
    with Ledger.open(store, POPULATION) as ledger:
        catalogue, live, head = [*ledger.catalogue(), *items], ledger.groups(), ledger.head
        releases = {one.id: one for one in ledger.releases()}
        numbering = numbered_items(ledger.items(), items, [])
        members = dict(zip(*ledger.people()[:2], strict=True))
        kept = _owners(store, ledger)
        rows, owner = [], []
        for number, group in enumerate(live):
            first = releases[group.release_id]
            read = pq.read_table(store.root / "published" / first.name / first.directory / "groups.parquet")
            old = read.slice(group.place, 1).to_pylist()[0]
            width = len(old["ratings"])
            listed = old["items"] or list(range(width))
            rows.append((number, old["size"], listed if width < len(catalogue) else None, old["ratings"]))
            owner += [(kept[t], number) for t, g in members.items() if g == group.id]
    new = [newcomers[n : n + K] for n in range(0, len(newcomers), K)]
    for number, pair in enumerate(new, len(live)):
        rows.append((number, K, None, bytes([code]) * len(catalogue)))
        owner += [(person, number) for person in pair]
    return _Files(place, snapshot, rows, owner, catalogue, name).finish(
        head=head,
        mode=mode,
        k=K,
        source="as of that day",
        population=POPULATION,
        carried=[(group.id, number) for number, group in enumerate(live)],
        newcomers=newcomers,
        first=len(live),
        items=items,
        numbering=numbering,
        code=code,
    )


class _Files:
    """Write the files of a candidate; `finish` adds what the ledger is told and closes the step."""

    def __init__(self, place, snapshot, rows, owner, catalogue, name) -> None:
        self.place, self.catalogue = place, catalogue
        public, private = place / "candidate", place / "private"
        public.mkdir(parents=True)
        (private / "utility").mkdir(parents=True)
        columns = [list(column) for column in zip(*rows, strict=True)]
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
        pq.write_table(table, public / "groups.parquet")
        pq.write_table(pa.table({"item": catalogue}), public / "items.parquet")
        pseudonyms = [f"p{n:03}" for n in range(len(owner))]
        groups = pa.array([number for _, number in owner], pa.int32())
        pq.write_table(pa.table({"user": pseudonyms, "group": groups}), public / "members.parquet")
        users = [user for user, _ in owner]
        membership = pa.table({"user": users, "pseudonym": pseudonyms, "group": groups})
        pq.write_table(membership, private / "membership.parquet")
        for name_ in ("verdict.json", "validation.json", "utility/utility.json"):
            write_json(private / name_, {"passed": True})
        files = {file.name: digest(file) for file in public.iterdir()}
        counts = {"users": len(owner), "groups": len(rows)}
        manifest = {"release": name, "snapshot": snapshot, "counts": counts, "files": files}
        write_json(public / "manifest.json", manifest)

    def finish(self, *, newcomers, first, items, numbering, code, **facts) -> Path:
        profiles = profile_digests(self.place / "candidate" / "groups.parquet", self.catalogue)
        places = list(range(first, len(profiles)))
        groups = pa.table(
            {
                "place": places,
                "size": [K] * len(places),
                "profile": pa.array(profiles[first:], pa.string()),
                "number": places,
                "stratum": pa.array([None] * len(places), pa.string()),
                "pool": pa.array([None] * len(places), pa.int32()),
            }
        )
        numbers = np.array([numbering[item] for item in self.catalogue])
        version = versions.encode(numbers, np.full(len(numbers), code, np.float32))
        persons = (
            pa.array(newcomers, pa.string()),
            np.array([first + n // K for n in range(len(newcomers))], np.int32),
            [version] * len(newcomers),
        )
        write_entry(
            self.place / "private" / "ledger",
            groups=groups,
            persons=persons,
            items=items,
            other_items=[],
            **facts,
        )
        write_json(self.place / "step.json", {"files": files_below(self.place)})
        return self.place


def publish_candidate(place: Path, store: Store, snapshot: str, *, name: str = "films") -> dict:
    """Publish as the step does."""
    published = store.root / "published" / name / snapshot
    private = store.root / "private" / name / snapshot
    make_private(private, below=store.root)
    return publish(place, published, private, store, lambda *_: None, code="code")


def _owners(store: Store, ledger: Ledger) -> dict[bytes, str]:
    """Return the source ids of released people by token."""
    found: dict[bytes, str] = {}
    for release in ledger.releases():
        path = store.root / "private" / release.name / release.directory / "membership.parquet"
        users = pq.read_table(path).column("user").to_pylist()
        found |= dict(zip(ledger.tokens(users), users, strict=True))
    return found
