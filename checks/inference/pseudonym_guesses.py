"""Generate what an attacker who knows an id would search for among pseudonyms: the id and its plain hashes, in usual
spellings and encodings, and how often such a guess matches by chance.
"""

import base64
import hashlib
import hmac
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

HASHES = (
    hashlib.md5,
    hashlib.sha1,
    hashlib.sha224,
    hashlib.sha256,
    hashlib.sha384,
    hashlib.sha512,
    hashlib.blake2b,
    hashlib.blake2s,
    hashlib.sha3_256,
)
KEYLESS = ("md5", "sha1", "sha256")  # as an HMAC whose key was left empty
CHECKSUMS: tuple[Callable[[bytes], int], ...] = (zlib.crc32, zlib.adler32)
LONG_HASH = 16  # characters: a checksum is inside a longer pseudonym by chance too often to show anything
MIN_ALPHABET = 10  # characters that any alphabet has: with more of them, a match by chance is rarer


@dataclass(frozen=True)
class Guess:
    """Represent a text to search for, and how many characters its alphabet has."""

    text: str
    alphabet: int = MIN_ALPHABET

    def chance(self, length: int, shortest: int = 1) -> float:
        """Return an upper bound of the chance that the guess matches an unrelated pseudonym of this length."""
        if len(self.text) < min(length, shortest):
            return 0.0
        shifts = abs(len(self.text) - length) + 1
        return min(1.0, shifts * float(self.alphabet) ** -min(len(self.text), length))


def matches(name: str, texts: Iterable[str], shortest: int = 1) -> bool:
    """Test whether the name is a part of one of the texts, or a text of at least this length is a part of the name,
    ignoring case (texts are in lower case)."""
    shown = name.lower().rstrip("=")
    return bool(shown) and any(shown in text or (len(text) >= shortest and text in shown) for text in texts)


def encoded(user: str) -> list[Guess]:
    """Return the id as it is and encoded, in every spelling."""
    texts: set[str] = set()
    for spelling in _spellings(user):
        texts |= {spelling.lower(), *(text for text, _ in _encodings(_bytes(spelling)))}
    return [Guess(text) for text in sorted(texts) if text]


def hashed(user: str) -> Iterator[str]:
    """Yield every plain hash of every spelling of the id, in every encoding."""
    for spelling in _spellings(user):
        for text, _ in _hashed(_bytes(spelling)):
            yield text


@cache
def chance_of_hash(length: int) -> float:
    """Return an upper bound of the chance that any hash of an id matches an unrelated pseudonym of this length."""
    # All hashes of a kind are equally long, so those of any text will do.
    of_one_spelling = sum(Guess(*guess).chance(length, LONG_HASH) for guess in _hashed(b""))
    return min(1.0, len(_SPELLINGS) * of_one_spelling)


_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    str.strip,
    str.lower,
    str.upper,
    lambda user: user[::-1],
    lambda user: user + "\n",
)


def _spellings(user: str) -> list[str]:
    return list(dict.fromkeys(spell(user) for spell in _SPELLINGS))


def _hashed(spelling: bytes) -> Iterator[tuple[str, int]]:
    digests = [make(spelling).digest() for make in HASHES]
    digests += [hmac.digest(b"", spelling, name) for name in KEYLESS]
    for checksum in CHECKSUMS:
        number = checksum(spelling)
        digests.append(number.to_bytes(4, "big"))
        yield f"{number:010d}", 10
    for digest in digests:
        yield from _encodings(digest)


def _encodings(content: bytes) -> Iterator[tuple[str, int]]:
    """Yield encodings in lower case and without padding; base 64 has few more than 32 characters when case does not
    count."""
    yield content.hex(), 16
    plain = base64.b64encode(content).decode().rstrip("=").lower()
    yield plain, 32
    if "+" in plain or "/" in plain:
        yield plain.replace("+", "-").replace("/", "_"), 32
    # The first 32 characters, which is where a hash is cut: encoding all of them would take longer than hashing.
    yield base64.b32encode(content[:20]).decode().rstrip("=").lower(), 32


def _bytes(spelling: str) -> bytes:
    return spelling.encode("utf-8", "surrogatepass")
