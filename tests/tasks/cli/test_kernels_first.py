"""Test that kernels are compiled before a first run, with a message, and not again."""

import subprocess

import pytest

from tasks.cli import _kernels
from tasks.errors import MurmurError


@pytest.mark.parametrize(
    ("warm", "cluster", "made"), [(False, "", 1), (True, "", 0), (False, "tls://x:1", 0)]
)
def test_kernels_are_compiled_where_they_are_missing(monkeypatch, warm, cluster, made):
    started = []
    monkeypatch.setenv("MURMUR_DASK", cluster)
    monkeypatch.setattr("tasks.stack.warm_kernels.is_warm", lambda: warm)
    monkeypatch.setattr(
        _kernels.subprocess,
        "run",
        lambda command, **more: started.append(command) or subprocess.CompletedProcess(command, 0),
    )
    _kernels.compile_once()
    assert len(started) == made
    assert all(command[1:] == ["-m", "tasks.stack.warm_kernels"] for command in started)


def test_a_failure_is_an_error(monkeypatch):
    monkeypatch.delenv("MURMUR_DASK", raising=False)
    monkeypatch.setattr("tasks.stack.warm_kernels.is_warm", lambda: False)
    failed = subprocess.CompletedProcess([], 1)
    monkeypatch.setattr(_kernels.subprocess, "run", lambda command, **more: failed)
    with pytest.raises(MurmurError, match="could not be compiled"):
        _kernels.compile_once()
