"""Write report.html: the verdict, every check and the utility of a release, on one self-contained page."""

from pathlib import Path
from typing import Any

from checks.evidence.method_rules import rules_of
from checks.evidence.release import Release
from checks.report import figures
from checks.report.rendering import render_html
from checks.report.words import MethodWords
from checks.result import Verdict
from checks.utility.utility import summary
from tasks.errors import Refused
from tasks.store import read_json, write_bytes


def write_report(
    release_dir: Path,
    verdict: Verdict,
    utility_dir: Path,
    words: MethodWords,
    notes: dict[str, str] | None = None,
) -> None:
    """Write report.html into the release's directory; the same inputs give the same bytes.

    `notes` are further facts, for a report that stays with the owner.
    """
    described = _described(release_dir, utility_dir)
    described["facts"] = (notes or {}) | described["facts"]
    described["facts"] |= {"Attempts at this release": _attempts(verdict)}
    page = render_html("report.html.j2", verdict=verdict, about=words.about, **described)
    write_bytes(release_dir / "report.html", page.encode())


def _described(release_dir: Path, utility_dir: Path) -> dict[str, Any]:
    """Return what the page shows besides the verdict; a release that cannot be read has a `problem` instead."""
    try:
        release = Release(release_dir)
    except Refused as problem:
        return {
            "title": "Unreadable release",
            "problem": problem.what,
            "facts": {},
            "utility": _utility(utility_dir, single=False),
            "plots": [],
        }
    manifest, single = release.manifest, rules_of(release.manifest["method"]).publishes_persons
    plots = [figures.group_sizes(release, single=single), figures.published_ratings(release, utility_dir)]
    return {
        "title": f"Release {manifest['release']}, {manifest['snapshot']}",
        "problem": None,
        "facts": _facts(manifest, single=single),
        "utility": _utility(utility_dir, single=single),
        "plots": plots,
    }


def _attempts(verdict: Verdict) -> str:
    """Say how many releases of this snapshot the gate has judged, and how wide intervals are for it."""
    if verdict.attempts == 1:
        return "1, this release"
    return f"{verdict.attempts:,}, this release included; intervals are widened to {verdict.interval_level} for it"


def _facts(manifest: dict[str, Any], *, single: bool) -> dict[str, str]:
    privacy, counts, withheld = manifest["privacy"], manifest["counts"], manifest["withheld"]
    records = "Records" if single else "Groups"
    return {
        "Method": manifest["method"],
        "People": f"{counts.get('users', 0):,}",
        "Items": f"{counts.get('items', 0):,}",
        records: f"{counts.get('groups', 0):,}",
        **_promises(privacy, single=single),
        f"{records} per item (l)": f"at least {privacy['l']:,}",
        "Items an attacker may know (b)": f"{privacy['b']:,}",
        "Scale and step": _scale(manifest),
        "Withheld": _withheld(withheld, counted=manifest["series"] != "checked"),
        "Other releases of the same people": _series(manifest),
        **({"Newest ratings behind a profile": _as_of(manifest)} if manifest.get("as_of") else {}),
    }


def _promises(privacy: dict[str, Any], *, single: bool) -> dict[str, str]:
    """Return what k and min_contributors promise: to groups sharing, to single people a bound on being found."""
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
    return f"{people} people, {items} items" if counted else f"about {people} people, who wait"


def _series(manifest: dict[str, Any]) -> str:
    if manifest["series"] == "checked":
        return "judged together with this one; see the checks of the series"
    return "this release must stay the only one; see the check series"


def _as_of(manifest: dict[str, Any]) -> str:
    return (
        f"of {manifest['as_of']}, later than the snapshot: groups that were published first for a later one"
    )


def _scale(manifest: dict[str, Any]) -> str:
    low, high = manifest["rating_scale"]
    if manifest["unit"] == "z-score":
        return f"z-scores of ratings from {low:g} to {high:g}"
    return f"{low:g} to {high:g}" + (f" by {manifest['rating_step']:g}" if manifest["rating_step"] else "")


def _utility(utility_dir: Path, *, single: bool) -> dict[str, Any]:
    own, by_chance = ("own record", "another person") if single else ("own group", "random groups")
    try:
        measured = summary(utility_dir)
    except Refused as problem:
        return {"problem": problem.what}
    facts = _shadow_run(utility_dir) | {
        "Held-out ratings": f"{measured['heldout']:,}",
        "Not published (null)": f"{measured['null_share']:.1%}",
        f"{own.capitalize()} is the nearest": f"{measured['self_rank_1_share']:.1%}",
    }
    plot = figures.heldout_errors(measured, own=own, by_chance=by_chance)
    return {"problem": None, "plot": plot, "facts": facts}


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
