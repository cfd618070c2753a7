"""Test releases in the whole stack: backfills, reruns, refusals, a user's approval, a killed worker.

One stack serves all tests, and all its runs are started at once: most of the time is Airflow's.
"""

import datetime
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import httpx
import psutil
import pyarrow.parquet as pq
import pytest

from tasks.config import load
from tasks.methods import graph
from tasks.series.ledger import Ledger
from tasks.signatures.approvers import Approvers, Rule, make_personal_key, read_public
from tasks.stack import ApiError
from tasks.stack.announce import announce
from tasks.stack.settings import RELEASES_PAGE, UI_USER, password_file, ui_password
from tasks.store import Store, files_below, read_json
from tests.browser import MISSING, PROGRAM, browser
from tests.integration.world import (
    LATEST,
    SNAPSHOTS,
    WAIT_SECONDS,
    World,
    comparable,
    connected,
    kill_a_worker,
    wait_for,
    webhook,
)
from tests.other_account import NOBODY, knock

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1.5 * WAIT_SECONDS)]

# Screenshots are kept where this is set: the directory of a CI's artefacts, for instance.
SECONDS_TO_READ = 8
SCREENSHOTS = os.environ.get("MURMUR_SCREENSHOTS")


@pytest.fixture(scope="module")
def alerts():
    """Return the list of alerts that were sent; it grows."""
    with webhook() as taken:
        yield taken


@pytest.fixture(scope="module")
def world(tmp_path_factory, alerts):
    """Start the stack and, at once, all runs that the tests look at."""
    before = os.environ.get("MURMUR_SECRET_FILE")
    world = World(tmp_path_factory.mktemp("world"))
    try:
        with world.stack as stack:
            for name in ("monthly", "signed", "refused"):
                stack.wait_for_dag(f"release_{name}")
            world.backfill = stack.client.backfill("release_monthly", SNAPSHOTS[0], SNAPSHOTS[-1])
            days = [
                "--from-date",
                str(LATEST.date()),
                "--to-date",
                str(LATEST.date() + datetime.timedelta(days=1)),
            ]
            stack.airflow("backfill", "create", "--dag-id", "release_signed", *days)
            stack.client.unpause("release_signed")
            world.refused = stack.client.trigger("release_refused", LATEST)
            world.undated = stack.client.trigger("release_refused", None)
            assert world.first_of_waiting.wait(WAIT_SECONDS) == 0
            world.write("waiting", seed=4, gate="homogeneity = 0.0")
            stack.wait_for_dag("release_waiting")
            world.waiting = stack.client.trigger(
                "release_waiting", datetime.datetime(2026, 3, 1, 3, tzinfo=datetime.UTC)
            )
            yield world
    finally:
        world.stack.stop()
        world.stack.clean()
        os.environ.pop("MURMUR_SECRET_FILE")
        if before:
            os.environ["MURMUR_SECRET_FILE"] = before


def test_backfill(world):
    """A backfill makes every release although a Dask worker is killed."""
    first = world.run_of(SNAPSHOTS[0])["dag_run_id"]
    # With compiled kernels padding may be over between two looks; the worker then dies in a later step.
    begun = ("running", "success")
    wait_for(lambda: world.tasks_of(first, "monthly")["padding"]["state"] in begun, "padding")
    killed = kill_a_worker(world.stack)
    backfill = f"/backfills/{world.backfill}"
    wait_for(lambda: world.client.api("GET", backfill)["completed_at"], "all runs of the backfill")
    assert not killed.is_running()  # its number may be another process's by now
    assert [run["state"] for run in world.client.runs("release_monthly")] == ["success"] * 3
    people = []
    for snapshot in SNAPSHOTS:
        manifest = json.loads(
            (world.stack.store.published("monthly", snapshot) / "manifest.json").read_text()
        )
        assert manifest["snapshot"] == str(snapshot)
        assert manifest["series"] == "checked"
        people.append(manifest["counts"]["users"])
    assert len({world.published(snapshot)["groups.parquet"] for snapshot in SNAPSHOTS}) == 3
    assert people[0] == 600
    assert people[0] + 50 <= people[1] <= people[2] - 50  # nobody leaves the series, and cohorts join it
    with Ledger.open(world.stack.store, "monthly") as ledger:
        assert [release.snapshot for release in ledger.releases()] == [str(day) for day in SNAPSHOTS]
        assert ledger.problems(world.stack.store) == []


