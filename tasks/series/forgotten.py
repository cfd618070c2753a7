"""Notice a ledger that is older than its store, as after a restored backup: it has forgotten what was published.

A release that is planned against such a ledger could use a budget twice, put people into second groups or release
people who were erased. So nothing runs until the ledger is that of the store.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import Refused
from tasks.series.database import directory_of_ledgers
from tasks.series.ledger import Ledger
from tasks.series.rows import parse_directory
from tasks.store import Store, read_json

SHOWN = 5


@dataclass(frozen=True)
class Public:
    """Represent a directory below published/: a release that is offered, or the tombstone of one."""

    name: str
    directory: str
    place: Path
    withdrawn: bool


def require_nothing_forgotten(store: Store, ledger: Ledger, name: str | None = None) -> None:
    """Refuse to work with a ledger that lacks publications or withdrawals which the store shows.

    Looked at are all releases that the ledger knows by name, and `name`.
    """
    if problems := forgotten(store, ledger, name):
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise Refused(
            f"the ledger of population {ledger.population} is older than the store, or not its own: "
            f"{'; '.join(problems[:SHOWN])}{more}",
            where=str(directory_of_ledgers(store)),
            remedy="restore a backup of private/ that was made after these (`murmur backup restore`); until then "
            "nothing is published, withdrawn or erased, since the ledger does not know who was released",
        )


def require_whole(store: Store, population: str, name: str) -> None:
    """Refuse to plan a release against a ledger that is older than the store, or against none where one must be."""
    if Ledger.exists(store, population):
        with Ledger.open(store, population) as ledger:
            require_nothing_forgotten(store, ledger, name)
    elif public := list(_public(store, name)):
        raise Refused(
            f"{len(public)} published release(s) of this name are not in the ledger: there is none",
            where=str(directory_of_ledgers(store)),
            remedy="restore a backup of private/ (`murmur backup restore`); releases made before there was a ledger "
            "need a name and a population of their own, which this one must not share",
        )


def forgotten(store: Store, ledger: Ledger, name: str | None = None) -> list[str]:
    """Return what is public and not in the ledger, and what is withdrawn and offered by it."""
    # In this order: whatever is public now was entered, or prepared, before.
    names = {place.name for place in (store.root / "published").glob("*")}
    public = [one for found in sorted(names) for one in _public(store, found)]
    releases = ledger.releases()
    known = {(one.name, one.directory): one.state for one in (*releases, *ledger.pending())}
    own = {one.name for one in releases} | ({name} if name else set())
    problems = []
    for one in public:
        if one.name not in own:
            continue
        state = known.get((one.name, one.directory))
        if state is None:
            problems.append(f"{one.name} {one.directory} was published{_when(one)} and is not in the ledger")
        elif one.withdrawn and state == "published":
            problems.append(f"{one.name} {one.directory} was withdrawn{_when(one)}, and the ledger offers it")
    return problems


def _public(store: Store, name: str) -> Iterator[Public]:
    for place in sorted((store.root / "published" / name).glob("*")):
        if parse_directory(place.name) is None:
            continue
        withdrawn = (place / "tombstone.json").exists()
        if withdrawn or (place / "manifest.json").exists():
            yield Public(name, place.name, place, withdrawn)


def _when(one: Public) -> str:
    """Return when it happened, as far as the public file says."""
    file, key = ("tombstone.json", "withdrawn_at") if one.withdrawn else ("manifest.json", "created_at")
    try:
        return f" on {str(read_json(one.place / file)[key])[:10]}"
    except (OSError, ValueError, LookupError, TypeError):
        return ""
