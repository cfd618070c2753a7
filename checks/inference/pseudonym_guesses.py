"""What somebody who knows an id would look for among pseudonyms: the id itself and its plain hashes, in usual spellings
and encodings, and how often such a guess comes true by chance."""

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
LONG_HASH = 16  # signs: a checksum is inside a longer pseudonym by chance too often to tell anything
FEWEST_SIGNS = 10  # that any alphabet has: with more of them, agreeing by chance is rarer


@dataclass(frozen=True)
class Guess:
    """A text to look for, and how many signs each of its places could have had."""

    text: str
    signs: int = FEWEST_SIGNS

    def chance(self, length: int, shortest: int = 1) -> float:
        """At most how likely the guess meets a pseudonym of this length that has nothing to do with it."""
        if len(self.text) < min(length, shortest):
            return 0.0
        shifts = abs(len(self.text) - length) + 1
        return min(1.0, shifts * float(self.signs) ** -min(len(self.text), length))


def meets(name: str, texts: Iterable[str], shortest: int = 1) -> bool:
    """Whether the name is a part of one of the texts, or one of at least this length a part of the name; whatever
    their case (texts are in lower case)."""
    told = name.lower().rstrip("=")
    return bool(told) and any(told in text or (len(text) >= shortest and text in told) for text in texts)


def encoded(user: str) -> list[Guess]:
    """The id as it is and encoded, in every spelling."""
    texts: set[str] = set()
    for spelling in _spellings(user):
        texts |= {spelling.lower(), *(text for text, _ in _encodings(_bytes(spelling)))}
    return [Guess(text) for text in sorted(texts) if text]


def hashed(user: str) -> Iterator[str]:
    """Every plain hash of every spelling of the id, in every encoding."""
    for spelling in _spellings(user):
        for text, _ in _hashed(_bytes(spelling)):
            yield text


@cache
def chance_of_hash(length: int) -> float:
    """At most how likely any of the hashes of an id meets a pseudonym of this length that is none of them."""
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
    """In lower case and without padding; base 64 has few more than 32 signs when case does not count."""
    yield content.hex(), 16
    plain = base64.b64encode(content).decode().rstrip("=").lower()
    yield plain, 32
    if "+" in plain or "/" in plain:
        yield plain.replace("+", "-").replace("/", "_"), 32
    # The first 32 signs, which is where a hash is cut: encoding all of them would take longer than hashing.
    yield base64.b32encode(content[:20]).decode().rstrip("=").lower(), 32


def _bytes(spelling: str) -> bytes:
    return spelling.encode("utf-8", "surrogatepass")
