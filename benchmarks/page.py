"""Write docs/benchmarks.md and its plots from the figures in results/: `python -m benchmarks.page`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.stages import own, total

DOCS = Path(__file__).parents[1] / "docs"
HEAD = """# Benchmarks

Made by `python -m benchmarks.page` from the figures in `benchmarks/results/`. Seconds are CPU seconds unless they
are labelled wall; only figures of the same run are compared. Memory is the peak of all processes, Dask's
workers included, shared pages counted once.
"""


def page(directory: Path = results.DIRECTORY) -> str:
    """Return the page; figures that are not measured yet are named as missing."""
    parts = (
        ("netflix", "Netflix's size", "make bench-netflix", _netflix),
        ("growth", "Growth with the number of users", "make bench", _growth),
        ("kernels", "Kernels beside their peers", "make bench", _kernels),
        ("mdav", "Microaggregation beside the textbook", "make bench", _kernels),
        ("attacks", "Attacks beside SciPy", "make bench", _attacks),
    )
    text = [HEAD]
    for name, title, command, write in parts:
        figures = results.read(name, directory)
        text.append(f"## {title}\n")
        if figures is None:
            text.append(f"Not measured yet: `{command}`.\n")
        else:
            text += [_machine(figures["machine"], figures.get("command", command)), *write(figures)]
    return "\n".join(text).rstrip() + "\n"


def _machine(facts: dict[str, Any], command: str) -> str:
    packages = ", ".join(f"{name} {found}" for name, found in facts["packages"].items())
    return (
        f"`{command}`, {facts['date']}, commit {facts['commit']}: {facts['cores']} cores ({facts['model']}), "
        f"{facts['memory_bytes'] / 2**30:.0f} GiB, Python {facts['python']}, {packages}.\n"
    )


def _table(rows: Iterable[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rest]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _mib(count: float) -> str:
    return f"{count / 2**20:,.0f}"


def _bars(figures: dict[str, Any]) -> str:
    def value(bar: dict[str, Any]) -> str:
        return (
            "not measured"
            if bar["value"] is None
            else f"{results.number(bar['value'])} {bar['unit']}".rstrip()
        )

    rows = [
        [bar["name"], value(bar), f"{bar['sense']} {bar['limit']:g}", "yes" if bar["passed"] else "**no**"]
        for bar in figures["bars"]
    ]
    return _table([["bar", "found", "wanted", "kept"], *rows])


def _netflix(figures: dict[str, Any]) -> list[str]:
    text = []
    for run in figures["runs"]:
        work = run["work"]
        text.append(
            f"### k = {run['k']}\n\n{work['users']:,} users, {work['items']:,} items, {work['ratings']:,} ratings, "
            f"{work['groups']:,} groups; {run['workers']} workers; {run['status']}; others used "
            f"{run['others_cpu_share']:.0%} of the cores.\n"
        )
        rows = [["stage", "CPU-s", "wall s", "peak MiB", "per CPU-s"]]
        for stage in run["stages"]:
            name = stage["name"] + (" (shared)" if stage.get("shared") else "")
            rate = f"{results.number(stage['rate'])} {stage['unit']}" if "rate" in stage else ""
            rows.append([name, *_took(stage), rate])
        stages = own(run["stages"])
        whole = {
            "cpu_seconds": total(stages),
            "wall_seconds": sum(stage["wall_seconds"] for stage in stages),
            "peak_bytes": max(stage["peak_bytes"] for stage in stages),
        }
        rows.append([f"**whole** (goal {figures['goal_cpu_seconds']:,.0f} CPU-s)", *_took(whole), ""])
        text += [_table(rows)]
    shared = ", ".join(figures["shared_stages"])
    if shared:
        text.append(f"Stages that do not depend on k are made once and counted for every k: {shared}.\n")
    text.append(
        "*Cells compared* are those of the paper's algorithm, distances × items with one round of each t-means, "
        "whatever shortcut is taken; naive NumPy's time is for the same ones. `shadow` stages are a part of "
        "`evaluate`.\n"
    )
    return [*text, "![CPU seconds of the stages](benchmarks/stages.svg)\n", _bars(figures), _peers(figures)]


def _took(stage: dict[str, Any]) -> list[str]:
    return [f"{stage['cpu_seconds']:,.1f}", f"{stage['wall_seconds']:,.1f}", _mib(stage["peak_bytes"])]


def _peers(figures: dict[str, Any]) -> str:
    peers = figures["peers"]
    rows = [["on a slice of the same data", "peer", "ours CPU-s", "peer CPU-s", "ratio", "SSE ours/peer"]]

    def add(what: str, ours: float, name: str, peer: dict[str, float] | str) -> None:
        if isinstance(peer, str):
            rows.append([what, name, f"{ours:.3g}", peer, "", ""])
        else:
            squares = f"{peer['sse_ratio']:.3f}" if "sse_ratio" in peer else ""
            rows.append(
                [what, name, f"{ours:.3g}", f"{peer['seconds']:.3g}", f"{peer['ratio']:.1f}×", squares]
            )

    metric, factors = peers["metric"], peers["factorization"]
    naive = {"seconds": metric["naive_seconds"], "ratio": metric["ratio"]}
    add(f"a distance over {metric['columns']:,} items", metric["ours_seconds"], "naive NumPy", naive)
    for name, peer in factors["peers"].items():
        what = f"ALS iteration, {factors['ratings']:,} ratings, rank {factors['rank']}"
        add(what, factors["ours_seconds"], name, peer)
    for grouping in peers["grouping"]:
        what = f"{grouping['users']} users × {grouping['columns']:,} items, k = {grouping['k']}"
        for name, peer in grouping["peers"].items():
            add(what, grouping["ours_seconds"], name, peer)
    return _table(rows)


def _growth(figures: dict[str, Any]) -> list[str]:
    runs, exponents = figures["runs"], figures["exponents"]

    def power(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    rows = [["CPU-s", *(f"{run['users']:,} users" for run in runs), "exponent", "wall s", "peak MiB"]]
    for stage in own(runs[-1]["stages"]):
        seconds = [{s["name"]: s["cpu_seconds"] for s in run["stages"]}.get(stage["name"]) for run in runs]
        cells = ["–" if one is None else f"{one:.1f}" for one in seconds]
        rows.append([stage["name"], *cells, power(exponents["stages"].get(stage["name"])), *_took(stage)[1:]])
    whole = [f"{total(run['stages']):.1f}" for run in runs]
    rows.append(["**whole**", *whole, power(exponents["whole"]), "", ""])
    peaks = [_mib(run["peak_bytes"]) for run in runs]
    rows.append(["peak MiB", *peaks, power(exponents["peak_bytes"]), "", ""])
    text = [
        f"Padded, the paper's metric, k = {figures['k']}, the gate included; {figures['items']:,} items and "
        f"{figures['ratings_per_user']:.0f} ratings per user at every size. The last doubling alone has the exponent "
        f"{power(exponents['last'])}; the paper's algorithm has 1.5. Wall and peak of a stage are those of the largest "
        "size.\n",
        _table(rows),
        "![CPU seconds over users](benchmarks/growth.svg)\n",
    ]
    workers = figures["workers"]
    if workers:
        each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in workers["stages"].items())
        held = "" if workers["quiet"] else ", too much for the speed-up to be held against its bar"
        text.append(
            f"{workers['workers'][1]} workers against {workers['workers'][0]} at {workers['users']:,} users: "
            f"{workers['speedup']:.2f}× in wall time on the parallel stages ({each}); the published files are "
            f"{'the same' if workers['same_bytes'] else '**not the same**'}, byte for byte. Others used "
            f"{workers['others_cpu_share']:.0%} of the cores{held}.\n"
        )
    return [*text, _bars(figures)]


def _kernels(figures: dict[str, Any]) -> list[str]:
    rows = [["kernel", "unit", "ours", "peer", "ratio", "wanted", "kept"]]
    for line in figures["lines"]:
        wanted = "" if line["bar"] is None else f"{'≥' if line['unit'] == 'CPU-s' else '≤'} {line['bar']:g}"
        kept = "" if line["bar"] is None else "yes" if line["passed"] else "**no**"
        values = [f"{line['ours']:.3g}", f"{line['peer']:.3g}", f"{line['ratio']:.3g}"]
        rows.append([line["kernel"], line["unit"], *values, wanted, kept])
    return [_table(rows)]


def _attacks(figures: dict[str, Any]) -> list[str]:
    rows = [["ratings", "people", "ours, ms a target", "SciPy, ms a target", "ratio", "wanted", "kept"]]
    for line in figures["speed"]:
        sizes = [f"{line['ratings']:,}", f"{line['people']:,}"]
        times = [f"{line['ours_ms']:.3g}", f"{line['scipy_ms']:.3g}", f"{line['ratio']:.1f}×"]
        rows.append([*sizes, *times, f"≥ {line['bar']:g}", "yes" if line["passed"] else "**no**"])
    text = [_table(rows)] if figures["speed"] else []
    memory = figures["memory"]
    if memory:
        text.append(
            f"From {memory['ratings']:,} ratings to the ranks of {memory['targets']:,} targets on "
            f"{memory['workers']} workers: peak {_mib(memory['peak_bytes'])} MiB (at most "
            f"{_mib(memory['bar_bytes'])}: {'kept' if memory['passed'] else '**not kept**'}).\n"
        )
    return text


def main() -> int:
    from benchmarks import plots

    (DOCS / "benchmarks.md").write_text(page(), encoding="utf-8")
    for name, draw in (("growth", plots.growth), ("netflix", plots.stages)):
        figures = results.read(name)
        if figures:
            draw(figures, DOCS / "benchmarks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
