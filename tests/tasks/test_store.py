"""Test the store: who may read files, and that writes are atomic."""

import datetime
import errno
import json
import os
import stat
from pathlib import Path

import pytest

from tasks.errors import DiskFull, MurmurError, UsageError
from tasks.store import Store, digest_of, files_below, owner_only, restrict, write_bytes, write_json


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_private_directories_are_0700(tmp_path):
    old = os.umask(0o022)
    try:
        path = Store(tmp_path / "s").private("films", datetime.date(2026, 1, 1))
    finally:
        os.umask(old)
    assert path == tmp_path / "s" / "private" / "films" / "2026-01-01"
    assert [mode(p) for p in (path, path.parent, path.parent.parent)] == [0o700] * 3


def test_existing_private_directory_is_closed(tmp_path):
    (tmp_path / "private" / "films").mkdir(parents=True)
    for place in (tmp_path / "private", tmp_path / "private" / "films"):
        place.chmod(0o755)
    path = Store(tmp_path).private("films", datetime.date(2026, 1, 1))
    assert [mode(p) for p in (path, path.parent, path.parent.parent)] == [0o700] * 3


def test_owner_only(tmp_path):
    """Files written inside owner_only have mode 0600."""
    with owner_only():
        write_bytes(tmp_path / "a", b"x")
        (tmp_path / "b").write_text("y")
    assert mode(tmp_path / "a") == mode(tmp_path / "b") == 0o600


def test_restrict_corrects_modes(tmp_path):
    (tmp_path / "d").mkdir(mode=0o755)
    (tmp_path / "d" / "f").write_text("x")
    (tmp_path / "d" / "f").chmod(0o644)
    restrict(tmp_path / "d")
    assert mode(tmp_path / "d") == 0o700
    assert mode(tmp_path / "d" / "f") == 0o600


def test_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    write_bytes(tmp_path / "f", b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_bytes(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_write_json(tmp_path):
    """JSON with NaN is refused; the digest does not depend on the order of keys."""
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "j", {"x": float("nan")})
    assert not (tmp_path / "j").exists()
    write_json(tmp_path / "j", {"b": 1, "a": "ü"})
    assert json.loads((tmp_path / "j").read_text()) == {"a": "ü", "b": 1}
    assert digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})


def test_directory_digests_ignore_hidden_files(tmp_path):
    (tmp_path / "x").write_text("1")
    (tmp_path / ".lock").write_text("2")
    assert list(files_below(tmp_path)) == ["x"]


def test_a_store_that_is_a_file_is_refused_with_its_place(tmp_path):
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="the store cannot be written: it is a file") as refused:
            Store(root).private("films", datetime.date(2026, 1, 1))
        assert str(tmp_path / "file") in refused.value.where
        assert "--store" in refused.value.remedy


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.EROFS, UsageError, "the file system is read-only"),
        (errno.EACCES, UsageError, "this account may not write there"),
        (errno.EPERM, UsageError, "it belongs to another account"),
        (errno.EIO, UsageError, "Input/output error"),
        (errno.ENOSPC, DiskFull, "no space left"),
    ],
)
def test_a_store_that_cannot_be_written_says_why(tmp_path, monkeypatch, number, kind, said):
    def fail(self, *arguments, **more):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(MurmurError, match=said) as refused:
        Store(tmp_path / "s").lock_file()
    assert type(refused.value) is kind
    assert str(tmp_path) in refused.value.where
    assert refused.value.remedy
