"""Test releases that several people must sign, under Airflow: a hostile DAG, and what the task `approve` waits for."""

import datetime
from types import SimpleNamespace

import pytest

from tasks.config import parse
from tasks.data.actor import Actor, act_for, record_trigger, triggers_of
from tasks.signatures.approvals import Subject, sign_approval
from tasks.signatures.approvers import Approvers, Rule, make_personal_key, read_public
from tasks.signatures.owner_keys import read_private
from tasks.store import Store, digest_of, read_json
from tests.tasks.series.made_series import make_candidate

DAY = datetime.date(2026, 3, 1)


@pytest.fixture
def store(tmp_path, monkeypatch):
    for name in ("MURMUR_LEDGER", "MURMUR_APPROVERS", "MURMUR_SIGNING_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MURMUR_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    return Store(tmp_path / "store")


@pytest.fixture
def guarded(store, tmp_path):
    """A candidate of `films` in its place, and the rule that ann and bob must sign it."""
    for name in ("ann", "bob"):
        made = make_personal_key(tmp_path / f"{name}.pem")
        Approvers(store).trust(name, read_public(tmp_path / f"{name}.pem.pub"))
        assert made["keyid"]
    Approvers(store).set_rule("films", Rule(("ann", "bob"), 2))
    place = store.private("films", DAY) / "work" / "validate"
    place.parent.mkdir()
    return make_candidate(place, store, str(DAY), ["u1", "u2", "u3", "u4"], items=["x", "y"])


def test_a_hostile_dag_does_not_publish(store, guarded, monkeypatch):
    """Its tasks call what ours call, without `approve`, or with a configuration of their own; `approve` was set to
    success by hand or stopped. Nothing is published."""
    from murmur_airflow.outcome import InputUnusable, ReleaseRefused
    from murmur_airflow.work import run

    from tasks.steps import publish

    asked = {"name": "films", "approvers": ["ann", "bob"]}
    honest = parse({"release": asked, "source": {"format": "synthetic"}})
    monkeypatch.setattr("tasks.pipeline.execute", only_publish(guarded, publish))
    with act_for(Actor("mallory", "airflow", "run 1")):
        with pytest.raises(ReleaseRefused, match="2 approvers must sign"):
            run("publish", honest, DAY)
        weaker = (
            {"name": "films"},
            {"name": "films", "approval": True},
            asked | {"approvals": 1},
            asked | {"approvers": ["ann", "bob", "mallory"]},
        )
        for release in weaker:
            config = parse({"release": release, "source": {"format": "synthetic"}})
            with pytest.raises(InputUnusable, match="the store has the rule 2 of ann, bob"):
                run("publish", config, DAY)
            with pytest.raises(InputUnusable, match="the store has the rule"):
                run("publish", config, DAY, "d")  # as if a person had approved in Airflow's form
    assert Approvers(store).rule_of("films") == Rule(("ann", "bob"), 2)
    assert not (store.root / "published").exists()


def only_publish(validated, step):
    """Return an `execute` that runs the step `publish` on a candidate."""

    def execute(name, release):
        if name == "validate":
            return {"digest": "d"}
        job = SimpleNamespace(
            params=step.params(release.config),
            inputs=step.Inputs(judged=validated),
            published=release.published,
            private=release.private,
            store=release.store,
            progress=lambda *_: None,
        )
        return {"counts": step.run(job)}

    return execute


def test_signatures_let_it_out_in_airflow(store, guarded, tmp_path, monkeypatch):
    """The task `approve` waits until both have signed; whoever triggered the run does not count."""
    from airflow.sdk import DAG
    from murmur_airflow.approval import make_signature_sensor, missing_signatures

    private = store.private("films", DAY)
    with act_for(Actor("otto", "airflow", "run 1")):
        record_trigger(private, store.root)
    subject = Subject("films", str(DAY), digest_of(read_json(guarded / "step.json")["files"]))
    config = parse(
        {"release": {"name": "films", "approvers": ["ann", "bob"]}, "source": {"format": "synthetic"}}
    )
    with DAG("d", start_date=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)):
        sensor = make_signature_sensor(config)
    context = {"logical_date": datetime.datetime(2026, 3, 1, 3, tzinfo=datetime.UTC)}
    assert (sensor.mode, sensor.retries) == ("reschedule", 0)
    for name, left in (("ann", "1 did"), ("bob", None)):
        assert not sensor.poke(context)
        sign_approval(
            private,
            store.root,
            subject,
            read_private(tmp_path / f"{name}.pem"),
            triggers=triggers_of(private),
        )
        missing = missing_signatures("films", DAY)
        assert left in missing[0] if left else not missing
    assert sensor.poke(context)
    with act_for(Actor("bob", "airflow", "run 2")):
        record_trigger(private, store.root)
    assert not sensor.poke(context)


def test_who_triggered_a_run():
    from murmur_airflow.work import actor_of

    run = SimpleNamespace(triggering_user_name="ann", run_id="manual")
    assert actor_of({"dag_run": run}).to_json() == {"name": "ann", "place": "airflow", "run": "manual"}
    assert actor_of({"dag_run": SimpleNamespace(triggering_user_name=None, run_id="x")}).name is None
