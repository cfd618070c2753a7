"""Build two DAGs for every file in releases/: `release_<name>` with the same steps as `murmur run`, one task each, and
`withdraw_<name>`, which takes a published snapshot back as `murmur withdraw` does. With a table [alerts] there is a
third, `overdue_<name>`.

Airflow parses this file again and again, so it only draws boxes: everything heavy is imported inside the tasks.
Release files that cannot be used are left out here and shown as an import error by release_errors.py, so that one
broken file does not stop the other releases.
"""

import ast
import datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, Param, get_current_context, task
from murmur_airflow.alerts import ReleaseAlert
from murmur_airflow.approval import approved_digest, make_approval, make_signature_sensor
from murmur_airflow.drawing import APPROVE, group_of, make_groups, needed_edges, with_approval
from murmur_airflow.links import ReportLink
from murmur_airflow.outcome import NO_RETRY
from murmur_airflow.verdicts import XCOM_KEY
from murmur_airflow.work import actor_of, announcement, judge, look, run, snapshot_of, take_back

import tasks.steps
from tasks.config import ReleaseConfig
from tasks.config.release_files import find
from tasks.data.actor import act_for
from tasks.methods import graph, promise_in_words, promised_parameters

RELEASES = Path(__file__).parent / "releases"
RETRIES = {"retries": 2, "retry_delay": datetime.timedelta(seconds=10), "retry_policy": NO_RETRY}
LONGEST_REASON = 200  # characters; tasks/series/withdrawal.py refuses longer ones

DOC = """
**{config.release.name}**: {config.privacy.method}, {promise}, from a *{config.source.format}* source; described by
`{file}`.

The snapshot is the run's logical date: run past ones with a backfill. Every step can be cleared and rerun and
gives the same bytes again. Only references (paths, digests, counts) pass between tasks; everything before
publication lies in the private part of the store.

{paused}

| step | what it does |
|---|---|
{steps}

A release that the gate refuses fails in `validate`: its log and the note of the run list the failed checks, the tab
*Report* of the run shows the report, and `publish` never runs. A task that failed for another reason has a stack of
files in its log; a refusal has none. Where only newcomers of a series are refused, they wait: `validate` succeeds, its
log and return value say whom it left out, and the groups of earlier releases are published. `publish` emits the asset
`murmur://{config.release.name}`.
"""

WITHDRAW_DOC = """
Takes a published snapshot of **{name}** back, as `murmur withdraw` does. Trigger it with the snapshot and a reason.

What was published stays known: the release still counts, and its groups are carried over in later releases. In its
place stands `tombstone.json` with the reason, so the reason must not name anybody; the files move to the private part
of the store. The task emits the asset `murmur://{name}` with the state *withdrawn*. Withdrawing a snapshot again
changes nothing.
"""

WITHDRAW = "Withdraw: replace a published snapshot by a tombstone with the reason; it still counts."

OVERDUE_DOC = """
Looks every morning whether the newest snapshot of **{name}** that is due by its schedule has a verdict, and alerts the
people named in the table `[alerts]` of its release file when it has none {hours} hours after its time. The alert is
repeated every day until the snapshot is there. Where `source_days` says when the source deletes a snapshot, there is an
alert for every one that is missing, from `warning_days` before that on.
"""

OVERDUE = "Look: is the newest due snapshot there?"

# Shown in the form that triggers a run, and in the documentation.
PAUSED = (
    "A run of a paused DAG waits until somebody unpauses it, and then Airflow also starts the newest snapshot of the "
    "schedule if that has no run yet. To make one snapshot only, trigger the newest, or pause the DAG again once your "
    "run has begun."
)

TYPES = {str: "string", int: "integer", float: "number"}
WORDS = {
    "method": "how people are made anonymous",
    "k": "at least so many people share each profile; of records of single people the risk is at most 1/k",
    "l": "at least so many records hold each item",
    "b": "items an attacker may know of a person",
    "epsilon": "the most by which one person's ratings change the logarithm of the probability of any content",
    "delta": "the probability with which epsilon may be exceeded",
    "per": "what epsilon and delta are for",
    "min_contributors": "at least so many real ratings stand behind a value, or none",
}


def make_dag(config: ReleaseConfig, file: str) -> DAG:
    """Return the DAG of one release."""
    name = config.release.name
    steps = graph(config)
    privacy = config.privacy
    rows = "\n".join(f"| `{step}` | {explain(step).partition(': ')[2] or explain(step)} |" for step in steps)
    promise = promise_in_words(config)
    with DAG(
        dag_id=f"release_{name}",
        description=f"{privacy.method}, {promise}, from a {config.source.format} source",
        doc_md=DOC.format(config=config, promise=promise, file=file, steps=rows, paused=PAUSED),
        schedule=config.release.schedule,
        start_date=datetime.datetime.combine(config.release.start_date, datetime.time(), datetime.UTC),
        catchup=False,
        max_active_runs=1,
        default_args=RETRIES | alerting(config),
        tags=["release", privacy.method],
        params=promises(config, file),
    ) as dag:
        groups = make_groups()
        operators: dict[str, BaseOperator] = {}
        for step, needed in needed_edges(
            with_approval(steps) if config.release.needs_approval else steps
        ).items():
            group = group_of(step)
            with groups[group] if group else dag.task_group:
                operators[step] = approval(config) if step == APPROVE else make_task(step, config)
            operators[step].set_upstream([operators[n] for n in needed])
    return dag


