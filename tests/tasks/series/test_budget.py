"""Test what synthetic rows spend: refused before data are read, refused again at publication, never lost."""

import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.config import Budget, parse
from tasks.errors import MurmurError, Refused
from tasks.kernels.privacy_accounting import spent_epsilon
from tasks.series import schema
from tasks.series.budget import planned, require_within, total
from tasks.series.cohort import SeriesParams, choose_people
from tasks.series.cohort_ratings import _public_files
from tasks.series.ledger import Ledger
from tasks.series.overview import describe
from tasks.series.rows import SYNTHETIC, Spending, Spent
from tasks.series.spending import Payment, require_payable
from tasks.series.withdrawal import withdraw
from tasks.store import read_json, write_json
from tests.tasks.series.made_series import enter, entry_of
from tests.tasks.series.made_synthetic import MONTHS, NAME, POPULATION, SyntheticSeries, day

PAYMENT = Payment(population=POPULATION, release=NAME, budget=MONTHS)


@pytest.fixture
def series(tmp_path, monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    return SyntheticSeries(tmp_path)


def spent(*snapshots: str, budget: Budget = MONTHS) -> list[Spent]:
    """What so many releases entered."""
    return [Spent(number, NAME, one, planned(budget)) for number, one in enumerate(snapshots, 1)]


# The sums


def test_equal_shares_add_up_to_the_budget():
    share = planned(MONTHS)
    assert share.rho * 3 == pytest.approx(total([share] * 3, 1e-5).rho)
    assert total([share] * 3, 1e-5).epsilon == pytest.approx(3.0, rel=1e-6)
    assert 1.0 < share.epsilon < 3.0  # a third of rho costs more than a third of epsilon
    require_within(spent("2026-01-01", "2026-02-01"), share, POPULATION, "2026-03-01")


@settings(max_examples=12)
@given(
    st.floats(0.01, 20),
    st.sampled_from([1e-3, 1e-5, 1e-9]),
    st.integers(1, 60),
    st.sampled_from(["year", "population"]),
)
def test_the_budget_pays_for_its_releases_and_for_no_more(epsilon, delta, releases, per):
    budget = Budget(epsilon=epsilon, delta=delta, per=per, releases=releases)
    before = spent(*(f"2026-01-{1 + n % 28:02}" for n in range(releases - 1)), budget=budget)
    require_within(before, planned(budget), POPULATION, "2026-12-01")
    with pytest.raises(Refused, match="does not suffice"):
        require_within(
            [*before, *before[:1], *spent("2026-06-01", budget=budget)],
            planned(budget),
            POPULATION,
            "2026-12-01",
        )


def test_a_year_begins_anew_and_the_population_does_not():
    before = spent("2025-10-01", "2025-11-01", "2025-12-01")
    require_within(before, planned(MONTHS), POPULATION, "2026-01-01")
    with pytest.raises(Refused, match=r"in 2025, and with this one"):
        require_within(before, planned(MONTHS), POPULATION, "2025-12-31")
    forever = MONTHS.model_copy(update={"per": "population"})
    with pytest.raises(Refused, match="in all"):
        require_within(before, planned(forever), POPULATION, "2026-01-01")
    alone = Budget(epsilon=1.0)
    require_within(before, planned(alone), POPULATION, "2025-12-31")  # a budget of its own for each release


def test_a_failure_beyond_delta_is_refused():
    """What fails with a larger probability than delta has no epsilon at that delta."""
    often = Spending(1e-6, 2e-5, 0.1, 1e-5, "population", 3.0, 1e-5)
    with pytest.raises(Refused, match="more than any"):
        require_within([], often, POPULATION, "2026-01-01")


def test_other_settings_change_the_limit_and_not_the_sum():
    """A larger epsilon allows more releases; a smaller one fewer; another period counts the same releases."""
    before = spent("2026-01-01", "2026-02-01", "2026-03-01")
    larger = Budget(epsilon=6.0, per="year", releases=12)
    require_within(before, planned(larger), POPULATION, "2026-04-01")
    smaller = Budget(epsilon=2.9, per="year", releases=1000)
    with pytest.raises(Refused, match=r"have spent epsilon = 3 "):
        require_within(before, planned(smaller), POPULATION, "2026-04-01")


# Before data are read


def test_a_release_that_cannot_be_paid_is_refused_before_publication(series):
    for snapshot in ("2026-01-01", "2026-02-01", "2026-03-01"):
        require_payable(series.store, PAYMENT, day(snapshot))
        series.publish(snapshot)
    with pytest.raises(Refused, match=r"3 release\(s\) of synthetic rows have spent epsilon = 3 in 2026"):
        require_payable(series.store, PAYMENT, day("2026-04-01"))
    require_payable(series.store, PAYMENT, day("2027-01-01"))
    require_payable(
        series.store, PAYMENT, day("2026-02-01")
    )  # published: its steps may run again, and cost nothing


def test_asking_makes_no_ledger(series):
    require_payable(series.store, PAYMENT, day("2026-01-01"))
    assert not Ledger.exists(series.store, POPULATION)


# At publication


def test_two_runs_that_were_planned_together_cannot_both_be_published(series, tmp_path):
    """Both were allowed to begin; the ledger has room for one, and nothing of the other becomes public."""
    last = Budget(epsilon=3.0, per="year", releases=1)
    for snapshot in ("2026-01-01", "2026-02-01"):
        require_payable(
            series.store, Payment(population=POPULATION, release=NAME, budget=last), day(snapshot)
        )
    series.make("2026-01-01", last)
    first = series.scratch.rename(tmp_path / "first")
    series.make("2026-02-01", last)
    second, series.scratch = series.scratch.rename(tmp_path / "second"), first
    series.put("2026-01-01")
    series.scratch = second
    with pytest.raises(Refused, match="the privacy budget does not suffice"):
        series.put("2026-02-01")
    assert not series.public("2026-02-01").exists()
    with series.ledger() as ledger:
        assert [one.snapshot for one in ledger.spent()] == ["2026-01-01"]
        assert (ledger.pending(), ledger.problems(series.store)) == ([], [])


def test_publishing_again_spends_nothing(series):
    series.publish("2026-01-01")
    series.put("2026-01-01")
    with series.ledger() as ledger:
        assert len(ledger.spent()) == 1


def test_a_withdrawn_release_has_still_spent(series):
    for snapshot in ("2026-01-01", "2026-02-01", "2026-03-01"):
        series.publish(snapshot)
    withdraw(series.store, POPULATION, NAME, "2026-02-01", "a wrong file was read")
    with pytest.raises(Refused, match="does not suffice"):
        require_payable(series.store, PAYMENT, day("2026-04-01"))
    with series.ledger() as ledger:
        assert ledger.problems(series.store) == []
        assert describe(ledger, series.store, MONTHS)["spent"]["lifetime"]["releases"] == 3


def test_a_crash_before_the_release_is_public_spends_nothing(series, monkeypatch):
    """A crash after it was public has spent: the next run enters it."""
    from tasks.series import publication

    for where, releases in (("copied", 0), ("renamed", 1)):

        def crash(name, where=where):
            if name == where:
                raise SystemExit(where)

        monkeypatch.setattr(publication, "_crash_point", crash)
        series.make("2026-01-01")
        with pytest.raises(SystemExit):
            series.put("2026-01-01")
        monkeypatch.setattr(publication, "_crash_point", lambda name: None)
        publication.recover(series.store, POPULATION)
        with series.ledger() as ledger:
            assert len(ledger.spent()) == releases
            assert ledger.problems(series.store) == []


def test_a_person_erased_in_between_stops_the_publication(series):
    series.make("2026-01-01")
    with series.ledger() as ledger:
        [token] = ledger.tokens(["person-001"])
        ledger.erase(token)
    with pytest.raises(Refused, match="somebody was erased since"):
        series.put("2026-01-01")
    series.publish("2026-01-01")  # made again: without the person


def test_releases_of_groups_and_of_rows_do_not_block_each_other(series):
    """Rows release nobody, so newcomers stay newcomers; an independent release stays the only one of groups."""
    series.publish("2026-01-01")
    with series.ledger() as ledger:
        assert ledger.people()[0] == []
        enter(ledger, "2026-01-02", ["ann", "bob"], items=["x", "y"], mode="independent")
    series.publish("2026-02-01")
    with series.ledger() as ledger:
        assert [one.mode for one in ledger.releases()] == [SYNTHETIC, "independent", SYNTHETIC]
        assert ledger.problems() == []
        with pytest.raises(Refused, match="allows one release"):
            enter(ledger, "2026-03-02", ["cid", "dan"], items=["y", "z"], mode="independent")


def test_groups_are_planned_as_if_there_were_no_rows(series):
    """Rows have no k that a later release could fall to, and are no cohort that a model could learn from."""
    series.publish("2026-01-01")
    given = {"population": POPULATION, "release": NAME, "k": 1, "min_contributors": 1, "min_cohort": 2}
    given |= {"waiting_days": 0, "min_ratings": 1, "departure": "keep", "pools": False, "prior_rank": 2}
    params = SeriesParams(**given, schedule=None, start_date=day("2026-01-01"))
    with series.ledger() as ledger:
        assert _public_files(series.store, ledger, params, day("2026-03-01")) == []
        enter(ledger, "2026-01-02", ["ann", "bob"], items=["x", "y"])
        with pytest.raises(Refused, match="promise k = 2"):
            choose_people(params, None, ledger, day("2026-03-01"), [], None)


def test_a_release_of_rows_that_names_people_is_refused(series):
    with series.ledger() as ledger:
        entry = entry_of(ledger, "2026-01-01", ["ann", "bob"], mode=SYNTHETIC, budget=planned(MONTHS))
        with pytest.raises(Refused, match="would enter people, or no budget"):
            ledger.prepare(entry)
        with pytest.raises(Refused, match="would enter people, or no budget"):
            ledger.prepare(entry_of(ledger, "2026-01-01", [], mode=SYNTHETIC))


# What the owner sees


def test_the_report(series):
    for snapshot in ("2026-11-01", "2026-12-01", "2027-01-01"):
        series.publish(snapshot)
    with series.ledger() as ledger:
        shown = describe(ledger, series.store, MONTHS)
    share = planned(MONTHS)
    periods = shown["spent"]["periods"]
    assert [(one["period"], one["releases"], one["limit"]) for one in periods] == [
        ("2026", 2, 3.0),
        ("2027", 1, 3.0),
    ]
    assert periods[0]["epsilon"] == pytest.approx(spent_epsilon(2 * share.rho, 2 * share.failure, 1e-5))
    assert shown["spent"]["lifetime"]["epsilon"] == pytest.approx(3.0, rel=1e-6)
    assert shown["budget"][0] == {"release": 1, "snapshot": "2026-11-01", **share._asdict()}
    assert shown["spent"]["changes"] == []
    assert (shown["releases"][0]["mode"], shown["releases"][0]["people"]) == (SYNTHETIC, 0)
    assert "no epsilon" not in shown["spent"]["note"]
    with series.ledger() as ledger:
        enter(ledger, "2027-01-02", ["ann", "bob"], items=["x", "y"])
        assert "carry no epsilon" in describe(ledger, series.store, MONTHS)["spent"]["note"]
        assert (
            describe(ledger, series.store)["spent"]["periods"] == periods
        )  # without a file: the newest limit


def test_a_raised_limit_is_reported(series):
    series.publish("2026-01-01")
    larger = Budget(epsilon=6.0, per="year", releases=3)
    series.publish("2026-02-01", larger)
    with series.ledger() as ledger:
        [change] = describe(ledger, series.store, larger)["spent"]["changes"]
        assert change == (
            "The limit was epsilon = 3, delta = 1e-05 per year until rows 2026-02-01, which was published under "
            "epsilon = 6, delta = 1e-05 per year."
        )
        back = describe(ledger, series.store, MONTHS)["spent"]["changes"]
        assert back[1].endswith("the release file has epsilon = 3, delta = 1e-05 per year.")


# Verification


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rho": 1e-6}, "is not what the ledger entered"),
        ({"epsilon": 0.1}, "does not follow from its rho"),
        ({"budget": {**MONTHS.model_dump(), "epsilon": 9.0}}, "is not what the ledger entered"),
    ],
)
def test_the_files_are_added_up_again(series, change, words):
    series.publish("2026-01-01")
    path = series.public("2026-01-01") / "manifest.json"
    manifest = read_json(path)
    write_json(path, manifest | {"privacy": manifest["privacy"] | change})
    with series.ledger() as ledger:
        assert any(words in problem for problem in ledger.problems(series.store))


