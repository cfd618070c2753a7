"""Publish small series through the ledger whose releases are valid for `murmur verify`: groups of three, four items."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.data.croissant import write_croissant
from tasks.data.profiles import SCHEMA
from tasks.keys import OwnerKey
from tasks.series import versions
from tasks.series.carried import files_of
from tasks.series.entry import profile_digests, write_entry
from tasks.series.erasure import Maker
from tasks.series.ledger import Ledger
from tasks.series.publication import publish
from tasks.series.rows import about_people
from tasks.store import Store, digest, files_below, make_private, owner_only, write_json

K = 3
NAME, POPULATION = "films", "people"
ITEMS = ["i0", "i1", "i2", "i3"]
CHECKED = ("diversity", "integrity", "k-anonymity", "recovery")


class SmallSeries:
    """Hold a store and publish releases in it; `pools` of NewGroup are given by place among the newcomers' groups."""

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory / "store")
        make_private(self.store.root / "private", below=self.store.root)
        self.key = OwnerKey.load(self.store.root)
        self.scratch = directory / "scratch"

    def maker(self, examine=lambda candidate: []) -> Maker:
        """Return what repaired releases are made with."""
        return Maker(self.key, "code", examine)

    def ledger(self):
        """Open the ledger."""
        return Ledger.open(self.store, POPULATION)

    def public(self, directory: str) -> Path:
        """Return where a release is offered."""
        return self.store.root / "published" / NAME / directory

    def private(self, directory: str) -> Path:
        """Return the owner's directory of a release."""
        return self.store.root / "private" / NAME / directory

    def publish(self, snapshot: str, newcomers: Sequence[str], pool: int | None = None) -> Path:
        """Publish all live groups and, in groups of three, newcomers."""
        self.make(snapshot, newcomers, pool)
        return self.put(snapshot)

    def make(self, snapshot: str, newcomers: Sequence[str], pool: int | None = None) -> None:
        """Make a candidate, planned against the present ledger."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        public, owner = self.scratch / "candidate", self.scratch / "private"
        for directory in (public, owner / "utility" / "shadow-release"):
            directory.mkdir(parents=True)
        with self.ledger() as ledger:
            head, live = ledger.head, ledger.groups()
            is_first = not about_people(ledger.releases())
            people = self._carried_people(ledger)
            days = {one.id: one.snapshot for one in ledger.releases()}
        newest = max([snapshot, *(days[group.release_id] for group in live)])
        rows = [(self._profile(group), people[group.id]) for group in live]
        rng = np.random.default_rng(len(live) + len(snapshot))
        for start in range(0, len(newcomers), K):
            codes = rng.integers(0, 41, len(ITEMS)).astype(np.uint8).tobytes()
            rows.append((codes, list(newcomers[start : start + K])))
        self._write_public(public, owner, snapshot, rows, newest if newest > snapshot else None)
        new = list(range(len(live), len(rows)))
        profiles = profile_digests(public / "groups.parquet", ITEMS)
        columns = {
            "place": new,
            "size": [K] * len(new),
            "profile": pa.array([profiles[one] for one in new], pa.string()),
            "number": new,
            "stratum": pa.nulls(len(new), pa.string()),
            "pool": pa.array([pool] * len(new), pa.int32()),
        }
        rated = versions.encode(np.array([0, 1]), np.array([3.0, 4.5]))
        write_entry(
            owner / "ledger",
            head=head,
            mode="sticky",
            k=K,
            source="source",
            population=POPULATION,
            carried=[(group.id, number) for number, group in enumerate(live)],
            groups=pa.table(columns),
            persons=(
                pa.array(newcomers, pa.string()),
                np.array([len(live) + n // K for n in range(len(newcomers))], np.int32),
                [rated] * len(newcomers),
            ),
            items=ITEMS if is_first else [],
            other_items=[],
        )
        write_json(self.scratch / "step.json", {"files": files_below(self.scratch)})

    def put(self, snapshot: str) -> Path:
        """Publish the candidate that was made last."""
        make_private(self.private(snapshot), below=self.store.root)
        with owner_only():
            publish(
                self.scratch,
                self.public(snapshot),
                self.private(snapshot),
                self.store,
                lambda *_: None,
                code="code",
            )
        return self.public(snapshot)

    def add_work(self, directory: str, people: Sequence[str]) -> None:
        """Leave intermediates of steps, as a run does."""
        place = self.private(directory) / "work" / "ingest"
        with owner_only():
            place.mkdir(parents=True)
            pq.write_table(pa.table({"user": list(people)}), place / "users.parquet")
            np.save(place / "ratings.npy", np.arange(4.0))

    def _profile(self, group) -> bytes:
        with self.ledger() as ledger:
            first = next(one for one in ledger.releases() if one.id == group.release_id)
        directory = files_of(self.store, first)
        assert directory is not None
        return pq.read_table(directory / "groups.parquet").column("ratings")[group.place].as_py()

    def _carried_people(self, ledger: Ledger) -> dict[int, list[str]]:
        ids: dict[bytes, str] = {}
        for path in self.store.root.glob("private/*/*/membership.parquet"):
            users = pq.read_table(path).column("user").to_pylist()
            ids |= dict(zip(ledger.tokens(users), users, strict=True))
        found: dict[int, list[str]] = {}
        for token, group, _ in zip(*ledger.people(), strict=True):
            found.setdefault(int(group), []).append(ids[token])
        return found

    def _write_public(self, public: Path, owner: Path, snapshot: str, rows, as_of: str | None) -> None:
        columns = [list(range(len(rows))), [K] * len(rows), [None] * len(rows), [codes for codes, _ in rows]]
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
        pq.write_table(table, public / "groups.parquet")
        pq.write_table(pa.table({"item": ITEMS}), public / "items.parquet")
        users = [user for _, members in rows for user in members]
        labels = pa.array([number for number, (_, members) in enumerate(rows) for _ in members], pa.int32())
        names = self.key.pseudonyms(NAME, snapshot, users)
        people = pa.table({"user": users, "pseudonym": names, "group": labels}).sort_by("pseudonym")
        pq.write_table(people, owner / "membership.parquet")
        members = pa.table({"user": people.column("pseudonym"), "group": people.column("group")})
        pq.write_table(members, public / "members.parquet")
        shadow = owner / "utility" / "shadow-release"
        pq.write_table(people, shadow / "membership.parquet")
        held_out = {"pseudonym": names, "item": pa.array([0] * len(names), pa.int32())}
        pq.write_table(pa.table(held_out), shadow / "held_out.parquet")
        for name in ("verdict.json", "validation.json", "series.json", "utility/summary.json"):
            write_json(owner / name, {"passed": True})
        line: dict[str, object] = {
            "passed": True,
            "observed": 0,
            "threshold": 0,
            "ci_low": None,
            "ci_high": None,
            "n": 1,
        }
        line |= {"severity": "gate", "detail": "", "applicable": True, "void": False}
        checks = [{"name": name, **line} for name in CHECKED]
        write_json(public / "checks.json", checks)
        (public / "README.md").write_text("# films\n")
        (public / "report.html").write_text("<html><body><main></main></body></html>\n")
        manifest = {
            "schema_version": 1,
            "release": NAME,
            "snapshot": snapshot,
            "method": "predictive-padded",
            "privacy": {"k": K, "l": 2, "b": 1, "min_contributors": 2},
            "counts": {
                "users": len(users),
                "items": len(ITEMS),
                "groups": len(rows),
                "ratings": len(users) * len(ITEMS),
            },
            "rating_scale": [1.0, 5.0],
            "rating_step": 0.1,
            "rating_encoding": "uint8",
            "unit": "rating",
            "series": "checked",
            "as_of": as_of,
            "withheld": {"users": 0, "items": 0, "why": ""},
            "files": {file.name: digest(file) for file in public.iterdir()},
            "checks": checks,
        }
        write_json(public / "manifest.json", manifest)
        write_croissant(public, "Groups of three.")
        files = {file.name: digest(file) for file in public.iterdir() if file.name != "manifest.json"}
        write_json(public / "manifest.json", manifest | {"files": files})


def people(first: int, count: int) -> list[str]:
    """Return source ids that occur nowhere by chance."""
    return [f"canary-{number:04}" for number in range(first, first + count)]
