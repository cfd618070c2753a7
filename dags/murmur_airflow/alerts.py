"""Alert people: a release was refused or failed, waits for approval, or has not arrived.

Alerts leave this machine, so they consist of our own words alone: names of releases and checks, figures of the verdict,
links. The text of an exception is never in them, since that of a foreign library may quote a person's data. An alert
that cannot be sent is logged and changes nothing else.
"""

import datetime
import html
import json
import logging
from collections.abc import Callable
from typing import Any

from airflow.sdk import BaseHook, BaseNotifier

from murmur_airflow.drawing import APPROVE
from murmur_airflow.outcome import NotApproved, ReleaseRefused, airflow_page, page
from murmur_airflow.verdicts import XCOM_KEY
from tasks.config import ReleaseConfig
from tasks.config.alerts import Alerts

log = logging.getLogger("murmur")

SECONDS = 10.0  # for a webhook to answer

WORDS = {
    "refused": "the gate refused the release; nothing is published",
    "failed": "the run failed; nothing is published",
    "approval": "the gate passed the release; it waits for a person's approval",
    "late": "the snapshot is due and has not arrived",
    "expiring": "the snapshot is missing, and the source deletes it soon; after that it can never be released",
}


class ReleaseAlert(BaseNotifier):
    """Send an alert about a run of a release; Airflow calls it as callback of a task or notifier of an operator."""

    def __init__(self, alerts: Alerts, release: str, event: str | None = None) -> None:
        super().__init__()
        self.alerts, self.release, self.event = alerts, release, event

    def notify(self, context: Any) -> None:
        """Send what happened to every channel of the release file."""
        event = self.event or (
            "refused" if isinstance(context.get("exception"), ReleaseRefused) else "failed"
        )
        send(self.alerts, message_about_run(event, self.release, context))


def message_about_run(event: str, release: str, context: Any) -> dict[str, Any]:
    """Return the alert about a run: what happened, which checks failed, where to look."""
    ti = context["ti"]
    moment = context.get("logical_date")
    snapshot = None if moment is None else moment.astimezone(datetime.UTC).date().isoformat()
    message = compose(event, release, snapshot, verdict=_verdict(ti))
    run = airflow_page("dags", ti.dag_id, "runs", ti.run_id)
    if event == "approval":  # with release.approvers people decide by signatures, not in the form
        form = {"decide": f"{run}/tasks/{APPROVE}/required_actions"} if ti.task_id == APPROVE else {}
        return message | form | {"run": run}
    if isinstance(context.get("exception"), NotApproved):
        message["summary"] = f"{release} {snapshot}: a person rejected it, or nobody answered in time"
    return message | {"task": ti.task_id, "run": run}


def compose(
    event: str, release: str, snapshot: str | None, verdict: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return an alert; of a verdict only figures and names of checks are taken."""
    message: dict[str, Any] = {
        "event": event,
        "release": release,
        "snapshot": snapshot,
        "summary": f"{release} {snapshot or 'without a snapshot'}: {WORDS[event]}",
    }
    if verdict is None:
        return message | {"releases": page()}
    return message | {
        "verdict": verdict["sentence"],
        "failed": [{"name": one["name"], "words": one["words"]} for one in verdict["failed"]],
        "report": verdict["report"],
    }


def send(alerts: Alerts, message: dict[str, Any]) -> list[str]:
    """Send an alert to every channel, and return those that took it; one that fails does not stop the others."""
    if message["event"] not in alerts.on:
        return []
    channels: dict[str, Callable[[Alerts, dict[str, Any]], None]] = {}
    if alerts.log:
        channels["log"] = _to_log
    if alerts.mail_to:
        channels["mail"] = _to_mail
    if alerts.webhook_connection:
        channels["webhook"] = _to_webhook
    sent = []
    for name, channel in channels.items():
        try:
            channel(alerts, message)
        except Exception as problem:  # foreign libraries; their text may hold addresses and passwords
            log.error("the alert could not be sent by %s (%s)", name, type(problem).__name__)
        else:
            sent.append(name)
    return sent


def _to_log(alerts: Alerts, message: dict[str, Any]) -> None:
    log.warning("ALERT %s", json.dumps(message, sort_keys=True))


def _to_mail(alerts: Alerts, message: dict[str, Any]) -> None:
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    SmtpNotifier(
        to=alerts.mail_to,
        smtp_conn_id=alerts.mail_connection,
        subject=f"[murmuration] {message['summary']}",
        html_content=in_html(message),
    ).notify({})  # not called: that would treat the text as a template


def _to_webhook(alerts: Alerts, message: dict[str, Any]) -> None:
    import httpx

    assert alerts.webhook_connection is not None
    connection = BaseHook.get_connection(alerts.webhook_connection)
    host = connection.host or ""
    address = host if "://" in host else f"{connection.schema or 'https'}://{host}"
    port = f":{connection.port}" if connection.port else ""
    headers = {"Authorization": f"Bearer {connection.password}"} if connection.password else {}
    endpoint = "/" + str(connection.extra_dejson.get("endpoint", "")).lstrip("/")
    httpx.post(
        f"{address}{port}{endpoint}", json=message, headers=headers, timeout=SECONDS
    ).raise_for_status()


def in_html(message: dict[str, Any]) -> str:
    """Return the text of an e-mail, every value escaped."""
    text = [f"<p><strong>{html.escape(message['summary'])}</strong></p>"]
    if "verdict" in message:
        text.append(f"<p>{html.escape(message['verdict'])}</p>")
    if message.get("failed"):
        lines = (
            f"<li>{html.escape(one['name'])}: {html.escape(one['words'])}</li>" for one in message["failed"]
        )
        text.append(f"<ul>{''.join(lines)}</ul>")
    titles = {"decide": "Decide", "report": "Report", "run": "Run", "releases": "Releases"}
    text += [
        f'<p><a href="{html.escape(message[key])}">{title}</a></p>'
        for key, title in titles.items()
        if key in message
    ]
    return "\n".join(text)


def late_snapshot(config: ReleaseConfig, now: datetime.datetime) -> str | None:
    """Return the newest snapshot that is overdue, or None where it has arrived, was refused, or waits for approval.

    Older ones are not named: a release that begins in the middle of its schedule never makes them.
    """
    from tasks.series.calendar import calendar
    from tasks.series.schedule import due_moments, repeats
    from tasks.store import Store

    schedule = config.release.schedule
    if schedule is None or not repeats(schedule):
        return None
    limit, newest = now - datetime.timedelta(hours=config.alerts.late_hours), None
    for moment in due_moments(schedule, config.release.start_date):
        if moment > limit:
            break
        newest = moment.date()
    if newest is None:
        return None
    states = {day.snapshot: day.state for day in calendar(config, Store(), now)}
    return newest.isoformat() if states.get(newest) in ("missing", "unfinished") else None


def expiring_snapshots(config: ReleaseConfig, now: datetime.datetime) -> dict[str, str]:
    """Return every snapshot without a verdict that the source deletes soon, with the day on which it does."""
    from tasks.series.calendar import expiring
    from tasks.store import Store

    found = expiring(config, Store(), now)
    return {day.snapshot.isoformat(): str(day.source_until) for day, _ in found}


def _verdict(ti: Any) -> dict[str, Any] | None:
    try:
        return ti.xcom_pull(task_ids="validate", key=XCOM_KEY)
    except Exception as problem:  # a task that was killed is reported by a process that may not ask
        log.warning("the verdict cannot be read (%s)", type(problem).__name__)
        return None
