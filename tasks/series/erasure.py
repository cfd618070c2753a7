"""Erase people: their groups are withdrawn whole in every release that offers them, and nothing of them is kept.

Any change in who is behind a published group is a difference that shows the person who left. So the group goes as a
whole: each release that offers it becomes a tombstone, and a repaired revision stands beside it. Survivors wait until
they can be pooled (tasks/series/pooling.py). The ledger keeps a keyed digest that blocks the person for ever.

Order: a record of what is to be done (by keyed digests) → ledger → tombstones → repaired releases → the owner's files →
certificate. Every part may be repeated; `resume` completes what a crash left, without being given the ids again.
"""

import secrets
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.keys import OwnerKey
from tasks.series import chain, pooling, under_way
from tasks.series.file_check import ERASED
from tasks.series.ledger import Ledger
from tasks.series.private_files import Cleaned, find_ids, forget
from tasks.series.publication import exclusive
from tasks.series.repair import CannotRepair, Examine, publish_repaired
from tasks.series.rows import SYNTHETIC, Group, PublishedRelease, parse_directory
from tasks.series.tombstones import ERASURE, TOMBSTONE, crash_point, public_place, settle
from tasks.store import (
    Store,
    digest,
    make_private,
    owner_only,
    read_json,
    sync_directories,
    sync_path,
    write_json,
)

CERTIFICATES = "erasures"
PENDING = "pending.json"  # what is being done, by keyed digests; gone once the certificate is written
RESIDUAL = (
    "What was public stays public: copies of withdrawn releases that others hold cannot be called back. In them the "
    "person is one of a group of at least k and has a pseudonym. Kept are: the pseudonym and the group's number under "
    "a random name, a salted commitment without its salt, and a keyed digest that keeps the person out of later "
    "releases."
)
OF_ROWS = (
    "Releases of synthetic rows stay as they are: they are nobody's record, and what they can reveal about a person is "
    "bounded by their epsilon, whether that person was in the data or not. Later ones are made without the person."
)


@dataclass(frozen=True)
class Maker:
    """Hold what repaired releases are made with: the owner's key, the version of the program, the offline checks."""

    key: OwnerKey
    code: str
    examine: Examine


@dataclass(frozen=True)
class Touched:
    """Hold what the departure of some people touches."""

    people: int
    released: int
    blocked: int  # of them, erased before
    groups: tuple[Group, ...]
    releases: tuple[PublishedRelease, ...]
    survivors: frozenset[bytes]


def touched_by(ledger: Ledger, tokens: Collection[bytes]) -> Touched:
    """Return what the departure of these people touches; nothing is changed."""
    found = [ledger.would_erase(token) for token in tokens]
    known, blocked = set(ledger.people()[0]), ledger.blocked()
    groups = {group.id: group for one in found for group in one.groups}
    releases = {release.id: release for one in found for release in one.releases}
    return Touched(
        people=len(tokens),
        released=sum(token in known for token in tokens),
        blocked=sum(token in blocked for token in tokens),
        groups=tuple(groups[one] for one in sorted(groups)),
        releases=tuple(releases[one] for one in sorted(releases)),
        survivors=frozenset(token for one in found for token in one.survivors).difference(tokens),
    )


def preview(ledger: Ledger, tokens: Collection[bytes], k: int, no_pools: str | None = None) -> dict[str, Any]:
    """Return what `murmur erase` shows before anything is applied; nobody is named.

    `no_pools` says why survivors are not released again; None: they are pooled.
    """
    touched = touched_by(ledger, tokens)
    gone = {group.id for group in touched.groups}
    sizes = {group.id: group.size for group in ledger.groups(state=None)}
    releases = [_loss(release, ledger.listed(release.id), gone, sizes) for release in touched.releases]
    released_now = sum(group.size for group in ledger.groups())
    leaving = sum(group.size for group in touched.groups)
    return {
        "people": touched.people,
        "released": touched.released,
        "erased_before": touched.blocked,
        "never_released": touched.people - touched.released - touched.blocked,
        "groups_withdrawn": len(gone),
        "releases": releases,
        "survivors": len(touched.survivors),
        "waiting": _waiting(ledger, set(tokens), gone, k, no_pools),
        "cost": {
            "people_released_now": released_now,
            "people_no_longer_released": leaving,
            "share": round(leaving / released_now, 6) if released_now else 0.0,
        },
        "later_releases": "these groups are not carried over any more; the people who are erased never enter one",
        "residual": _residual(ledger),
    }


