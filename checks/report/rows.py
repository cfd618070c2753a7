"""Describe each check as a row of the report: where its figures lie on the chart, and what they mean in words."""

from dataclasses import dataclass

from checks.about import SHARE, About
from checks.registry import Check, registered
from checks.report.charts import Point, Scale
from checks.report.rendering import number, quantity, share
from checks.result import CheckResult, Outcome

UNKNOWN = About(
    title="Another check",
    summary="A check that this version does not know",
    knows="This version of the program has no words for this check.",
    tries="Its result is shown as it was recorded.",
    means="The verdict counts it like all others.",
    measure="observed figure",
    unit="",
)


@dataclass(frozen=True)
class Row:
    """Hold one check as people read it. `attack`: it is drawn on the chart; others are rules that hold or do not."""

    result: CheckResult
    about: About
    attack: bool
    least: bool  # the threshold is a least number
    scale: Scale | None

    @property
    def name(self) -> str:
        """The check's name in checks.json."""
        return self.result.name

    @property
    def status(self) -> str:
        """How it ended, in one or two words."""
        result = self.result
        if not result.applicable:
            return "not applicable"
        if result.passed:
            return "passed"
        if result.severity == "advisory":
            return "warning"
        return "failed (void)" if result.void else "failed"

    @property
    def style(self) -> str:
        """The class of its status in the style sheet."""
        return self.status.partition(" ")[0]

    @property
    def observed(self) -> str:
        """The figure with its unit."""
        if self.result.observed is None and not self.result.applicable:
            return "nothing to find"
        return quantity(self.result.observed, self.about.unit)

    @property
    def limit(self) -> str:
        """The threshold with its unit."""
        return quantity(self.result.threshold, self.about.unit)

    @property
    def allowed(self) -> str:
        """What the threshold asks for."""
        if self.result.threshold is None:
            return "no limit is stated"
        if self.least:
            return f"at least {self.limit}"
        return "none is allowed" if self.result.threshold == 0 else f"limit {self.limit}"

    @property
    def beside(self) -> str:
        """What the threshold asks for, and the bound that did not keep it where the figure itself does."""
        result = self.result
        if result.passed or self.least or None in (result.observed, result.ci_high, result.threshold):
            return self.allowed
        if result.observed <= result.threshold < result.ci_high:  # type: ignore[operator]
            return f"up to {quantity(result.ci_high, self.about.unit)}, {self.allowed}"
        return self.allowed

    @property
    def interval(self) -> str:
        """The interval of the figure; empty where there is none."""
        low, high = self.result.ci_low, self.result.ci_high
        if low is None or high is None:
            return ""
        return f"{quantity(low, self.about.unit)} to {quantity(high, self.about.unit)}"

    @property
    def baseline(self) -> float | None:
        """What is reached without the release: by guessing, or against people who are not in it."""
        if self.about.guess is not None:
            return self.about.guess
        if not self.about.names_people or not self.result.outcomes:
            return None
        worst = max(self.result.outcomes, key=lambda outcome: outcome.risk.interval[1])
        return worst.risk.baseline if worst.risk.n else None

    @property
    def control(self) -> str:
        """Say whether the attack works where it must, with the figure where there is one."""
        if self.result.control is None:
            return ""
        if not self.result.control:
            return "did not succeed"
        reached = self.result.control_share
        return "succeeded" if reached is None else f"succeeded: {quantity(reached, self.about.unit)}"

    @property
    def points(self) -> dict[str, Point | None]:
        """The places of the figures on the chart."""
        nothing: dict[str, Point | None] = dict.fromkeys(("observed", "low", "high", "baseline", "control"))
        if self.scale is None:
            return nothing
        result = self.result
        if (
            self.scale.limit <= self.scale.start
        ):  # none is allowed: what was observed decides, not its interval
            return nothing | {"observed": self.scale.point(result.observed)}
        return {
            "observed": self.scale.point(result.observed),
            "low": self.scale.point(result.ci_low),
            "high": self.scale.point(result.ci_high),
            "baseline": self.scale.point(self.baseline),
            "control": self.scale.point(result.control_share) if result.control else None,
        }

    @property
    def achieved(self) -> str:
        """Say in one sentence what was observed."""
        result, about = self.result, self.about
        if result.observed is None:
            if not result.applicable:
                return "There is nothing here that it could find."
            if result.void:
                return "It could not be finished, so that nothing is shown, and counts as failed."
            return "The figure is not stated here."
        high = ""
        if result.ci_high is not None:
            high = f", with its uncertainty at most {quantity(result.ci_high, about.unit)}"
        figure = self.observed if about.unit == SHARE else number(result.observed)
        measure = f"{about.measure[0].upper()}{about.measure[1:]}"
        subject = f" ({result.subject})" if result.subject else ""
        found = f"{measure}{subject}: {figure}{high} ({self.allowed}).{self._upper_end_decides}"
        if result.void:
            return f"{found} The figure shows nothing: the detail says what is missing."
        if not result.applicable:
            return f"{found} Here it could not have exceeded that, so that passing is no evidence."
        return found

    @property
    def _upper_end_decides(self) -> str:
        """Say why a figure within the limit fails."""
        result = self.result
        if result.passed or self.least or None in (result.observed, result.ci_high, result.threshold):
            return ""
        if not result.observed <= result.threshold < result.ci_high:  # type: ignore[operator]
            return ""
        return " The measured figure keeps the limit, but the true one may be as high as that, and so the check fails."

    @property
    def picture(self) -> str:
        """Describe the drawing of the row for readers who do not see it."""
        parts = [f"{self.about.title}: {self.status}, {self.observed}"]
        if self.interval:
            parts.append(f"interval {self.interval}")
        if self.result.threshold is not None:
            parts.append(f"limit {self.limit}")
        if (baseline := self.baseline) is not None:
            parts.append(f"without the release {quantity(baseline, self.about.unit)}")
        if self.result.control_share is not None:
            parts.append(f"positive control {quantity(self.result.control_share, self.about.unit)}")
        return ", ".join(parts)

    @property
    def outcomes(self) -> list[tuple[str, list[str]]]:
        """The results by what the attacker knows, where there were trials."""
        return [(one.knowledge, _figures(one)) for one in self.result.outcomes if one.risk.n]


def _figures(outcome: Outcome) -> list[str]:
    risk = outcome.risk
    first = share(outcome.group_top[1]) if 1 in outcome.group_top else "–"
    return [f"{int(risk.n):,}", share(risk.rate), share(risk.interval[1]), share(risk.baseline), first]


def rows(results: list[CheckResult]) -> list[Row]:
    """Return a row for every result, in their order."""
    known = registered()
    return [_row(result, known.get(result.name)) for result in results]


def _row(result: CheckResult, check: Check | None) -> Row:
    if check is None:
        return Row(result, UNKNOWN, attack=False, least=False, scale=None)
    attack = check.kind == "attacks" or check.controlled
    scale = None
    if attack and not check.larger_is_safer and result.threshold is not None:
        scale = Scale(check.about.guess or 0.0, result.threshold)
    return Row(result, check.about, attack, check.larger_is_safer, scale)


def by_share_of_limit(some: list[Row]) -> list[Row]:
    """Sort rows: failed first, warnings next, then those nearest to their limit; equal ones keep their order."""

    def key(row: Row) -> tuple[bool, bool, float]:
        points = row.points
        found = points.get("high") or points.get("observed")
        advisory = row.result.severity == "advisory"
        return row.result.passed, not row.result.passed and advisory, -(found.at if found else 0.0)

    return sorted(some, key=key)
