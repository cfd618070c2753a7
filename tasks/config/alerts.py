"""[alerts]: whom Airflow informs that a release was refused, failed, waits for approval, has not arrived, or cannot be
made any more soon."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tasks.config.base import Settings

Event = Literal["refused", "failed", "approval", "late", "expiring"]
EVENTS: tuple[Event, ...] = ("refused", "failed", "approval", "late", "expiring")


def _connection(name: str | None) -> str | None:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_.-]{1,250}", name):
        raise ValueError(
            "name a connection of Airflow (letters, digits, '_', '-', '.'); addresses with passwords belong there"
        )
    return name


def _addresses(addresses: list[str]) -> list[str]:
    for address in addresses:
        if not re.fullmatch(r"[^@\s,;<>]+@[^@\s,;<>]+", address):
            raise ValueError(f"'{address}' is not an e-mail address")
    return addresses


Connection = Annotated[str | None, AfterValidator(_connection)]


class Alerts(Settings):
    """Hold who is alerted, by ids of Airflow's connections: no address of a webhook and no password is in a file.

    Nothing that is published depends on this table.
    """

    on: list[Event] = Field(default=list(EVENTS), description="what to alert about")
    log: bool = Field(default=True, description="write alerts into the log of the task")
    mail_to: Annotated[list[str], AfterValidator(_addresses)] = Field(
        default=[], description="e-mail addresses that are alerted"
    )
    mail_connection: Connection = Field(
        default="smtp_default", description="connection of type SMTP that sends the e-mails"
    )
    webhook_connection: Connection = Field(
        default=None, description="connection of type HTTP whose address gets a JSON object for each alert"
    )
    late_hours: int = Field(
        default=24, ge=1, description="hours after its time by the schedule at which a snapshot is late"
    )
    # Not in [source]: a change there is a change of what is published, and published snapshots never change.
    source_days: int | None = Field(
        default=None,
        ge=2,
        description="days after which the source deletes a snapshot (0 h UTC); none: never",
    )
    warning_days: int = Field(
        default=7, ge=1, description="days before that from which a snapshot that is missing is alerted about"
    )

    @property
    def looks_daily(self) -> bool:
        """Return whether there is anything to look for every day."""
        return "late" in self.on or ("expiring" in self.on and self.source_days is not None)
