"""Test pseudonyms that reveal an id in any plain way; keyed pseudonyms never do."""

import base64
import hashlib
import hmac
import random
import zlib
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.inference.pseudonym_characters import count_revealed_classes
from checks.inference.pseudonym_guesses import LONG_HASH, Guess, chance_of_hash, encoded, hashed, matches
from checks.privacy import pseudonyms
from tasks.keys import OwnerKey

NUMBERS = [str(number) for number in range(1, 301)]
ADDRESSES = [f"Person.{number}@mail.example" for number in range(300)]


def judged(users, names, **attributes):
    """The check's finding on a release of groups, where only pseudonyms can reveal who is who."""
    rows = np.zeros(len(users), dtype=np.int32)
    known = {name: pa.array(values, pa.string()).dictionary_encode() for name, values in attributes.items()}
    membership = SimpleNamespace(users=pa.array(users, pa.string()), pseudonyms=pa.array(names, pa.string()))
    case = SimpleNamespace(
        single=False,
        truth=SimpleNamespace(membership=membership, row_of_user=rows, salt="", attributes=known),
    )
    return pseudonyms.run(case, 0)


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def noise(text):
    """Eight characters that cannot be predicted without the seed."""
    return f"{random.Random(f'seed {text}').getrandbits(32):08x}"


PLAIN = {
    "reversed": lambda u: u[::-1] + "-" + noise(u),
    "inside": lambda u: f"{noise(u)}/{u}/{noise(u[::-1])}",
    "in base 64": lambda u: base64.b64encode(u.encode()).decode(),
    "in hex": lambda u: u.encode().hex(),
    "CRC-32": lambda u: f"{zlib.crc32(u.encode()):08x}",
    "CRC-32 as a number": lambda u: str(zlib.crc32(u.encode())),
    "Adler-32": lambda u: f"{zlib.adler32(u.encode()):08X}",
    "SHA-256 in base 64": lambda u: base64.b64encode(hashlib.sha256(u.encode()).digest()).decode()[:16],
    "SHA-512 in base 64 for addresses": lambda u: base64.urlsafe_b64encode(
        hashlib.sha512(u.encode()).digest()
    ).decode(),
    "SHA-1 in base 32": lambda u: base64.b32encode(hashlib.sha1(u.encode()).digest()).decode(),
    "seven signs of MD5": lambda u: md5(u)[:7],
    "the middle of MD5": lambda u: md5(u)[4:20],
    "MD5 in a frame": lambda u: f"u-{md5(u)}.x",
    "MD5 in front of something": lambda u: f"{md5(u)}~{noise(u)}",
    "MD5 of capitals": lambda u: md5(u.upper()),
    "MD5 of small letters": lambda u: md5(u.lower()),
    "MD5 of a line": lambda u: md5(u + "\n"),
    "MD5 of the id reversed": lambda u: md5(u[::-1]),
    "an HMAC without a key": lambda u: hmac.digest(b"", u.encode(), "sha256").hex()[:32],
    "SHA-3": lambda u: hashlib.sha3_256(u.encode()).hexdigest(),
    "BLAKE2": lambda u: hashlib.blake2b(u.encode()).hexdigest()[:24],
}


@pytest.mark.parametrize("users", [NUMBERS, ADDRESSES], ids=["numbers", "addresses"])
@pytest.mark.parametrize("way", PLAIN)
def test_plain_encodings_and_hashes_are_found(users, way):
    finding = judged(users, [PLAIN[way](user) for user in users])
    assert not finding.passed
    assert finding.observed > 250  # not all: reversed and short ids come by chance too


@pytest.mark.parametrize("planted", [1, 7])
def test_a_single_hash_among_keyed_ones_is_found(planted):
    names = OwnerKey(b"\x01" * 32).pseudonyms("demo", "2026-01-01", ADDRESSES)
    names[:planted] = [md5(user) for user in ADDRESSES[:planted]]
    finding = judged(ADDRESSES, names)
    assert (finding.passed, finding.observed) == (False, planted)
    assert f"{planted} are plain hashes" in finding.detail


def test_short_pseudonyms_do_not_excuse_long_ones():
    names = [noise(user)[:3] for user in ADDRESSES]
    names[0] = md5(ADDRESSES[0])
    assert judged(ADDRESSES, names).observed == 1


def test_numbers_in_id_order_are_found_in_any_frame():
    finding = judged(NUMBERS, [f"p{2 * int(user) + 1000}x" for user in NUMBERS])
    assert not finding.passed
    assert "z = +17.3" in finding.detail  # √299: exactly the same order


def test_random_numbers_are_no_ids():
    """Ids 1 … 300 and pseudonyms p1001 … p1300 are similar, yet reveal no one."""
    names = [f"p{1000 + number}" for number in random.Random(5).sample(range(1, 301), 300)]
    assert judged(NUMBERS, names).passed


@settings(max_examples=20, deadline=None)
@given(secret=st.binary(min_size=32, max_size=32), users=st.sampled_from([NUMBERS, ADDRESSES, ADDRESSES[:6]]))
def test_keyed_pseudonyms_pass_whatever_the_secret(secret, users):
    finding = judged(users, OwnerKey(secret).pseudonyms("demo", "2026-01-01", users))
    assert finding.passed, finding.detail


