"""Hold what a check observes (`Finding`) and what the gate decides about it (`CheckResult`, `Verdict`).

A check returns a `Finding`; only the gate turns it into a `CheckResult`, so that no check can choose its own name,
severity or validity. What a program needs to know is a field; `detail` is for people and is never parsed.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from checks.stats import Risk, error_share

TOPS = (1, 5, 10, 100)
Severity = Literal["gate", "advisory"]
NO_RECORDS = (
    "This check examines what is published of groups or of single people. The rows of this release are synthetic: "
    "nobody's record, made from the output of a differentially private mechanism."
)
REDACTED = (
    "The figures were measured on the data and are the owner's alone: published, they would have to be paid for from "
    "the privacy budget."
)


@dataclass(frozen=True)
class Outcome:
    """Hold the success of one attack with one kind of attacker knowledge (a line of `murmur attack`).

    `top` is the share of targets within the first 1, 5, 10, 100 people, `group_top` the same among published
    records, both at the worst rank of a tie (empty for an attack that does not rank); `more` holds what only this
    attack measures.
    """

    knowledge: str
    risk: Risk
    top: dict[int, float] = field(default_factory=dict)
    group_top: dict[int, float] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of `murmur attack`, with shares rounded as in checks.json."""
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
    """Hold what one check observed.

    `control` is True when the check's positive control (the same attack where it must succeed) succeeded;
    `control_share` is what it reached there, where that has the unit of `observed`. `planned` is the number of trials
    that were planned; `n` counts those that were run. `threshold` is the one that was applied, where the release's own
    promise is stricter than the setting. `outcomes` hold what an attack achieved with each kind of knowledge. `subject`
    names what `observed` is about where a check tries several, such as attributes.

    `applicable` is False when the content of the release leaves this check nothing that it could find, so that passing
    is no evidence: every group holds every item and the attack uses only which items a record holds. A check derives it
    from the published values and the source; a manifest's claim alone never suffices.
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
    applicable: bool = True
    control_share: float | None = None
    subject: str = ""


@dataclass(frozen=True)
class CheckResult:
    """Represent one line of checks.json.

    `void`: the figures show nothing (the positive control did not succeed, trials are missing, or the check did not
    finish); a void check has failed. `loosened`: the owner's threshold lets more pass than the default; it is kept in
    the private verdict.json, and `detail` discloses it to the public. `applicable`: see `Finding`; a check that failed
    is always applicable. `attempts`: intervals are widened for so many.
    """

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
    void: bool = False
    loosened: bool = False
    applicable: bool = True
    control: bool | None = None
    control_share: float | None = None
    subject: str = ""
    attempts: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return the public line: plain numbers, and null for what is not a number."""
        return {
            "name": self.name,
            "passed": bool(self.passed),
            "applicable": bool(self.applicable),
            "void": bool(self.void),
            "observed": _number(self.observed),
            "threshold": _number(self.threshold),
            "ci_low": _number(self.ci_low),
            "ci_high": _number(self.ci_high),
            "n": int(self.n),
            "severity": self.severity,
            "detail": f"{self.attempt_words}{self.detail}",
        }

    def redacted(self, threshold: float | None, *, applies: bool) -> "CheckResult":
        """Return the line without anything measured on the data; `threshold` is the one that was asked for.

        Releases with a privacy budget publish this one: every figure beside the mechanism's output would spend from the
        budget, too, and no budget is set aside for it. `applies` says whether the check judges such releases at all:
        whether it found enough people or rows to judge in this one is a figure of the data, too.
        """
        detail = REDACTED if applies else NO_RECORDS
        return CheckResult(
            self.name,
            self.passed,
            None,
            threshold,
            None,
            None,
            0,
            self.severity,
            detail,
            void=self.void and not self.passed,
            applicable=applies or not self.passed,
        )

    @property
    def attempt_words(self) -> str:
        """Say which attempt it was, where intervals are widened for it: the public reads lines, not the verdict."""
        if self.attempts == 1 or self.ci_low is None:
            return ""
        return f"Attempt {self.attempts:,} at this release. "

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "CheckResult":
        """Read a public line; one published before `applicable` and `void` existed counts as applicable."""
        names = ("name", "passed", "observed", "threshold", "ci_low", "ci_high", "n", "severity", "detail")
        return cls(
            **{name: line[name] for name in names},
            void=line.get("void", False),
            applicable=line.get("applicable", True),
        )


