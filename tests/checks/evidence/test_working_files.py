"""Test the judge's working files: who may read them, when they are removed, and what happens on a full disk."""

import errno
import os
import resource
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from checks import gate
from checks.evidence import working_files as scratch
from checks.evidence.views import shadow
from checks.evidence.working_files import working_files
from checks.linkage.absent_people import shadow_of
from checks.linkage.postings import Postings
from checks.registry import Check, registered
from tasks.errors import DiskFull

ROOT = Path(__file__).parents[3]
ABOUT = registered()["scoring"].about


@pytest.fixture
def no_large_files():
    """Nothing above 100,000 bytes can be written: as on a full disk, for those who write it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_space_of_mapped_files_is_reserved_at_once(tmp_path, no_large_files):
    with pytest.raises(DiskFull, match="no space left"):
        Postings.create(tmp_path, {}, codes=(np.uint8, 1_000_000))
    arrays = Postings.create(tmp_path, {}, codes=(np.uint8, 1_000), rows=(np.int32, 0))
    assert (tmp_path / "arrays.bin").stat().st_blocks * 512 >= 1_000
    assert not arrays["codes"].any()
    with pytest.raises(DiskFull):
        Postings(tmp_path).keep(np.zeros(100_000))


def test_a_full_disk_in_a_check_is_no_result(case):
    def full(case, threshold):
        raise OSError(errno.ENOSPC, "No space left on device")

    opened = case()
    with pytest.raises(DiskFull) as raised:
        gate.run_check(Check("made-up", 1.0, "gate", False, False, full, ABOUT, "attacks"), opened, 1.0)
    assert raised.value.where == str(opened.private)


@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left"), DiskFull("no space left")])
def test_full_disk_is_not_taken_for_damaged_files(case, monkeypatch, problem):
    def full(*_):
        raise problem

    monkeypatch.setattr(shadow, "_read", full)
    with pytest.raises(DiskFull, match="no space left"):
        gate.run_check(
            Check("made-up", 1.0, "gate", False, False, lambda c, t: shadow_of(c), ABOUT, "attacks"),
            case(),
            1.0,
        )


def refusing(monkeypatch, private: Path, number: int) -> None:
    real = tempfile.mkdtemp

    def mkdtemp(suffix=None, prefix=None, dir=None):
        if dir == private:
            raise OSError(number, os.strerror(number))
        return real(suffix, prefix, dir)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_read_only_private_directory_uses_the_temporary_one(tmp_path, monkeypatch, number):
    refusing(monkeypatch, tmp_path, number)
    with working_files(tmp_path) as place:
        assert Path(place).parent == Path(tempfile.gettempdir())
        assert stat.S_IMODE(Path(place).stat().st_mode) == 0o700


def test_full_disk_does_not_move_working_files(tmp_path, monkeypatch):
    refusing(monkeypatch, tmp_path, errno.ENOSPC)
    with pytest.raises(DiskFull):
        working_files(tmp_path)


def test_files_of_a_killed_judge_are_removed_by_the_next(tmp_path):
    held = working_files(tmp_path)
    for name in (".attack-old", ".attack-fresh", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ratings").write_text("x")
    past = time.time() - scratch.ABANDONED_SECONDS - 1
    for name in (".attack-old", "kept", held.name):
        os.utime(tmp_path / name, (past, past))
    with working_files(tmp_path) as new:
        left = {path.name for path in tmp_path.iterdir()}
    assert left == {".attack-fresh", "kept", Path(held.name).name, Path(new).name}
    held.cleanup()


TERMINATED = """
import os, signal, sys, time
from pathlib import Path
from checks.evidence import opened_cases
from checks.evidence.working_files import working_files
from tasks.cli import main

def raw_case(*_):
    files = working_files(Path(sys.argv[1]))
    path = Path(files.name) / "ratings"
    path.write_text("x")
    print(oct(path.stat().st_mode & 0o777), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

opened_cases.raw_case = raw_case
sys.exit(main(["attack", "nearest-record", "--source", "ratings.csv", "--format", "csv", "--scale", "1,5"]))
"""


@pytest.mark.slow
def test_terminated_judge_leaves_no_files(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", TERMINATED, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MURMUR_WORKERS": "0"},
        check=False,
    )
    assert (ended.returncode, ended.stdout.strip()) == (143, "0o600"), ended.stderr[-2000:]
    assert list(tmp_path.iterdir()) == []
