"""Make releases of synthetic rows without a mechanism, and publish them through the ledger: three items, four rows."""

import datetime
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from checks.result import NO_RECORDS, REDACTED
from tasks.config import Budget
from tasks.data.profiles import SCHEMA
from tasks.series.budget import digest_of_tokens, planned
from tasks.series.entry import write_entry
from tasks.series.ledger import Ledger
from tasks.series.publication import publish
from tasks.series.rows import SYNTHETIC, Spending
from tasks.store import Store, digest, files_below, make_private, owner_only, read_json, write_json

NAME, POPULATION = "rows", "viewers"
ITEMS = ["i0", "i1", "i2"]
ROWS = [[0, 1], [1, 2], [0, 2], [0, 1]]
MONTHS = Budget(epsilon=3.0, delta=1e-5, per="year", releases=3)
RATINGS = "user,item,rating\n" + "".join(
    f"person-{user:03},i{item},{1 + (user + item) % 5}\n" for user in range(107) for item in range(3)
)


class SyntheticSeries:
    """Hold a store with a source, and publish releases of synthetic rows in it."""

    population = POPULATION

    def __init__(self, directory: Path) -> None:
        self.store, self.scratch = Store(directory / "store"), directory / "scratch"
        self.source = directory / "ratings.csv"
        self.source.write_text(RATINGS)
        make_private(self.store.root / "private", below=self.store.root)

    def public(self, snapshot: str) -> Path:
        """Return where a release is offered."""
        return self.store.root / "published" / NAME / snapshot

    def private(self, snapshot: str) -> Path:
        """Return the owner's directory of a release."""
        return self.store.root / "private" / NAME / snapshot

    def ledger(self):
        """Open the ledger."""
        return Ledger.open(self.store, self.population)

    def publish(self, snapshot: str, budget: Budget = MONTHS, **changes) -> Path:
        """Make a candidate and publish it."""
        self.make(snapshot, budget, **changes)
        return self.put(snapshot)

    def candidate(self, snapshot: str, budget: Budget = MONTHS, **changes) -> tuple[Path, Path]:
        """Make a candidate inside the store, as `validate` leaves it; return its public and its private directory."""
        self.make(snapshot, budget, **changes)
        place = self.private(snapshot) / "work" / "validate"
        shutil.copytree(self.scratch, place)
        return place / "candidate", place / "private"

    def make(
        self,
        snapshot: str,
        budget: Budget = MONTHS,
        spends: Spending | None = None,
        blocked: str | None = None,
    ) -> None:
        """Write a candidate that spends its share of the budget, or what is given."""
        spending = spends or planned(budget)
        shutil.rmtree(self.scratch, ignore_errors=True)
        public, owner = self.scratch / "candidate", self.scratch / "private"
        for directory in (public, owner / "utility"):
            directory.mkdir(parents=True)
        columns = [
            list(range(len(ROWS))),
            [1] * len(ROWS),
            ROWS,
            [bytes([10 * (1 + at), 40]) for at in range(len(ROWS))],
        ]
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
        pq.write_table(table, public / "groups.parquet")
        pq.write_table(pa.table({"item": ITEMS}), public / "items.parquet")
        nobody = {"user": pa.array([], pa.string()), "group": pa.array([], pa.int32())}
        pq.write_table(pa.table(nobody), public / "members.parquet")
        membership = {**nobody, "pseudonym": pa.array([], pa.string())}
        names = ("user", "pseudonym", "group")
        pq.write_table(pa.table({name: membership[name] for name in names}), owner / "membership.parquet")
        for name in ("verdict.json", "validation.json"):
            write_json(owner / name, {"passed": True})
        account = {name: getattr(spending, name) for name in ("rho", "failure", "epsilon", "delta")}
        write_json(
            owner / "spent.json",
            {**account, "parts": {"items": spending.rho / 4, "pairs": 0.75 * spending.rho}},
        )
        with self.ledger() as ledger:
            present = digest_of_tokens(ledger.blocked())
        write_entry(
            owner / "ledger",
            head=None,
            mode=SYNTHETIC,
            k=0,
            source="source",
            population=self.population,
            carried=[],
            groups=pa.table(
                {name: pa.nulls(0) for name in ("place", "size", "profile", "number", "stratum", "pool")}
            ),
            persons=(pa.array([], pa.string()), pa.array([], pa.int32()).to_numpy(), []),
            items=[],
            other_items=[],
            budget=spending,
            blocked=present if blocked is None else blocked,
        )
        _write_manifest(public, snapshot, account, budget)
        write_json(self.scratch / "step.json", {"files": files_below(self.scratch)})

    def put(self, snapshot: str) -> Path:
        """Publish the candidate that was made last."""
        make_private(self.private(snapshot), below=self.store.root)
        with owner_only():
            places = (self.scratch, self.public(snapshot), self.private(snapshot))
            publish(*places, self.store, lambda *_: None, code="code")
        return self.public(snapshot)


def _write_manifest(public: Path, snapshot: str, account: dict, budget: Budget) -> None:
    line: dict[str, object] = {
        "passed": True,
        "observed": None,
        "threshold": 0,
        "ci_low": None,
        "ci_high": None,
        "n": 0,
    }
    line |= {"severity": "gate", "void": False}
    checks = [
        {"name": "integrity", **line, "applicable": True, "detail": REDACTED},
        *(
            {"name": name, **line, "applicable": False, "detail": NO_RECORDS}
            for name in ("diversity", "k-anonymity", "recovery")
        ),
    ]
    write_json(public / "checks.json", checks)
    (public / "README.md").write_text("# rows\n")
    (public / "report.html").write_text("<html><body><main></main></body></html>\n")
    manifest = {
        "schema_version": 1,
        "release": NAME,
        "snapshot": snapshot,
        "method": "dp-synthetic",
        "privacy": {**account, "budget": budget.model_dump()},
        "counts": {"users": 0, "items": len(ITEMS), "groups": len(ROWS), "ratings": sum(map(len, ROWS))},
        "rating_scale": [1.0, 5.0],
        "rating_step": 0.1,
        "rating_encoding": "uint8",
        "unit": "rating",
        "series": "unchecked",
        "withheld": {"users": 0, "items": 0, "why": ""},
        "files": {file.name: digest(file) for file in public.iterdir()},
        "checks": checks,
    }
    write_json(public / "manifest.json", manifest)


def edit_manifest(public: Path, **changes) -> None:
    """Change keys of a manifest, as an owner with an editor could."""
    write_json(public / "manifest.json", read_json(public / "manifest.json") | changes)


def day(snapshot: str) -> datetime.date:
    """Return the date of a snapshot."""
    return datetime.date.fromisoformat(snapshot)
