"""Decide who may see what, by asking Airflow's own access check for the DAG of a release.

- A release's page and the public edition of its report: who may read its DAG (`GET`).
- What is private (that a snapshot was refused, why, and the owner's report): who may run its DAG (`PUT`); in Airflow's
  simple accounts the roles user, op and admin, and not viewer.

A release that does not exist is refused like one that may not be seen.
"""

import re
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, HTTPException, Request

# Fails here, while the app is made, if Airflow has lost the check: then nothing is served.
assert callable(requires_access_dag)
assert callable(get_auth_manager)

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")  # as tasks/config/release.py
DIRECTORY = re.compile(r"\d{4}-\d{2}-\d{2}(-r[1-9]\d{0,3})?")  # a snapshot, or its repaired edition
DAG = re.compile(r"release_([a-z0-9][a-z0-9_-]{0,63})")

User = Annotated[BaseUser, Depends(get_user)]


def may_read(name: str, request: Request, user: BaseUser) -> bool:
    """Return whether a user may read the DAG of a release."""
    return _allowed(name, "GET", request, user)


def may_run(name: str, request: Request, user: BaseUser) -> bool:
    """Return whether a user may run the DAG of a release, and so may see what is private about it."""
    return _allowed(name, "PUT", request, user)


def require_read(name: str, request: Request, user: BaseUser) -> None:
    """Refuse who may not read the DAG of a release; names that none can have are refused before they are looked up."""
    if not NAME.fullmatch(name) or not may_read(name, request, user):
        raise HTTPException(403, "Forbidden")


def _allowed(name: str, method: str, request: Request, user: BaseUser) -> bool:
    check = requires_access_dag(method, param_dag_id=f"release_{name}")  # type: ignore[arg-type]
    try:
        check(request, user)
    except HTTPException:
        return False
    return True
