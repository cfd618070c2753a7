"""Hold what both soaks share: the release they make, and the figures of its store and ledger."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

NAME = "soak"
FIRST = datetime.date(2026, 1, 1)
MEBIBYTE = 2**20


def count_below(directory: Path) -> tuple[int, int]:
    """Return files and bytes below a directory."""
    sizes = [file.stat().st_size for file in directory.rglob("*") if file.is_file()]
    return len(sizes), sum(sizes)


def rows_of(address: str) -> int:
    """Return the rows of all tables of a database."""
    engine = sa.create_engine(address)
    try:
        with engine.connect() as db:
            names = sa.inspect(db).get_table_names()
            return sum(db.scalar(sa.text(f'SELECT count(*) FROM "{name}"')) or 0 for name in names)
    finally:
        engine.dispose()


def figures_of(store: Path) -> dict[str, int]:
    """Return the figures of the store and its ledger."""
    published, private = (count_below(store / part) for part in ("published", "private"))
    ledgers = store / "private" / "ledger"
    return {
        "published_files": published[0],
        "published_bytes": published[1],
        "private_files": private[0],
        "private_bytes": private[1],
        "ledger_bytes": count_below(ledgers)[1],
        "ledger_rows": rows_of(f"sqlite:///{ledgers / f'{NAME}.db'}"),
    }


def release_tables(users: int, items: int, churn: float) -> dict[str, Any]:
    """Return the tables of the release file: default settings, a small synthetic population."""
    people = {"users": users, "items": items, "ratings_per_user": 25.0, "churn": churn}
    return {"release": {"name": NAME}, "source": {"format": "synthetic", "synthetic": people}}