def _residual(ledger: Ledger) -> str:
    """Say what is left of an erased person in public and with the owner."""
    if not any(release.mode == SYNTHETIC for release in ledger.releases()):
        return RESIDUAL
    return f"{RESIDUAL} {OF_ROWS}"


def _loss(
    release: PublishedRelease, listed: dict[int, int], gone: set[int], sizes: dict[int, int]
) -> dict[str, Any]:
    lost = gone & set(listed)
    return {
        "release": release.name,
        "directory": release.directory,
        "groups": len(listed),
        "groups_withdrawn": len(lost),
        "people": sum(sizes[group] for group in listed),
        "people_withdrawn": sum(sizes[group] for group in lost),
    }


def _waiting(
    ledger: Ledger, leaving: set[bytes], gone: set[int], k: int, no_pools: str | None
) -> dict[str, Any]:
    """Return how long survivors wait, as if the people had left: by the number of withdrawn groups a pool needs."""
    pool = {group.id: group.pool for group in ledger.groups(state=None)}
    survivors: dict[int, list[bytes]] = {
        one: [] for one in (*pooling.waiting_survivors(ledger), *(g for g in gone if pool[g] is None))
    }
    never = 0
    for token, group, state in zip(*ledger.people(), strict=True):
        if token in leaving or (state != "survivor" and int(group) not in gone):
            continue
        if int(group) in survivors:
            survivors[int(group)].append(token)
        else:
            never += 1
    wait = pooling.outlook(survivors, never, k)
    if no_pools:
        return {"pools": no_pools, "survivors_who_stay_unreleased": wait.survivors + wait.never}
    return {
        "withdrawn_groups_that_can_be_pooled": wait.groups,
        "further_groups_needed": wait.further_groups,
        "survivors_who_can_be_pooled": wait.survivors,
        "survivors_who_never_can": wait.never,
    }


def erase(
    store: Store,
    population: str,
    name: str,
    maker: Maker,
    *,
    ids: Collection[str] = (),
    tokens: Collection[bytes] = (),
    wait_seconds: float = under_way.ERASURE_WAITS,
    report: under_way.Report = under_way.log_waiting_erasure,
) -> dict[str, Any]:
    """Erase people, known by source ids or by the ledger's tokens; return the certificate and where it is.

    `name` is the release in whose directory the certificate is kept. Runs of the population that are under way are
    waited for, and `report` is called meanwhile.
    """
    with under_way.alone(store, population, wait_seconds, report), exclusive(store, population) as ledger:
        resume(ledger, store, maker)
        everyone = {*ledger.tokens(ids), *tokens}
        touched = touched_by(ledger, sorted(everyone))
        place = store.root / "private" / name / CERTIFICATES
        make_private(place, below=store.root)
        record = {
            "population": population,
            "stand_ins": {token.hex(): secrets.token_hex(16) for token in sorted(everyone)},
            "begun_at": chain.now(),
            "people": touched.people,
            "released": touched.released,
            "erased_before": touched.blocked,
            "groups": [{"id": one.id, "size": one.size, "profile": one.profile} for one in touched.groups],
            "releases": [one.id for one in touched.releases],
            "survivors": len(touched.survivors),
        }
        _write(place / PENDING, record)
        sync_path(place, below=store.root)
        crash_point("recorded")
        return _carry_out(ledger, store, place, ids, maker)


def is_interrupted(store: Store, population: str) -> bool:
    """Test whether an erasure was begun and is not complete."""
    pending = (store.root / "private").glob(f"*/{CERTIFICATES}/{PENDING}")
    return any(read_json(one)["population"] == population for one in pending)


def resume(ledger: Ledger, store: Store, maker: Maker) -> list[dict[str, Any]]:
    """Complete withdrawals and erasures that were interrupted; return their certificates. Call it under the lock."""
    settle(ledger, store)
    places = [store.root / "private" / name / CERTIFICATES for name in _names(ledger, store)]
    return [_carry_out(ledger, store, place, set(), maker) for place in places if (place / PENDING).exists()]


def _carry_out(
    ledger: Ledger, store: Store, place: Path, ids: Collection[str], maker: Maker
) -> dict[str, Any]:
    record = read_json(place / PENDING)
    stand_ins = {bytes.fromhex(token): f"{ERASED}{name}" for token, name in record["stand_ins"].items()}
    tokens = stand_ins.keys()
    for token in sorted(tokens):
        ledger.erase(token)
        crash_point("erased from the ledger")
    withdraw_damaged(ledger, store)
    not_repaired = repair_damaged(ledger, store, maker)
    directories = list(_directories(ledger, store))
    everyone = sorted({*ids, *find_ids(directories, tokens, ledger.tokens)})
    named = {one: stand_ins.get(token) for one, token in zip(everyone, ledger.tokens(everyone), strict=True)}
    cleaned = forget(directories, {one: name for one, name in named.items() if name is not None})
    for directory in directories:  # else a power failure could bring removed files back after the certificate
        sync_directories(directory)
    crash_point("cleaned")
    return _certify(ledger, store, place, record, cleaned, not_repaired)


