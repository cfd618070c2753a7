"""Hold a file system in memory that knows what a power failure would leave of it.

What POSIX promises, and no more: the content of a file survives once the file was synced, an entry of a directory
(created, renamed, removed) once the directory was. What was not synced may survive, be lost or be cut off, entry by
entry (`strict`), or in the order in which it was done, as a file system with a journal does it (`journal`).
"""

from __future__ import annotations

import errno
import functools
import os
import random
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

ROOT = "/sim"
Mode = Literal["strict", "journal"]


class File:
    """Represent the content of a file; `synced` is what is on the disk for certain (None: nothing)."""

    __slots__ = ("data", "mode", "mtime_ns", "number", "synced")

    def __init__(self, number: int, mode: int, mtime_ns: int) -> None:
        self.number, self.mode, self.mtime_ns = number, mode, mtime_ns
        self.data = b""
        self.synced: bytes | None = None


class Directory:
    """Represent a directory; `durable` are the entries that are on the disk for certain."""

    __slots__ = ("durable", "entries", "mode", "mtime_ns", "number")

    def __init__(self, number: int, mode: int, mtime_ns: int) -> None:
        self.number, self.mode, self.mtime_ns = number, mode, mtime_ns
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = File | Directory
Change = tuple[Directory, str, "Node | None"]  # the entry of a directory becomes this


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


