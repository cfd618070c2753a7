"""Test what people read about a verdict: in logs, the note of a run, the approval form and the asset event."""

import datetime
import errno
import logging

import pytest

from tasks.config import parse
from tasks.errors import DiskFull, Refused, UsageError
from tasks.store import Store, read_json, write_json

DAY = datetime.date(2026, 3, 1)
CONFIG = {"release": {"name": "films", "approval": True}, "source": {"format": "synthetic"}}


@pytest.fixture(scope="module", autouse=True)
def airflow_loaded():
    """Load Airflow before a test looks at the log: it sets up logging when it is imported."""
    import murmur_airflow.work  # noqa: F401


def line(name, *, passed=True, applicable=True, severity="gate", observed=0.1, void=False, interval=True):
    low, high = (observed - 0.05, observed + 0.05) if interval and observed is not None else (None, None)
    return {
        "name": name,
        "passed": passed,
        "applicable": applicable,
        "void": void,
        "observed": observed,
        "threshold": 0.2,
        "ci_low": low,
        "ci_high": high,
        "n": 100,
        "severity": severity,
        "detail": "a user-4711 wrote this",
    }


PASSED = [
    line("nearest-record"),
    line("tf-idf", applicable=False),
    line("unprotected-attributes", passed=False, severity="advisory"),
]
REFUSED = [
    line("nearest-record", passed=False, observed=0.31234),
    line("utility", passed=False, observed=None),
    line("homogeneity", passed=False, void=True),
]


def write_release(place, checks, *, snapshot=DAY, users=1200, groups=200, items=50):
    place.mkdir(parents=True)
    manifest = {
        "release": "films",
        "snapshot": str(snapshot),
        "privacy": {"k": 5},
        "counts": {"users": users, "groups": groups, "items": items},
        "checks": checks,
    }
    write_json(place / "manifest.json", manifest)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MURMUR_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team")
    return Store(tmp_path / "store")


def judged(store, checks, verdict=None, **counts):
    """Write what `validate` leaves, and return the candidate."""
    place = store.private("films", DAY) / "work" / "validate"
    write_release(place / "candidate", checks, **counts)
    (place / "private").mkdir()
    write_json(place / "private" / "verdict.json", verdict or {})
    return place / "candidate"


def judge(monkeypatch, refusal=None):
    """Run the task `validate` with a step that ends as given; return its reference and what it passed on."""
    from murmur_airflow import work

    from tasks import pipeline

    def step(*_, **__):
        if refusal is not None:
            raise refusal
        return {"digest": "d"}

    monkeypatch.setattr(pipeline, "run_step", step)
    passed_on = []
    try:
        return work.judge(parse(CONFIG), DAY, passed_on.append), passed_on
    except SystemExit as end:
        return end, passed_on


def test_refusal(store, monkeypatch, caplog):
    """A refusal is a few lines: which checks failed and by how much, where the report is, what to do."""
    from airflow.sdk.definitions.retry_policy import RetryAction
    from murmur_airflow.outcome import NO_RETRY, ReleaseRefused

    judged(store, REFUSED)
    error = Refused("the gate refused this release:\n" + 12 * "x" * 900, remedy="raise k")
    with caplog.at_level(logging.INFO, "murmur"):
        end, passed_on = judge(monkeypatch, error)
    assert isinstance(end, ReleaseRefused)
    assert end.code == 3
    assert NO_RETRY.evaluate(end, 1, 3).action is RetryAction.FAIL
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 6
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "REFUSED films 2026-03-01: nothing is published. The gate refused it: 3 of 3 checks failed (nearest-record, "
        "utility, homogeneity). 1,200 people in 200 groups, k = 5.",
        "  nearest-record: measured 0.312 (between 0.262 and 0.362), limit 0.2. Match records with people who are "
        "known completely.",
        "  utility: failed. Test that the release predicts better than chance.",
        lines[3],
        "report: https://airflow.example/team/murmur/releases/films/2026-03-01/report",
        "to do: raise k",
    ]
    assert lines[3].startswith("  homogeneity: its figures show nothing (void). ")
    (verdict,) = passed_on
    assert verdict["passed"] is False
    assert [one["name"] for one in verdict["failed"]] == ["nearest-record", "utility", "homogeneity"]
    assert "4711" not in str(verdict)
    assert str(store.root) not in str(verdict)
    assert str(store.root) not in caplog.text


def test_success(store, monkeypatch, caplog):
    """On success the log says what the verdict is and what changed since the last release."""
    judged(store, PASSED)
    for day, users in (("2026-01-01", 900), ("2026-02-01", 1000), ("2026-02-01-r2", 990), ("2026-04-01", 1)):
        write_release(store.root / "published" / "films" / day, [], snapshot=day, users=users)
    with caplog.at_level(logging.INFO, "murmur"):
        reference, (verdict,) = judge(monkeypatch)
    assert reference == {"digest": "d"}
    assert verdict["passed"] is True
    assert (
        "the gate passed it: all 1 checks. 1,200 people in 200 groups, k = 5."
        in caplog.text.lower().replace("the gate passed", "the gate passed")
    )
    assert "Since 2026-02-01-r2: +210 people, as many groups, as many items." in caplog.text
    assert "advisory check unprotected-attributes failed" in caplog.text