SIDES = [random.Random(f"side {user}").choice(["F", "F", "M", None]) for user in ADDRESSES]
CODES = {"F": "7", "M": "b", None: "x"}
BETRAYED = {
    "the class in front": lambda u, side: f"{side}-{noise(u)}",
    "a code at the end": lambda u, side: noise(u)[: 3 + len(u) % 3] + CODES[side],
    "the class between others": lambda u, side: (
        f"{noise(u)[: len(u) % 5]}.{side}.{noise(u[::-1])[: len(u) % 4]}"
    ),
    "one of several letters": lambda u, side: noise(u)[:4] + random.Random(u).choice(LETTERS[side]),
    "numbers class by class": lambda u, side: f"{'FMN'.index(str(side)[0])}{noise(u)}",
}
LETTERS = {"F": "abcd", "M": "wxyz", None: "abyz"}


@pytest.mark.parametrize("way", BETRAYED)
def test_pseudonyms_that_reveal_an_attribute_are_found(way):
    names = [BETRAYED[way](user, side) for user, side in zip(ADDRESSES, SIDES, strict=True)]
    finding = judged(ADDRESSES, names, age=["old"] * 300, side=SIDES)
    assert not finding.passed
    assert (
        finding.observed > 50
    )  # the more letters stand for a class, the fewer people have one that surely does
    assert judged(ADDRESSES, names).passed  # what is not known cannot be revealed


def test_an_order_that_follows_a_class_is_found():
    """Numbers given to one class after the other: no character need reveal it, the order does."""
    known = [side or "M" for side in SIDES]
    place = {
        user: n
        for n, user in enumerate(sorted(ADDRESSES, key=lambda u: (known[ADDRESSES.index(u)], noise(u))))
    }
    names = [f"{place[user] * 7919 + 10**6}" for user in ADDRESSES]
    finding = judged(ADDRESSES, names, side=known)
    assert (finding.passed, finding.observed) == (False, 300)
    assert "follows the order of the ids or an attribute by z = " in finding.detail


def test_single_or_unknown_classes_reveal_nothing():
    names = [f"same-{noise(user)}" for user in ADDRESSES]
    assert judged(ADDRESSES, names, side=["same"] * 300, other=[None] * 300).passed
    assert judged(ADDRESSES[:1], names[:1], side=["same"]).passed


@settings(max_examples=20, deadline=None)
@given(
    secret=st.binary(min_size=32, max_size=32),
    classes=st.lists(st.sampled_from(["a", "b", "e", "18", "f", "ff", None]), min_size=2, max_size=300),
)
def test_keyed_pseudonyms_reveal_no_attribute(secret, classes):
    """Classes that are letters of the pseudonyms, and as many people of each as there happen to be."""
    users = ADDRESSES[: len(classes)]
    finding = judged(users, OwnerKey(secret).pseudonyms("demo", "2026-01-01", users), side=classes)
    assert finding.passed, finding.detail


def test_chance_of_a_character_by_hand():
    """All 20 of a class, and no other of 40, have a character: one in C(40, 20) = 1.4·10¹¹; of 30 it is 1.6·10⁸."""
    for people, revealed in ((40, 40), (30, 0)):
        sides = ["left", "right"] * (people // 2)
        names = [{"left": "x", "right": "y"}[side] for side in sides]
        assert count_revealed_classes(names, pa.array(sides).dictionary_encode()) == revealed


@given(user=st.text(min_size=1), cut=st.integers(0, 90), length=st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_every_part_of_every_hash_matches(user, cut, length):
    part = hashlib.sha384(user.encode("utf-8", "surrogatepass")).hexdigest()[cut : cut + length]
    assert matches(part, hashed(user), LONG_HASH)


def test_matching_ignores_case_and_padding():
    assert matches("AbC", ["xabcx"])
    assert matches("xABCx==", ["abc"])
    assert not matches("xabcx", ["abc"], shortest=4)
    assert not matches("abd", ["abc"])
    assert not matches("", ["abc"])


def test_chances_by_hand():
    assert Guess("1234").chance(32) == pytest.approx(29e-4)  # 29 places, one in 10⁴ each
    assert Guess("ab", 16).chance(1) == pytest.approx(2 / 16)
    assert Guess("abcd", 16).chance(5, shortest=5) == 0  # such a short text is not looked for inside
    assert chance_of_hash(1) == 1
    # Likeliest inside 32 signs: MD5 and its HMAC in base 64 (22 signs, so 11 places), in each of 6 spellings.
    assert chance_of_hash(32) == pytest.approx(6 * 2 * 11 / 32**22, rel=1e-3)
    assert {guess.text for guess in encoded("A1")} >= {"a1", "1a", "4131", "qte", "ieyq"}


def test_common_ends_are_stripped():
    assert pseudonyms.strip_common_ends(["u-12x", "u-34x", "u-1x"]) == ["12", "34", "1"]
    assert pseudonyms.strip_common_ends(["aa", "aaa"]) == ["", "a"]
    assert pseudonyms.strip_common_ends(["alone"]) == ["alone"]
    assert pseudonyms.strip_common_ends([]) == []
