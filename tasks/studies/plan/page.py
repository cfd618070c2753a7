"""Write what a search for settings has found as one self-contained HTML file."""

from pathlib import Path
from typing import Any

from tasks.studies.html_pages import write_html
from tasks.studies.plan import words

LEFT, RIGHT, TOP, BOTTOM = 80.0, 420.0, 46.0, 270.0  # of the plot, inside its axes
TICKS = 3


def write_page(answer: dict[str, Any], title: str, path: Path) -> None:
    """Write the page; it loads nothing from anywhere."""
    write_html(
        "plan.html.j2",
        path,
        title=title,
        verdict=words.verdict(answer),
        scope=words.scope(answer),
        columns=[key.rpartition(".")[2].replace("_", " ") for key in answer["axes"]],
        rows=[_row(number, trial) for number, trial in enumerate(answer["trials"], start=1)],
        others=[_other(trial) for trial in answer["others"]],
        others_words=words.other_ways(answer),
        **_plot(answer["trials"]),
    )


def _row(number: int, trial: dict[str, Any]) -> dict[str, Any]:
    lost, share, risk = trial["lost"], trial["lost_share"], trial["worst_risk"]
    return {
        "number": number,
        "given": list(trial["values"].values()),
        "passed": trial["passed"],
        "words": words.outcome(trial),
        "risk": "–" if risk is None else f"{risk:.1%}",
        "lost": "–" if lost is None else f"{lost:.4f}",
        "share": "–" if share is None else f"{share:.1%}",
        "cost": f"{trial['cpu_seconds']:.0f} s",
    }


def _other(trial: dict[str, Any]) -> dict[str, Any]:
    refused = ", ".join(trial["failed"]) or trial["why"]
    return {
        "entry": trial["entry"],
        "passed": trial["passed"],
        "words": "passed" if trial["passed"] else f"refused: {refused}",
        "risk": "–" if trial["worst_risk"] is None else f"{trial['worst_risk']:.1%}",
        "lost": "–" if trial["lost"] is None else f"{trial['lost']:.4f}",
        "lists": words.lists(trial),
        "cost": f"{trial['cpu_seconds']:.0f} s",
    }


def _plot(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the points and the marks of both axes, in the units of the drawing."""
    shown = [
        (number, trial)
        for number, trial in enumerate(trials, start=1)
        if trial["lost"] is not None and trial["worst_risk"] is not None
    ]
    if not shown:
        return {"points": [], "x_ticks": [], "y_ticks": []}
    lost = _Scale([trial["lost"] for _, trial in shown], LEFT, RIGHT)
    risk = _Scale([trial["worst_risk"] for _, trial in shown], BOTTOM, TOP)
    points: dict[tuple[float, float, bool], list[tuple[int, dict[str, Any]]]] = {}
    for number, trial in shown:
        place = lost.at(trial["lost"]), risk.at(trial["worst_risk"]), trial["passed"]
        points.setdefault(place, []).append((number, trial))
    drawn = [
        {
            "number": ", ".join(str(number) for number, _ in there),  # settings in one place share a mark
            "x": x,
            "y": y,
            "verdict": "passed" if passed else "refused",
            "words": "; ".join(_in_words(trial) for _, trial in there),
        }
        for (x, y, passed), there in points.items()
    ]
    return {"points": drawn, "x_ticks": lost.ticks("{:.4f}"), "y_ticks": risk.ticks("{:.1%}")}


def _in_words(trial: dict[str, Any]) -> str:
    values = ", ".join(f"{key} {value}" for key, value in trial["values"].items())
    return f"{values}: {words.outcome(trial)}"


class _Scale:
    """Map values to places on an axis, with room where all are equal."""

    def __init__(self, values: list[float], start: float, stop: float) -> None:
        low, high = min(values), max(values)
        room = (high - low) or max(abs(high), 1e-6)
        self._low, self._high = low - 0.1 * room, high + 0.1 * room
        self._start, self._stop = start, stop

    def at(self, value: float) -> float:
        """Return the place of a value."""
        share = (value - self._low) / (self._high - self._low)
        return round(self._start + share * (self._stop - self._start), 1)

    def ticks(self, form: str) -> list[dict[str, Any]]:
        """Return some values with their places."""
        steps = [self._low + (self._high - self._low) * n / TICKS for n in range(TICKS + 1)]
        return [{"at": self.at(value), "text": form.format(value)} for value in steps]
