"""Send Airflow the event of a withdrawal that was made on the command line: the one that the DAG would have emitted.

MURMUR_AIRFLOW names the API server; without it nothing is sent. The release is withdrawn before anything is sent, so
a failure here changes nothing but the message: the DAG `withdraw_<name>` can announce the same withdrawal later.
"""

import json
import os
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tasks.errors import MurmurError, UsageError
from tasks.stack.client import AirflowClient
from tasks.stack.settings import UI_USER

URL, USER, PASSWORD_FILE = "MURMUR_AIRFLOW", "MURMUR_AIRFLOW_USER", "MURMUR_AIRFLOW_PASSWORD_FILE"
MOST_ASSETS = 1000


def announce(event: dict[str, Any], *, transport: httpx.BaseTransport | None = None) -> dict[str, Any]:
    """Send an asset event (`{asset, extra}`) where an Airflow is configured; return whether, and one line about it."""
    url = os.environ.get(URL)
    if not url:
        return {"event_sent": False, "announcement": _not_sent("Airflow is not configured here", event)}
    try:
        client = AirflowClient(url.rstrip("/"), transport=transport, login=_login(url))
        client.api(
            "POST", "/assets/events", {"asset_id": _asset(client, event["asset"]), "extra": event["extra"]}
        )
    except MurmurError as problem:
        return {"event_sent": False, "announcement": _not_sent(problem.what, event)}
    return {"event_sent": True, "announcement": f"the asset event of {event['asset']} was sent to Airflow"}


def _asset(client: AirflowClient, uri: str) -> int:
    """Return the number of an asset; Airflow knows it once it has read the DAGs."""
    asked = {"uri_pattern": uri, "limit": MOST_ASSETS}
    for asset in client.api("GET", "/assets", parameters=asked)["assets"]:
        if asset["uri"].rstrip("/") == uri:
            return asset["id"]
    raise MurmurError(f"Airflow knows no asset {uri}")


def _login(url: str) -> Any:
    """Return a function that reads user and password; a password is not sent over a network in the clear."""
    address = urlsplit(url)
    if address.scheme != "https" and address.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise UsageError(
            f"{URL} is neither https nor on this machine, and a password would be readable on the way",
            where=URL,
            remedy="use https://",
        )
    return lambda: (os.environ.get(USER, UI_USER), _password(os.environ.get(USER, UI_USER)))


def _password(user: str) -> str:
    """Return the password in the file: a single line, or Airflow's own passwords.json."""
    name = os.environ.get(PASSWORD_FILE)
    if not name:
        raise UsageError("Airflow asks for a password, and no file is named", where=PASSWORD_FILE)
    try:
        text = Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError("the file with Airflow's password cannot be read", where=PASSWORD_FILE) from None
    try:
        known = json.loads(text)
    except ValueError:
        return text
    return str(known.get(user, "")) if isinstance(known, dict) else text


def _not_sent(why: str, event: dict[str, Any]) -> str:
    """Say that consumers do not know yet, and which command informs them."""
    extra = event["extra"]
    name = event["asset"].removeprefix("murmur://")
    conf = json.dumps({"snapshot": extra["snapshot"], "reason": extra["reason"]}, ensure_ascii=False)
    command = f"airflow dags trigger withdraw_{name} --conf {shlex.quote(conf)}"
    return f"no asset event was sent: {why}; trigger withdraw_{name} to announce it: {command}"