@dataclass(frozen=True)
class Verdict:
    """Hold all results of the gate.

    `attempts` counts the releases of this snapshot that the gate has judged, this one included: the intervals are
    widened for them.
    """

    checks: list[CheckResult]
    attempts: int = 1

    def redacted(self, thresholds: Mapping[str, float], applying: Collection[str]) -> "Verdict":
        """Return the verdict without any figure measured on the data, the number of attempts included; `thresholds` are
        those that were asked for."""
        return Verdict(
            [
                check.redacted(thresholds.get(check.name), applies=check.name in applying)
                for check in self.checks
            ]
        )

    @property
    def interval_level(self) -> str:
        """Return the level of the intervals in words: 95 % for the first attempt."""
        return f"{100 * (1 - error_share(self.attempts)):.4g} %"

    @property
    def passed(self) -> bool:
        """Return True when every gating check has passed and at least one of them could have failed."""
        gating = [check for check in self.checks if check.severity == "gate"]
        return any(check.applicable for check in gating) and all(check.passed for check in gating)

    @property
    def failed(self) -> list[str]:
        """Return the names of the gating checks that failed."""
        return [check.name for check in self.checks if check.severity == "gate" and not check.passed]

    @property
    def warnings(self) -> list[str]:
        """Return the names of the advisory checks that failed."""
        return [check.name for check in self.checks if check.severity == "advisory" and not check.passed]

    @property
    def not_applicable(self) -> list[str]:
        """Return the names of the checks that could not have failed on this release."""
        return [check.name for check in self.checks if not check.applicable]

    @property
    def headline(self) -> str:
        """Summarize the verdict in a few sentences that count only applicable checks."""
        gating = [check for check in self.checks if check.severity == "gate" and check.applicable]
        if self.passed:
            sentences = [f"Passed: all {_counted(len(gating), 'gating check')}."]
        elif not self.failed:
            sentences = ["Refused: no applicable gating check was run."]
        else:
            names = ", ".join(
                f"{check.name} (void)" if check.void else check.name for check in gating if not check.passed
            )
            sentences = [
                f"Refused: {len(self.failed)} of {_counted(len(gating), 'gating check')} failed: {names}."
            ]
        if self.warnings:
            sentences.append(
                f"{_counted(len(self.warnings), 'advisory warning')}: {', '.join(self.warnings)}."
            )
        if self.not_applicable:
            verb = "is" if len(self.not_applicable) == 1 else "are"
            sentences.append(
                f"{_counted(len(self.not_applicable), 'check')} {verb} not applicable to this release."
            )
        if self.attempts > 1:
            sentences.append(
                f"Attempt {self.attempts:,} at this release: intervals are of {self.interval_level}, not 95 %."
            )
        return " ".join(sentences)

    def to_json(self) -> dict[str, Any]:
        """Return verdict.json (private): the lines of checks.json, and under `attacks` what each attack achieved."""
        return {
            "passed": self.passed,
            "attempts": self.attempts,
            "failed": self.failed,
            "loosened": [check.name for check in self.checks if check.loosened],
            "checks": [check.to_json() for check in self.checks],
            "attacks": {
                check.name: [outcome.to_json() for outcome in check.outcomes]
                for check in self.checks
                if check.outcomes
            },
        }


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _number(value: float | None) -> float | None:
    """Round to six digits, more than any figure is accurate to, so that files are the same on every machine."""
    if value is None or not math.isfinite(value):
        return None
    return round(float(value), 6)
