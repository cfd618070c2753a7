"""Share the PostgreSQL of the embedded stack among tests of the ledger."""

import pytest
import sqlalchemy as sa

from tasks.series.database import _schema_name
from tasks.stack.postgres import Postgres
from tasks.stack.processes import stop, wait_until
from tests.tasks.series.made_series import POPULATION


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """Start PostgreSQL; return its address."""
    state = tmp_path_factory.mktemp("stack")
    server = Postgres(state, state / "postgres.log")
    component = server.prepare()
    try:
        component.start()
        wait_until(server.ready, "PostgreSQL", [component], timeout=60)
        yield server.url("psycopg2")
    finally:
        stop([component])
        server.remove()


@pytest.fixture
def use_postgres(postgres, monkeypatch):
    """Let ledgers be in PostgreSQL; each call begins with an empty database."""

    def begin() -> sa.Engine:
        engine = sa.create_engine(postgres, poolclass=sa.NullPool)
        with engine.begin() as db:
            for name in (_schema_name(POPULATION), _schema_name("others")):
                db.execute(sa.schema.DropSchema(name, cascade=True, if_exists=True))
        monkeypatch.setenv("MURMUR_LEDGER", postgres.replace("+psycopg2", ""))
        return engine

    return begin
