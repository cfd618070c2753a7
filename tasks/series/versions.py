"""Encode people's published ratings as bytes: about three bytes a rating, and the same bytes for the same ratings.

A version is one byte of format, then the steps from each item's number to the next, then the ratings. Steps take 1, 2
or 4 bytes each, ratings 1 (half stars), 2 (hundredths) or 4 (float32): the shortest that holds the person's ratings
exactly.
"""

import hashlib

import numpy as np

STEP_TYPES = tuple(np.dtype(name) for name in ("u1", "<u2", "<u4"))
RATING_TYPES = tuple(np.dtype(name) for name in ("i1", "<i2", "<f4"))
RATING_FACTORS = (2.0, 100.0, 1.0)


def encode(items: np.ndarray, ratings: np.ndarray) -> bytes:
    """Return one person's ratings (of items by their numbers in the ledger) as bytes; the order does not matter."""
    return encode_rows(np.array([0, len(items)]), np.asarray(items), np.asarray(ratings))[0]


def encode_rows(indptr: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> list[bytes]:
    """Return the versions of many people; those of row r are at indptr[r] … indptr[r + 1], in any order."""
    return _encode_block(np.diff(indptr), items, ratings)


def decode(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the items' numbers (int64, ascending) and the ratings (float32) that were encoded."""
    step, code = STEP_TYPES[data[0] // 3], RATING_TYPES[data[0] % 3]
    count = (len(data) - 1) // (step.itemsize + code.itemsize)
    items = np.cumsum(np.frombuffer(data, step, count, offset=1), dtype=np.int64)
    codes = np.frombuffer(data, code, count, offset=1 + count * step.itemsize)
    factor = RATING_FACTORS[data[0] % 3]
    return items, codes.astype(np.float32) if factor == 1.0 else (codes / factor).astype(np.float32)


def last_item(data: bytes) -> int:
    """Return the highest item number of a version; −1: it has no ratings."""
    step, code = STEP_TYPES[data[0] // 3], RATING_TYPES[data[0] % 3]
    count = (len(data) - 1) // (step.itemsize + code.itemsize)
    return int(np.frombuffer(data, step, count, offset=1).sum(dtype=np.int64)) if count else -1


def commit(salt: bytes, token: bytes, group_id: int, ratings: bytes) -> bytes:
    """Return a digest that binds a person to a group and to ratings, and that reveals nothing without the salt."""
    return hashlib.sha256(salt + token + group_id.to_bytes(8, "big") + ratings).digest()


def _encode_block(lengths: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> list[bytes]:
    lengths = lengths.astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    items, ratings = np.asarray(items, np.int64), np.asarray(ratings, np.float32)
    first = np.cumsum(lengths) - lengths
    steps = np.diff(items, prepend=0)
    steps[first[lengths > 0]] = items[first[lengths > 0]]
    if (steps < 0).any():  # some row is not sorted
        order = np.argsort(row * (int(items.max()) + 1) + items)
        items, ratings = items[order], ratings[order]
        steps = np.diff(items, prepend=0)
        steps[first[lengths > 0]] = items[first[lengths > 0]]
    step_kind = _worst(lengths, (steps > 0xFF).astype(np.uint8) + (steps > 0xFFFF))
    halves, hundredths = _codes(ratings, 0), _codes(ratings, 1)
    is_half = halves / np.float64(2.0) == ratings
    is_hundredth = (hundredths / np.float64(100.0)).astype(np.float32) == ratings
    rating_kind = _worst(lengths, np.where(is_half, 0, np.where(is_hundredth, 1, 2)).astype(np.uint8))
    step_bytes = np.array([t.itemsize for t in STEP_TYPES])[step_kind]
    code_bytes = np.array([t.itemsize for t in RATING_TYPES])[rating_kind]
    sizes = 1 + lengths * (step_bytes + code_bytes)
    offsets = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.uint8)
    out[offsets] = step_kind * 3 + rating_kind
    within = np.arange(len(items)) - np.repeat(first, lengths)
    for kind, dtype in enumerate(STEP_TYPES):
        _scatter(out, steps, dtype, row, within, offsets + 1, step_kind == kind)
    for kind, dtype in enumerate(RATING_TYPES):
        codes = (halves, hundredths, ratings)[kind]
        _scatter(out, codes, dtype, row, within, offsets + 1 + lengths * step_bytes, rating_kind == kind)
    data, ends = out.tobytes(), (offsets + sizes).tolist()
    return [data[a:b] for a, b in zip(offsets.tolist(), ends, strict=True)]


def _codes(ratings: np.ndarray, kind: int) -> np.ndarray:
    """Return the nearest codes, cut to what their type holds: of a rating that does not fit they are not exact."""
    limits = np.iinfo(RATING_TYPES[kind])
    return np.clip(np.rint(ratings.astype(np.float64) * RATING_FACTORS[kind]), limits.min, limits.max)


def _worst(lengths: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Return the largest kind in each row; 0 in an empty one."""
    found = np.zeros(len(lengths), np.uint8)
    filled = lengths > 0
    if filled.any():
        found[filled] = np.maximum.reduceat(kinds, (np.cumsum(lengths) - lengths)[filled])
    return found


def _scatter(
    out: np.ndarray,
    values: np.ndarray,
    dtype: np.dtype,
    row: np.ndarray,
    within: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
) -> None:
    """Write the values of some rows to their places, byte by byte."""
    if not rows.any():
        return
    cells = slice(None) if rows.all() else rows[row]
    plain = values[cells].astype(dtype).view(np.uint8).reshape(-1, dtype.itemsize)
    places = starts[row[cells]] + within[cells] * dtype.itemsize
    for byte in range(dtype.itemsize):
        out[places + byte] = plain[:, byte]
