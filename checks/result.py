"""What a check finds, and what the gate makes of it.

A check returns a `Finding`; only the gate turns it into a `CheckResult`, so that no check can name, weigh or
excuse itself.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from checks.stats import Risk

TOPS = (1, 5, 10, 100)
Severity = Literal["gate", "advisory"]


@dataclass(frozen=True)
class Outcome:
    """What one attack achieved with one kind of knowledge (a line of `murmur attack`).

    `top` is the share of targets within the first 1, 5, 10, 100 people, `group_top` the same among published
    records, both at the worst rank of a tie (nothing where there are no ranks); `more` holds what only this attack
    measures.
    """

    knowledge: str
    risk: Risk
    top: dict[int, float] = field(default_factory=dict)
    group_top: dict[int, float] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the contract has it; shares rounded like those of checks.json."""
        low, high = self.risk.interval
        return {
            "knowledge": self.knowledge,
            "n": int(self.risk.n),
            "successes": _number(self.risk.successes),
            "risk": _number(self.risk.rate),
            "ci_low": _number(low),
            "ci_high": _number(high),
            "baseline": _number(self.risk.baseline),
            "residual": _number(self.risk.gain),
            "top": {str(place): _number(self.top.get(place)) for place in TOPS},
            "group_top": {str(place): _number(self.group_top.get(place)) for place in TOPS},
            **{name: _number(v) if isinstance(v, float) else v for name, v in self.more.items()},
        }


@dataclass(frozen=True)
class Finding:
    """What one check observed.

    `control` tells whether the check's positive control (the same attack where it must succeed) succeeded;
    `planned` is how many trials were planned, where `n` counts those that were run; `threshold` is what was
    really required, where the release's own promise is stricter than the setting; `outcomes` tell what an attack
    achieved with each kind of knowledge.
    """

    passed: bool
    observed: float | None
    n: int
    detail: str
    ci_low: float | None = None
    ci_high: float | None = None
    control: bool | None = None
    planned: int | None = None
    threshold: float | None = None
    outcomes: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class CheckResult:
    """One line of checks.json."""

    name: str
    passed: bool
    observed: float | None
    threshold: float | None
    ci_low: float | None
    ci_high: float | None
    n: int
    severity: Severity
    detail: str
    outcomes: tuple[Outcome, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As in checks.json: plain numbers, and null for what is not a number."""
        return {
            "name": self.name,
            "passed": bool(self.passed),
            "observed": _number(self.observed),
            "threshold": _number(self.threshold),
            "ci_low": _number(self.ci_low),
            "ci_high": _number(self.ci_high),
            "n": int(self.n),
            "severity": self.severity,
            "detail": self.detail,
        }


@dataclass(frozen=True)
class Verdict:
    """All results of the gate."""

    checks: list[CheckResult]

    @property
    def passed(self) -> bool:
        """True when there are results and none that gates has failed."""
        gating = [check for check in self.checks if check.severity == "gate"]
        return bool(gating) and all(check.passed for check in gating)

    @property
    def failed(self) -> list[str]:
        """Names of the gating checks that failed."""
        return [check.name for check in self.checks if check.severity == "gate" and not check.passed]

    def to_json(self) -> dict[str, Any]:
        """The verdict as stored in verdict.json; `checks` alone is checks.json, `attacks` is the owner's detail."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "checks": [check.to_json() for check in self.checks],
            "attacks": {
                check.name: [outcome.to_json() for outcome in check.outcomes]
                for check in self.checks
                if check.outcomes
            },
        }


def _number(value: float | None) -> float | None:
    """Six digits are more than any of the figures deserves, and keep the files the same on every machine."""
    if value is None or not math.isfinite(value):
        return None
    return round(float(value), 6)