def test_same_bytes_as_cli(world):
    """The command line publishes the same bytes as Airflow."""
    config, store = world.dags / "releases" / "monthly.toml", world.root / "other-store"
    command = [
        Path(sys.executable).with_name("murmur"),
        "run",
        config,
        "--snapshot",
        str(SNAPSHOTS[0]),
        "--store",
        store,
    ]
    result = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["status"] == "published"
    assert comparable(Store(store).published("monthly", SNAPSHOTS[0])) == world.published(SNAPSHOTS[0])


def test_cleared_step(world):
    """A cleared step is made again with the same bytes."""
    run_id = world.run_of(SNAPSHOTS[1])["dag_run_id"]
    step = world.stack.store.private("monthly", SNAPSHOTS[1]) / "work" / "homogenization"
    before, release = files_below(step), world.published(SNAPSHOTS[1])
    shutil.rmtree(step)  # or the step would only find its earlier result
    body = {"dry_run": False, "dag_run_id": run_id, "task_ids": ["homogenization"], "only_failed": False}
    world.client.api("POST", "/dags/release_monthly/clearTaskInstances", body)
    assert world.client.wait("release_monthly", run_id, WAIT_SECONDS) == "success"
    assert world.tasks_of(run_id, "monthly")["homogenization"]["try_number"] == 2
    assert len(before) > 1
    assert files_below(step) == before
    assert world.published(SNAPSHOTS[1]) == release


def test_asset_events(world):
    """Every release is announced as an asset event."""
    events = world.client.api("GET", "/assets/events?source_dag_id=release_monthly")["asset_events"]
    extras = {event["extra"]["snapshot"]: event["extra"] for event in events}
    assert sorted(extras) == [str(snapshot) for snapshot in SNAPSHOTS]
    assert {event["name"] for event in events} == {"murmur://monthly"}
    manifest = json.loads(
        (world.stack.store.published("monthly", SNAPSHOTS[0]) / "manifest.json").read_text()
    )
    event = extras[str(SNAPSHOTS[0])]
    assert {key: event["counts"][key] for key in manifest["counts"]} == manifest["counts"]
    assert len(event["digest"]) == 64
    assert event["state"] == "published"
    assert re.fullmatch(r"monthly 2026-02-01 published: 600 people in \d+ groups, .*", event["summary"])
    assert event["report"] == f"{world.stack.url}/murmur/releases/monthly/2026-02-01/report"


def test_notes_and_links_of_published(world):
    """The note of a run states the verdict; the tasks `validate` and `publish` lead to the report."""
    run_id = world.run_of(SNAPSHOTS[0])["dag_run_id"]
    note = world.note_of(run_id, "monthly")
    assert note.startswith("Verdict: **published**. The gate passed it: all ")
    report = f"{world.stack.url}/murmur/releases/monthly/{SNAPSHOTS[0]}/report"
    assert f"[Report]({report})" in note
    for task in ("validate", "publish"):
        place = f"/dags/release_monthly/dagRuns/{quote(run_id)}/taskInstances/{task}/links"
        assert world.client.api("GET", place)["extra_links"] == {"Report": report}
    log = "\n".join(world.client.log("release_monthly", run_id, "validate", 1))
    assert "The gate passed it: all " in log
    assert "This is the first release of its name." in log


def question_of(world) -> tuple[str, list[dict]]:
    """Wait until the release with approval asks, and return its run and the questions."""
    run_id = world.run_of(LATEST.date(), "signed")["dag_run_id"]
    details = f"/dags/release_signed/dagRuns/{run_id}/hitlDetails"
    wait_for(
        lambda: world.client.api("GET", details)["hitl_details"] or world.ended(run_id, "signed"),
        "the question",
    )
    return run_id, world.client.api("GET", details)["hitl_details"]


