"""Write the verdict into the note of a run when it ends, where the list of runs and the page of a run show it.

A task cannot do that: Airflow gives tasks no way to change their run. The scheduler can, and informs listeners of a
run's end while it holds the run in a session. What `validate` passed on is read from Airflow's database, so the
scheduler needs no access to the store. A note that a person has written stays.
"""

from typing import Any

from airflow.listeners import hookimpl

MARK = "Verdict: "  # notes that begin so are ours, and are written anew when a run is cleared
LONGEST = 1000  # characters: the size of the column


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """Note what was published."""
    _write(dag_run, "published")


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """Note whether the run was refused or has a fault, and where."""
    _write(dag_run, "failed")


def _write(dag_run: Any, outcome: str) -> None:
    if not dag_run.dag_id.startswith("release_"):
        return
    if dag_run.note and not dag_run.note.startswith(MARK):
        return
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:  # not the scheduler's: nothing would be stored
        return
    failed_tasks = sorted(
        task.task_id for task in dag_run.get_task_instances(session=session) if task.state == "failed"
    )
    text = note(outcome, _verdict(dag_run, session), failed_tasks)
    if dag_run.dag_run_note is None:
        dag_run.note = text
    else:
        dag_run.dag_run_note.content = text


def note(outcome: str, verdict: dict[str, Any] | None, failed_tasks: list[str]) -> str:
    """Return the note: what became of the release, in Markdown, and where its report is."""
    if verdict is None:
        where = ", ".join(f"`{task}`" for task in failed_tasks) or "no task"
        return (
            f"{MARK}**none**. The run failed in {where} before the gate reached a verdict; the log says why."
        )
    report = f"[Report]({verdict['report']})"
    if not verdict["passed"]:
        names = ", ".join(one["name"] for one in verdict["failed"]) or "no applicable check"
        failed = "\n".join(f"- **{one['name']}**: {one['words']}" for one in verdict["failed"])
        text = f"{MARK}**refused** by {names}; nothing is published. {report}\n\n{failed}"
    elif outcome == "published":
        text = f"{MARK}**published**. {verdict['sentence']} {report}"
    elif "approve" in failed_tasks:
        text = f"{MARK}**passed, not approved**: nothing is published. {verdict['sentence']} {report}"
    else:
        where = ", ".join(f"`{task}`" for task in failed_tasks)
        text = f"{MARK}**passed, not published**: the run failed in {where}. {verdict['sentence']} {report}"
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + " …"


def _verdict(dag_run: Any, session: Any) -> dict[str, Any] | None:
    """Return what `validate` passed on in this run, or None."""
    from airflow.models.xcom import XComModel

    query = XComModel.get_many(
        run_id=dag_run.run_id, key="verdict", dag_ids=dag_run.dag_id, task_ids="validate"
    )
    row = session.execute(query.with_only_columns(XComModel.value)).first()
    return None if row is None else XComModel.deserialize_value(row)
