"""Build a DAG `release_<name>` for every file in releases/, with the same steps as `murmur run`, one task each.

Airflow parses this file again and again, so it only draws boxes: everything heavy is imported inside the tasks.
Release files that cannot be used are left out here and shown as an import error by release_errors.py, so that one
broken file does not stop the other releases.
"""

import ast
import datetime
import os
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Asset, BaseOperator, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

import tasks.steps
from tasks.config import ReleaseConfig
from tasks.config.release_files import find
from tasks.engine import workers_wanted
from tasks.errors import MurmurError, Refused, UsageError, place_of
from tasks.methods import graph, promise_in_words, promised_parameters

RELEASES = Path(__file__).parent / "releases"
RETRIES = {"retries": 2, "retry_delay": datetime.timedelta(seconds=10)}
APPROVAL_DAYS = 14

DOC = """
**{config.release.name}**: {config.privacy.method}, {promise}, from a *{config.source.format}* source; described by
`{file}`.

The snapshot is the run's logical date: run past ones with a backfill. Every step can be cleared and rerun and
gives the same bytes again. Only references (paths, digests, counts) pass between tasks; everything before
publication lies in the private part of the store.

| step | what it does |
|---|---|
{steps}

A release that the gate refuses fails in `validate`: its log lists the failed checks and the place of the report,
and `publish` never runs. `publish` emits the asset
`murmur://{config.release.name}`.
"""

APPROVE = "Approve: a person reads the report and approves or rejects publication."


def make_dag(config: ReleaseConfig, file: str) -> DAG:
    """Return the DAG of one release."""
    name = config.release.name
    steps = graph(config)
    privacy = config.privacy
    rows = "\n".join(f"| `{step}` | {explain(step).partition(': ')[2] or explain(step)} |" for step in steps)
    with DAG(
        dag_id=f"release_{name}",
        description=f"{privacy.method}, {promise_in_words(config)}, from a {config.source.format} source",
        doc_md=DOC.format(config=config, promise=promise_in_words(config), file=file, steps=rows),
        schedule=config.release.schedule,
        start_date=datetime.datetime.combine(config.release.start_date, datetime.time(), datetime.UTC),
        catchup=False,
        max_active_runs=1,
        default_args=RETRIES,
        tags=["release", privacy.method],
        params=promises(config),
    ) as dag:
        operators: dict[str, BaseOperator] = {}
        for step, needed in steps.items():
            operators[step] = make_task(step, config)
            operators[step].set_upstream([operators[n] for n in needed])
        if config.release.approval:
            insert_approval(operators["validate"], operators["publish"], name)
    return dag


def promises(config: ReleaseConfig) -> dict[str, Param]:
    """Return the promises for the trigger form; `const` prevents that a run is triggered with weaker ones."""
    values = {"method": config.privacy.method, **promised_parameters(config)}
    return {
        key: Param(value, const=value, description="fixed by the release file")
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
        reference = run(step, config, snapshot)
        if step == "publish":
            counts = dict(reference["counts"])
            extra = {
                "snapshot": snapshot.isoformat(),
                "digest": counts.pop("release_digest"),
                "counts": counts,
            }
            context["outlet_events"][asset].extra = extra
        return reference

    return perform().operator


def run(step: str, config: ReleaseConfig, snapshot: datetime.date) -> dict[str, Any]:
    """Run a step; what no retry can change (bad input, a refusal) fails the task at once.

    Airflow logs messages and tracebacks. Those of an unexpected exception may quote a source user id, so only its type
    and place are passed on, unless MURMUR_TRACEBACK is set (as for `murmur`).
    """
    from tasks.pipeline import run_step
    from tasks.store import Store

    try:
        if not os.environ.get("MURMUR_DASK") and workers_wanted() > 0:
            # Dask's embedded workers cannot start here: their nanny would import Airflow's task runner again.
            raise UsageError(
                "no Dask cluster is named, and none can be embedded in an Airflow task",
                where="MURMUR_DASK",
                remedy="set it to the scheduler's address, or MURMUR_WORKERS=0 to compute inside the task",
            )
        return run_step(step, config, snapshot, Store())
    except (UsageError, Refused) as error:
        raise AirflowFailException(str(error)) from None
    except (
        MurmurError
    ) as error:  # its own text has no id; that of the exception it was raised from may have one
        raise error from None
    except Exception as problem:
        if os.environ.get("MURMUR_TRACEBACK"):
            raise
        raise AirflowException(
            f"unexpected {place_of(problem)}\n"
            "  to do: set MURMUR_TRACEBACK=1 to see the traceback (it may contain private data)"
        ) from None


def snapshot_of(logical_date: datetime.datetime | None) -> datetime.date:
    """Return the snapshot a run is about. Never today: a rerun next year must find the same data."""
    if logical_date is None:
        error = MurmurError(
            "this run has no logical date, so it has no snapshot",
            where="the run's logical_date",
            remedy="trigger it again with a logical date, or use a backfill",
        )
        raise AirflowFailException(str(error))
    return logical_date.astimezone(datetime.UTC).date()


def insert_approval(validate: BaseOperator, publish: BaseOperator, name: str) -> None:
    """Insert a person's decision between verdict and publication; no answer means no publication."""
    approve = ApprovalOperator(
        task_id="approve",
        doc_md=APPROVE,
        subject=f"Publish {name}, snapshot {{{{ ds }}}}?",
        body="The gate has passed this release. Its report: "
        "`{{ ti.xcom_pull(task_ids='validate')['path'] }}/candidate/report.html`",
        response_timeout=datetime.timedelta(days=APPROVAL_DAYS),
        fail_on_reject=True,  # a run that published nothing must not look like a successful one
        retries=0,
    )
    validate >> approve >> publish


def explain(step: str) -> str:
    """Return the first paragraph of a step's docstring, read without importing the step."""
    source = Path(tasks.steps.__path__[0], f"{step}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or step).partition("\n\n")[0].replace("\n", " ")


for _path, _config in find(RELEASES)[0].items():
    globals()[f"release_{_config.release.name}"] = make_dag(_config, _path.name)
