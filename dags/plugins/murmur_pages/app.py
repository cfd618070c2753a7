"""Serve the pages: the list of releases, a release with its calendar, a report, and the report of a run.

Every route depends on a signed-in user (for the whole app) and on Airflow's access check for the DAG it is about. No
name from an address is ever joined to a path: it must match a pattern, be that of a known release or snapshot, and then
the known one is used.
"""

from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from murmur_pages import access, contents, rendering

# Reports are files of our own making, and yet: no script runs on these pages, nothing is loaded from anywhere, and they
# can be framed by Airflow alone.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "script-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store, private",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SIGN_IN = 401


def make_app() -> FastAPI:
    """Return the app; its import of Airflow's access check has succeeded by then."""
    app = FastAPI(
        title="Murmuration",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(access.get_user)],
    )

    @app.get("/")
    def releases(request: Request, user: access.User) -> Response:
        """Show every release the user may read."""
        shown = [
            contents.release(name, private=access.may_run(name, request, user))
            for name in contents.names()
            if access.may_read(name, request, user)
        ]
        return _page(request, "releases.html.j2", releases=shown)

    @app.get("/releases/{name}")
    def release(name: str, request: Request, user: access.User) -> Response:
        """Show one release: figures over time, and its calendar."""
        known = _known(name, request, user)
        shown = contents.release(known, private=access.may_run(known, request, user))
        return _page(request, "release.html.j2", release=shown)

    @app.get("/releases/{name}/{directory}/report")
    def report(name: str, directory: str, request: Request, user: access.User) -> Response:
        """Show the report of a snapshot: the owner's edition to those who may run the DAG, else the public one."""
        known = _known(name, request, user)
        return _report(known, directory, request, user)

    @app.get("/runs/{dag_id}/{run_id:path}")
    def run(dag_id: str, run_id: str, request: Request, user: access.User) -> Response:
        """Show the report of a run's snapshot."""
        match = access.DAG.fullmatch(dag_id)
        known = _known(match.group(1) if match else "", request, user)
        snapshot = contents.snapshot_of_run(f"release_{known}", run_id)
        if snapshot is None:
            raise HTTPException(404, "This run has no logical date, or it does not exist.")
        return _report(known, snapshot, request, user)

    @app.exception_handler(AnyHTTPException)
    async def refuse(request: Request, problem: AnyHTTPException) -> Response:
        """Answer in words; an anonymous visitor gets a link to the login and nothing else."""
        words = {SIGN_IN: "Please sign in to Airflow.", 403: "You may not see this page."}
        text = words.get(problem.status_code, str(problem.detail))
        page = rendering.render(
            "problem.html.j2", base=_base(request), text=text, sign_in=problem.status_code == SIGN_IN
        )
        return HTMLResponse(page, problem.status_code, headers=HEADERS)

    return app


def _known(name: str, request: Request, user: Any) -> str:
    """Return the known release of this name; refuse first, so that nobody learns which names exist."""
    access.require_read(name, request, user)
    for known in contents.names():
        if known == name:
            return known
    raise HTTPException(404, "There is no such release.")


def _report(name: str, directory: str, request: Request, user: Any) -> Response:
    if not access.DIRECTORY.fullmatch(directory):
        raise HTTPException(404, "There is no such snapshot.")
    private = access.may_run(name, request, user)
    found = contents.report(name, directory, private=private)
    if found is None:
        shown = contents.release(name, private=private)
        return _page(request, "no_report.html.j2", 404, release=shown, directory=directory, private=private)
    return HTMLResponse(found, headers=HEADERS)


def _page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    return HTMLResponse(rendering.render(template, base=_base(request), **values), status, headers=HEADERS)


def _base(request: Request) -> str:
    """Return the path below which the pages are, where Airflow itself may be below a prefix."""
    return str(request.scope.get("root_path", "")).rstrip("/")
