"""Write docs/compare.md and its plot: every method on MovieLens 1M, `python -m benchmarks.compare --data DIR`.

Results are kept after each entry, and an interrupted run continues there if the code is the same. With --page the page
is written from the figures in results/compare.json, without measuring.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import real_data_directory, results
from tasks.cli._display import progress_bars
from tasks.config import parse
from tasks.keys import OwnerKey
from tasks.recommenders import compared
from tasks.store import Store
from tasks.studies.compare.comparison import compare
from tasks.studies.compare.plot import draw, label
from tasks.studies.datasets import detect_format

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = results.DIRECTORY / "compare.json"
NOTES = results.DIRECTORY / "compare.local.json"  # of a run that is under way, or was interrupted
SNAPSHOT = datetime.date(2026, 1, 1)
# The data are public: with a fixed secret, every run gives the same figures.
KEY = OwnerKey(b"compare".ljust(32, b"."))
ENTRIES = (
    "predictive-padded",
    "predictive-padded:k=20",
    "predictive-simple",
    "predictive-boosted",
    "microaggregation",
    "microaggregation:imputation=central:min_contributors=1",
    "perturbation:amount=1.0",
    "perturbation:amount=1.0:entries=all",
    "perturbation:amount=4.0:entries=all",
    "perturbation:scheme=gna:amount=2.0",
    "suppression:share=0.88",
    "obfuscation:attribute=gender",
    "obfuscation:attribute=gender:strategy=rfpp",
)
NAMES = {
    "microaggregation (imputation central, min_contributors 1)": "as in [Casino2015]",
    "perturbation (scheme gna, amount 2)": "the comparison in [Casino2015]",
}
RANKING = """## Ranking with own and with group histories

