"""Test the owner's secret and what is derived from it: streams, pseudonyms, noise."""

import pickle
import stat

import numpy as np
import pytest
from scipy.stats import kstest

from tasks.errors import UsageError
from tasks.keys import OwnerKey


def test_secret_is_created_once_for_the_owner_only(tmp_path, store_secret):
    first = OwnerKey.load(tmp_path)
    file = tmp_path / "private" / "secret.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert OwnerKey.load(tmp_path).fingerprint == first.fingerprint
    assert [p.name for p in file.parent.iterdir()] == ["secret.key"]


def test_readable_secret_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "key"
    file.write_bytes(b"x" * 32)
    file.chmod(0o644)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(file))
    with pytest.raises(UsageError, match="read by others"):
        OwnerKey.load(tmp_path)


def test_missing_named_secret_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(tmp_path / "typo"))
    with pytest.raises(UsageError, match="no secret file"):
        OwnerKey.load(tmp_path)
    assert not (tmp_path / "typo").exists()


def test_truncated_secret_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "key"
    file.write_bytes(b"short")
    file.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(file))
    with pytest.raises(UsageError, match="5 bytes"):
        OwnerKey.load(tmp_path)


def test_streams_depend_on_secret_and_purpose_only():
    key, other = OwnerKey(b"a" * 32), OwnerKey(b"b" * 32)
    draw = key.rng("films", "2026-01-01", "sampling").random(4).tolist()
    assert key.rng("films", "2026-01-01", "sampling").random(4).tolist() == draw
    assert key.rng("films", "2026-02-01", "sampling").random(4).tolist() != draw
    assert other.rng("films", "2026-01-01", "sampling").random(4).tolist() != draw
    assert key.rng("ab", "c").random() != key.rng("a", "bc").random()  # no ambiguity between names


def test_pseudonyms_by_snapshot():
    """Pseudonyms differ between snapshots and do not contain the secret."""
    key = OwnerKey(b"a" * 32)
    january, february = (key.pseudonyms("films", f"2026-0{m}-01", ["ann", "ben"]) for m in (1, 2))
    assert len({*january, *february}) == 4
    assert all(len(name) == 32 for name in january)
    assert "aaaa" not in repr(key)


def test_any_id_gets_a_pseudonym():
    names = OwnerKey(b"a" * 32).pseudonyms("r", "s", ["", "O'Hara", 'a"b\nc', "日本", "\ud800"])
    assert len(set(names)) == 5


def test_noise_by_cell():
    """The noise of a cell is the same in any order and block."""
    key = OwnerKey(b"a" * 32).noise("people", "σ=1")
    rows, columns = (key.tokens(side, [bytes([n]) for n in range(40)]) for side in ("rows", "columns"))
    whole = key.uniforms("cells", rows, columns)
    assert len(set(whole.tolist())) == 40
    assert ((whole > 0) & (whole < 1)).all()
    assert key.uniforms("cells", rows[::-1], columns[::-1]).tolist() == whole[::-1].tolist()
    assert key.uniforms("cells", rows[3:4], columns[3:4]).tolist() == whole[3:4].tolist()
    assert key.uniforms("cells", rows[:0], columns[:0]).tolist() == []


def test_noise_differs():
    """Noise differs by cell, purpose, name and secret."""
    key = OwnerKey(b"a" * 32).noise("people", "σ=1")
    row, column = key.tokens("rows", [b"ann"]), key.tokens("columns", [b"film"])
    others = [
        key.uniforms("cells", column, row),
        key.uniforms("amounts", row, column),
        OwnerKey(b"a" * 32).noise("people", "σ=2").uniforms("cells", row, column),
        OwnerKey(b"b" * 32).noise("people", "σ=1").uniforms("cells", row, column),
    ]
    assert len({key.uniforms("cells", row, column)[0], *(other[0] for other in others)}) == 5
    assert key.tokens("rows", [b"ann"])[0] != key.tokens("columns", [b"ann"])[0]
    assert "aaaa" not in repr(key)


def test_noise_is_uniform():
    key = OwnerKey(b"a" * 32).noise("people")
    drawn = key.uniforms("cells", np.arange(100_000, dtype=np.uint64), np.zeros(100_000, np.uint64))
    assert kstest(drawn, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.015


def test_noise_key_can_be_pickled():
    key = OwnerKey(b"a" * 32).noise("people")
    assert pickle.loads(pickle.dumps(key)).tokens("rows", [b"ann"]) == key.tokens("rows", [b"ann"])
