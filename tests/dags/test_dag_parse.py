"""Test the DAG file, parsed in an own process as Airflow does: tasks, documentation, imports."""

import datetime
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.config import load
from tasks.methods import graph
from tasks.series.withdrawal import LONGEST_REASON
from tasks.store import Store
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate

ROOT = Path(__file__).parents[2]
SNAPSHOT = datetime.date(2026, 1, 1)
HEAVY = [
    "dask",
    "distributed",
    "great_expectations",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
]

# Airflow's own DagBag in a fresh interpreter; what it found goes to stdout as the last line.
PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
print(json.dumps({
    "errors": {path.rpartition("/")[2]: text for path, text in bag.import_errors.items()},
    "modules": sorted(m for m in sys.modules if "." not in m),
    "dags": {
        dag.dag_id: {
            "tasks": {t.task_id: sorted(t.upstream_task_ids) for t in dag.tasks},
            "docs": {t.task_id: t.doc_md for t in dag.tasks},
            "retries": {t.task_id: t.retries for t in dag.tasks},
            "outlets": {t.task_id: [a.name for a in t.outlets] for t in dag.tasks if t.outlets},
            "doc": dag.doc_md, "catchup": dag.catchup, "active": dag.max_active_runs,
            "tags": sorted(dag.tags),
            "schedule": dag.timetable.expression if hasattr(dag.timetable, "expression") else None,
            "start": dag.start_date and dag.start_date.isoformat(),
            "params": {k: p.schema for k, p in dag.params.items()},
        } for dag in bag.dags.values()
    },
}))
"""

GOOD = "[release]\nname = '{name}'\n{more}\n[source]\nformat = 'synthetic'\n"


def airflow_environment(home: Path) -> dict[str, str]:
    settings = {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    return {**os.environ, **settings}


@pytest.fixture(scope="module")
def dags(tmp_path_factory):
    """Good files, a broken one of each kind, and the project's own demo, parsed once."""
    root = tmp_path_factory.mktemp("parse")
    folder = root / "dags"
    # Links, so that coverage measures the project's own DAG files.
    shutil.copytree(
        ROOT / "dags", folder, ignore=shutil.ignore_patterns("__pycache__"), copy_function=os.symlink
    )
    releases = folder / "releases"
    (releases / "signed.toml").write_text(GOOD.format(name="signed", more="approval = true"))
    (releases / "twice.toml").write_text(GOOD.format(name="signed", more=""))
    noisy = GOOD.format(name="noisy", more="") + "[privacy]\nmethod = 'perturbation'\nk = 7\n"
    (releases / "noisy.toml").write_text(noisy)
    hidden = GOOD.format(name="hidden", more="") + "[obfuscation]\nattribute = 'gender'\n"
    (releases / "hidden.toml").write_text(hidden)
    obscured = hidden.replace("'hidden'", "'obscured'") + "[privacy]\nmethod = 'obfuscation'\n"
    (releases / "obscured.toml").write_text(obscured)
    rare = GOOD.format(name="rare", more="") + "[privacy]\nmethod = 'suppression'\n"
    (releases / "rare.toml").write_text(rare)
    (releases / "typo.toml").write_text(
        "[release]\nname = 'typo'\n[source]\nformat = 'synthetic'\n[privacy]\nkk = 5\n"
    )
    (releases / "garbage.toml").write_text("[release\n")
    command = [sys.executable, "-c", PARSE, folder]
    result = subprocess.run(
        command, env=airflow_environment(root), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_light_imports(dags):
    """Parsing imports no heavy library."""
    assert "airflow" in dags["modules"]
    assert [module for module in HEAVY if module in dags["modules"]] == []


def test_two_dags_per_file(dags):
    """Every valid release file gives a DAG that publishes and one that withdraws."""
    names = {load(path).release.name for path in (ROOT / "dags" / "releases").glob("*.toml")}
    assert "demo" in names
    names |= {"signed", "noisy", "hidden", "obscured", "rare"}
    assert set(dags["dags"]) == {f"{does}_{name}" for name in names for does in ("release", "withdraw")}


def test_withdrawal(dags):
    """A withdrawal is started by a person alone, who must say which snapshot and why."""
    dag = dags["dags"]["withdraw_demo"]
    assert (dag["schedule"], dag["catchup"], dag["active"]) == (None, False, 1)
    assert dag["tasks"] == {"withdraw": []}
    assert dag["outlets"] == {"withdraw": ["murmur://demo"]}
    assert dag["params"]["snapshot"] == {"type": "string", "format": "date"}
    assert dag["params"]["reason"] == {"type": "string", "minLength": 1, "maxLength": LONGEST_REASON}
    assert "withdraw" in dag["docs"]["withdraw"].lower()
    assert "murmur://demo" in dag["doc"]


def test_graph(dags):
    """Tasks and dependencies are those of the method's graph."""
    steps = graph(load(ROOT / "dags" / "releases" / "demo.toml"))
    assert dags["dags"]["release_demo"]["tasks"] == {step: sorted(needed) for step, needed in steps.items()}
    assert next(iter(steps)) == "ingest"
    assert next(reversed(steps)) == "publish"


def test_changing_step_first(dags):
    """A step that changes the ratings comes before all steps that read them."""
    hidden, obscured, rare = (dags["dags"][f"release_{name}"] for name in ("hidden", "obscured", "rare"))
    plain = dags["dags"]["release_demo"]["tasks"]
    assert {step: [n for n in needed if n != "obfuscation"] for step, needed in hidden["tasks"].items()} == {
        "obfuscation": ["ingest"],
        **{
            s: [n for n in needed if s in ("evaluate", "validate") or n != "ingest"]
            for s, needed in plain.items()
        },
    }
    assert obscured["tasks"] == {
        "ingest": [],
        "obfuscation": ["ingest"],
        "clustering": ["obfuscation"],
        "homogenization": ["clustering", "obfuscation"],
        "evaluate": ["ingest"],
        "validate": ["clustering", "evaluate", "homogenization", "ingest", "obfuscation"],
        "publish": ["validate"],
    }
    assert rare["tasks"]["evaluate"] == ["ingest", "suppression"]
    assert rare["tasks"]["clustering"] == ["suppression"]
    for dag, step in ((hidden, "obfuscation"), (obscured, "obfuscation"), (rare, "suppression")):
        assert dag["docs"][step].lower().startswith(step)
        assert f"| `{step}` |" in dag["doc"]
    assert "at least 5 people share every profile, made-up ratings hide gender" in hidden["doc"]


def test_approval_task(dags):
    """Approval comes between the gate and publication."""
    tasks = dags["dags"]["release_signed"]["tasks"]
    assert tasks["approve"] == ["validate"]
    assert "approve" in tasks["publish"]
    assert "approve" not in dags["dags"]["release_demo"]["tasks"]


def test_schedule(dags):
    """Schedule and start date follow the release file."""
    demo = dags["dags"]["release_demo"]
    assert demo["schedule"] == "0 3 1 * *"
    assert demo["start"] == "2026-01-01T00:00:00+00:00"
    assert demo["catchup"] is False
    assert demo["active"] == 1
    assert demo["tags"] == ["predictive-padded", "release"]


def test_step_docs(dags):
    """Every task has documentation."""
    demo = dags["dags"]["release_demo"]
    for step, doc in demo["docs"].items():
        assert doc.lower().startswith(step), step
        assert f"| `{step}` |" in demo["doc"]
    assert "murmur://demo" in demo["doc"]


def test_outlets(dags):
    """Only publication announces the asset."""
    assert dags["dags"]["release_demo"]["outlets"] == {"publish": ["murmur://demo"]}


def test_params_constant(dags):
    """The privacy parameters cannot be changed when a run is triggered."""
    params = dags["dags"]["release_demo"]["params"]
    assert params["k"]["const"] == 5
    assert params["l"]["const"] == 2


def test_docs_of_single_records(dags):
    """The documentation of a method of single records does not mention groups."""
    noisy, demo = dags["dags"]["release_noisy"], dags["dags"]["release_demo"]
    assert "perturbation, one record per person, risk at most 1/7 as judged by the gate" in noisy["doc"]
    assert "at least 5 people share every profile" in demo["doc"]
    assert set(demo["params"]) - set(noisy["params"]) == {"min_contributors"}
    for step in ("clustering", "homogenization"):
        assert "or of " in noisy["docs"][step]


def test_import_errors(dags):
    """A broken release file is reported with its name and key, and affects no other."""
    assert list(dags["errors"]) == ["release_errors.py"]
    message = dags["errors"]["release_errors.py"]
    assert "privacy.kk: unknown key" in message
    assert "typo.toml" in message
    assert "not valid TOML" in message
    assert "garbage.toml" in message
    assert "'signed' is taken by signed.toml" in message
    assert "twice.toml" in message


RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import release
from airflow.sdk.exceptions import AirflowFailException
from tasks.config import load
config = load(sys.argv[1] + "/releases/demo.toml")
import datetime
day = datetime.date(2026, 1, 1)
for attempt in (lambda: release.run("ingest", config, day), lambda: release.snapshot_of(None)):
    try:
        attempt()
    except AirflowFailException as error:
        print(error)
east = datetime.timezone(datetime.timedelta(hours=5))
print(release.snapshot_of(datetime.datetime(2026, 3, 1, 2, tzinfo=east)))
"""


@pytest.mark.slow
def test_no_retry(tmp_path):
    """Errors that a retry cannot solve fail the task at once."""
    environment = {
        **airflow_environment(tmp_path),
        "MURMUR_WORKERS": "2",
        "MURMUR_STORE": str(tmp_path / "store"),
    }
    command = [sys.executable, "-c", RUN, ROOT / "dags"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "none can be embedded in an Airflow task" in result.stdout
    assert "this run has no logical date" in result.stdout
    assert result.stdout.endswith("2026-02-28\n")  # the date in UTC, wherever the run was asked for
    assert not (tmp_path / "store").exists()


WITHDRAW = """
import sys
sys.path.insert(0, sys.argv[1])
import release
from airflow.sdk.exceptions import AirflowFailException
from tasks.config import load
config = load(sys.argv[2])
for day, reason in (("2026-1", "late"), ("2026-03-01", "late"), ("2026-01-01", "wrong scale"), ("2026-01-01", "again")):
    try:
        answer = release.take_back(config, day, reason)
        print(answer["status"], answer["reason"], sorted(answer["event"]["extra"].items())[-2])
    except AirflowFailException as error:
        print(error)
"""


def test_take_back(tmp_path, monkeypatch):
    """A snapshot that was published is withdrawn; what was not is refused without a retry."""
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    store = Store(tmp_path / "store")
    publish_candidate(
        make_candidate(tmp_path / "made", store, "2026-01-01", ["ann", "bob"], items=["x"]),
        store,
        "2026-01-01",
    )
    config = tmp_path / "films.toml"
    config.write_text(GOOD.format(name="films", more="") + f"[series]\npopulation = '{POPULATION}'\n")
    environment = {**airflow_environment(tmp_path), "MURMUR_STORE": str(store.root)}
    command = [sys.executable, "-c", WITHDRAW, ROOT / "dags", config]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "'2026-1' is not a snapshot date" in result.stdout
    assert "this snapshot was never published" in result.stdout
    assert "withdrawn wrong scale ('state', 'withdrawn')" in result.stdout
    assert "withdrawn already wrong scale" in result.stdout
    assert [file.name for file in store.published("films", SNAPSHOT).iterdir()] == ["tombstone.json"]


CRASH = """
import datetime, sys, traceback
sys.path.insert(0, sys.argv[1])
import release
from airflow.sdk.exceptions import AirflowFailException
from tasks import pipeline
from tasks.config import load
from tasks.errors import DiskFull

def crash(step, *_, **__):
    try:
        raise KeyError("user-4711")
    except KeyError:
        if step == "publish":
            raise DiskFull("no space left")
        raise

pipeline.run_step = crash
config = load(sys.argv[1] + "/releases/demo.toml")
for step in ("ingest", "publish"):
    try:
        release.run(step, config, datetime.date(2026, 1, 1))
    except Exception as error:
        assert not isinstance(error, AirflowFailException)  # a retry may succeed
        print(type(error).__name__)
        traceback.print_exception(error, file=sys.stdout)
"""


@pytest.mark.slow
@pytest.mark.parametrize("shown", [False, True])
def test_unexpected_exception(shown, tmp_path):
    """Airflow's log gets the type and place of an unexpected exception; its message only if the owner asks for it."""
    environment = {**airflow_environment(tmp_path), "MURMUR_WORKERS": "0", "MURMUR_DASK": ""}
    environment["MURMUR_TRACEBACK"] = "1" if shown else ""
    command = [sys.executable, "-c", CRASH, ROOT / "dags"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert ("KeyError" if shown else "AirflowException") in lines
    assert "DiskFull" in lines
    assert ("user-4711" in result.stdout) == shown
    if not shown:
        assert "unexpected KeyError in <string>, line 12" in result.stdout
