import stat

import pytest

from tasks.errors import UsageError
from tasks.keys import OwnerKey


def test_the_secret_is_created_once_and_readable_by_the_owner_only(tmp_path):
    first = OwnerKey.load(tmp_path)
    file = tmp_path / "private" / "secret.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert OwnerKey.load(tmp_path).fingerprint == first.fingerprint
    assert [p.name for p in file.parent.iterdir()] == ["secret.key"]


def test_a_secret_others_can_read_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "key"
    file.write_bytes(b"x" * 32)
    file.chmod(0o644)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(file))
    with pytest.raises(UsageError, match="read by others"):
        OwnerKey.load(tmp_path)


def test_a_named_secret_is_never_made_up(tmp_path, monkeypatch):
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(tmp_path / "typo"))
    with pytest.raises(UsageError, match="no secret file"):
        OwnerKey.load(tmp_path)
    assert not (tmp_path / "typo").exists()


def test_a_truncated_secret_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "key"
    file.write_bytes(b"short")
    file.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(file))
    with pytest.raises(UsageError, match="5 bytes"):
        OwnerKey.load(tmp_path)


def test_streams_depend_on_secret_and_purpose_and_on_nothing_else():
    key, other = OwnerKey(b"a" * 32), OwnerKey(b"b" * 32)
    draw = key.rng("films", "2026-01-01", "sampling").random(4).tolist()
    assert key.rng("films", "2026-01-01", "sampling").random(4).tolist() == draw
    assert key.rng("films", "2026-02-01", "sampling").random(4).tolist() != draw
    assert other.rng("films", "2026-01-01", "sampling").random(4).tolist() != draw
    assert key.rng("ab", "c").random() != key.rng("a", "bc").random()  # no ambiguity between names


def test_pseudonyms_differ_between_snapshots_and_hide_the_secret():
    key = OwnerKey(b"a" * 32)
    january, february = (key.pseudonyms("films", f"2026-0{m}-01", ["ann", "ben"]) for m in (1, 2))
    assert len({*january, *february}) == 4
    assert all(len(name) == 32 for name in january)
    assert "aaaa" not in repr(key)


def test_ids_of_any_kind_get_pseudonyms():
    names = OwnerKey(b"a" * 32).pseudonyms("r", "s", ["", "O'Hara", 'a"b\nc', "日本", "\ud800"])
    assert len(set(names)) == 5
