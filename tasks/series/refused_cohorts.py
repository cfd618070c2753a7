"""Keep in mind which newcomers the gate refused: trying them again at the next snapshot is a further attempt.

Newcomers who are refused wait, and form the next cohort together with others. Without a memory each snapshot would be
a first attempt, and a cohort could be tried month after month until it passes by luck. The ledger knows these people by
their tokens, until they are released or erased. The chain does not cover these rows: like attempts.json they bind an
honest owner, and nothing that is published follows from them.
"""

from collections.abc import Iterable

import sqlalchemy as sa

from tasks.series import chain, schema
from tasks.series.entering import ROWS_AT_ONCE, insert
from tasks.series.rows import RefusedCohort


def enter(db: sa.Connection, cohort: RefusedCohort, tokens: Iterable[bytes]) -> None:
    """Write an attempt and its people, once."""
    c, p = schema.refused_cohorts, schema.refused_people
    same = [c.c[name] == value for name, value in cohort._asdict().items()]
    if db.scalar(sa.select(c.c.id).where(*same)) is not None:
        return
    number = chain.next_id(db, c.c.id)
    insert(db, c, [{"id": number, **cohort._asdict()}])
    rows = [{"cohort_id": number, "token": token} for token in sorted(set(tokens))]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        insert(db, p, rows[start : start + ROWS_AT_ONCE])


def count_sharing(db: sa.Connection, name: str, snapshot: str, tokens: Iterable[bytes]) -> int:
    """Return how many refused attempts at other snapshots had any of these people."""
    c, p = schema.refused_cohorts, schema.refused_people
    elsewhere = sa.not_(sa.and_(c.c.name == name, c.c.snapshot == snapshot))
    rows = db.execute(sa.select(p.c.cohort_id, p.c.token).join(c, c.c.id == p.c.cohort_id).where(elsewhere))
    known = set(tokens)
    return len({row.cohort_id for row in rows if bytes(row.token) in known})


def forget_released(db: sa.Connection) -> None:
    """Remove the people who are released by now: they are never newcomers again."""
    p, released = schema.refused_people, schema.persons
    known = sa.select(released.c.token).where(released.c.token.is_not(None))
    db.execute(sa.delete(p).where(p.c.token.in_(known)))