def test_first_release_and_waiting_newcomers(store, monkeypatch, caplog):
    """Without an earlier release nothing is compared; newcomers who were refused are mentioned."""
    from tasks.series.refusal import KEPT

    judged(store, PASSED, {KEPT: {"why": "cohort of 60 newcomers refused by homogeneity"}})
    with caplog.at_level(logging.INFO, "murmur"):
        _, (verdict,) = judge(monkeypatch)
    assert verdict["change"] is None
    assert "This is the first release of its name." in caplog.text
    assert "Newcomers wait: cohort of 60 newcomers refused by homogeneity." in verdict["sentence"]


def test_refused_before_the_gate(store, monkeypatch, caplog):
    """A refusal without a verdict keeps its own words, and an error of the input has another exit code."""
    from murmur_airflow.outcome import InputUnusable, ReleaseRefused

    end, passed_on = judge(monkeypatch, Refused("the settings have changed", where="here", remedy="wait"))
    assert isinstance(end, ReleaseRefused)
    assert (str(end), passed_on) == ("the settings have changed\n  where: here\n  to do: wait", [])
    end, _ = judge(monkeypatch, UsageError("no such file"))
    assert isinstance(end, InputUnusable)
    assert end.code == 2
    assert "no such file" in caplog.text


def test_a_full_disk_has_its_name(store, monkeypatch):
    """A write to an open file fails without a name; the task is tried again, since somebody may free some space."""
    with pytest.raises(DiskFull, match="no space left"):
        judge(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))


def test_records_of_single_people(store, monkeypatch):
    """A method that publishes a record for each person has no groups to count."""
    judged(store, PASSED, users=300, groups=300)
    _, (verdict,) = judge(monkeypatch)
    assert "300 records of single people, k = 5" in verdict["sentence"]


def test_synthetic_rows(store, monkeypatch):
    """Synthetic rows are about nobody, promise an epsilon, and their public lines have no figures."""
    candidate = judged(store, [line("dp-audit", passed=False, observed=None)], users=0, groups=400)
    manifest = read_json(candidate / "manifest.json")
    write_json(candidate / "manifest.json", {**manifest, "privacy": {"epsilon": 2.0, "delta": 1e-5}})
    _, (verdict,) = judge(monkeypatch, Refused("no"))
    assert verdict["sentence"].endswith("(dp-audit). 400 synthetic rows, ε = 2.")
    assert verdict["failed"][0]["words"].startswith("failed.")


def test_nothing_applicable(store, monkeypatch):
    """A release on which no check could fail has not passed."""
    judged(store, [line("tf-idf", applicable=False)])
    _, (verdict,) = judge(monkeypatch)
    assert verdict["passed"] is False
    assert "no applicable check was run" in verdict["sentence"]


VERDICT = {
    "release": "films",
    "snapshot": "2026-03-01",
    "passed": True,
    "people": 1200,
    "groups": 200,
    "items": 50,
    "failed": [],
    "warnings": ["unprotected-attributes"],
    "sentence": "The gate passed it: all 20 checks.",
    "report": "https://airflow.example/murmur/releases/films/2026-03-01/report",
    "change": {"since": "2026-02-01", "people": 200, "groups": -1, "items": 0},
}


def test_approval_form():
    """The form shows verdict, report, difference to the last release, and what each answer does; no path."""
    from murmur_airflow.approval import approval_form

    form = approval_form(VERDICT)
    assert "**The gate passed it: all 20 checks.**" in form
    assert "[Read the report](https://airflow.example/murmur/releases/films/2026-03-01/report)" in form
    assert "| people | 1,000 | 1,200 | +200 |" in form
    assert "| groups | 201 | 200 | -1 |" in form
    assert "| items | 50 | 50 | +0 |" in form
    assert "Advisory checks that failed: unprotected-attributes." in form
    assert "**Approve** publishes" in form
    assert "**Reject** ends" in form
    assert "within 14 days nothing is published" in form
    assert "`" not in form
    first = approval_form({**VERDICT, "change": None, "warnings": []})
    assert "first release of its name" in first
    assert "| people" not in first
    assert "No advisory check failed." in first


class Ti:
    """Stand in for a task instance: XComs by task and key."""

    def __init__(self, **values):
        self.values = values

    def xcom_pull(self, *, task_ids, key="return_value"):
        return self.values.get(task_ids if key == "return_value" else f"{task_ids}_{key}")


