"""State the gate's verdict on a candidate in a few plain words, for logs, run notes, the approval form and alerts.

Everything here follows from the manifest and the verdict in the store. It holds no ids of people and no paths: it goes
into Airflow's database, which more people read than the private part of the store.
"""

from pathlib import Path
from typing import Any

from tasks.config.gate import check_summaries
from tasks.store import Store, read_json

XCOM_KEY = "verdict"


def summarize(candidate: Path, before: Path | None) -> dict[str, Any]:
    """Return the verdict on a judged candidate, and what changed since the release `before`."""
    from tasks.series.refusal import KEPT  # NumPy: not while Airflow parses

    manifest = read_json(candidate / "manifest.json")
    lines = [line for line in manifest["checks"] if line["severity"] == "gate"]
    applicable = [line for line in lines if line["applicable"]]
    failed = [line for line in lines if not line["passed"]]
    counts, privacy = manifest["counts"], manifest["privacy"]
    waiting = read_json(candidate.parent / "private" / "verdict.json").get(KEPT)
    verdict = {
        "release": manifest["release"],
        "snapshot": manifest["snapshot"],
        "passed": bool(applicable) and not failed,
        "promise": promise(privacy),
        "people": counts["users"],
        "groups": counts["groups"],
        "items": counts["items"],
        "checks": len(applicable),
        "failed": [{"name": line["name"], "words": failure_in_words(line)} for line in failed],
        "warnings": [
            line["name"]
            for line in manifest["checks"]
            if line["severity"] == "advisory" and not line["passed"]
        ],
        "waiting": None if waiting is None else waiting["why"],
        "change": None if before is None else _change(manifest, read_json(before / "manifest.json")),
    }
    return {**verdict, "sentence": sentence(verdict)}


def latest_before(store: Store, name: str, snapshot: str) -> Path | None:
    """Return the directory of the newest release before a snapshot that is still published."""
    folder = store.root / "published" / name
    found = sorted(path.parent for path in folder.glob("*/manifest.json") if path.parent.name < snapshot)
    return found[-1] if found else None


def sentence(verdict: dict[str, Any]) -> str:
    """Return the verdict in one sentence."""
    what = f"{size(verdict['people'], verdict['groups'])}, {verdict['promise']}"
    if verdict["passed"]:
        also = "" if verdict["waiting"] is None else f" Newcomers wait: {verdict['waiting']}."
        return f"The gate passed it: all {verdict['checks']} checks. {what}.{also}"
    names = ", ".join(one["name"] for one in verdict["failed"]) or "no applicable check was run"
    return f"The gate refused it: {len(verdict['failed'])} of {verdict['checks']} checks failed ({names}). {what}."


def promise(privacy: dict[str, Any]) -> str:
    """Return the number that a release promises: k, or the epsilon of synthetic rows."""
    return f"k = {privacy['k']:,}" if "k" in privacy else f"ε = {privacy['epsilon']:.3g}"


def size(people: int, records: int) -> str:
    """Say how many people a release is about, and in how many records; synthetic rows are about nobody."""
    if not people:
        return f"{records:,} synthetic rows"
    if people == records:
        return f"{people:,} records of single people"
    return f"{people:,} people in {records:,} groups"


def failure_in_words(line: dict[str, Any]) -> str:
    """Say what a check that failed measured, what is allowed, and what it looks for."""
    if line.get("void"):
        figures = "its figures show nothing (void)"
    elif line["observed"] is None:
        figures = "failed"
    else:
        figures = f"measured {line['observed']:.3g}"
        if line["ci_low"] is not None and line["ci_high"] is not None:
            figures += f" (between {line['ci_low']:.3g} and {line['ci_high']:.3g})"
        if line["threshold"] is not None:
            figures += f", limit {line['threshold']:.3g}"
    return f"{figures}. {purpose(line['name'])}".strip()


def purpose(name: str) -> str:
    """Return what a check looks for, in one line; read from its file without importing it."""
    summary = check_summaries().get(name, "")
    return f"{summary}." if summary else ""


def change_in_words(change: dict[str, Any] | None) -> str:
    """Say what changed since the last release of the series."""
    if change is None:
        return "This is the first release of its name."
    parts = [
        f"{change[name]:+,} {name}" if change[name] else f"as many {name}"
        for name in ("people", "groups", "items")
    ]
    return f"Since {change['since']}: {', '.join(parts)}."


def _change(manifest: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    now, then = manifest["counts"], earlier["counts"]
    return {
        "since": earlier["snapshot"],
        "people": now["users"] - then["users"],
        "groups": now["groups"] - then["groups"],
        "items": now["items"] - then["items"],
    }
