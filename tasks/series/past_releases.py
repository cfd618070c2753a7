"""Describe the earlier releases of a series for the report of the next one.

What the public edition says depends only on rows of the ledger that never change: a published report's bytes must come
out the same when its snapshot is run again after later releases, withdrawals and erasures.
"""

from typing import Any

from tasks.series.assembly import Released
from tasks.series.ledger import Ledger
from tasks.series.rows import PublishedRelease
from tasks.store import Store, read_json


def describe_past(released: Released) -> dict[str, Any]:
    """Return the earlier releases, oldest first, and what is new in this one: nothing that is not public."""
    request = released.request
    with Ledger.open(request.store, request.population) as ledger:
        before = _before(ledger, released)
        sizes = {group.id: group.size for group in ledger.groups(before=before, state=None)}
        first = {group.id: group.release_id for group in ledger.groups(before=before, state=None)}
        past = []
        for one in ledger.releases(before=before):
            if one.name != request.release:
                continue
            listed = ledger.listed(one.id)
            new = [group for group in listed if first[group] == one.id]
            past.append(
                {
                    "snapshot": one.directory,
                    "people": sum(sizes[group] for group in listed),
                    "groups": len(listed),
                    "new_people": sum(sizes[group] for group in new),
                }
            )
    return {
        "releases": past,
        "new_people": released.newcomers,
        "new_groups": len(released.new_numbers),
        "carried_groups": len(released.carried),
    }


def describe_past_to_owner(released: Released, waiting: int | None) -> dict[str, Any]:
    """Return the same with what only the owner may read: states, people who wait, people alike in all releases."""
    request, described = released.request, describe_past(released)
    with Ledger.open(request.store, request.population) as ledger:
        earlier = ledger.releases(before=_before(ledger, released))
    states = {one.directory: one for one in earlier if one.name == request.release}
    releases = [
        one
        | {"state": states[one["snapshot"]].state, "alike": _alike(request.store, states[one["snapshot"]])}
        for one in described["releases"]
    ]
    withdrawn = sum(one.state == "withdrawn" for one in states.values())
    return described | {"releases": releases, "waiting": waiting, "withdrawn": withdrawn}


def _before(ledger: Ledger, released: Released) -> int | None:
    """Return the number of this very release in the ledger, where it is published already."""
    found = ledger.find(released.request.release, released.request.snapshot.isoformat())
    return found.id if found else None


def _alike(store: Store, release: PublishedRelease) -> int | None:
    """Return the fewest people who were alike in all releases up to this one, as the gate counted them."""
    path = store.root / "private" / release.name / release.directory / "verdict.json"
    if not path.exists():
        return None
    lines = {line["name"]: line for line in read_json(path)["checks"]}
    observed = lines.get("series", {}).get("observed")
    return None if observed is None else int(observed)