def test_who_approved(store):
    """Publication writes down who approved which bytes, once, in the owner's directory."""
    from murmur_airflow.approval import approved_digest

    answer = {
        "chosen_options": ["Approve"],
        "responded_by_user": {"id": "7", "name": "ann"},
        "responded_at": datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC),
    }
    ti = Ti(validate={"digest": "abc"}, approve=answer)
    assert approved_digest(parse(CONFIG), DAY, ti) == "abc"
    path = store.private("films", DAY) / "approval.json"
    record = read_json(path)
    assert record == {
        "candidate_digest": "abc",
        "approved_by": "ann",
        "approved_at": "2026-03-02 00:00:00+00:00",
        "approved_in": "airflow",
    }
    assert path.stat().st_mode & 0o777 == 0o600
    ti.values["approve"]["responded_by_user"]["name"] = "bob"
    approved_digest(parse(CONFIG), DAY, ti)
    assert read_json(path) == record
    ti.values["validate"]["digest"] = "other"
    approved_digest(parse(CONFIG), DAY, ti)
    assert read_json(path)["approved_by"] == "bob"


@pytest.mark.parametrize(
    "left",
    [
        {},
        {"validate": {"digest": "abc"}},
        {"validate": {"digest": "abc"}, "approve": {"chosen_options": ["Reject"]}},
        {"approve": {"chosen_options": ["Approve"]}},
    ],
)
def test_a_state_set_by_hand_is_no_approval(store, left):
    """Who may change states of tasks can set `validate` and `approve` to success; they have left nothing then."""
    from murmur_airflow.approval import approved_digest
    from murmur_airflow.outcome import NotApproved

    with pytest.raises(NotApproved, match="set by hand"):
        approved_digest(parse(CONFIG), DAY, Ti(**left))
    assert not (store.private("films", DAY) / "approval.json").exists()


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"chosen_options": ["Approve"]}, None),
        ({"chosen_options": ["Reject"]}, "REJECTED by ann: nothing is published"),
        ({"error": "late", "error_type": "timeout"}, "NO ANSWER within 14 days: nothing is published"),
    ],
)
def test_answers(event, expected, caplog):
    """An approval goes on; a rejection and a time-out end the task in one line, and are not tried again."""
    from airflow.sdk import DAG
    from murmur_airflow.approval import make_approval
    from murmur_airflow.outcome import NotApproved

    with DAG("release_films", schedule=None):
        approval = make_approval(parse(CONFIG))
    assert approval.response_timeout == datetime.timedelta(days=14)
    assert approval.retries == 0
    answered = {
        "params_input": {},
        "responded_at": datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC),
        "responded_by_user": {"id": "7", "name": "ann"},
    }
    if expected is None:
        assert approval.execute_complete({}, answered | event)["chosen_options"] == ["Approve"]
        return
    with pytest.raises(NotApproved, match=expected):
        approval.execute_complete({}, answered | event)
    assert [record.levelname for record in caplog.records if record.name == "murmur"] == ["ERROR"]


def test_announcement(store):
    """The event of a publication says in one sentence what was published, and has the figures for programs."""
    from murmur_airflow.work import announcement

    counts = {"users": 1200, "groups": 200, "items": 50, "ratings": 9, "release_digest": "f" * 64}
    extra = announcement(parse(CONFIG), DAY, {"counts": counts})
    assert extra["summary"] == "films 2026-03-01 published: 1,200 people in 200 groups, 50 items, k = 5"
    assert extra["state"] == "published"
    assert extra["snapshot"] == "2026-03-01"
    assert extra["digest"] == "f" * 64
    assert extra["counts"] == {"users": 1200, "groups": 200, "items": 50, "ratings": 9}
    assert extra["report"].endswith("/murmur/releases/films/2026-03-01/report")


REFUSAL = {
    **VERDICT,
    "passed": False,
    "failed": [{"name": "homogeneity", "words": "measured 0.3, limit 0.2."}],
}


@pytest.mark.parametrize(
    ("outcome", "verdict", "failed", "expected"),
    [
        ("published", VERDICT, [], "**published**. The gate passed it"),
        ("failed", REFUSAL, ["validate"], "**refused** by homogeneity; nothing is published. [Report]("),
        ("failed", VERDICT, ["approve"], "**passed, not approved**"),
        ("failed", VERDICT, ["publish"], "**passed, not published**: the run failed in `publish`"),
        ("failed", None, ["padding"], "**none**. The run failed in `padding` before"),
        ("failed", None, [], "**none**. The run failed in no task before"),
    ],
)
def test_note(outcome, verdict, failed, expected):
    """The note of a run distinguishes a refusal from a fault."""
    from murmur_pages.run_notes import note

    text = note(outcome, verdict, failed)
    assert text.startswith("Verdict: ")
    assert expected in text
    assert ("- **homogeneity**: measured 0.3, limit 0.2." in text) == (verdict is REFUSAL)


def test_long_note():
    """A note fits its column."""
    from murmur_pages.run_notes import LONGEST, note

    many = [{"name": f"check-{n}", "words": "measured 0.3. " * 5} for n in range(40)]
    text = note("failed", {**REFUSAL, "failed": many}, ["validate"])
    assert len(text) == LONGEST
    assert text.endswith(" …")
