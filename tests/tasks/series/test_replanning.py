"""Test that a release is planned anew where another one was published meanwhile, and only there."""

import datetime

import pytest

from tasks import methods, pipeline
from tasks.config import parse
from tasks.errors import Refused
from tasks.series.ledger import Ledger
from tasks.series.replanning import PLANS, plan_anew
from tasks.store import Store, read_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate

FEBRUARY, MARCH = datetime.date(2026, 2, 1), datetime.date(2026, 3, 1)
CONFIG = {
    "release": {"name": "films"},
    "source": {"format": "synthetic", "synthetic": {"users": 500, "items": 60, "churn": 0.4}},
    "series": {"population": POPULATION},
}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    return Store(tmp_path / "store")


class Attempts:
    """Count attempts that are refused; the first ones while something else is published."""

    def __init__(self, store, tmp_path, moves):
        self.store, self.tmp_path, self.moves, self.made = store, tmp_path, moves, 0

    def __call__(self):
        """Make one."""
        self.made += 1
        if self.made <= self.moves:
            snapshot, people = f"2026-01-{self.made:02}", [f"{self.made} {n}" for n in range(2)]
            items = ["x"] if self.made == 1 else []
            made = make_candidate(self.tmp_path / snapshot, self.store, snapshot, people, items=items)
            publish_candidate(made, self.store, snapshot)
            raise Refused("out of date")
        return self.made


def test_planned_anew_while_the_ledger_moves(store, tmp_path):
    attempts = Attempts(store, tmp_path, moves=2)
    assert plan_anew(attempts, parse(CONFIG), MARCH, store) == 3


def test_number_of_plans_is_bounded(store, tmp_path):
    attempts = Attempts(store, tmp_path, moves=PLANS + 1)
    with pytest.raises(Refused, match="out of date"):
        plan_anew(attempts, parse(CONFIG), MARCH, store)
    assert attempts.made == PLANS


@pytest.mark.parametrize("mode", ["sticky", "independent"])
def test_a_refusal_for_another_reason_stays(store, mode):
    made = []

    def attempt():
        made.append(1)
        raise Refused("the gate refused")

    config = {**CONFIG, "series": {"mode": mode}}
    with pytest.raises(Refused, match="the gate refused"):
        plan_anew(attempt, parse(config), MARCH, store)
    assert len(made) == 1


@pytest.fixture
def lenient(monkeypatch):
    """Let the gate pass everything: these tests are about plans, and small cohorts are refused by chance."""
    from checks.gate import judge

    def passes(*arguments):
        verdict = judge(*arguments)
        for check in verdict.checks:
            object.__setattr__(check, "passed", True)
        return verdict

    monkeypatch.setattr("tasks.steps.validate.judge", passes)


@pytest.mark.slow
def test_two_runs_at_once(store, lenient, monkeypatch):
    """Both runs have done all steps but the last: the second to publish is planned against the first."""
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    config = parse(CONFIG)
    for step in methods.graph(config):
        for day in (FEBRUARY, MARCH):
            if step != "publish":
                pipeline.run_step(step, config, day, store)
    before = read_json(store.private("films", MARCH) / "work" / "ingest" / "series.json")
    assert before["first"]
    for day in (FEBRUARY, MARCH):
        pipeline.run_step("publish", config, day, store)
    plans = [read_json(store.private("films", day) / "series.json") for day in (FEBRUARY, MARCH)]
    assert [plan["first"] for plan in plans] == [True, False]
    assert plans[1]["carried_people"] == plans[0]["cohort"] == 500
    with Ledger.open(store, POPULATION) as ledger:
        assert ledger.problems(store) == []


@pytest.mark.slow
def test_the_ledger_moves_during_publication(store, lenient, monkeypatch):
    """Another snapshot is published after this one's candidate was found up to date: publication is refused once."""
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    config = parse(CONFIG)
    from tasks.steps import publish as step

    publish, calls = step.publish, []

    def overtaken(validated, published, *arguments, **named):
        calls.append(published.name)
        if calls == ["2026-03-01"]:
            pipeline.run(config, FEBRUARY, store)
        return publish(validated, published, *arguments, **named)

    monkeypatch.setattr(step, "publish", overtaken)
    pipeline.run_step("publish", config, MARCH, store)
    assert calls == ["2026-03-01", "2026-02-01", "2026-03-01"]
    with Ledger.open(store, POPULATION) as ledger:
        assert [release.snapshot for release in ledger.releases()] == ["2026-02-01", "2026-03-01"]
        assert ledger.problems(store) == []


@pytest.mark.slow
def test_only_the_approved_candidate_is_published(store, lenient, monkeypatch):
    """What was approved is published; what was planned anew since is not."""
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    config = parse(CONFIG)
    approved = {day: pipeline.run_step("validate", config, day, store)["digest"] for day in (FEBRUARY, MARCH)}
    pipeline.run_step("publish", config, FEBRUARY, store, approved=approved[FEBRUARY])
    with pytest.raises(Refused, match="another candidate than the approved one"):
        pipeline.run_step("publish", config, MARCH, store, approved=approved[MARCH])
    assert not store.published("films", MARCH).exists()
    pipeline.run_step("publish", config, FEBRUARY, store, approved=approved[FEBRUARY])  # it is there already