def withdraw_damaged(ledger: Ledger, store: Store) -> None:
    """Withdraw every release that offers a withdrawn group."""
    gone = {group.id for group in ledger.groups(state="withdrawn")}
    for release in ledger.releases():
        if release.state == "published" and gone & set(ledger.listed(release.id)):
            ledger.withdraw(release.id, ERASURE)
            crash_point("withdrawn")
    settle(ledger, store)


def repair_damaged(ledger: Ledger, store: Store, maker: Maker) -> dict[int, str]:
    """Publish a repaired revision of every release that erasure withdrew; return why there is none, by release."""
    newest: dict[tuple[str, str], int] = {}
    for release in ledger.releases():
        newest[release.name, release.snapshot] = release.id
    failed = {}
    for release, reason, _ in ledger.withdrawals():
        if reason != ERASURE or newest[release.name, release.snapshot] != release.id:
            continue
        try:
            publish_repaired(ledger, store, release, maker.key, maker.code, maker.examine)
        except CannotRepair as problem:
            failed[release.id] = problem.what
        crash_point("repaired")
    return failed


def _names(ledger: Ledger, store: Store) -> list[str]:
    """Return the names of all releases about the population, and of one for which an erasure is under way."""
    pending = (store.root / "private").glob(f"*/{CERTIFICATES}/{PENDING}")
    own = {one.parent.parent.name for one in pending if read_json(one)["population"] == ledger.population}
    return sorted(own | {release.name for release in ledger.releases()})


def _directories(ledger: Ledger, store: Store) -> Iterator[Path]:
    """Yield the owner's directories of all snapshots of these releases, published or not."""
    for name in _names(ledger, store):
        for place in sorted((store.root / "private" / name).glob("*")):
            if parse_directory(place.name) and place.is_dir():
                yield place


def _certify(
    ledger: Ledger,
    store: Store,
    place: Path,
    record: dict[str, Any],
    cleaned: Cleaned,
    not_repaired: dict[int, str],
) -> dict[str, Any]:
    """Write the certificate, then remove the record."""
    number = 1 + max((int(one.stem) for one in place.glob("*.json") if one.stem.isdigit()), default=0)
    releases = {release.id: release for release in ledger.releases()}
    certificate = {
        "certificate": number,
        "population": ledger.population,
        "begun_at": record["begun_at"],
        "completed_at": chain.now(),
        "people": record["people"],
        "released": record["released"],
        "erased_before": record["erased_before"],
        "never_released": record["people"] - record["released"] - record["erased_before"],
        "blocked": True,
        "groups_withdrawn": record["groups"],
        "survivors": record["survivors"],
        "releases": [
            _withdrawn(store, releases[one], releases.values(), not_repaired) for one in record["releases"]
        ],
        "private_files": {"rewritten": cleaned.rewritten, "removed": cleaned.removed},
        "ledger_head": ledger.head,
        "residual": _residual(ledger),
    }
    path = place / f"{number}.json"
    _write(path, certificate)
    crash_point("certified")
    (place / PENDING).unlink()
    return {**certificate, "path": str(path)}


def _withdrawn(
    store: Store,
    release: PublishedRelease,
    releases: Collection[PublishedRelease],
    not_repaired: dict[int, str],
) -> dict[str, Any]:
    same = [one for one in releases if (one.name, one.snapshot) == (release.name, release.snapshot)]
    repaired = [one for one in same if one.revision == release.revision + 1]
    return {
        "release": release.name,
        "directory": release.directory,
        "manifest": release.manifest,
        "tombstone": digest(public_place(store, release) / TOMBSTONE),
        "repaired": repaired[0].directory if repaired else None,
        "repaired_manifest": repaired[0].manifest if repaired else None,
        "why_not": None if repaired else not_repaired.get(release.id, "its files are gone"),
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    with owner_only():
        write_json(path, value)
    path.chmod(0o600)


def departed(ledger: Ledger, present: Collection[bytes]) -> frozenset[bytes]:
    """Return the tokens of released people who are not among those present."""
    return frozenset(ledger.people()[0]).difference(present)
