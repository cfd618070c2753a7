"""Test that newcomers whom the gate refuses wait, that the carried-over groups are published without them, and that
trying the same people again counts.

The gate is real, with the cheaper ones of the checks that judge a whole release and one check of new groups, which the
test makes fail. Two hundred people are too few for attacks to show anything.
"""

import copy
import json
import logging
import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from checks.registry import registered
from checks.result import Finding
from checks.stats import attempts_so_far
from tasks import pipeline
from tasks.cli._main import main
from tasks.data.attempts import count_for_audit, read_history
from tasks.errors import Refused
from tasks.series import schema
from tasks.series.ledger import Ledger
from tasks.steps import evaluate
from tasks.store import Store, read_json, remove
from tests.tasks.series.made_sources import month
from tests.tasks.series.test_series_runs import JOINING, Series, configured

WORDS = "cohort of 90 newcomers refused by utility; published without them"


class Gate:
    """Hold which cohorts are refused, by their size, and with how many attempts each was judged."""

    def __init__(self):
        self.refused: set[int] = set()
        self.attempts: list[tuple[int, int]] = []
        self.refuses_the_rest = False
        self.meanwhile: list = []  # what another run does while a cohort is judged, once

    def utility(self, case, threshold):
        while self.meanwhile:
            self.meanwhile.pop()()
        self.attempts.append((case.truth.users, attempts_so_far()))
        passed = case.truth.users not in self.refused
        return Finding(passed, 0.5, case.truth.users, "by hand", 0.4, 0.6)

    def ordering(self, case, threshold):
        return Finding(not self.refuses_the_rest or self.attempts == [], 0, 1, "by hand")


WHOLE = ("carried-over", "catalogue", "cohorts", "k-anonymity", "ordering", "public-figures", "series")


@pytest.fixture(scope="module")
def checked():
    """Let a gate of a few checks judge; return the one that tests change."""
    made = Gate()
    checks = {name: registered()[name] for name in WHOLE}
    checks["utility"] = replace(registered()["utility"], run=made.utility, controlled=False)
    checks["ordering"] = replace(checks["ordering"], run=made.ordering)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("checks.gate.registered", lambda: checks)
        patch.setattr("checks.gate.check_names", lambda: list(checks))
        patch.setattr("tasks.steps.validate.validate_verdict", lambda lines: {})
        patch.setattr(evaluate, "run", lambda job: {})
        yield made


@pytest.fixture
def gate(checked):
    """A gate that lets everything pass."""
    checked.__init__()
    return checked


@pytest.fixture(scope="module")
def first_month(tmp_path_factory, checked):
    """A series with one release, which tests copy."""
    return Series(tmp_path_factory.mktemp("first")).run(0)


@pytest.fixture
def series(first_month, tmp_path, gate):
    """A series whose second cohort is refused at the next run."""
    made = copy.copy(first_month)
    shutil.copytree(first_month.store.root, tmp_path / "store")
    made.store = Store(tmp_path / "store")
    gate.refused = {JOINING[1]}
    return made


def private(series, number):
    return series.store.private("s", month(number))


def refused_people(series):
    with Ledger.open(series.store, "s") as ledger, ledger._database.reading() as db:
        return db.scalar(sa.select(sa.func.count()).select_from(schema.refused_people))


def test_carried_groups_are_published_without_the_refused_cohort(series, caplog):
    with caplog.at_level(logging.WARNING, "murmur"):
        series.run(1)
    assert f"s {month(1)}: {WORDS}" in caplog.text
    assert series.groups_of(1) == series.groups_of(0)
    manifest = series.manifest(1)
    assert manifest["withheld"]["users"] == JOINING[1]  # a multiple of k
    assert {one["name"]: one["applicable"] for one in manifest["checks"]}["utility"] is False
    assert [(one["newcomers"], one["passed"], list(one["failed"])) for one in read_history(private(series, 1))] == [
        (True, False, ["utility"]),
        (False, True, []),
    ]  # fmt: skip
    facts = {"newcomers": 90, "failed": ["utility"], "why": WORDS}
    verdict = read_json(private(series, 1) / "verdict.json")
    assert (verdict["passed"], verdict["attempts"], verdict["refused_cohort"]) == (True, 1, facts)
    plan = read_json(private(series, 1) / "series.json")
    assert (plan["cohort"], plan["waiting"], plan["refused_cohort"]) == (0, 90, facts)
    kept = private(series, 1) / "refused_cohort"
    assert sorted(file.name for file in kept.iterdir()) == [
        "checks.json", "report.html", "validation.json", "verdict.json",
    ]  # fmt: skip
    assert WORDS in (kept / "report.html").read_text()
    assert read_json(kept / "verdict.json")["failed"] == ["utility"]
    step = read_json(private(series, 1) / "work" / "validate" / "step.json")
    assert step["counts"]["refused_cohort"] == facts
    with Ledger.open(series.store, "s") as ledger:
        assert ledger.problems(series.store) == []
        assert len(ledger.people()[0]) == JOINING[0]
    assert count_for_audit(private(series, 1), series.published(1)) == 1