def test_a_sum_beyond_the_limit_is_found(series, monkeypatch):
    """The ledger would have refused it; somebody has written past it."""
    from tasks.series import budget

    monkeypatch.setattr(budget, "require_within", lambda *_: None)
    for snapshot in ("2026-01-01", "2026-02-01", "2026-03-01", "2026-04-01"):
        series.publish(snapshot)
    with series.ledger() as ledger:
        problems = ledger.problems(series.store)
    assert problems == ["rows 2026-04-01: more than the privacy budget of its period was spent with it"]


def test_a_ledger_of_an_older_version_gets_the_table(series):
    """It had a table of budgets that nothing filled; its chain stays true."""
    with series.ledger() as ledger:
        enter(ledger, "2026-01-02", ["ann", "bob"], items=["x", "y"])
    file = series.store.root / "private" / "ledger" / f"{POPULATION}.db"
    old = "CREATE TABLE budget (release_id INTEGER PRIMARY KEY, epsilon FLOAT, delta FLOAT, period VARCHAR)"
    for statements, refused in (
        (["DROP TABLE budget", old], False),
        (["DROP TABLE budget", old, "INSERT INTO budget VALUES (1, 1, 1, 'x')"], True),
    ):
        with closing(sqlite3.connect(file)) as db:
            for statement in statements:
                db.execute(statement)
            db.commit()
        if refused:
            with pytest.raises(MurmurError, match="another form"), series.ledger():
                pass
        else:
            with series.ledger() as ledger:
                assert (ledger.spent(), ledger.problems()) == ([], [])
            series.publish("2026-02-01")


def test_the_share_is_that_of_the_settings():
    config = parse(
        {
            "release": {"name": NAME},
            "source": {"format": "synthetic"},
            "privacy": {
                "method": "dp-synthetic",
                "budget": {"epsilon": 6, "per": "population", "releases": 12},
            },
        }
    )
    payment = Payment.of(config)
    assert payment is not None
    share = planned(payment.budget)
    assert json.loads(json.dumps(share._asdict()))["limit_epsilon"] == 6.0
    assert total([share] * 12, 1e-5).epsilon == pytest.approx(6.0, rel=1e-6)
    assert (
        Payment.of(config.model_copy(update={"privacy": config.privacy.model_copy(update={"budget": None})}))
        is None
    )
    assert set(schema.budget.c.keys()) == {"release_id", *Spending._fields}
