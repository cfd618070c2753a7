"""Build two DAGs for every file in releases/: `release_<name>` with the same steps as `murmur run`, one task each, and
`withdraw_<name>`, which takes a published snapshot back as `murmur withdraw` does.

Airflow parses this file again and again, so it only draws boxes: everything heavy is imported inside the tasks.
Release files that cannot be used are left out here and shown as an import error by release_errors.py, so that one
broken file does not stop the other releases.
"""

import ast
import contextlib
import datetime
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Asset, BaseOperator, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

import tasks.steps
from tasks.config import ReleaseConfig, snapshot_date
from tasks.config.release_files import find
from tasks.engine import workers_wanted
from tasks.errors import MurmurError, Refused, UsageError, place_of
from tasks.methods import graph, promise_in_words, promised_parameters

RELEASES = Path(__file__).parent / "releases"
RETRIES = {"retries": 2, "retry_delay": datetime.timedelta(seconds=10)}
APPROVAL_DAYS = 14
LONGEST_REASON = 200  # characters; tasks/series/withdrawal.py refuses longer ones

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
and `publish` never runs. Where only newcomers of a series are refused, they wait: `validate` succeeds, its log and
return value say whom it left out, and the groups of earlier releases are published. `publish` emits the asset
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
        approved = None
        if step == "publish" and config.release.approval:
            approved = context["ti"].xcom_pull(task_ids="validate")["digest"]
        reference = run(step, config, snapshot, approved)
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


def run(
    step: str, config: ReleaseConfig, snapshot: datetime.date, approved: str | None = None
) -> dict[str, Any]:
    """Run a step; `approved` is the digest of the candidate that a person approved."""
    from tasks.pipeline import run_step
    from tasks.store import Store

    with explained():
        if not os.environ.get("MURMUR_DASK") and workers_wanted() > 0:
            # Dask's embedded workers cannot start here: their nanny would import Airflow's task runner again.
            raise UsageError(
                "no Dask cluster is named, and none can be embedded in an Airflow task",
                where="MURMUR_DASK",
                remedy="set it to the scheduler's address, or MURMUR_WORKERS=0 to compute inside the task",
            )
        return run_step(step, config, snapshot, Store(), approved=approved)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn errors into Airflow's: what no retry can change (bad input, a refusal) fails the task at once.

    Airflow logs messages and tracebacks. Those of an unexpected exception may quote a source user id, so only its type
    and place are passed on, unless MURMUR_TRACEBACK is set (as for `murmur`).
    """
    try:
        yield
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
            answer = take_back(config, context["params"]["snapshot"], context["params"]["reason"])
            context["outlet_events"][asset].extra = answer["event"]["extra"]
            return {key: answer[key] for key in ("status", "tombstone", "withdrawn_at")}

        perform()
    return dag


def take_back(config: ReleaseConfig, snapshot: str, reason: str) -> dict[str, Any]:
    """Withdraw a snapshot and return the answer of `murmur withdraw`."""
    from tasks.series.withdrawal import withdraw
    from tasks.store import Store

    with explained():
        day = snapshot_date(snapshot).isoformat()
        return withdraw(Store(), config.population, config.release.name, day, reason)


def explain(step: str) -> str:
    """Return the first paragraph of a step's docstring, read without importing the step."""
    source = Path(tasks.steps.__path__[0], f"{step}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or step).partition("\n\n")[0].replace("\n", " ")


for _path, _config in find(RELEASES)[0].items():
    globals()[f"release_{_config.release.name}"] = make_dag(_config, _path.name)
    globals()[f"withdraw_{_config.release.name}"] = make_withdrawal_dag(_config)
