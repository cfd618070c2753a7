"""[release]: the release's name and schedule."""

import datetime
import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tasks.config.base import Settings


def _plain_name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
        raise ValueError("use lower-case letters, digits, '-' and '_' (it becomes a DAG id and a directory)")
    return name


def _cron_or_preset(schedule: str | None) -> str | None:
    if schedule is None:
        return schedule
    presets = {"@once", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly"}
    field = r"[\d*/,\-A-Za-z#L?]+"
    if schedule not in presets and not re.fullmatch(rf"{field}( {field}){{4}}", schedule):
        raise ValueError(
            "use a cron expression of five fields such as '0 3 1 * *', or a preset such as '@monthly'"
        )
    return schedule


class Release(Settings):
    """Hold the name and the schedule of a periodic release."""

    name: Annotated[str, AfterValidator(_plain_name)]
    schedule: Annotated[str | None, AfterValidator(_cron_or_preset)] = None
    start_date: datetime.date = datetime.date(2026, 1, 1)
    approval: bool = False
    approvers: list[str] = Field(
        default=[], description="names or ids of keys of the people who may approve, by signing the candidate"
    )
    approvals: int = Field(
        default=2, ge=1, description="how many approvers must sign; none who triggered the run counts"
    )
    retention_days: int = Field(
        default=7, ge=1, description="days after which intermediate results are removed"
    )
    refused_days: int | None = Field(
        default=None,
        ge=1,
        description="days after which a refused candidate is removed with its intermediate results; none: never",
    )

    @model_validator(mode="after")
    def _enough_approvers(self) -> "Release":
        if len(set(self.approvers)) < len(self.approvers):
            raise ValueError("approvers: somebody is named twice; remove one")
        if self.approvers and self.approvals > len(self.approvers):
            raise ValueError(
                f"approvals: {self.approvals} of {len(self.approvers)} approvers cannot sign; name more people in "
                "approvers, or lower approvals"
            )
        if not self.approvers and "approvals" in self.model_fields_set:
            raise ValueError("approvals: nobody is named in approvers; name people, or remove approvals")
        return self

    @property
    def needs_approval(self) -> bool:
        """Return whether people must approve what the gate passed."""
        return self.approval or bool(self.approvers)
