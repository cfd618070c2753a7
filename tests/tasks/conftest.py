"""Share among tests of tasks: a way to add plug-ins from outside the repository, and a PostgreSQL."""

import sys
import textwrap
from importlib import import_module, invalidate_caches

import pytest


@pytest.fixture
def add_plugin(tmp_path_factory):
    """Write a plug-in's file into a directory of its own and put that on the package's path: (module, text) → None.

    Nothing in the repository is touched, and everything is undone after the test.
    """
    added: list[str] = []
    paths: dict = {}

    def add(module: str, text: str) -> None:
        package, _, stem = module.rpartition(".")
        directory = tmp_path_factory.mktemp("plugin")
        (directory / f"{stem}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        parent = import_module(package)
        paths.setdefault(package, parent.__path__)
        parent.__path__ = [*parent.__path__, str(directory)]
        invalidate_caches()
        added.append(module)

    yield add
    for package, path in paths.items():
        sys.modules[package].__path__ = path
    for module in added:
        package, _, stem = module.rpartition(".")
        sys.modules.pop(module, None)
        vars(sys.modules[package]).pop(stem, None)
    invalidate_caches()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """Start the PostgreSQL of the embedded stack; return its address."""
    from tasks.stack.postgres import Postgres
    from tasks.stack.processes import stop, wait_until

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
    """Let ledgers be in PostgreSQL; each call begins with an empty database and returns its engine."""
    import sqlalchemy as sa

    from tasks.series.database import _schema_name
    from tests.tasks.series.made_series import POPULATION

    def begin():
        engine = sa.create_engine(postgres, poolclass=sa.NullPool)
        with engine.begin() as db:
            for name in (_schema_name(POPULATION), _schema_name("others")):
                db.execute(sa.schema.DropSchema(name, cascade=True, if_exists=True))
        monkeypatch.setenv("MURMUR_LEDGER", postgres.replace("+psycopg2", ""))
        return engine

    return begin