@pytest.mark.slow
def test_nothing_public_tells_a_refused_cohort_from_people_who_wait(series, tmp_path, gate):
    """The same secret and source; in the other store 90 newcomers are too few for a cohort."""
    series.run(1)
    other = copy.copy(series)
    other.store = Store(tmp_path / "other")
    other.config = configured(series.config.source.path, series={"min_cohort": 100})
    other.run(0, 1)
    for file in series.published(1).iterdir():
        if file.name != "manifest.json":
            assert file.read_bytes() == (other.published(1) / file.name).read_bytes(), file.name
    first, second = ({**made.manifest(1), "created_at": ""} for made in (series, other))
    assert first == second


@pytest.mark.slow
def test_trying_the_same_people_again_counts_and_a_rerun_does_not(series, gate):
    """90 are refused, then 91 of whom 90 were refused before, then 171: attempts 1, 2 and 3."""
    gate.refused = {90, 91}
    series.run(1)
    assert refused_people(series) == 90
    before = pipeline.run_step("validate", series.config, month(1), series.store)
    remove(private(series, 1) / "work" / "validate")
    assert pipeline.run_step("validate", series.config, month(1), series.store) == before
    series.run(2)
    assert refused_people(series) == 90 + 91
    series.run(3)
    assert gate.attempts == [(90, 1), (91, 2), (171, 3)]
    assert read_json(private(series, 3) / "verdict.json")["attempts"] == 3
    assert refused_people(series) == 0  # all of them are released by now
    assert series.manifest(3)["counts"]["users"] == sum(JOINING)
    assert min(series.classes(0, 1, 2, 3).values()) >= 5
    # Everything is cleared: these people were released since, and are not judged as newcomers again.
    history = read_history(private(series, 1))
    remove(private(series, 1) / "work")
    assert pipeline.run_step("publish", series.config, month(1), series.store)["counts"]["published"]
    assert pipeline.run_step("validate", series.config, month(1), series.store)["digest"] == before["digest"]
    assert len(gate.attempts) == 3
    assert read_history(private(series, 1)) == history


def test_a_first_release_is_refused_and_counts_later(tmp_path, gate):
    made = Series(tmp_path)
    gate.refused = {160}
    with pytest.raises(Refused, match="utility: by hand"):
        made.run(0)
    assert not made.published(0).exists()
    made.run(1)
    assert gate.attempts == [(160, 1), (250, 2)]


def test_the_owner_may_prefer_that_nothing_is_published(series):
    series.config = configured(series.config.source.path, series={"refused_cohort": "refuse"})
    with pytest.raises(Refused, match="utility: by hand"):
        series.run(1)
    assert not series.published(1).exists()
    assert read_json(private(series, 1) / "verdict.json")["failed"] == ["utility"]


def test_a_fault_of_the_whole_refuses_all_of_it(series):
    """Planted: fewer newcomers than the owner's threshold of `cohorts` demands, which judges the whole release."""
    series.config = configured(series.config.source.path, gate={"cohorts": 500})
    with pytest.raises(Refused, match="cohorts: 90 people are new") as refusal:
        series.run(1)
    assert "utility: by hand" in refusal.value.what
    assert not series.published(1).exists()


def test_what_is_left_must_pass_the_gate_itself(series, gate):
    gate.attempts.clear()
    gate.refuses_the_rest = True  # planted: the check `ordering` fails once the cohort has been judged
    with pytest.raises(Refused, match="without them it is refused, too") as refusal:
        series.run(1)
    assert "ordering: by hand" in refusal.value.what
    assert not series.published(1).exists()


def test_the_command_says_it_plainly(series, tmp_path, capsys):
    file = tmp_path / "s.toml"
    path, joined = series.config.source.path, series.config.release.start_date
    file.write_text(
        f"[release]\nname = 's'\nschedule = '@monthly'\nstart_date = {joined}\n[source]\nformat = 'csv'\n"
        f"path = '{path}'\nscale = [1.0, 5.0]\n[padding]\nrank = 3\niterations = 2\n"
    )
    command = ["run", str(file), "--snapshot", str(month(1)), "--store", str(series.store.root)]
    assert main([*command, "--json"]) == 0
    printed = capsys.readouterr()
    assert WORDS in printed.err
    answer = json.loads(printed.out)
    assert answer["status"] == "published"
    assert answer["refused_cohort"]["failed"] == ["utility"]
    assert answer["refused_cohort"]["report"].endswith(f"private/s/{month(1)}/refused_cohort/report.html")
    assert main(command) == 0  # published already, and the table still says so
    assert WORDS in " ".join(capsys.readouterr().out.split())
    forget_one(series)


def forget_one(series):
    """Erase a person who was refused and never released: the ledger forgets that, too."""
    users = pq.read_table(private(series, 1) / "work" / "ingest" / "users.parquet")["user"].to_pylist()
    with Ledger.open(series.store, "s") as ledger:
        ledger.erase(ledger.tokens(users)[0])
        assert ledger.problems(series.store) == []
    assert refused_people(series) == 89


def test_another_run_publishes_meanwhile(series, gate):
    """Planned against a ledger that has moved, the snapshot is planned anew and judged again without its cohort."""
    gate.meanwhile.append(lambda: series.run(2))
    series.run(1)
    assert gate.meanwhile == []
    # Month 2 has released the newcomers of month 1 with its own, in strata: the groups without its own are whole here.
    assert series.groups_of(0).items() < series.groups_of(1).items() <= series.groups_of(2).items()
    assert min(series.classes(0, 1, 2).values()) >= 5
