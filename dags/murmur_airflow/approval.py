"""Let people decide about publication: what the form in Airflow shows, the record of who approved, the wait for
signatures.

Airflow lets authors of DAGs change the state of any task, so the form is a person's decision and no proof of it. With
`release.approvers` the step `publish` counts signatures itself; the task here only waits until there are enough.
"""

import datetime
from typing import Any

from airflow.providers.standard.exceptions import HITLRejectException, HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseSensorOperator

from murmur_airflow.alerts import ReleaseAlert
from murmur_airflow.drawing import APPROVE
from murmur_airflow.outcome import NotApproved, explained, logged
from murmur_airflow.verdicts import XCOM_KEY, change_in_words
from tasks.config import ReleaseConfig
from tasks.data.approval import record_approval_in_airflow
from tasks.store import Store, owner_only

DAYS = 14

DOC = "Approve: a person reads the report and approves or rejects publication."
SIGNATURES_DOC = "Approve: wait until enough approvers have signed the candidate (`murmur approve --key`)."
SECONDS = 60.0  # between two looks for signatures


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


class SignatureSensor(BaseSensorOperator):
    """Wait until as many approvers have signed the candidate as the rule of the release asks for."""

    def __init__(self, *, config: ReleaseConfig, **settings: Any) -> None:
        super().__init__(**settings)
        self._release = config.release

    def poke(self, context: Any) -> bool:
        """Look for signatures; `publish` counts them again."""
        with explained():
            missing = missing_signatures(
                self._release.name, context["logical_date"].astimezone(datetime.UTC).date()
            )
        for line in missing:
            self.log.info("%s", line)
        return not missing


def missing_signatures(name: str, snapshot: datetime.date) -> list[str]:
    """Return what the candidate of a snapshot lacks; nothing where `publish` would let it out."""
    from tasks.data.approval import AwaitsApproval, require_signatures

    store = Store()
    private = store.private(name, snapshot)
    try:
        require_signatures(store, store.published(name, snapshot), private, private / "work" / "validate")
    except AwaitsApproval as waits:
        return waits.what.split("; ")
    return []


def make_signature_sensor(config: ReleaseConfig) -> SignatureSensor:
    """Return the task that waits for signatures; without them it fails, and whatever its state, `publish` refuses."""
    return SignatureSensor(
        config=config,
        task_id=APPROVE,
        doc_md=SIGNATURES_DOC,
        mode="reschedule",
        poke_interval=SECONDS,
        timeout=datetime.timedelta(days=DAYS).total_seconds(),
        retries=0,
        on_failure_callback=ReleaseAlert(config.alerts, config.release.name) if config.is_alerting else None,
    )


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
    """Return the digest of the candidate that a person approved, and write down who did.

    A task whose state was set by hand has left no verdict or no answer; that is no approval.
    """
    judged = ti.xcom_pull(task_ids="validate") or {}
    answer = ti.xcom_pull(task_ids=APPROVE) or {}
    if "digest" not in judged or answer.get("chosen_options") != [ApprovalOperator.APPROVE]:
        what = "the gate passed no candidate here, or nobody approved it in the form"
        raise logged(NotApproved, [f"NOT APPROVED: {what}; a state that was set by hand is neither"])
    digest = judged["digest"]
    person = answer.get("responded_by_user") or {}
    with explained(), owner_only():
        record_approval_in_airflow(
            Store().private(config.release.name, snapshot),
            digest,
            user=str(person.get("name") or person.get("id") or "unknown"),
            at=str(answer.get("responded_at") or ""),
        )
    return digest
