"""Measure what k and epsilon cost in ranking and in ratings: `python -m benchmarks.frontier [--data DIR]`.

Each setting is one shadow run of MovieLens 1M (tasks/steps/evaluate.py, one draw, no gate, nothing published), as in
`murmur run`. Settings that this version does not know (a method or a key that its configuration refuses) are left out
and named. With --only, some series are measured again and the others keep their rows; each row has the commit that it
was measured at. With --page the page and the plot are written from results/frontier.json, without measuring. Written:
docs/frontier.md, docs/frontier.svg.
"""

from __future__ import annotations

import argparse
import datetime
import io
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import real_data_directory, results
from benchmarks.compare import markdown, shown
from checks.utility.utility import summary
from tasks import pipeline
from tasks.config import ReleaseConfig, parse
from tasks.engine import engine
from tasks.errors import MurmurError
from tasks.keys import OwnerKey
from tasks.store import Store, remove, write_bytes
from tasks.studies.datasets import detect_format

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = results.DIRECTORY / "frontier.json"
SNAPSHOT = datetime.date(2026, 1, 1)
# The data are public: with a fixed secret, every run gives the same figures.
KEY = OwnerKey(b"frontier".ljust(32, b"."))
INK, GREY = "#111111", "#8a8a8a"
SERIES = {"padded": "o", "support": "s", "dp-synthetic": "^"}
HEAD = """# What k and epsilon cost

`python -m benchmarks.frontier` (MovieLens 1M in `$MURMUR_DATA/ml-1m`) measures this page, its plot and [the
figures](../benchmarks/results/frontier.json): one shadow run for each setting, without the gate. The measure is defined
in [verdict.md](verdict.md#ranking): lists of ten by EASE, nDCG@10 with a 95 % interval over people, and Recall@10.
"Own" is asked with the person's own history, "group" with what the release says of the person's group. RMSE is that of
the released value, "lost" its distance from the model that is never released. The kinds promise different things (k
people share what is said of them; a budget of epsilon for each person): points of different kinds at the same height
are equally useful, not equally safe.
"""


@dataclass(frozen=True)
class Setting:
    """Hold one point: its series in the plot, its place on the axis, and the tables of the release file."""

    series: str
    name: str
    amount: float
    tables: dict[str, Any]


def settings() -> list[Setting]:
    """Return all points: padded profiles, profiles with numbers of raters, synthetic rows."""
    padded = [
        Setting("padded", f"k = {k}", k, {"privacy": {"method": "predictive-padded", "k": k}})
        for k in (5, 10, 20, 50)
    ]
    support = [
        Setting(
            "support",
            f"k = {k}, support",
            k,
            {"privacy": {"method": "predictive-padded", "k": k, "support": True}},
        )
        for k in (10, 20, 50)
    ]
    rows = [
        Setting(
            "dp-synthetic",
            f"epsilon = {epsilon:g}",
            epsilon,
            {
                "privacy": {"method": "dp-synthetic", "budget": {"epsilon": epsilon, "delta": 1e-5}},
                "series": {"mode": "independent"},
            },
        )
        for epsilon in (1.0, 3.0, 10.0)
    ]
    return [*padded, *support, *rows]


