"""Choose the four figures on the first screen of report.html: risk, k, accuracy lost, ranking kept."""

from dataclasses import dataclass
from typing import Any

from checks.report.charts import Point, Scale
from checks.report.ranking import Ranking
from checks.report.rendering import NOT_STATED, decimal, number, share
from checks.report.rows import Row

MOST_DOTS = 10


@dataclass(frozen=True)
class Card:
    """Hold one figure: its title, the figure, one line below it, and what its small picture shows.

    `value`, `limit` and `start` are places on a track; `dots` are drawn instead where they are given, `bars` are
    lengths with their names.
    """

    title: str
    figure: str
    caption: str
    value: Point | None = None
    limit: Point | None = None
    ends: tuple[str, str] = ("", "")
    dots: int = 0
    bars: tuple[tuple[str, float, str], ...] = ()
    row: str = ""  # the check whose row below has the details


def cards(
    rows: list[Row], manifest: dict[str, Any], utility: dict[str, Any], ranking: Ranking | None
) -> list[Card]:
    """Return the four cards; a figure that was not measured, or may not be public, is said to be missing."""
    return [_risk(rows), _k(rows, manifest), _accuracy(rows, utility), _ranking(ranking)]


def _risk(rows: list[Row]) -> Card:
    title = "Risk of being named"
    naming = [row for row in rows if row.about.names_people and row.result.observed is not None]
    average = [row for row in naming if row.result.ci_high is not None]
    if not naming:
        return Card(title, NOT_STATED, "No figure of an attack that names people is stated here.")
    worst = max(average or naming, key=_upper)
    scale = Scale(0.0, worst.result.threshold or 0.0)
    upper = _upper(worst)
    of = "of people on average, at most," if average else "at most,"
    caption = f"{of} by the best attack ({worst.about.title}); {worst.limit} is allowed"
    if not worst.result.applicable:
        caption += ", and the size of the groups alone keeps every attack within it"
    return Card(
        title,
        share(upper),
        f"{caption}.",
        value=scale.point(upper),
        limit=scale.point(worst.result.threshold),
        ends=("0 %", f"limit {worst.limit}"),
        row=worst.name,
    )


def _upper(row: Row) -> float:
    high = row.result.ci_high
    return high if high is not None else row.result.observed or 0.0


def _k(rows: list[Row], manifest: dict[str, Any]) -> Card:
    privacy, people = manifest["privacy"], manifest["counts"].get("users", 0)
    title = "What k means here"
    if "k" not in privacy:
        epsilon = privacy.get("epsilon")
        return Card(
            "What epsilon means here",
            f"ε = {number(epsilon)}",
            "No record is a person's. Whether one person is in the data changes the odds of any published content by "
            f"at most a factor of e to the power of {number(epsilon)}.",
        )
    k = privacy["k"]
    smallest = next((row for row in rows if row.name == "k-anonymity" and row.result.applicable), None)
    if smallest is None:
        return Card(
            title,
            f"1 in {k:,}",
            "Every record is one person's. k bounds the average chance of finding it; nobody shares it.",
            dots=1,
        )
    found = smallest.result.observed
    behind = "" if found is None else f" The smallest profile has {number(found)} people."
    caption = (
        f"Each of {people:,} people shares one published profile with at least {k - 1:,} others.{behind}"
    )
    return Card(title, f"{k:,} people", caption, dots=min(k, MOST_DOTS))


def _accuracy(rows: list[Row], utility: dict[str, Any]) -> Card:
    title = "Accuracy lost"
    row = next((row for row in rows if row.name == "utility"), None)
    if row is None or row.result.observed is None or "figures" not in utility:
        return Card(title, NOT_STATED, "It was not measured on this release, or is the owner's alone.")
    figures = utility["figures"]
    full, release, random = (
        decimal(figures[f"{name}_rmse"]) for name in ("original", "target_deviation", "random_group")
    )
    if row.result.observed <= 0:
        caption = (
            f"Held-out ratings are predicted no worse than from the full data (error {release} against {full}; "
            f"random groups {random}). {row.limit} of that way is allowed."
        )
    else:
        caption = f"of the way from the full data (error {full}) to random groups ({random}); {row.limit} is allowed."
    scale = Scale(0.0, row.result.threshold or 1.0)
    return Card(
        title,
        "none" if row.result.observed <= 0 else row.observed,
        caption,
        value=scale.point(row.result.observed),
        limit=scale.point(row.result.threshold),
        ends=("full data", f"limit {row.limit}"),
        row=row.name,
    )


def _ranking(ranking: Ranking | None) -> Card:
    title = "Ranking kept"
    if ranking is None:
        return Card(
            title, "not measured", "How well recommendations can be ranked was not measured for this release."
        )
    return Card(title, ranking.kept, ranking.caption, bars=ranking.bars)
