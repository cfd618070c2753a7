"""Test stores and ledgers as older versions of the program left them: what still works, and what is refused and how.

Ledgers came after 0.6.0. Their first form had no tables of refused cohorts, and a table of budgets with other columns.
Releases of 0.1.0 to 0.6.0 are in no ledger.
"""

import json
import shutil

import pytest
import sqlalchemy as sa

from tasks.cli import main
from tasks.errors import MurmurError
from tasks.series import schema
from tasks.series.ledger import Ledger
from tasks.series.rows import RefusedCohort
from tasks.store import Store, files_below
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate

JANUARY, FEBRUARY = "2026-01-01", "2026-02-01"
FIRST_BUDGET = (
    "CREATE TABLE budget (release_id INTEGER NOT NULL PRIMARY KEY, epsilon FLOAT NOT NULL, delta FLOAT NOT NULL, "
    "period VARCHAR NOT NULL)"
)


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store")
    made = make_candidate(tmp_path / "made", store, JANUARY, ["ann", "bob", "cid", "dan"], items=["x", "y"])
    publish_candidate(made, store, JANUARY)
    return store


def change(store, *statements: str) -> None:
    """Change a ledger's database by hand."""
    engine = sa.create_engine(f"sqlite:///{store.root / 'private' / 'ledger' / POPULATION}.db")
    with engine.begin() as db:
        for one in statements:
            db.execute(sa.text(one))
    engine.dispose()


def columns(store, table: str) -> set[str]:
    engine = sa.create_engine(f"sqlite:///{store.root / 'private' / 'ledger' / POPULATION}.db")
    found = {one["name"] for one in sa.inspect(engine).get_columns(table)}
    engine.dispose()
    return found


def kept(store) -> dict[str, str]:
    """Return all files with their digests, without locks."""
    return {name: value for name, value in files_below(store.root).items() if not name.endswith(".lock")}


def test_a_ledger_of_the_first_form_is_completed_and_goes_on(store, tmp_path):
    change(
        store,
        "DROP TABLE refused_people",
        "DROP TABLE refused_cohorts",
        "DROP TABLE budget",
        FIRST_BUDGET,
    )
    with Ledger.open(store, POPULATION) as ledger:
        assert [one.snapshot for one in ledger.releases()] == [JANUARY]
        assert ledger.problems(store) == []
        ledger.enter_refused(RefusedCohort("films", FEBRUARY, "attempt"), ledger.tokens(["eve"]))
        assert ledger.spent() == []
    assert columns(store, "budget") == set(schema.budget.c.keys())
    made = make_candidate(tmp_path / "february", store, FEBRUARY, ["eve", "fay"])
    publish_candidate(made, store, FEBRUARY)
    with Ledger.open(store, POPULATION) as ledger:
        assert ledger.problems(store) == []


def test_entries_without_an_actor_stay_true(store, monkeypatch):
    """The chain of a ledger that was written before there was a log, continued now."""
    from tasks.series import chain, departure

    append = chain.append
    monkeypatch.setattr(
        departure.chain,
        "append",
        lambda db, kind, body: append(db, kind, {n: v for n, v in body.items() if n != "by"}),
    )
    with Ledger.open(store, POPULATION) as ledger:
        ledger.withdraw(1, "a mistake")
        ledger.erase(ledger.tokens(["nobody"])[0])
    monkeypatch.setattr(departure.chain, "append", append)
    with Ledger.open(store, POPULATION) as ledger:
        ledger.erase(ledger.tokens(["somebody"])[0])
        assert ledger.problems() == []
        from tasks.series.overview import describe_log

        assert [one["by"] is None for one in describe_log(ledger)] == [False, True, True, False]


def test_a_first_budget_with_rows_is_not_guessed(store):
    """Its columns cannot be turned into the present ones, so the ledger is refused and stays as it is."""
    change(store, "DROP TABLE budget", FIRST_BUDGET, "INSERT INTO budget VALUES (1, 1.0, 1e-6, 'year')")
    with (
        pytest.raises(MurmurError, match="table of budgets has another form"),
        Ledger.open(store, POPULATION),
    ):
        pass
    assert columns(store, "budget") == {"release_id", "epsilon", "delta", "period"}


@pytest.mark.parametrize("form", ["0", "2"])
def test_a_ledger_of_another_form_is_refused(store, form):
    change(store, f"UPDATE meta SET value = '{form}' WHERE key = 'schema_version'")
    before = files_below(store.root / "published")
    with pytest.raises(MurmurError, match="another form") as found, Ledger.open(store, POPULATION):
        pass
    assert f"form {form}" in found.value.remedy
    assert files_below(store.root / "published") == before


def test_releases_from_before_the_ledger_need_a_population_of_their_own(store, tmp_path, capsys):
    """As 0.1.0 to 0.6.0 left them: published files, and private files without a ledger. Nothing is changed."""
    shutil.rmtree(store.root / "private" / "ledger")
    before = kept(store)
    config = tmp_path / "films.toml"
    text = '[release]\nname = "films"\n[source]\nformat = "synthetic"\n'
    config.write_text(text)
    capsys.readouterr()
    for snapshot in (JANUARY, FEBRUARY):
        assert main(["run", str(config), "--snapshot", snapshot, "--store", str(store.root), "--json"]) == 3
        error = json.loads(capsys.readouterr().out)["error"]
        assert "not in the ledger: there is none" in error["what"]
        assert "need a name and a population of their own" in error["remedy"]
    assert kept(store) == before
    assert main(["calendar", str(config), "--store", str(store.root), "--json"]) == 0
