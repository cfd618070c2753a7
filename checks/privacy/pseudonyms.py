"""Pseudonyms must not lead back to the source's ids.

An attacker who can guess an id (a number, a name, an address) tries it as it is, hashes it in the usual
ways, and looks whether the order of the pseudonyms follows the order of the ids. Where every record is one person's,
its group number and its place in the file are names of that person too, and must not be in that order either.
"""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checks.case import Case
from checks.registry import check
from checks.result import Finding
from checks.seeds import seeded
from checks.truth import Membership

HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s", "sha3_256")
SAMPLE = 500
SHORTEST = 8  # characters of a hash that can hardly agree by chance
LARGEST_Z = 5.0


@check("pseudonyms", threshold=0)
def run(case: Case, threshold: float) -> Finding:
    """People whose pseudonym is an id, is a plain hash of their id, or tells its place; none is allowed."""
    people = case.truth.membership
    as_they_are = pc.sum(pc.is_in(people.pseudonyms, value_set=people.users)).as_py() or 0
    hashed, tried = _hashed(people)
    z = max(_orders(case), key=abs)
    ordered = len(people.users) if abs(z) > LARGEST_Z else 0
    found = max(as_they_are, hashed, ordered)
    return Finding(
        found <= threshold,
        found,
        len(people.users),
        f"{as_they_are:,} pseudonyms are ids of the source; {hashed:,} of {tried:,} tried are plain hashes of "
        f"the id; their order{' (or that of their records)' if case.single else ''} follows the order of the ids by "
        f"z = {z:+.1f} (chance: within ±{LARGEST_Z:g}).",
    )


def _hashed(people: Membership) -> tuple[int, int]:
    """Pseudonyms that begin or end a plain, unkeyed hash of the id, among a sample of people."""
    count = min(SAMPLE, len(people.users))
    some = np.sort(seeded("pseudonyms").choice(len(people.users), count, replace=False))
    users, pseudonyms = (ids.take(pa.array(some)).to_pylist() for ids in (people.users, people.pseudonyms))
    return sum(map(_is_hash, users, pseudonyms)), count


def _is_hash(user: str, pseudonym: str) -> bool:
    digests = (hashlib.new(name, user.encode("utf-8", "surrogatepass")).hexdigest() for name in HASHES)
    told = pseudonym.lower()
    return len(told) >= SHORTEST and any(d.startswith(told) or d.endswith(told) for d in digests)


def _orders(case: Case) -> list[float]:
    """How far pseudonyms, and numbers and places of single people's records, follow the ids."""
    people, rows = case.truth.membership, case.truth.row_of_user
    orders = [_order(people.users, people.pseudonyms)]
    if case.single:
        there = np.flatnonzero(rows >= 0)
        users = people.users.take(pa.array(there))
        names = (case.release.groups[rows[there]], rows[there])
        orders += [_order(users, pa.array(name)) for name in names]
    return orders


def _order(users: pa.StringArray, names: pa.Array) -> float:
    """Spearman's rank correlation between ids and names, in standard deviations under chance."""
    if len(users) < 3:
        return 0.0
    try:
        ids = pc.cast(users, pa.int64())
    except pa.ArrowInvalid:  # ids that are no numbers: in alphabetical order
        ids = users
    first, second = (pc.rank(values).to_numpy() for values in (ids, names))
    return float(np.corrcoef(first, second)[0, 1] * np.sqrt(len(first) - 1))