@dataclass
class FileSystem:
    """Hold the tree, and the changes of entries that no sync has covered yet."""

    point: Callable[
        [str, str], None
    ]  # called before every change: a crash or another process may come in there
    changed: Callable[[str], None]  # called with the path after every change
    clock: Callable[[], int]
    pending: list[tuple[Change, ...]] = field(default_factory=list)
    umask: int = 0o022

    def __post_init__(self) -> None:
        self._number = 1
        self.root = Directory(1, 0o755, 0)

    # Looking

    def find(self, path: str) -> Node:
        return self._descend(_parts(path), path)

    def _descend(self, parts: Iterable[str], path: str) -> Node:
        node: Node = self.root
        for part in parts:
            if node.__class__ is not Directory:
                raise _error(errno.ENOTDIR, path)
            below = node.entries.get(part)  # type: ignore[union-attr]
            if below is None:
                raise _error(errno.ENOENT, path)
            node = below
        return node

    def get(self, path: str) -> Node | None:
        try:
            return self.find(path)
        except OSError:
            return None

    def _parent(self, path: str) -> tuple[Directory, str]:
        parts = _parts(path)
        name = parts[-1]
        node = self._descend(parts[:-1], path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        return node, name

    def file(self, path: str) -> File:
        node = self.find(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        return node

    def directory(self, path: str) -> Directory:
        node = self.find(path)
        if isinstance(node, File):
            raise _error(errno.ENOTDIR, path)
        return node

    def walk(self, path: str = ROOT) -> Iterator[tuple[str, Node]]:
        node = self.get(path)
        if node is None:
            return
        yield path, node
        if isinstance(node, Directory):
            for name in sorted(node.entries):
                yield from self.walk(f"{path}/{name}")

    # Changing

    def _change(self, path: str, *changes: Change) -> None:
        for directory, name, node in changes:
            if node is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = node
        self.pending.append(changes)
        self.changed(path)

    def _new(self) -> int:
        self._number += 1
        return self._number

    def open(self, path: str, flags: int, mode: int) -> Node:
        node = self.get(path)
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            self._parent(path)  # whether it is there
            self.point("create", path)
            directory, name = self._parent(path)
            if name not in directory.entries:
                new = File(self._new(), mode & ~self.umask, self.clock())
                self._change(path, (directory, name, new))
                return new
            node = directory.entries[name]
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        if isinstance(node, Directory) and flags & (os.O_WRONLY | os.O_RDWR):
            raise _error(errno.EISDIR, path)
        if isinstance(node, File) and flags & os.O_TRUNC and node.data:
            self.point("truncate", path)
            node.data = b""
            self.changed(path)
        return node

    def write(self, node: File, data: bytes, path: str) -> None:
        """Replace the content; a crash may come before it or in the middle."""
        self.point("write", path)
        if len(data) > 1:
            node.data = data[: len(data) // 2]
            self.point("write the rest", path)
        node.data, node.mtime_ns = data, self.clock()
        self.changed(path)

    def sync(self, node: Node, path: str) -> None:
        self.point("fsync", path)
        if isinstance(node, File):
            node.synced = node.data
        else:
            self._settle(node)

    def mkdir(self, path: str, mode: int) -> None:
        self._parent(path)
        self.point("mkdir", path)
        directory, name = self._parent(path)
        if name in directory.entries:
            raise _error(errno.EEXIST, path)
        self._change(path, (directory, name, Directory(self._new(), mode & ~self.umask, self.clock())))

    def unlink(self, path: str) -> None:
        self.file(path)
        self.point("unlink", path)
        self.file(path)
        directory, name = self._parent(path)
        self._change(path, (directory, name, None))

    def rmdir(self, path: str) -> None:
        self.directory(path)
        self.point("rmdir", path)
        if self.directory(path).entries:
            raise _error(errno.ENOTEMPTY, path)
        directory, name = self._parent(path)
        self._change(path, (directory, name, None))

    def rename(self, source: str, target: str) -> None:
        self.find(source)
        self.point("rename", target)
        node = self.find(source)
        old, old_name = self._parent(source)
        new, new_name = self._parent(target)
        there = new.entries.get(new_name)
        if isinstance(there, Directory) and isinstance(node, File):
            raise _error(errno.EISDIR, target)
        if isinstance(there, File) and isinstance(node, Directory):
            raise _error(errno.ENOTDIR, target)
        if isinstance(there, Directory) and there.entries:
            raise _error(errno.ENOTEMPTY, target)
        self._change(target, (old, old_name, None), (new, new_name, node))
        self.changed(source)

    def link(self, source: str, target: str) -> None:
        node = self.file(source)
        self.point("link", target)
        directory, name = self._parent(target)
        if name in directory.entries:
            raise _error(errno.EEXIST, target)
        self._change(target, (directory, name, node))

    def chmod(self, path: str, mode: int) -> None:
        node = self.find(path)
        if stat.S_IMODE(mode) != node.mode:
            self.point("chmod", path)
            node.mode = stat.S_IMODE(mode)
            self.changed(path)

    # What is on the disk

    def _settle(self, directory: Directory) -> None:
        """Make the entries of a directory durable, with all earlier changes of the same entries elsewhere."""
        wanted: set[tuple[int, str]] = set()
        chosen, kept = [], []
        for changes in reversed(self.pending):
            if any(one is directory or (one.number, name) in wanted for one, name, _ in changes):
                wanted.update((one.number, name) for one, name, _ in changes)
                chosen.append(changes)
            else:
                kept.append(changes)
        for changes in reversed(chosen):
            _apply(changes)
        self.pending = kept[::-1]

    def settle_all(self) -> None:
        """Make everything durable, as long after the last change."""
        for changes in self.pending:
            _apply(changes)
        self.pending.clear()
        for _, node in self.walk():
            if isinstance(node, File):
                node.synced = node.data

    def lose_power(self, rng: random.Random, mode: Mode) -> None:
        """Leave what a power failure may leave."""
        if mode == "journal":
            survivors = self.pending[: rng.randint(0, len(self.pending))]
        else:
            survivors = []
            lost: set[tuple[int, str]] = set()
            share = rng.choice((0.1, 0.5, 0.9))
            for changes in self.pending:
                keys = {(one.number, name) for one, name, _ in changes}
                if keys & lost or rng.random() > share:
                    lost |= keys
                else:
                    survivors.append(changes)
        for changes in survivors:
            _apply(changes)
        self.pending.clear()
        self._reset(self.root)
        for _, node in self.walk():
            if isinstance(node, File):
                node.data = node.synced = _torn(node, rng)

    def _reset(self, directory: Directory) -> None:
        directory.entries = dict(directory.durable)
        for node in directory.entries.values():
            if isinstance(node, Directory):
                self._reset(node)

    # Copies

    def copy_tree(self) -> Directory:
        """Return a copy of the tree; everything in it is durable."""
        made: dict[int, Node] = {}

        def copy(node: Node) -> Node:
            if node.number not in made:
                if isinstance(node, File):
                    file = File(node.number, node.mode, node.mtime_ns)
                    file.data = file.synced = node.data
                    made[node.number] = file
                else:
                    directory = Directory(node.number, node.mode, node.mtime_ns)
                    directory.entries = {name: copy(one) for name, one in node.entries.items()}
                    directory.durable = dict(directory.entries)
                    made[node.number] = directory
            return made[node.number]

        tree = copy(self.root)
        assert isinstance(tree, Directory)
        return tree

    def restore(self, other: FileSystem) -> None:
        """Take over the tree of another file system."""
        self.root, self._number = other.copy_tree(), other._number
        self.pending.clear()


@functools.lru_cache(65_536)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path[len(ROOT) :].split("/") if part not in ("", "."))


def _apply(changes: tuple[Change, ...]) -> None:
    for directory, name, node in changes:
        if node is None:
            directory.durable.pop(name, None)
        else:
            directory.durable[name] = node


def _torn(node: File, rng: random.Random) -> bytes:
    """Return what is left of a file's content: all, none, a part, or what was synced before."""
    if node.synced is node.data or node.synced == node.data:
        return node.data
    choices = [node.data, b"", node.data[: rng.randint(0, len(node.data))]]
    return rng.choice(choices if node.synced is None else [*choices, node.synced])
