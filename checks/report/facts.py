"""Collect the parameters and facts that report.html lists: promises, counts, scale, the shadow run, settings."""

from pathlib import Path
from typing import Any

from checks.report.past import OwnerFacts
from checks.report.rendering import number, share
from checks.result import Verdict
from tasks.store import read_json

DATA_FILES = ("groups.parquet", "members.parquet", "items.parquet", "support.parquet")


def of_release(manifest: dict[str, Any], *, single: bool) -> dict[str, str]:
    """Return what the release promises and holds."""
    privacy, counts, withheld = manifest["privacy"], manifest["counts"], manifest["withheld"]
    records = "Records" if single or "k" not in privacy else "Groups"
    found = {
        "Method": manifest["method"],
        "People": f"{counts.get('users', 0):,}",
        "Items": f"{counts.get('items', 0):,}",
        records: f"{counts.get('groups', 0):,}",
        **_promises(privacy, single=single),
    }
    if "l" in privacy:
        found[f"{records} per item (l)"] = f"at least {privacy['l']:,}"
    if "b" in privacy:
        found["Items an attacker may know (b)"] = f"{privacy['b']:,}"
    found["Scale and step"] = _scale(manifest)
    if "k" in privacy:
        found["Withheld"] = _withheld(withheld, counted=manifest["series"] != "checked")
        found["Other releases of the same people"] = _series(manifest)
    if manifest.get("as_of"):
        found["Newest ratings behind a profile"] = (
            f"of {manifest['as_of']}, later than the snapshot: groups that were published first for a later one"
        )
    return found


def _promises(privacy: dict[str, Any], *, single: bool) -> dict[str, str]:
    """Return what k and min_contributors promise: to groups sharing, to single people a bound on being found."""
    if "k" not in privacy:
        return {
            name: number(privacy[key])
            for name, key in (
                ("Privacy loss (epsilon)", "epsilon"),
                ("Its failure probability (delta)", "delta"),
            )
            if key in privacy
        }
    k, contributors = privacy["k"], privacy["min_contributors"]
    if single:
        return {"Chance of finding a person's record (k)": f"at most 1 in {k:,}, on average over people"}
    return {
        "People who share a profile (k)": f"at least {k:,}",
        "Real ratings behind a cell": f"at least {contributors:,}, or none",
    }


def _withheld(withheld: dict[str, Any], *, counted: bool) -> str:
    """Say who and what is left out; in a series people who wait are rounded to groups and items are not counted."""
    people, items = withheld.get("users", 0), withheld.get("items", 0)
    if not people and not items:
        return "nobody" if not counted else "nobody, and no item"
    return f"{people:,} people, {items:,} items" if counted else f"about {people:,} people, who wait"


def _series(manifest: dict[str, Any]) -> str:
    if manifest["series"] == "checked":
        return "judged together with this one; see the checks of the series"
    return "this release must stay the only one; see the check series"


def _scale(manifest: dict[str, Any]) -> str:
    low, high = manifest["rating_scale"]
    if manifest["unit"] == "z-score":
        return f"z-scores of ratings from {low:g} to {high:g}"
    return f"{low:g} to {high:g}" + (f" by {manifest['rating_step']:g}" if manifest["rating_step"] else "")


def of_utility(measured: dict[str, Any], utility_dir: Path, *, own: str) -> dict[str, str]:
    """Return how the errors on held-out ratings were measured."""
    return _shadow_run(utility_dir) | {
        "Held-out ratings": f"{measured['heldout']:,}",
        "Not published (null)": share(measured["null_share"]),
        f"{own.capitalize()} is the nearest": share(measured["self_rank_1_share"]),
    }


def _shadow_run(utility_dir: Path) -> dict[str, str]:
    """Return which people the shadow run was made of: all, all but a few, or a sample (from its own summary)."""
    path = utility_dir / "summary.json"
    known = read_json(path) if path.exists() else {}
    if not {"users", "source_users", "sampled", "ranked_users"} <= set(known):
        return {}
    users, source_users = known["users"], known["source_users"]
    if known["sampled"]:
        which = "a seeded sample"
    else:
        which = "all" if users == source_users else f"all but {source_users - users:,} left out on purpose"
    return {
        "Shadow run": f"{users:,} of {source_users:,} people ({which}), {known['ranked_users']:,} of them ranked"
    }


def settings(manifest: dict[str, Any] | None, verdict: Verdict, owner: OwnerFacts | None) -> dict[str, str]:
    """Return how the release was made and judged; for the owner with attempts, notes and the version of the program."""
    found = {"Intervals": verdict.interval_level}
    if loosened := [check.name for check in verdict.checks if check.loosened]:
        found["Limits that the owner loosened"] = ", ".join(loosened)
    if owner is None:
        return found | {"Version of the program": "see manifest.json"}
    attempts = "1, this release" if verdict.attempts == 1 else f"{verdict.attempts:,}, this release included"
    found |= {"Attempts at this release": attempts, **owner.notes, **owner.settings}
    return found | ({"Version of the program": owner.code} if owner.code else {})
