"""Add Murmuration to the Airflow UI: the page "Releases", a tab "Report" on the page of a run, notes on runs.

The pages are an app of their own below /murmur. Airflow does not protect such apps, so the app asks Airflow's own
access check for every page; where that cannot be imported, everything is denied (`Pages`).
"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin
from murmur_pages import run_notes

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Pages:
    """Load the app when the first page is asked for: every Airflow process loads plugins, and one serves pages."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; without the app (its access check cannot be imported, for instance) deny it."""
        if self._app is None:
            try:
                from murmur_pages.app import make_app

                self._app = make_app()
            except Exception:  # whatever it was: nothing is shown to anybody
                log.exception("the pages of Murmuration cannot be served, so every request is denied")
        if self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": b"Denied: see the log of the API server.\n"})


class MurmurationPlugin(AirflowPlugin):
    """Declare to Airflow what this plugin adds."""

    name = "murmuration"
    fastapi_apps: list[Any] = [{"app": Pages(), "url_prefix": "/murmur", "name": "Murmuration"}]
    external_views: list[Any] = [
        {
            "name": "Releases",
            "href": "/murmur/",
            "destination": "nav",
            "url_route": "releases",
            "nav_top_level": True,
        },
        {
            "name": "Report",
            "href": "/murmur/runs/{DAG_ID}/{RUN_ID}",
            "destination": "dag_run",
            "url_route": "report",
        },
    ]
    listeners: list[Any] = [run_notes]