@pytest.mark.skipif(PROGRAM is None, reason=MISSING)
def test_approval_form_in_a_browser(world, tmp_path):
    """The form shows the verdict, the report and both answers."""
    run_id, _ = question_of(world)
    task = f"{world.stack.url}/dags/release_signed/runs/{quote(run_id, safe='')}/tasks/approve"
    with browser() as tab:
        tab.sign_in(world.stack.url, token_of(world))
        for width, dark in ((1440, False), (390, True)):
            tab.look(width=width, dark=dark)
            tab.open(f"{task}/required_actions", text="The gate passed it")
            seen = tab.text()
            for words in ("Read the report", "first release of its name", "Approve", "Reject"):
                assert words in seen
            tab.screenshot(Path(SCREENSHOTS or tmp_path) / f"approval-{width}.png")
        assert tab.foreign_requests(world.stack.url) == []


def test_rejection(world, alerts):
    """A release with approval waits for a person's decision; rejected, it is not published."""
    run_id, (question,) = question_of(world)
    assert not world.stack.store.published("signed", LATEST.date()).exists()
    assert "The gate passed it: all " in question["body"]
    assert f"{world.stack.url}/murmur/releases/signed/{LATEST.date()}/report" in question["body"]
    assert "This is the first release of its name." in question["body"]
    assert str(world.root) not in question["body"]
    (waiting,) = [one for one in alerts if one["event"] == "approval"]
    assert waiting["release"] == "signed"
    assert waiting["decide"].endswith("/tasks/approve/required_actions")
    answer = f"/dags/release_signed/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    world.client.api("PATCH", answer, {"chosen_options": ["Reject"], "params_input": {}})
    assert world.client.wait("release_signed", run_id, WAIT_SECONDS) == "failed"
    assert world.note_of(run_id, "signed").startswith("Verdict: **passed, not approved**")
    assert not world.stack.store.published("signed", LATEST.date()).exists()
    assert [one["summary"] for one in alerts if one.get("task") == "approve"] == [
        f"signed {LATEST.date()}: a person rejected it, or nobody answered in time"
    ]


def test_refused(world, alerts):
    """A refused release fails without a retry; log, note and alert name the check in a few lines without a stack."""
    assert world.client.wait("release_refused", world.refused, WAIT_SECONDS) == "failed"
    tasks = world.tasks_of(world.refused, "refused")
    assert tasks["validate"]["state"] == "failed"
    assert tasks["validate"]["try_number"] == 1
    assert tasks["publish"]["state"] == "upstream_failed"
    lines = world.client.log("release_refused", world.refused, "validate", 1)
    log = "\n".join(lines)
    report = f"{world.stack.url}/murmur/releases/refused/{LATEST.date()}/report"
    assert f"REFUSED refused {LATEST.date()}: nothing is published. The gate refused it: " in log
    assert "  homogeneity: measured 0." in log
    assert f"report: {report}" in log
    assert "to do: " in log
    assert "Traceback" not in log
    assert "Refused:" not in log  # an exception in the log would have a stack of files
    place = f"/dags/release_refused/dagRuns/{world.refused}/taskInstances/validate/logs/1"
    content = world.client.api("GET", place, parameters={"full_content": True})["content"]
    assert not any(entry.get("error_detail") for entry in content if isinstance(entry, dict))
    assert not world.stack.store.published("refused", LATEST.date()).exists()
    note = world.note_of(world.refused, "refused")
    assert note.startswith("Verdict: **refused** by ")
    assert f"; nothing is published. [Report]({report})" in note
    assert "- **homogeneity**: measured 0." in note
    (alert,) = [one for one in alerts if (one["release"], one["event"]) == ("refused", "refused")]
    assert "homogeneity" in [one["name"] for one in alert["failed"]]
    assert alert["report"] == report


def raw_status(world, path: str, token: str | None = None) -> int:
    """Ask for exactly this path: other clients would remove `..` before they send it."""
    connection = http.client.HTTPConnection("127.0.0.1", world.stack.port, timeout=60)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    status = connection.getresponse().status
    connection.close()
    return status