nDCG@10 of EASE alone, as the check `utility` measures it ([definitions](verdict.md#ranking)): trained on the release
and asked with the person's own history, or with what the release says of the group or person.
"""
PLOT = "![Risk against utility](compare.svg)\n\n"
HEAD = """# Methods compared

`make compare` (MovieLens 1M in `$MURMUR_DATA/ml-1m`) measures all methods and writes this page, its plot and
[the figures](../benchmarks/results/compare.json). For your own data:

```sh
murmur compare dags/releases/films.toml --snapshot 2026-01-01 --plot compare.svg \\
    --methods predictive-padded,predictive-padded:k=20,microaggregation,perturbation:amount=0.5:entries=all
```

An entry is a method with settings, `key=value` of `[privacy]` and of the method's own tables; all else is as in the
release file. Nothing is published: candidates are made below the store's `private/`, judged, and removed.

{plot}## Risk and utility

**Risk**: the gate's attacks on the candidate made from all ratings, refused or not. The column shows the worst of the
attacks whose threshold is 1/k (they re-identify users, or undo the noise on a user's values), as the upper bound of its
95 % interval. Attacks that infer something else (membership, recovery, …) have their own scales and are in the table
further down.

**Utility**: recommenders trained on the release of the shadow run (made from 90 % of the ratings) and tested on real
ratings held out before anything was fitted. Group profiles count as many times as they have members, and a user's
history is the group's profile; z-scores become ratings with the user's own mean and standard deviation. RMSE and MAE
are those of the recommender with the lowest RMSE. nDCG@10 and Recall@10 are those of the one with the best nDCG@10:
lists of ten out of all items except those the user rated in the 90 %; relevant is a held-out rating of at least three
quarters of the scale (4 of 1 to 5). τ is Kendall's between the order of the {recommenders} recommenders trained on the
release and that of the same ones trained on the original 90 %, by nDCG@10 and by RMSE. "Own profile": RMSE of the
released value itself where there is one (for single records, of what a model learns from all of them).

If every record has every item and predictions fill unrated cells (padded, microaggregation), a release does not reveal
which items a user has rated. That protects users, but what users choose next cannot be learned from it either; lists
are then ranked by the predicted value. If the centre of the scale fills unrated cells (microaggregation as in
[Casino2015], GNA), a value that deviates from it was rated: lists get better for the same reason for which `recovery`
succeeds.
"""


def main(arguments: list[str] | None = None) -> int:
    """Measure (unless --page is given), then write the page and the plot."""
    asked = _options(arguments)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("murmur").setLevel(logging.INFO)
    if not asked.page:
        began = results.machine()
        found = measure(asked.data, ",".join(asked.methods or ENTRIES))
        results.write(FIGURES, {"command": "make compare", **found}, began)
        NOTES.unlink(missing_ok=True)
    figures = results.read("compare")
    (DOCS / "compare.md").write_text(page(figures), encoding="utf-8")
    if figures:
        draw(figures, DOCS / "compare.svg")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    place = real_data_directory() / "ml-1m"
    parser.add_argument("--data", type=Path, default=place, help="directory of one data set, such as …/ml-1m")
    parser.add_argument("--page", action="store_true", help="do not measure, only write the page")
    parser.add_argument("--methods", nargs="*", help="other entries than the page's")
    return parser.parse_args(arguments)


def measure(data: Path, methods: str) -> dict[str, Any]:
    """Compare the methods in a temporary store."""
    config = parse(
        {"release": {"name": "compare"}, "source": {"format": detect_format(data), "path": str(data)}},
        "make compare",
    )
    with tempfile.TemporaryDirectory(prefix="murmur-") as place, progress_bars() as progress:
        return compare(config, SNAPSHOT, Store(place), methods, key=KEY, progress=progress, notes=NOTES)


def page(figures: dict[str, Any] | None) -> str:
    """Return the page; figures that are not measured yet are named as missing."""
    if figures is None:
        return HEAD.format(recommenders=len(compared()), plot="") + "\nNot measured yet: `make compare`.\n"
    original = {"method": "original, names removed", "settings": {}, "status": "", **figures["original"]}
    rows = [*figures["rows"], original]
    facts = figures["machine"]
    made = f"Data: {figures['dataset']}, {facts['date']}, commit {facts['commit']}.\n"
    return "\n".join(
        [
            HEAD.format(recommenders=len(compared()), plot=PLOT),
            made,
            _overview(rows),
            *([RANKING, _ranking(rows)] if any(row["utility"].get("ranking") for row in rows) else []),
            "## Checks that refuse them\n",
            _refusals(figures["rows"]),
            "## Every attack's upper bound\n",
            "An attack without an interval is listed with its observed success: structure-based and label-based on\n"
            "groups with the chance of re-identifying the least protected user. –: no figure for such a release.\n",
            _bounds(rows),
            "## Every recommender: RMSE / nDCG@10\n",
            _recommenders(rows),
            "## CPU seconds\n",
            _seconds(figures["rows"]),
        ]
    )


def _overview(rows: list[dict[str, Any]]) -> str:
    head = [
        "",
        "release",
        "verdict",
        "worst risk",
        "by",
        "RMSE",
        "MAE",
        "nDCG@10",
        "Recall@10",
        "τ lists",
        "τ ratings",
    ]
    table = [[*head, "own profile"]]
    measures = ("rmse", "mae", "ndcg_at_10", "recall_at_10", "kendall_tau", "kendall_tau_rmse")
    for number, row in enumerate(rows, start=1):
        found = row["utility"]
        table.append(
            [
                str(number) if row["status"] else "",
                _named(row),
                row["status"],
                shown(row["worst_risk"]),
                row["worst_attack"] or "–",
                *(shown(found.get(name)) for name in (*measures, "target_deviation_rmse")),
            ]
        )
    return markdown(table)


def _ranking(rows: list[dict[str, Any]]) -> str:
    """Tabulate what own and group histories are worth, beside popularity and the original data."""
    sources = ("own_history", "group_history", "popularity", "original")
    table = [["release", "own history", "group's history", "popularity", "original"]]
    for row in rows:
        found = row["utility"].get("ranking") or {}
        table.append([_named(row), *(shown(found.get(f"{source}_ndcg")) for source in sources)])
    return markdown(table)


def _named(row: dict[str, Any]) -> str:
    name = label(row)
    return f"{name}: {NAMES[name]}" if name in NAMES else name


def _refusals(rows: list[dict[str, Any]]) -> str:
    return (
        "\n".join(
            f"- {_named(row)}: {', '.join(row['failed']) or row['why']}"
            for row in rows
            if row["status"] != "passed"
        )
        + "\n"
    )


def _bounds(rows: list[dict[str, Any]]) -> str:
    table = [["attack", *(str(n) if row["status"] else "original" for n, row in enumerate(rows, start=1))]]
    for name in rows[-1]["risk"]:
        table.append([name, *(_bound(row, name) for row in rows)])
    return markdown(table)


def _bound(row: dict[str, Any], attack: str) -> str:
    return "n/a" if attack in row.get("not_applicable", ()) else shown(row["risk"].get(attack))


def _recommenders(rows: list[dict[str, Any]]) -> str:
    table = [["release", *(name.replace("_", "-") for name in compared())]]
    for row in rows:
        found = row["recommenders"]
        cells = [
            f"{found[r]['rmse']:.3f} / {found[r]['ndcg_at_10']:.3f}" if found else "–" for r in compared()
        ]
        table.append([label(row), *cells])
    return markdown(table)


def _seconds(rows: list[dict[str, Any]]) -> str:
    """Tabulate CPU seconds to make, judge and measure each method; results of earlier rows are reused."""
    parts = {"validate": "gate", "recommenders": "recommenders"}
    table = [["release", "made, with its shadow", *parts.values()]]
    for row in rows:
        # The seconds of the shadow run and of the runs with sybils are part of those of evaluate.
        steps = {
            step: spent
            for step, spent in row["seconds"].items()
            if not step.startswith(("shadow ", "sybil "))
        }
        other = sum(spent for step, spent in steps.items() if step not in parts)
        table.append([label(row), f"{other:.0f}", *(f"{steps.get(step, 0):.0f}" for step in parts)])
    return markdown(table)


def shown(value: float | None) -> str:
    """Format a figure with three decimals."""
    return "–" if value is None else f"{value:.3f}"


def markdown(rows: list[list[str]]) -> str:
    """Format a table of Markdown; the first row is the header."""
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