def alerting(config: ReleaseConfig) -> dict[str, Any]:
    """Return what calls people when a task of a release has failed for good."""
    return (
        {"on_failure_callback": ReleaseAlert(config.alerts, config.release.name)}
        if config.is_alerting
        else {}
    )


def approval(config: ReleaseConfig) -> BaseOperator:
    """Return the task between verdict and publication: a person answers here, or several sign elsewhere."""
    return make_signature_sensor(config) if config.release.approvers else make_approval(config)


def make_overdue_dag(config: ReleaseConfig) -> DAG:
    """Return the DAG that looks once a day for snapshots that have not arrived."""
    name = config.release.name
    with DAG(
        dag_id=f"overdue_{name}",
        description=f"alerts when the newest due snapshot of {name} has not arrived",
        doc_md=OVERDUE_DOC.format(name=name, hours=config.alerts.late_hours),
        schedule="30 6 * * *",
        start_date=datetime.datetime.combine(config.release.start_date, datetime.time(), datetime.UTC),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,  # it only looks
        default_args=RETRIES,
        tags=["overdue"],
    ) as dag:

        @task(task_id="look", doc_md=OVERDUE)
        def perform() -> dict[str, Any]:
            return look(config)

        perform()
    return dag


def promises(config: ReleaseConfig, file: str) -> dict[str, Param]:
    """Return the promises for the forms that start runs: a single choice each, so that no run can have weaker ones.

    With `const` a form would have a hidden field in a row that looks empty.
    """
    values = {"method": config.privacy.method, **promised_parameters(config)}
    return {
        key: Param(
            value,
            type=TYPES[type(value)],
            enum=[value],
            description_md=WORDS[key] + (f"\n\n{PAUSED}" if key == "method" else ""),
            section=f"Fixed by {file}. Note: unpausing also starts the newest scheduled snapshot",
        )
        for key, value in values.items()
    }


def make_task(step: str, config: ReleaseConfig) -> BaseOperator:
    """Return the task of one step, which passes on the step's reference."""
    asset = Asset(f"murmur://{config.release.name}")
    outlets = [asset] if step == "publish" else []

    @task(task_id=step, doc_md=explain(step), outlets=outlets)
    def perform() -> dict[str, Any]:
        context = get_current_context()
        snapshot = snapshot_of(context.get("logical_date"))
        with act_for(actor_of(context)):
            if step == "validate":
                return judge(config, snapshot, lambda verdict: context["ti"].xcom_push(XCOM_KEY, verdict))
            approved = None
            if step == "publish" and config.release.approval and not config.release.approvers:
                approved = approved_digest(config, snapshot, context["ti"])
            reference = run(step, config, snapshot, approved)
        if step == "publish":
            context["outlet_events"][asset].extra = announcement(config, snapshot, reference)
        return reference

    operator = perform().operator
    if step == "validate" and config.is_alerting and config.release.approvers:
        operator.on_success_callback = [ReleaseAlert(config.alerts, config.release.name, "approval")]
    if step in ("validate", "publish"):
        operator.operator_extra_links = (ReportLink(),)
    return operator


def make_withdrawal_dag(config: ReleaseConfig) -> DAG:
    """Return the DAG that takes a snapshot of one release back, when a person triggers it."""
    name = config.release.name
    asset = Asset(f"murmur://{name}")
    params = {
        "snapshot": Param(type="string", format="date", description="the published snapshot, YYYY-MM-DD"),
        "reason": Param(
            type="string",
            minLength=1,
            maxLength=LONGEST_REASON,
            description="why, in one line; it is published, so it must not name anybody",
        ),
    }
    with DAG(
        dag_id=f"withdraw_{name}",
        description=f"takes a published snapshot of {name} back",
        doc_md=WITHDRAW_DOC.format(name=name),
        schedule=None,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,  # it runs only when a person triggers it
        default_args=RETRIES,
        tags=["withdraw"],
        params=params,
    ) as dag:

        @task(task_id="withdraw", doc_md=WITHDRAW, outlets=[asset])
        def perform() -> dict[str, Any]:
            context = get_current_context()
            with act_for(actor_of(context)):
                answer = take_back(config, context["params"]["snapshot"], context["params"]["reason"])
            context["outlet_events"][asset].extra = answer["event"]["extra"]
            return {key: answer[key] for key in ("status", "tombstone", "withdrawn_at")}

        perform()
    return dag


def explain(step: str) -> str:
    """Return the first paragraph of a step's docstring, read without importing the step."""
    source = Path(tasks.steps.__path__[0], f"{step}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or step).partition("\n\n")[0].replace("\n", " ")


for _path, _config in find(RELEASES)[0].items():
    globals()[f"release_{_config.release.name}"] = make_dag(_config, _path.name)
    globals()[f"withdraw_{_config.release.name}"] = make_withdrawal_dag(_config)
    if _config.is_alerting and _config.release.schedule and _config.alerts.looks_daily:
        globals()[f"overdue_{_config.release.name}"] = make_overdue_dag(_config)