def main(arguments: list[str] | None = None) -> int:
    """Measure (unless --page is given), then write the page and the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    place = real_data_directory() / "ml-1m"
    parser.add_argument("--data", type=Path, default=place, help="directory of one data set, such as …/ml-1m")
    parser.add_argument("--page", action="store_true", help="do not measure, only write the page")
    parser.add_argument(
        "--only", nargs="+", choices=sorted(SERIES), help="measure these series, keep the others"
    )
    parser.add_argument("--workers", type=int, default=2, help="worker processes (0: none)")
    asked = parser.parse_args(arguments)
    if not asked.page:
        began = results.machine()
        chosen = [one for one in settings() if asked.only is None or one.series in asked.only]
        found = measure(asked.data, asked.workers, chosen, began["commit"])
        if asked.only is not None:
            found = merged(results.read("frontier"), found, asked.only)
        results.write(FIGURES, found, began)
    figures = results.read("frontier")
    (DOCS / "frontier.md").write_text(page(figures), encoding="utf-8")
    if figures:
        draw(figures, DOCS / "frontier.svg")
    return 0


def merged(before: dict[str, Any] | None, found: dict[str, Any], only: list[str]) -> dict[str, Any]:
    """Return what was found, and of what was measured before the rows of all other series, in the order of the page."""
    earlier = before or {"machine": {"commit": ""}, "rows": [], "unknown": []}
    kept = {setting.name for setting in settings() if setting.series not in only}
    rows = [
        {"commit": earlier["machine"]["commit"], **row} for row in earlier["rows"] if row["setting"] in kept
    ]
    order = [setting.name for setting in settings()]
    return {
        **found,
        "rows": sorted([*rows, *found["rows"]], key=lambda row: order.index(row["setting"])),
        "unknown": [*(name for name in earlier["unknown"] if name in kept), *found["unknown"]],
    }


def measure(data: Path, workers: int, chosen: list[Setting], commit: str) -> dict[str, Any]:
    """Measure the chosen settings that this version knows, on ratings that are read once."""
    source = {"format": detect_format(data), "path": str(data)}
    rows: list[dict[str, Any]] = []
    unknown: list[str] = []
    with tempfile.TemporaryDirectory(prefix="murmur-") as place, engine(workers) as crew:
        given: dict[str, Any] = {}
        for setting in chosen:
            try:
                config = parse({"release": {"name": "frontier"}, "source": source, **setting.tables})
            except MurmurError as problem:
                unknown.append(setting.name)
                print(f"{setting.name}: left out, {problem.what}", file=sys.stderr)
                continue
            work = Path(place) / "private" / "work"
            run = pipeline.Run(config, SNAPSHOT, Store(Path(place)), KEY, crew, work, lambda *_: None)
            given = given or {"ingest": pipeline.execute("ingest", run)}
            found = _measure(setting, config, replace(run, given=dict(given), seconds={}))
            rows.append({**found, "commit": commit})
            print(f"{setting.name}: {rows[-1]['cpu_seconds']:.0f} CPU-s", file=sys.stderr)
    return {
        "command": "python -m benchmarks.frontier",
        "dataset": source["format"],
        "rows": rows,
        "unknown": unknown,
    }


def _measure(setting: Setting, config: ReleaseConfig, run: pipeline.Run) -> dict[str, Any]:
    evaluated = Path(pipeline.execute("evaluate", run)["path"])
    found = summary(evaluated)
    remove(evaluated)
    return {
        "series": setting.series,
        "setting": setting.name,
        "amount": setting.amount,
        "rmse": found.get("target_deviation_rmse"),
        "rmse_model": found.get("original_rmse"),
        "rmse_random_groups": found.get("random_group_rmse"),
        "ranking": found["ranking"],
        "cpu_seconds": round(run.seconds.get("evaluate", 0.0), 1),
    }


def page(figures: dict[str, Any] | None) -> str:
    """Return the page; without figures it says so."""
    if not figures:
        return f"{HEAD}\nNot measured yet: `python -m benchmarks.frontier`.\n"
    facts, rows = figures["machine"], figures["rows"]
    commits = sorted({row.get("commit", facts["commit"]) for row in rows})
    made = f"Data: {figures['dataset']}, {facts['date']}, commit {', '.join(commits)}."
    left_out = (
        f" Not known to this version, and left out: {'; '.join(figures['unknown'])}."
        if figures["unknown"]
        else ""
    )
    head = [
        "setting",
        "nDCG@10, own",
        "group",
        "original",
        "popularity",
        "kept (own)",
        "Recall@10, own",
        "group",
    ]
    parts = ["head", "tail", "light", "heavy"]
    table = [[*head, *(f"own, {part}" for part in parts), "RMSE", "lost"]]
    for row in rows:
        found = row["ranking"]
        lost = None if row["rmse"] is None else row["rmse"] - row["rmse_model"]
        own = found["own_history_ndcg"]
        table.append(
            [
                row["setting"],
                f"{own:.3f} ({found['own_history_ndcg_low']:.3f}–{found['own_history_ndcg_high']:.3f})",
                *(shown(found[f"{name}_ndcg"]) for name in ("group_history", "original", "popularity")),
                f"{own / found['original_ndcg']:.0%}",
                *(shown(found[f"{name}_recall"]) for name in ("own_history", "group_history")),
                *(shown(found["parts"][part]["own_history_ndcg"]) for part in parts),
                shown(row["rmse"]),
                shown(lost),
            ]
        )
    plot = "\n![nDCG@10 and RMSE by k and epsilon](frontier.svg)\n"
    return f"{HEAD}{plot}\n{made}{left_out}\n\n{markdown(table)}"


def draw(figures: dict[str, Any], path: Path) -> None:
    """Write the plot as SVG: the same bytes for the same figures. By k on the left, by epsilon on the right, above the
    ranking, below the error of the ratings."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = figures["rows"]
    figure = Figure(figsize=(9, 6.4))
    axes = figure.subplots(2, 2, sharey="row", squeeze=False)
    for column, (title, names) in enumerate(
        (("k, people who share what is said of them", ("padded", "support")), ("epsilon", ("dp-synthetic",)))
    ):
        some = [row for row in rows if row["series"] in names]
        _draw_ranking(axes[0, column], some, names)
        _draw_ratings(axes[1, column], some, names)
        for axis in axes[:, column]:
            axis.set_xscale("log")
            ticks = sorted({row["amount"] for row in some})
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
            axis.spines[["top", "right"]].set_visible(False)
        axes[1, column].set_xlabel(title)
    axes[0, 0].set_ylabel("nDCG@10 (better: up)")
    axes[1, 0].set_ylabel("RMSE (better: down)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    for handle, text in zip(*axes[0, 1].get_legend_handles_labels(), strict=True):
        if text not in labels:
            handles, labels = [*handles, handle], [*labels, text]
    figure.tight_layout(rect=(0, 0, 1, 0.9))
    figure.legend(handles, labels, loc="upper center", ncols=4, frameon=False, fontsize=8)
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "murmuration frontier", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    write_bytes(path, out.getvalue())
    path.chmod(0o644)  # no secret is in it


def _draw_ranking(axis: Any, rows: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    for measure, line in (("own_history", "-"), ("group_history", "--")):
        for name in names:
            points = [row for row in rows if row["series"] == name]
            known = [row for row in points if row["ranking"][f"{measure}_ndcg"] is not None]
            if not known:
                continue
            x = [row["amount"] for row in known]
            y, low, high = (
                [row["ranking"][f"{measure}_ndcg{end}"] for row in known] for end in ("", "_low", "_high")
            )
            asked = "own history" if measure == "own_history" else "group's profile"
            axis.plot(x, y, line, marker=SERIES[name], color=INK, label=f"{name}, {asked}", linewidth=1)
            axis.vlines(x, low, high, color=INK, linewidth=0.8)
    for source, line in (("original", ":"), ("popularity", "-.")):
        if rows:
            value = sum(row["ranking"][f"{source}_ndcg"] for row in rows) / len(rows)
            axis.axhline(value, color=GREY, linestyle=line, linewidth=1, label=source)


def _draw_ratings(axis: Any, rows: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    for name in names:
        known = [row for row in rows if row["series"] == name and row["rmse"] is not None]
        if known:
            axis.plot(
                [row["amount"] for row in known],
                [row["rmse"] for row in known],
                marker=SERIES[name],
                color=INK,
                linewidth=1,
            )
    models = [row["rmse_model"] for row in rows if row["rmse_model"] is not None]
    if models:
        axis.axhline(sum(models) / len(models), color=GREY, linestyle=":", linewidth=1)
    else:
        axis.text(
            0.5, 0.5, "rows are nobody's: not measured", transform=axis.transAxes, ha="center", color=GREY
        )


if __name__ == "__main__":
    sys.exit(main())
