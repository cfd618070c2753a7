"""Know who acts: who triggered the run that this process works on, for the ledger's log and the rule of approvers.

On the command line that is the account of the operating system, in Airflow the user who triggered the run. Neither is
proved: whoever may change the environment, a DAG or Airflow's database can act under another name. What must hold
against such people is a signature (docs/signatures.md).
"""

import contextlib
import datetime
import os
import pwd
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasks.store import digest_of, make_private, owner_only, read_json, write_json

TRIGGERS = "triggers"  # the directory of a snapshot's triggers: a file for each, so that parallel tasks never collide


@dataclass(frozen=True)
class Actor:
    """Represent who acts; `name` None: nobody in particular, as where a schedule began the run."""

    name: str | None
    place: str  # "command line" | "airflow"
    run: str | None = None  # the id of Airflow's run

    def to_json(self) -> dict[str, Any]:
        """Return what the ledger keeps about it."""
        return asdict(self)


_acting: ContextVar[Actor | None] = ContextVar("acting", default=None)


def acting() -> Actor:
    """Return who acts; unless somebody else was named, the account that runs this process."""
    return _acting.get() or Actor(account_name(), "command line")


@contextlib.contextmanager
def act_for(actor: Actor) -> Iterator[None]:
    """Act for somebody else inside this block: Airflow's tasks act for the user who triggered their run."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)


def account_name() -> str:
    """Return the account that runs this process, behind sudo the one that called it; without a name, its number."""
    if os.getuid() == 0 and (caller := os.environ.get("SUDO_USER")):
        return caller
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def record_trigger(private: Path, below: Path) -> None:
    """Write down, in the private directory of a snapshot, who triggers a run of it; a second time adds nothing."""
    actor = acting().to_json()
    path = private / TRIGGERS / f"{digest_of(actor)[:16]}.json"
    if path.exists():
        return
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    with owner_only():
        make_private(path.parent, below=below)
        write_json(path, {**actor, "at": now.isoformat()})


def triggers_of(private: Path) -> set[str]:
    """Return the names of everybody who ever triggered a run of this snapshot."""
    found = (read_json(path)["name"] for path in sorted((private / TRIGGERS).glob("*.json")))
    return {name for name in found if name is not None}
