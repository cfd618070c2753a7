"""Describe what a ledger holds, for its owner: counts only, nobody's token."""

from collections import Counter
from typing import Any

from tasks.config import Budget
from tasks.series.budget_report import describe_spent
from tasks.series.ledger import Ledger
from tasks.series.rows import Group, PublishedRelease, about_people
from tasks.store import Store, read_json

HELD_BACK = ("eligible", "waiting", "held_back")  # of series.json, where the release's plan wrote them


def describe(ledger: Ledger, store: Store, budget: Budget | None = None) -> dict[str, Any]:
    """Return releases, classes of people, who waits, erasures and the privacy budget spent.

    `budget` is what the release file allows now.
    """
    groups = {group.id: group for group in ledger.groups(state=None)}
    releases = ledger.releases()
    states = Counter(ledger.people()[2])
    spent = ledger.spent()
    return {
        "population": ledger.population,
        "head": ledger.head,
        "releases": [_describe_release(one, ledger.listed(one.id), groups) for one in releases],
        "people": {"released": states["released"], "survivors_waiting": states["survivor"]},
        "classes": _classes(list(groups.values())),
        "newest": _held_back(store, releases),
        "erasures": ledger.erasures(),
        "budget": [
            {"release": one.release_id, "snapshot": one.snapshot, **one.spending._asdict()} for one in spent
        ],
        "spent": describe_spent(spent, releases, budget),
        "interrupted": [f"{one.name} {one.directory}" for one in ledger.pending()],
    }


def describe_log(ledger: Ledger) -> list[dict[str, Any]]:
    """Return who published, approved, withdrew and erased, and when, in the order of the chain; nobody who was released
    is named. Entries of ledgers before there was a log have no `by`."""
    releases = {one.id: one for one in ledger.releases()}
    return [
        {"entry": number, "what": kind, **_described(kind, body, releases)}
        for number, (kind, body) in enumerate(ledger.log(), 1)
    ]


def _described(kind: str, body: dict[str, Any], releases: dict[int, PublishedRelease]) -> dict[str, Any]:
    by = body.get("by") or {}
    approval = body.get("approval") or {}
    approved_by = approval.get("approved_by")
    release = releases[body["release_id"]] if kind != "erasure" else None
    return {
        "at": body["erasures"][0]["at"] if release is None else body["at"],
        "release": release and release.name,
        "directory": release and release.directory,
        "by": by.get("name"),
        "place": by.get("place"),
        "run": by.get("run"),
        "approved_by": [approved_by] if isinstance(approved_by, str) else approved_by or [],
        "approved_in": approval.get("approved_in"),
        "reason": body.get("reason"),
    }


def _describe_release(
    release: PublishedRelease, listed: dict[int, int], groups: dict[int, Group]
) -> dict[str, Any]:
    new = [group for group in listed if groups[group].release_id == release.id]
    return {
        "id": release.id,
        "name": release.name,
        "snapshot": release.snapshot,
        "revision": release.revision,
        "state": release.state,
        "mode": release.mode,
        "k": release.k,
        "people": sum(groups[group].size for group in listed),
        "new_people": sum(groups[group].size for group in new),
        "groups": len(listed),
        "new": len(new),
        "carried": len(listed) - len(new),
    }


def _classes(groups: list[Group]) -> dict[str, Any]:
    """Return the classes of people who are alike in every release: a group's members, for a group never changes.

    Survivors who were pooled are apart: they are protected by the rule for pools, not by their class (docs/series.md).
    """
    whole = [group.size for group in groups if group.pool is None]
    pooled = sum(group.pool is not None and group.state == "live" for group in groups)
    return {"number": len(whole), "smallest": min(whole, default=None), "groups_of_pools": pooled}


def _held_back(store: Store, releases: list[PublishedRelease]) -> dict[str, Any] | None:
    """Return how many people the plan of the newest snapshot left waiting, and which one that is; None: it did not say.

    A backfill is published last and is about an earlier snapshot. A repaired release has the plan of the one it stands
    for: that is from before the erasure.
    """
    of_groups = about_people(releases)
    if not of_groups:
        return None
    newest = max(of_groups, key=lambda one: (one.snapshot, one.id))
    path = store.root / "private" / newest.name / newest.directory / "series.json"
    if not path.exists():
        return None
    facts = read_json(path)
    return {
        "release": newest.name,
        "snapshot": newest.snapshot,
        "before_erasures": newest.revision > 0,
        **{name: facts[name] for name in HELD_BACK if name in facts},
    }