def token_of(world) -> str:
    """Return what the account of `make ui` signs in with."""
    account = {"username": UI_USER, "password": ui_password(world.stack.state)}
    return httpx.post(f"{world.stack.url}/auth/token", json=account, timeout=60).json()["access_token"]


def test_pages(world):
    """The pages are served to who has signed in, anonymous visitors get nothing, and no `..` leads anywhere."""
    token, report = token_of(world), f"/murmur/releases/refused/{LATEST.date()}/report"
    for path in (
        "/murmur/",
        "/murmur/releases/refused",
        report,
        f"/murmur/runs/release_refused/{world.refused}",
    ):
        anonymous = httpx.get(world.stack.url + path, timeout=60)
        assert anonymous.status_code == 401
        assert "refused" not in anonymous.text
        assert raw_status(world, path, "forged") == 403
        answer = httpx.get(world.stack.url + path, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        assert answer.status_code == 200
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "script-src 'none'" in answer.headers["content-security-policy"]
    signed_in = {"Authorization": f"Bearer {token}"}
    assert "homogeneity" in httpx.get(f"{world.stack.url}/murmur/", headers=signed_in, timeout=60).text
    assert "homogeneity" in httpx.get(world.stack.url + report, headers=signed_in, timeout=60).text
    undated = f"{world.stack.url}/murmur/runs/release_refused/{world.undated}"
    assert httpx.get(undated, headers=signed_in, timeout=60).status_code == 404
    for up in ("..", "%2e%2e", "%2E%2e", "..%2f..", "%252e%252e", "..%5c", "%c0%ae%c0%ae"):
        for path in (f"/murmur/releases/{up}/{up}/report", f"/murmur/releases/refused/{up}/report"):
            assert raw_status(world, path, token) in (403, 404)
            assert raw_status(world, path) in (401, 404)


@pytest.mark.skipif(PROGRAM is None, reason=MISSING)
def test_pages_in_a_browser(world, tmp_path):
    """Login, releases, DAG, refused run and its report work in a browser; nothing is asked of other hosts."""
    url, place = world.stack.url, Path(SCREENSHOTS or tmp_path)
    run = f"{url}/dags/release_refused/runs/{quote(world.refused, safe='')}"
    shown = {
        "releases": (url + RELEASES_PAGE, "homogeneity", True),
        "dag": (f"{url}/dags/release_refused", "Overview", False),
        "run": (run, "homogeneity", False),
        "report": (f"{run}/plugin/report", "homogeneity", True),
    }
    with browser() as tab:
        tab.look(width=1440)
        tab.open(url + RELEASES_PAGE, text="Password")
        tab.screenshot(place / "login.png")
        tab.sign_in(url, token_of(world))
        for width, dark in ((1440, False), (390, True)):
            tab.look(width=width, dark=dark)
            for name, (address, text, framed) in shown.items():
                tab.open(address, text=text, frame=framed)
                tab.screenshot(place / f"{name}-{width}-{'dark' if dark else 'light'}.png")
            tab.open(f"{url}/murmur/", text="homogeneity")
            assert tab.overflow() <= 0
            # The style of the reports, which the pages share, must not fade a word.
            faded = (
                "[...document.querySelectorAll('main *')].filter(e => getComputedStyle(e).opacity < 1).length"
            )
            assert tab.run(faded) == 0
            tab.open(f"{url}/murmur/releases/refused", text="homogeneity")
            assert tab.overflow() <= 0
        assert tab.foreign_requests(url) == []
    assert len(list(place.glob("*.png"))) >= 9


def set_to_success(world, name: str, run_id: str, task: str) -> None:
    """Do what an author of DAGs may do in Airflow; tasks after this one then begin."""
    place = f"/dags/release_{name}/dagRuns/{run_id}/taskInstances/{task}"
    world.client.api("PATCH", place, {"new_state": "success"})


def test_authors_of_dags_publish_nothing(world):
    """Tasks set to success by hand let nothing out, and neither does a DAG of one's own that skips them."""
    store, day = world.stack.store, LATEST.date()
    signed = world.run_of(day, "signed")["dag_run_id"]
    set_to_success(world, "signed", signed, "approve")
    set_to_success(world, "refused", world.refused, "validate")
    assert world.client.wait("release_signed", signed, WAIT_SECONDS) == "failed"
    approvers = Approvers(store)
    for name in ("ann", "bob"):
        make_personal_key(world.root / f"{name}.pem")
        approvers.trust(name, read_public(world.root / f"{name}.pem.pub"))
    approvers.set_rule("signed", Rule(("ann", "bob"), 2))
    try:
        world.client.unpause("hostile")
        run_id = world.client.trigger("hostile", None)
        assert world.client.wait("hostile", run_id, WAIT_SECONDS) == "success"
    finally:
        approvers.set_rule("signed", None)
    value = world.client.api(
        "GET", f"/dags/hostile/dagRuns/{run_id}/taskInstances/attack/xcomEntries/return_value"
    )
    ends = value["value"] if isinstance(value["value"], dict) else json.loads(value["value"])
    other_rule = "the store has the rule 2 of ann, bob"
    expected = dict.fromkeys(("skips approve", "as if approved", "no approval", "one signature"), other_rule)
    unsigned = "2 approvers must sign this candidate, and 0 did"
    expected |= dict.fromkeys(("the rule, unsigned", "past the steps"), unsigned)
    assert ends.keys() == expected.keys()
    assert {name: words in ends[name] for name, words in expected.items()} == dict.fromkeys(expected, True)
    assert world.client.wait("release_refused", world.refused, WAIT_SECONDS) == "failed"
    for name, run, words in (
        ("signed", signed, "a state that was set by hand"),
        ("refused", world.refused, "The gate refused it: "),
    ):
        task = world.tasks_of(run, name)["publish"]
        assert task["state"] == "failed"
        assert words in "\n".join(world.client.log(f"release_{name}", run, "publish", task["try_number"]))
        assert not store.published(name, day).exists()
    assert not (store.private("signed", day) / "approval.json").exists()


def test_approval(world):
    """What was rejected is approved after all, and then published."""
    run_id = world.run_of(LATEST.date(), "signed")["dag_run_id"]
    answer = f"/dags/release_signed/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    body = {"dry_run": False, "dag_run_id": run_id, "task_ids": ["approve", "publish"], "only_failed": False}
    world.client.api("POST", "/dags/release_signed/clearTaskInstances", body)
    wait_for(lambda: world.tasks_of(run_id, "signed")["approve"]["state"] == "awaiting_input", "the question")
    # Airflow fails a task that goes on before its scheduler has seen that the asking half ended; no person is so quick.
    time.sleep(SECONDS_TO_READ)
    world.client.api("PATCH", answer, {"chosen_options": ["Approve"], "params_input": {}})
    assert world.client.wait("release_signed", run_id, WAIT_SECONDS) == "success"
    assert (world.stack.store.published("signed", LATEST.date()) / "manifest.json").exists()
    record = read_json(world.stack.store.private("signed", LATEST.date()) / "approval.json")
    assert (record["approved_by"], record["approved_in"]) == (UI_USER, "airflow")
    assert world.note_of(run_id, "signed").startswith("Verdict: **published**")


def test_refused_cohort_waits(world):
    """Newcomers whom the gate refuses wait; Airflow publishes the carried-over groups, and the owner learns why."""
    assert world.client.wait("release_waiting", world.waiting, WAIT_SECONDS) == "success"
    place = f"/dags/release_waiting/dagRuns/{world.waiting}/taskInstances/validate/xcomEntries/return_value"
    value = world.client.api("GET", place)["value"]
    refused = (json.loads(value) if isinstance(value, str) else value)["counts"]["refused_cohort"]
    assert "homogeneity" in refused["failed"]
    assert refused["newcomers"] >= 50
    log = "\n".join(world.client.log("release_waiting", world.waiting, "validate", 1))
    assert f"cohort of {refused['newcomers']} newcomers refused by" in log
    first, second = (world.stack.store.published("waiting", day) for day in SNAPSHOTS[:2])
    users = [json.loads((one / "manifest.json").read_text())["counts"]["users"] for one in (first, second)]
    assert users[0] == users[1] == 600
    public = b"".join(file.read_bytes() for file in second.iterdir())
    assert b"refused_cohort" not in public
    assert b"newcomers refused" not in public


def test_no_logical_date(world):
    """A run without a logical date fails without a retry."""
    assert world.client.wait("release_refused", world.undated, WAIT_SECONDS) == "failed"
    tasks = world.tasks_of(world.undated, "refused")
    assert (tasks["ingest"]["state"], tasks["ingest"]["try_number"]) == ("failed", 1)
    assert "has no logical date" in "\n".join(world.client.log("release_refused", world.undated, "ingest", 1))


def test_params_fixed(world):
    """A run cannot be triggered with a smaller k."""
    body = {"logical_date": "2026-01-05T00:00:00Z", "conf": {"k": 2}}
    with pytest.raises(ApiError, match="Invalid input for param k"):
        world.client.api("POST", "/dags/release_monthly/dagRuns", body)


def test_broken_file(world):
    """A broken release file is shown as an import error and affects no other release."""
    (error,) = world.client.api("GET", "/importErrors")["import_errors"]
    assert error["filename"] == "release_errors.py"
    assert "broken.toml" in error["stack_trace"]
    assert "release.shedule: unknown key" in error["stack_trace"]
    dags = world.client.api("GET", "/dags")["dags"]
    names = ("monthly", "signed", "refused", "waiting")
    assert {dag["dag_id"] for dag in dags} == {"hostile"} | {
        f"{does}_{name}" for name in names for does in ("release", "withdraw")
    }


def test_xcom_references(world):
    """Tasks pass references to each other, never data."""
    run_id = world.run_of(SNAPSHOTS[0])["dag_run_id"]
    for step in graph(load(world.dags / "releases" / "monthly.toml")):
        place = f"/dags/release_monthly/dagRuns/{run_id}/taskInstances/{step}/xcomEntries/return_value"
        value = world.client.api("GET", place)["value"]
        value = json.loads(value) if isinstance(value, str) else value
        assert set(value) == {"step", "path", "digest", "counts"}
        assert len(json.dumps(value)) < 2000


def test_logs_hold_no_ids(world):
    """No log holds a source user id."""
    people = pq.read_table(
        world.stack.store.private("monthly", SNAPSHOTS[0]) / "membership.parquet", columns=["user"]
    )
    names = re.compile(
        rb"\b(" + b"|".join(re.escape(str(name).encode()) for name in people["user"].to_pylist()) + rb")\b"
    )
    logs = [path for path in world.stack.state.rglob("*.log") if path.is_file()]
    assert len(logs) > 40
    assert [path.name for path in logs if names.search(path.read_bytes())] == []


def test_withdrawal(world):
    """A snapshot is taken back from Airflow: a tombstone takes its place, and the asset says so."""
    conf = {"snapshot": str(SNAPSHOTS[2]), "reason": "the scale was wrong"}
    started = world.client.api("POST", "/dags/withdraw_monthly/dagRuns", {"logical_date": None, "conf": conf})
    assert world.client.wait("withdraw_monthly", started["dag_run_id"], WAIT_SECONDS) == "success"
    place = world.stack.store.published("monthly", SNAPSHOTS[2])
    assert [file.name for file in place.iterdir()] == ["tombstone.json"]
    (event,) = world.client.api("GET", "/assets/events?source_dag_id=withdraw_monthly")["asset_events"]
    assert event["name"] == "murmur://monthly"
    said = {key: event["extra"][key] for key in ("state", "snapshot", "reason")}
    assert said == {"state": "withdrawn", **conf}
    with pytest.raises(ApiError, match="Invalid input for param"):
        world.client.api("POST", "/dags/withdraw_monthly/dagRuns", {"logical_date": None, "conf": {}})


def test_withdrawal_on_the_command_line_is_announced(world, monkeypatch):
    """`murmur withdraw` sends the same event through the API, where it knows this Airflow."""
    monkeypatch.setenv("MURMUR_AIRFLOW", world.stack.url)
    monkeypatch.setenv("MURMUR_AIRFLOW_PASSWORD_FILE", str(password_file(world.stack.state)))
    extra = {"state": "withdrawn", "snapshot": str(SNAPSHOTS[2]), "reason": "told twice"}
    assert announce({"asset": "murmur://monthly", "extra": extra})["event_sent"]
    events = world.client.api("GET", "/assets/events")["asset_events"]
    (event,) = [one for one in events if (one["extra"] or {}).get("reason") == "told twice"]
    assert event["name"] == "murmur://monthly"


def test_login(world):
    """Nobody sees or changes anything in Airflow without the password, which the owner alone can read."""
    url = world.stack.url
    for method, path in (("GET", "dags"), ("POST", "dags/release_monthly/dagRuns"), ("GET", "variables")):
        assert httpx.request(method, f"{url}/api/v2/{path}", json={}).status_code == 401
    assert httpx.get(f"{url}/auth/token").status_code == 403  # a token for everybody
    guess = httpx.post(f"{url}/auth/token", json={"username": "admin", "password": "admin"})
    assert guess.status_code == 401
    password = json.loads((world.stack.state / "airflow" / "passwords.json").read_text())["admin"]
    login = httpx.post(f"{url}/auth/token", json={"username": "admin", "password": password})
    token = {"Authorization": f"Bearer {login.json()['access_token']}"}
    assert httpx.get(f"{url}/api/v2/dags", headers=token).status_code == 200
    logs = [path.read_text(errors="replace") for path in world.stack.state.rglob("*.log") if path.is_file()]
    assert not any(password in text for text in logs)


def test_secrets_are_the_owners(world):
    """Keys, certificates and passwords of the stack are closed to other accounts."""
    state = world.stack.state
    for name in (
        "certificates/dask.key",
        "certificates/dask.crt",
        "airflow/passwords.json",
        "airflow/keys.json",
    ):
        assert (state / name).stat().st_mode & 0o777 == 0o600
        assert (state / name).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
@pytest.mark.parametrize("uid", [NOBODY, NOBODY - 1])
def test_other_account(world, uid):
    """Another account can connect neither to Dask nor to PostgreSQL, not even the one that PostgreSQL runs as."""
    stack = world.stack
    with connected(stack) as client:
        info = client.scheduler_info(n_workers=-1)
    addresses = [info["address"], *info["workers"], *(w["nanny"] for w in info["workers"].values())]
    assert len(addresses) == 1 + 2 * stack.workers
    owner = tuple(Path(stack.environment[f"MURMUR_DASK_{name}"]).read_text() for name in ("CERT", "KEY"))
    socket = stack._postgres.socket_directory
    found = knock(addresses, owner, uid=uid, postgres=socket)
    for address in addresses:
        assert found[address].pop("the owner's certificate") == "accepted"
        assert set(found[address].values()) == {"refused"}
    assert "Permission denied" in found["postgres"]["why"]
    # Even where the directories were open, PostgreSQL itself refuses other accounts.
    modes = {place: place.stat().st_mode for place in (socket.parent, socket)}
    try:
        for place in modes:
            place.chmod(0o755)
        assert "Peer authentication failed" in knock([], owner, uid=uid, postgres=socket)["postgres"]["why"]
    finally:
        for place, mode in modes.items():
            place.chmod(mode)
    assert knock([], owner, uid=None, postgres=socket)["postgres"] == {"socket": "accepted"}


def test_loopback_only(world, left_behind):
    """Every component listens on the loopback address only."""
    processes = [psutil.Process(int(pid)) for pid in left_behind(world.root)]
    sockets = [s for p in processes for s in p.net_connections("inet") if s.status == psutil.CONN_LISTEN]
    assert len(sockets) >= 4  # Airflow's API, Dask's scheduler and workers
    assert {s.laddr.ip for s in sockets} == {"127.0.0.1"}


def test_stop(world, left_behind):
    """Stopping the stack leaves no process."""
    database = (world.stack.state / "postgres").readlink()
    assert len(left_behind(world.root, database)) > 8  # the search does find them while they run
    begun = time.monotonic()
    world.stack.stop()
    assert time.monotonic() - begun < 25
    assert left_behind(world.root, database) == []
