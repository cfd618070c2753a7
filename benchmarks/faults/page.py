"""Write the tables of docs/reliability.md from the figures in results/: `python -m benchmarks.faults.page`."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import results
from tasks.store import read_json

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- made by `make faults` -->", "<!-- end of what `make faults` makes -->"
KINDS = ("killed", "disk", "network", "clock")
COLUMNS = ("fault", "injected", "during", "recovered by", "seconds to recover (median, longest)", "not clean")


def tables(directory: Path = results.DIRECTORY) -> str:
    """Return what stands between the two marks."""
    parts = []
    simulated = directory / "simulation.json"
    if simulated.exists():
        figures = read_json(simulated)
        parts.append(
            "`make simulate N={schedules}`: {schedules:,} schedules with {steps:,} steps, {power:,} power failures and "
            "{kill:,} killed processes, {releases:,} releases seen in public; {broken} schedules broke an invariant. "
            "{per_cpu_second:g} schedules per CPU second, on a busy machine.".format(
                **figures, broken=len(figures["failed"])
            )
        )
    rows = [row for kind in KINDS for row in _rows(directory / f"faults-{kind}.json")]
    missing = [kind for kind in KINDS if not (directory / f"faults-{kind}.json").exists()]
    lines = [COLUMNS, ("---", "---:", "---", "---", "---:", "---:"), *rows]
    parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
    if missing:
        parts.append(f"Not run yet: {', '.join(missing)}.")
    return "\n\n".join(parts)


def _rows(path: Path) -> list[tuple[str, ...]]:
    """Return a row for each fault and each way in which it was recovered from."""
    if not path.exists():
        return []
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for trial in read_json(path)["trials"]:
        kinds.setdefault((trial["fault"], trial["recovered_by"]), []).append(trial)
    return [_row(fault, by, trials) for (fault, by), trials in kinds.items()]


def _row(fault: str, by: str, trials: list[dict[str, Any]]) -> tuple[str, ...]:
    seconds = [one["seconds"] for one in trials]
    bad = [one for one in trials if _is_dirty(one)]
    steps = list(dict.fromkeys(one["at"] for one in trials))
    during = ", ".join(steps) if len(steps) < 6 else f"{len(steps)} steps"
    return fault, str(len(trials)), during, by, f"{median(seconds):.0f}, {max(seconds):.0f}", str(len(bad))


def _is_dirty(trial: dict[str, Any]) -> bool:
    return bool(
        trial["partial"]
        or trial["wrong_bytes"]
        or trial["orphans"]
        or trial["secrets_in_temp"]
        or trial["wrong_end"]
    )


def write(path: Path = PAGE) -> None:
    """Replace the tables of the page, and print them."""
    made = tables()
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}", encoding="utf-8")
    print(made)


if __name__ == "__main__":
    write()
