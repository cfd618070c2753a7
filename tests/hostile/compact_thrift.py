"""Decode and encode Thrift's compact protocol, in which Parquet writes footers and page headers: to make them lie.

A struct is a list of [field number, type, value]; a list is [type of its elements, [value, …]]. Nothing is checked, so
that any lie can be written.
"""

import struct
from collections.abc import Iterator
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
WHOLE = (I16, I32, I64)


class Reader:
    """Decode values from the beginning of some bytes; `at` is how far it came."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def struct(self) -> list:
        fields, number = [], 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields.append([number, head & 15, self.value(head & 15)])
        return fields

    def value(self, kind: int, *, inside: bool = False) -> Any:
        if kind in (TRUE, FALSE):
            return self._byte() == TRUE if inside else kind == TRUE
        if kind == BYTE:
            return self._byte()
        if kind in WHOLE:
            return self._zigzag()
        if kind == DOUBLE:
            return struct.unpack("<d", self._take(8))[0]
        if kind == BINARY:
            return self._take(self._varint())
        if kind in (LIST, SET):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            return [head & 15, [self.value(head & 15, inside=True) for _ in range(count)]]
        if kind == STRUCT:
            return self.struct()
        raise ValueError("a type that Parquet does not use")

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise ValueError("the data end within a value")
        self.at += size
        return self.data[self.at - size : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def encode(fields: list) -> bytes:
    """Return the bytes of a struct."""
    out, before = bytearray(), 0
    for number, kind, value in fields:
        kind = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        if 0 < number - before < 16:
            out.append((number - before) << 4 | kind)
        else:
            out += bytes([kind]) + _zigzag(number)
        before = number
        if kind not in (TRUE, FALSE):
            out += _value(kind, value)
    return bytes(out) + b"\0"


def _value(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return bytes([TRUE if value else FALSE])
    if kind == BYTE:
        return bytes([value & 255])
    if kind in WHOLE:
        return _zigzag(value)
    if kind == DOUBLE:
        return struct.pack("<d", value)
    if kind == BINARY:
        return _varint(len(value)) + value
    if kind in (LIST, SET):
        element, values = value
        head = bytes([len(values) << 4 | element]) if len(values) < 15 else bytes([240 | element])
        return (
            head
            + (_varint(len(values)) if len(values) >= 15 else b"")
            + b"".join(_value(element, one) for one in values)
        )
    return encode(value)


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def field(fields: list, *path: int) -> Any:
    """Return the value at a path of field numbers and, in lists, positions."""
    value: Any = fields
    for step in path:
        value = value[1][step] if _is_list(value) else next(one[2] for one in value if one[0] == step)
    return value


def put(fields: list, value: Any, *path: int) -> None:
    """Set the value at a path."""
    owner = field(fields, *path[:-1])
    if _is_list(owner):
        owner[1][path[-1]] = value
    else:
        next(one for one in owner if one[0] == path[-1])[2] = value


def leaves(kind: int, value: Any) -> Iterator[tuple[list, int, int]]:
    """Yield (owner, position in it, type) of every value that is no struct, and of every list."""
    if kind == STRUCT:
        for one in value:
            yield (one, 2, one[1])
            yield from leaves(one[1], one[2])
    elif kind in (LIST, SET):
        for position, one in enumerate(value[1]):
            yield (value[1], position, value[0])
            yield from leaves(value[0], one)


def _is_list(value: Any) -> bool:
    return len(value) == 2 and isinstance(value[0], int) and isinstance(value[1], list)
