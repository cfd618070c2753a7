"""Pay for a release of synthetic rows from its population's privacy budget before any of its data are read.

What a release spends follows from its settings, so a run that the budget does not pay for ends before the source is
opened. Publication asks again inside its transaction (tasks/series/entering.py), because two runs may have been planned
against the same remainder. People who were erased are left out of the ratings here, and nowhere else; which block-list
that was goes with the release, and publication refuses another one.
"""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.config import Budget, ReleaseConfig
from tasks.config.base import Settings
from tasks.data.item_removal import write_part
from tasks.data.ratings import Ratings
from tasks.series.budget import digest_of_tokens, planned, require_within
from tasks.series.ledger import Ledger
from tasks.store import Store, read_json, remove, write_json

PAYMENT = "payment.json"
IDS_AT_ONCE = 100_000


class Payment(Settings):
    """Hold whose budget a release spends from, and how much the settings allow."""

    population: str
    release: str
    budget: Budget

    @classmethod
    def of(cls, config: ReleaseConfig) -> "Payment | None":
        """Return the payment of a release; None: it spends no privacy budget."""
        budget = config.privacy.budget
        if budget is None:
            return None
        return cls(population=config.population, release=config.release.name, budget=budget)


def require_payable(store: Store, payment: Payment, snapshot: datetime.date) -> str:
    """Refuse a release that the budget does not pay for; return the digest of the block-list.

    A snapshot that is published already has spent, and spends nothing when its steps run again.
    """
    if not Ledger.exists(store, payment.population):  # none is made for a release that may never be published
        require_within([], planned(payment.budget), payment.population, snapshot.isoformat())
        return digest_of_tokens(())
    with Ledger.open(store, payment.population) as ledger:
        if ledger.find(payment.release, snapshot.isoformat()) is None:
            wanted = planned(payment.budget)
            require_within(ledger.spent(), wanted, payment.population, snapshot.isoformat())
        return digest_of_tokens(ledger.blocked())


def keep_unblocked(payment: Payment, everybody: Path, out: Path, store: Store) -> dict[str, Any]:
    """Write the ratings of everybody but erased people, and payment.json; return the counts that changed."""
    ratings, blocked = Ratings(everybody), _blocked(store, payment)
    write_json(out / PAYMENT, {"blocked": digest_of_tokens(blocked)})
    stay = _unblocked(ratings, blocked, store, payment)
    if stay.all():
        for part in sorted(everybody.iterdir()):
            part.rename(out / part.name)
        remove(everybody)
        return {}
    counts = write_part(ratings, stay, _rated_by(ratings, stay), out)
    remove(everybody)
    return counts


def read_blocked(ingest: Path) -> str | None:
    """Return the digest of the block-list that the ratings of a release were made without; None: of a trial's."""
    path = ingest / PAYMENT
    return read_json(path)["blocked"] if path.exists() else None


def _blocked(store: Store, payment: Payment) -> set[bytes]:
    if not Ledger.exists(store, payment.population):
        return set()
    with Ledger.open(store, payment.population) as ledger:
        return ledger.blocked()


def _unblocked(ratings: Ratings, blocked: set[bytes], store: Store, payment: Payment) -> np.ndarray:
    """Return which users are not on the block-list."""
    if not blocked:
        return np.ones(ratings.n_users, bool)
    ids: pa.Array = ratings.user_ids()
    found = []
    with Ledger.open(store, payment.population) as ledger:
        for start in range(0, len(ids), IDS_AT_ONCE):
            found += [
                token not in blocked for token in ledger.tokens(ids[start : start + IDS_AT_ONCE].to_pylist())
            ]
    return np.array(found, bool)


def _rated_by(ratings: Ratings, people: np.ndarray) -> np.ndarray:
    """Return which items any of these people rated: an item that only erased people rated must not be named."""
    rated = np.zeros(ratings.n_items, bool)
    side = ratings.by_user
    for start, stop in side.blocks():
        block = side.block(start, stop)
        kept = np.repeat(people[start:stop], np.diff(block.indptr))
        rated[block.indices[kept]] = True
    return rated
