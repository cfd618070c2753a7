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
from airflow.serialization.serialized_objects import DagSerialization
bag = DagBag(sys.argv[1])
modules = sorted(m for m in sys.modules if "." not in m)
from airflow import plugins_manager
plugins, broken = plugins_manager._get_plugins()
print(json.dumps({
    "plugins": [plugin.name for plugin in plugins],
    "broken_plugins": broken,
    "after_plugins": sorted(sys.modules),
    "errors": {path.rpartition("/")[2]: text for path, text in bag.import_errors.items()},
    "modules": modules,
    "dags": {
        dag.dag_id: {
            "tasks": {t.task_id: sorted(t.upstream_task_ids) for t in dag.tasks},
            "groups": {g: sorted(t.task_id for t in group.iter_tasks())
                       for g, group in dag.task_group_dict.items() if g},
            "titles": {g: group.group_display_name for g, group in dag.task_group_dict.items() if g},
            "listed": [node.node_id for node in
                       DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_group.topological_sort()],
            "links": {t.task_id: [link.name for link in t.operator_extra_links] for t in dag.tasks},
            "alerts": sorted(t.task_id for t in dag.tasks if t.on_failure_callback),
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
    # Airflow itself puts the folder of the DAG files on the path.
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "dags" / "plugins"),
        "PYTHONPATH": str(ROOT / "dags"),
    }
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
    (releases / "watched.toml").write_text(
        GOOD.format(name="watched", more="schedule = '@monthly'\napproval = true") + "[alerts]\n"
    )
    noisy = GOOD.format(name="noisy", more="") + "[privacy]\nmethod = 'perturbation'\nk = 7\n"
    (releases / "noisy.toml").write_text(noisy)
    hidden = GOOD.format(name="hidden", more="") + "[obfuscation]\nattribute = 'gender'\n"
    (releases / "hidden.toml").write_text(hidden)
    obscured = hidden.replace("'hidden'", "'obscured'") + "[privacy]\nmethod = 'obfuscation'\n"
    (releases / "obscured.toml").write_text(obscured)
    rare = GOOD.format(name="rare", more="") + "[privacy]\nmethod = 'suppression'\n"
    (releases / "rare.toml").write_text(rare)
    rows = GOOD.format(name="rows", more="") + "[privacy]\nmethod = 'dp-synthetic'\nbudget = {epsilon = 2}\n"
    (releases / "rows.toml").write_text(rows)
    (releases / "typo.toml").write_text(
        "[release]\nname = 'typo'\n[source]\nformat = 'synthetic'\n[privacy]\nkk = 5\n"
    )
    (releases / "garbage.toml").write_text("[release\n")
    command = [sys.executable, "-c", PARSE, folder]
    result = subprocess.run(
        command, env=airflow_environment(root), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return {**json.loads(result.stdout.splitlines()[-1]), "releases": str(releases)}


def test_light_imports(dags):
    """Parsing imports no heavy library."""
    assert "airflow" in dags["modules"]
    assert [module for module in HEAVY if module in dags["modules"]] == []


def test_light_plugin(dags):
    """Airflow loads the plugin, and with it no page and no heavy library: every Airflow process does so."""
    assert dags["plugins"] == ["murmuration"]
    assert dags["broken_plugins"] == {}
    assert "murmur_pages.run_notes" in dags["after_plugins"]
    for module in (*HEAVY, "murmur_pages.app", "murmur_pages.contents"):
        assert module not in dags["after_plugins"]


def test_two_dags_per_file(dags):
    """Every valid release file gives a DAG that publishes and one that withdraws."""
    names = {load(path).release.name for path in (ROOT / "dags" / "releases").glob("*.toml")}
    assert "demo" in names
    names |= {"signed", "noisy", "hidden", "obscured", "rare", "rows", "watched"}
    expected = {f"{does}_{name}" for name in names for does in ("release", "withdraw")}
    assert set(dags["dags"]) == {*expected, "overdue_watched"}


def test_alerts(dags):
    """With a table [alerts] every task of the release alerts, and a DAG looks once a day for what is overdue."""
    watched, demo = dags["dags"]["release_watched"], dags["dags"]["release_demo"]
    assert watched["alerts"] == sorted(watched["tasks"])
    assert "approve" in watched["alerts"]
    assert demo["alerts"] == []
    overdue = dags["dags"]["overdue_watched"]
    assert overdue["tasks"] == {"look": []}
    assert overdue["schedule"] == "30 6 * * *"
    assert overdue["catchup"] is False
    assert "24 hours" in overdue["doc"]


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


def everything_before(tasks):
    """Return for every task all tasks that end before it begins."""
    found: dict[str, set[str]] = {}

    def before(task):
        if task not in found:
            found[task] = set(tasks[task]).union(*(before(one) for one in tasks[task]))
        return found[task]

    return {task: before(task) for task in tasks}


@pytest.mark.parametrize("name", ["demo", "noisy", "hidden", "obscured", "rare"])
def test_graph(dags, name):
    """The order of the tasks is that of the method's graph, and no edge can be left out without changing it."""
    steps = graph(load(Path(dags["releases"]) / f"{name}.toml"))
    tasks = dags["dags"][f"release_{name}"]["tasks"]
    assert next(iter(steps)) == "ingest"
    assert list(steps)[-1] == "publish"
    order = everything_before(tasks)
    assert order == everything_before(steps)
    for task, edges in tasks.items():
        assert not [edge for edge in edges if any(edge in order[other] for other in edges)], task


def test_edges_of_the_demo(dags):
    """A chain of boxes, with the shadow run beside it."""
    assert dags["dags"]["release_demo"]["tasks"] == {
        "ingest": [],
        "padding": ["ingest"],
        "sampling": ["ingest"],
        "centers": ["padding", "sampling"],
        "binning": ["centers"],
        "clustering": ["binning"],
        "homogenization": ["clustering"],
        "diversity": ["homogenization"],
        "evaluate": ["ingest"],
        "validate": ["diversity", "evaluate"],
        "publish": ["validate"],
    }


def test_groups(dags):
    """The boxes are drawn in three groups, and keep their names."""
    demo, signed = dags["dags"]["release_demo"], dags["dags"]["release_signed"]
    assert demo["groups"] == {
        "1_anonymize": sorted(set(demo["tasks"]) - {"ingest", "evaluate", "validate", "publish"}),
        "2_judge": ["evaluate", "validate"],
        "3_publish": ["publish"],
    }
    assert list(demo["titles"].values()) == ["anonymize", "judge", "publish"]
    assert demo["listed"] == ["ingest", "1_anonymize", "2_judge", "3_publish"]
    assert signed["groups"]["3_publish"] == ["approve", "publish"]


def test_report_link(dags):
    """The boxes that people look at when a run has ended lead to the report."""
    for dag in (dags["dags"]["release_demo"], dags["dags"]["release_signed"]):
        linked = {task for task, links in dag["links"].items() if "Report" in links}
        assert linked == {"validate", "publish"}


def test_changing_step_first(dags):
    """A step that changes the ratings comes before all steps that read them."""
    hidden, obscured, rare = (dags["dags"][f"release_{name}"] for name in ("hidden", "obscured", "rare"))
    for dag, step in ((hidden, "obfuscation"), (obscured, "obfuscation"), (rare, "suppression")):
        assert dag["tasks"][step] == ["ingest"]
        readers = set(dag["tasks"]) - {"ingest", step, *(("evaluate",) if dag is not rare else ())}
        order = everything_before(dag["tasks"])
        assert all(step in order[reader] for reader in readers)
    assert obscured["tasks"] == {
        "ingest": [],
        "obfuscation": ["ingest"],
        "clustering": ["obfuscation"],
        "homogenization": ["clustering"],
        "evaluate": ["ingest"],
        "validate": ["evaluate", "homogenization"],
        "publish": ["validate"],
    }
    assert rare["tasks"]["evaluate"] == ["suppression"]
    assert rare["tasks"]["clustering"] == ["suppression"]
    for dag, step in ((hidden, "obfuscation"), (obscured, "obfuscation"), (rare, "suppression")):
        assert dag["docs"][step].lower().startswith(step)
        assert f"| `{step}` |" in dag["doc"]
    assert "at least 5 people share every profile, made-up ratings hide gender" in hidden["doc"]


def test_synthetic_rows(dags):
    """Nobody is grouped; a run cannot be triggered with a larger epsilon."""
    rows = dags["dags"]["release_rows"]
    assert rows["tasks"] == {
        "ingest": [],
        "statistics": ["ingest"],
        "synthesis": ["statistics"],
        "evaluate": ["ingest"],
        "validate": ["evaluate", "synthesis"],
        "publish": ["validate"],
    }
    assert rows["params"]["epsilon"]["enum"] == [2]
    assert rows["params"]["epsilon"]["type"] == "number"
    assert "k" not in rows["params"]
    assert "user-level differential privacy" in rows["doc"]


def test_approval_task(dags):
    """Approval comes between the gate and publication."""
    tasks = dags["dags"]["release_signed"]["tasks"]
    assert tasks["approve"] == ["validate"]
    assert tasks["publish"] == ["approve"]
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


def test_params_fixed(dags):
    """The promises are shown in the forms that start runs, with a single choice: a `const` would be a blank row."""
    params = dags["dags"]["release_demo"]["params"]
    assert {key: schema["enum"] for key, schema in params.items()} == {
        "method": ["predictive-padded"],
        "k": [5],
        "l": [2],
        "b": [1],
        "min_contributors": [3],
    }
    for key, schema in params.items():
        assert "const" not in schema
        assert schema["type"] == ("string" if key == "method" else "integer")
        assert "demo.toml" in schema["section"]
        assert len(schema["description_md"]) > 20
    assert "paused" in params["method"]["description_md"]


def test_paused_dag_is_explained(dags):
    """The documentation says what else starts when a paused DAG is unpaused."""
    assert (
        "unpauses it, and then Airflow also starts the newest snapshot" in dags["dags"]["release_demo"]["doc"]
    )


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
from murmur_airflow.outcome import NO_RETRY, Stopped
from tasks.config import load
config = load(sys.argv[1] + "/releases/demo.toml")
import datetime
day = datetime.date(2026, 1, 1)
for attempt in (lambda: release.run("ingest", config, day), lambda: release.snapshot_of(None)):
    try:
        attempt()
    except Stopped as error:
        print(error, NO_RETRY.evaluate(error, 1, 3).action, error.code)
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
    assert result.stdout.count("RetryAction.FAIL 2") == 2
    assert result.stdout.endswith("2026-02-28\n")  # the date in UTC, wherever the run was asked for
    assert not (tmp_path / "store").exists()


WITHDRAW = """
import sys
sys.path.insert(0, sys.argv[1])
import release
from murmur_airflow.outcome import Stopped
from tasks.config import load
config = load(sys.argv[2])
for day, reason in (("2026-1", "late"), ("2026-03-01", "late"), ("2026-01-01", "wrong scale"), ("2026-01-01", "again")):
    try:
        answer = release.take_back(config, day, reason)
        print(answer["status"], answer["reason"], sorted(answer["event"]["extra"].items())[-2])
    except Stopped as error:
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
from murmur_airflow.outcome import NO_RETRY
from airflow.sdk.definitions.retry_policy import RetryAction
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
        assert NO_RETRY.evaluate(error, 1, 3).action is RetryAction.DEFAULT  # a retry may succeed
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
        assert "unexpected KeyError in <string>, line 13" in result.stdout
