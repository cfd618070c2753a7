"""Test that pseudonyms do not lead back to the source's ids.

An attacker who can guess an id (a number, a name, an address) searches for it in the pseudonyms, as it is and encoded,
hashes it in the usual ways, and tests whether the order of the pseudonyms follows the order of the ids. Where every
record is one person's, its group number and its row in the file identify that person too, and must not be in that order
either. Nor may any of these reveal an attribute of a person ("f-0001", or numbers given class by class).
"""

from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.membership import Membership
from checks.evidence.seeds import seeded
from checks.inference.pseudonym_characters import count_revealed_classes
from checks.inference.pseudonym_guesses import LONG_HASH, Guess, chance_of_hash, encoded, hashed, matches
from checks.registry import check
from checks.result import Finding
from checks.stats import beyond_chance

SAMPLE = 2000
LARGEST_Z = 5.0


@check(
    "pseudonyms",
    threshold=0,
    as_published=True,
    whole=True,
    about=About(
        title="Pseudonyms",
        summary="Look for source ids inside and behind pseudonyms",
        knows="The attacker can guess ids of the source.",
        tries="They search for them in the pseudonyms, as they are, encoded and hashed, and compare the orders.",
        means="A pseudonym that leads to an id names its owner. None is allowed.",
        measure="people whose pseudonym leads to them",
        unit="people",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count people whose pseudonym is an id, contains their id or a plain hash of it, or reveals its order or their
    attributes; none is allowed."""
    people = case.truth.membership
    as_they_are = pc.sum(pc.is_in(people.pseudonyms, value_set=people.users)).as_py() or 0
    some = _sample(people, case.truth.salt)
    users, names, cores = (column.take(some).to_pylist() for column in _columns(people))
    containing, hashes = _count_containing_id(users, names, cores), _count_hashes(users, cores)
    revealed = max(
        (count_revealed_classes(cores, known.take(some)) for known in case.truth.attributes.values()),
        default=0,
    )
    z = max(_order_correlations(case), key=abs)
    ordered = len(people.users) if abs(z) > LARGEST_Z else 0
    # Attributes are known of people in the source: a z within chance would change with a released person's departure.
    strength = f"by z = {z:+.1f}" if ordered else "not beyond chance"
    found = max(as_they_are, containing, hashes, revealed, ordered)
    return Finding(
        found <= threshold,
        found,
        len(people.users),
        f"{as_they_are:,} pseudonyms are ids of the source; of {len(users):,} tried, {containing:,} contain the id "
        f"and {hashes:,} are plain hashes of it (beyond chance), {revealed:,} reveal an attribute; their order"
        f"{' (or that of their records)' if case.single else ''} follows the order of the ids"
        f"{' or an attribute' if case.truth.attributes else ''} {strength} (chance: z within ±{LARGEST_Z:g}).",
    )


def _sample(people: Membership, salt: str) -> pa.Array:
    """Draw some of the people, by row."""
    count = min(SAMPLE, len(people.users))
    return pa.array(np.sort(seeded("pseudonyms", salt).choice(len(people.users), count, replace=False)))


def _columns(people: Membership) -> tuple[pa.Array, ...]:
    """Return ids, pseudonyms and the part of the pseudonyms that differs."""
    return people.users, people.pseudonyms, pseudonym_cores(people)


def pseudonym_cores(people: Membership) -> pa.Array:
    """Return the part of every pseudonym in which they differ."""
    return pa.array(strip_common_ends(people.pseudonyms.to_pylist()), pa.string())


def strip_common_ends(names: list[str]) -> list[str]:
    """Remove the beginning and the end that all names have in common ("user-…"); a single name stays as it is."""
    if len(names) < 2:
        return names
    start = _common_prefix_length(names)
    end = _common_prefix_length([name[start:][::-1] for name in names])
    return [name[start : len(name) - end] for name in names]


def _common_prefix_length(names: list[str]) -> int:
    """Count the characters with which all names begin: those shared by the first and the last in the alphabet."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(min(names), max(names), strict=False))
    )


def _count_containing_id(users: list[str], names: list[str], cores: list[str]) -> int:
    """Count people whose own id, spelled or encoded in a usual way, is in their pseudonym or around its core."""
    # The pseudonym as it is, too: what all ids have in common may be what all pseudonyms have in common.
    pseudonym_texts = list(zip(names, cores, strict=True))
    guesses = [encoded(user) for user in users]
    tried = [_try_guesses(*pair) for pair in zip(pseudonym_texts, guesses, strict=True)]
    # Ids and pseudonyms may be similar for an innocent reason (both are numbers, say), which the characters alone do
    # not show: so the pseudonym of another person is tried too.
    others = [
        _try_guesses(*pair)[0]
        for pair in zip(pseudonym_texts[1:] + pseudonym_texts[:1], guesses, strict=True)
    ]
    by_likeness = sum(others) / len(others) if len(set(names)) > 1 else 0.0
    return _unexplained([hit for hit, _ in tried], [max(chance, by_likeness) for _, chance in tried])


def _try_guesses(pseudonym_texts: tuple[str, str], guesses: list[Guess]) -> tuple[bool, float]:
    """Test whether one of the guesses matches the pseudonym or its core, and return how likely that is by chance."""
    texts, ways = [guess.text for guess in guesses], set(pseudonym_texts)
    chance = sum(guess.chance(len(name)) for name in ways for guess in guesses)
    return any(matches(name, texts) for name in ways), min(1.0, chance)


def _count_hashes(users: list[str], names: list[str]) -> int:
    """Count people whose pseudonym is a plain, unkeyed hash of their id, or a part of one."""
    hits = [matches(name, hashed(user), LONG_HASH) for user, name in zip(users, names, strict=True)]
    return _unexplained(hits, [chance_of_hash(len(name)) for name in names])


def _unexplained(hits: list[bool], chances: list[float]) -> int:
    """Count hits among people with similar chances (to a power of ten) that are more than chance explains."""
    hit, chance = np.array(hits, dtype=bool), np.array(chances, dtype=float)
    magnitude = np.floor(np.log10(np.maximum(chance, 1e-300)))
    found = 0
    for size in np.unique(magnitude):  # a handful: short pseudonyms must not excuse long ones
        alike = magnitude == size
        count = int(hit[alike].sum())
        if beyond_chance(count, int(alike.sum()), float(chance[alike].mean())):
            found += count
    return found


def _order_correlations(case: Case) -> list[float]:
    """Return how far pseudonyms, and numbers and rows of single people's records, follow their ids or classes."""
    truth, rows = case.truth, case.truth.row_of_user
    there = np.flatnonzero(rows >= 0)
    names: list[tuple[pa.Array, np.ndarray]] = [(pseudonym_cores(truth.membership), np.arange(len(rows)))]
    if case.single:
        names += [(pa.array(name), there) for name in (case.release.groups[rows[there]], rows[there])]
    orders = []
    for name, people in names:
        chosen, rank = pa.array(people), ranks_of(name)
        orders.append(_order(rank, ranks_of(truth.membership.users.take(chosen))))
        orders += [z for known in truth.attributes.values() for z in _class_orders(rank, known.take(chosen))]
    return orders


def _class_orders(rank: np.ndarray, known: pa.DictionaryArray) -> list[float]:
    """Return how far an order follows each class: whether its people come early or late."""
    there = np.flatnonzero(known.is_valid().to_numpy(zero_copy_only=False))
    label = known.indices.take(pa.array(there)).to_numpy()
    return [_order(rank[there], label == some) for some in np.unique(label)]


def _order(first: np.ndarray, second: np.ndarray) -> float:
    """Return Spearman's rank correlation, in standard deviations under chance; 0 where all values are equal."""
    if len(first) < 3 or (second == second[0]).all():
        return 0.0
    return float(np.corrcoef(first, second)[0, 1] * np.sqrt(len(first) - 1))


def ranks_of(names: pa.Array) -> np.ndarray:
    """Return the places of names in their order: of numbers by size, of others alphabetically."""
    try:
        return pc.rank(pc.cast(names, pa.int64())).to_numpy().astype(np.int64)
    except pa.ArrowInvalid:  # names that are no numbers: in alphabetical order
        return pc.rank(names).to_numpy().astype(np.int64)
