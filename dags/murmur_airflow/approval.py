"""Let a person decide about publication: what the form in Airflow shows, and the record of who approved.

Airflow lets authors of DAGs change the state of any task, so this is a person's decision and no proof of it.
"""

import datetime
from typing import Any

from airflow.providers.standard.exceptions import HITLRejectException, HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator

from murmur_airflow.alerts import ReleaseAlert
from murmur_airflow.drawing import APPROVE
from murmur_airflow.outcome import NotApproved, explained, logged
from murmur_airflow.verdicts import XCOM_KEY, change_in_words
from tasks.config import ReleaseConfig
from tasks.data.approval import record_approval_in_airflow
from tasks.store import Store, owner_only

DAYS = 14

DOC = "Approve: a person reads the report and approves or rejects publication."


class ReleaseApproval(ApprovalOperator):
    """Ask a person; a rejection and a time-out end the task in a few words instead of a stack of files."""

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Go on with an approval, and end the task otherwise."""
        what = "nothing is published; the candidate stays in the private part of the store"
        try:
            return super().execute_complete(context, event)
        except HITLRejectException:
            person = (event.get("responded_by_user") or {}).get("name", "a person")
            raise logged(NotApproved, [f"REJECTED by {person}: {what}"]) from None
        except HITLTimeoutError:
            raise logged(NotApproved, [f"NO ANSWER within {DAYS} days: {what}"]) from None


def make_approval(config: ReleaseConfig) -> ReleaseApproval:
    """Return the task that waits for a person's decision; no answer means no publication."""
    name = config.release.name
    approval = ReleaseApproval(
        task_id=APPROVE,
        doc_md=DOC,
        subject=f"Publish {name}, snapshot {{{{ ds }}}}?",
        body="{{ approval_form(ti.xcom_pull(task_ids='validate', key='" + XCOM_KEY + "')) }}",
        response_timeout=datetime.timedelta(days=DAYS),
        fail_on_reject=True,  # a run that published nothing must not look like a successful one
        retries=0,
        notifiers=[ReleaseAlert(config.alerts, name, "approval")] if config.is_alerting else None,
        on_failure_callback=ReleaseAlert(config.alerts, name) if config.is_alerting else None,
    )
    approval.dag.user_defined_macros = {"approval_form": approval_form}
    return approval


def approval_form(verdict: dict[str, Any]) -> str:
    """Return, in Markdown, what a person needs for the decision: verdict, changes, report, what each answer does."""
    warnings = ", ".join(verdict["warnings"])
    change, figures = verdict["change"], ""
    if change is not None:
        rows = [
            f"| {name} | {verdict[name] - change[name]:,} | {verdict[name]:,} | {change[name]:+,} |"
            for name in ("people", "groups", "items")
        ]
        figures = "\n".join(
            ["", f"| | {change['since']} | {verdict['snapshot']} | change |", "|---|--:|--:|--:|", *rows, ""]
        )
    return "\n".join(
        [
            f"**{verdict['sentence']}**",
            "",
            change_in_words(change),
            figures,
            f"Advisory checks that failed: {warnings}." if warnings else "No advisory check failed.",
            "",
            f"[Read the report]({verdict['report']}) before you decide.",
            "",
            "**Approve** publishes exactly these bytes; what is published stays known, even if it is withdrawn. "
            "**Reject** ends this run without a publication; the candidate stays in the private part of the store. "
            f"Without an answer within {DAYS} days nothing is published.",
        ]
    )


def approved_digest(config: ReleaseConfig, snapshot: datetime.date, ti: Any) -> str:
    """Return the digest of the candidate that a person approved, and write down who did."""
    digest = ti.xcom_pull(task_ids="validate")["digest"]
    answer = ti.xcom_pull(task_ids=APPROVE) or {}
    person = answer.get("responded_by_user") or {}
    with explained(), owner_only():
        record_approval_in_airflow(
            Store().private(config.release.name, snapshot),
            digest,
            user=str(person.get("name") or person.get("id") or "unknown"),
            at=str(answer.get("responded_at") or ""),
        )
    return digest
