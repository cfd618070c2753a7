"""Write a comparison of methods as one self-contained HTML file."""

import base64
from pathlib import Path
from typing import Any

from tasks.studies.compare.plot import label, render
from tasks.studies.html_pages import write_html

RANKING = ("own_history_ndcg", "group_history_ndcg", "popularity_ndcg", "original_ndcg")
NAMES_REMOVED = "original, names removed"


def write_page(result: dict[str, Any], title: str, path: Path) -> None:
    """Write the page: verdicts, use, the plot, and every attack."""
    rows = [*result["rows"], {"method": NAMES_REMOVED, "settings": {}, "status": "", **result["original"]}]
    names = sorted({name for row in rows for name in row["risk"]})
    write_html(
        "compare.html.j2",
        path,
        title=title,
        verdict=verdict(result["rows"]),
        rows=[_row(number, row) for number, row in enumerate(rows, start=1)],
        plot=base64.b64encode(render(result)).decode(),
        attacks=[{"name": name, "figures": [_bound(row, name) for row in rows]} for name in names],
    )


def verdict(rows: list[dict[str, Any]]) -> str:
    """Say which methods pass, and which of these keeps lists best and which ratings."""
    passed = [row for row in rows if row["status"] == "passed"]
    if not passed:
        return "No method that was tried passes the gate."
    said = f"{len(passed)} of {len(rows)} pass the gate: {', '.join(label(row) for row in passed)}."
    ranked = [row for row in passed if _ranking(row)["own_history_ndcg"] is not None]
    if len(ranked) > 1:
        best = max(ranked, key=lambda row: _ranking(row)["own_history_ndcg"] or 0.0)
        said += f" Best lists for people with a history of their own: {label(best)}."
    rated = [row for row in passed if row["utility"].get("rmse") is not None]
    if len(rated) > 1:
        said += f" Most accurate ratings: {label(min(rated, key=lambda row: row['utility']['rmse']))}."
    return said


def _row(number: int, row: dict[str, Any]) -> dict[str, Any]:
    refused = ", ".join(row.get("failed") or ()) or row.get("why")
    return {
        "number": number if row["status"] else None,
        "name": label(row),
        "status": row["status"],
        "words": f"{row['status']}: {refused}" if refused else row["status"],
        "risk": _shown(row["worst_risk"]),
        "attack": row["worst_attack"] or "–",
        "rmse": _shown(row["utility"].get("rmse")),
        "ranking": [_shown(_ranking(row)[name]) for name in RANKING],
    }


def _ranking(row: dict[str, Any]) -> dict[str, float | None]:
    found = row["utility"].get("ranking") or {}
    return {name: found.get(name) for name in RANKING}


def _bound(row: dict[str, Any], attack: str) -> str:
    return "n/a" if attack in row.get("not_applicable", ()) else _shown(row["risk"].get(attack))


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
