"""Put the verdict into sentences: for people who read nothing else of the report."""

from dataclasses import dataclass
from typing import Any

from checks.report.past import OwnerFacts
from checks.report.rendering import share
from checks.report.rows import Row, by_share_of_limit
from checks.report.words import MethodWords
from checks.result import Verdict


def sentence(verdict: Verdict, rows: list[Row], manifest: dict[str, Any] | None, words: MethodWords) -> str:
    """Return the verdict in one sentence that names people and numbers, not checks."""
    if not verdict.passed:
        return _refusal(verdict, rows)
    gating = [row for row in rows if row.result.severity == "gate" and row.result.applicable]
    counted = f"all {len(gating)} checks" if len(gating) > 1 else "the only check"
    if manifest is None or "k" not in manifest["privacy"]:
        return f"This release may be published: it passed {counted} that could have refused it."
    people, k = manifest["counts"].get("users", 0), manifest["privacy"]["k"]
    if any(row.name == "k-anonymity" and row.result.applicable for row in rows):
        promise = f"each of its {people:,} people shares one published profile with at least {k - 1:,} others"
    else:
        cases = share(1 / k)
        promise = f"the attacks find the record of one of its {people:,} people in at most {cases} of cases"
    return f"This release may be published: {promise}, and it passed {counted} that could have refused it."


def _refusal(verdict: Verdict, rows: list[Row]) -> str:
    failed = [row for row in rows if row.result.severity == "gate" and not row.result.passed]
    if not failed:
        return "This release must not be published: no check was run that could have refused it."
    gating = [row for row in rows if row.result.severity == "gate" and row.result.applicable]
    named = [row.about.title for row in by_share_of_limit(failed)[:3]]
    names = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    more = "" if len(failed) <= 3 else f" and {len(failed) - 3} more"
    return (
        f"This release must not be published, and was not: it failed {len(failed)} of {len(gating)} checks "
        f"({names}{more})."
    )


@dataclass(frozen=True)
class Failure:
    """Hold what failed, what its attacker knows and tries, the figure that shows it, and what it means for people."""

    name: str
    title: str
    tried: str
    found: str
    means: str
    figure: str


def failures(rows: list[Row]) -> list[Failure]:
    """Return what refuses the release, what is furthest beyond its limit first."""
    failed = [row for row in rows if row.result.severity == "gate" and not row.result.passed]
    return [
        Failure(
            row.name,
            row.about.title,
            f"{row.about.knows} {row.about.tries}",
            row.achieved,
            row.about.means,
            f"{row.observed} ({row.beside})",
        )
        for row in by_share_of_limit(failed)
    ]


def advice(verdict: Verdict, rows: list[Row], owner: OwnerFacts | None) -> list[str]:
    """Say what to do next."""
    if not verdict.passed:
        if owner is not None and owner.remedy:
            return [f"{owner.remedy[0].upper()}{owner.remedy[1:]}."]
        return ["Do not use or pass on these files. The owner's edition of this report says what to change."]
    warned = [row.about.title for row in rows if row.result.severity == "advisory" and not row.result.passed]
    warning = (
        [f"Read the warning below ({', '.join(warned)}); such a check refuses nothing."] if warned else []
    )
    if owner is not None:
        publish = "Publish it: the step publish does so, after a person approved it where the release asks for that."
        return [*warning, publish]
    return [
        *warning,
        "Use it: README.md in its directory shows how.",
        "Verify it: `murmur verify DIRECTORY` recomputes what files can show.",
    ]
