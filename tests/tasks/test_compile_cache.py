"""Test that all processes share one cache of compiled kernels, that it is private, and that it follows the code."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tasks
from tasks.stack import warm_kernels

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Pretend that the code lies in a small checkout."""
    for package in ("tasks", "checks"):
        (tmp_path / package).mkdir()
    (tmp_path / "tasks" / "kernel.py").write_text("from numba import njit\n")
    (tmp_path / "tasks" / "other.py").write_text('"""Says njit and from numba import njit."""\n')
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(tasks, "_ROOT", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_checkout_has_its_cache_below_stack_for_the_owner_alone(checkout):
    cache = tasks.compile_cache()
    assert cache.parent == checkout / ".stack" / "numba"
    for directory in (checkout / ".stack", cache.parent):
        assert directory.stat().st_mode & 0o777 == 0o700


def test_an_installation_uses_the_users_cache(checkout):
    (checkout / "pyproject.toml").unlink()
    assert tasks.compile_cache().parent == checkout / "home" / "murmuration" / "numba"


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_directory_that_others_can_write_is_not_used(checkout, mode):
    (checkout / ".stack" / "numba").mkdir(parents=True)
    (checkout / ".stack" / "numba").chmod(mode)
    assert tasks.compile_cache().parent == checkout / "home" / "murmuration" / "numba"
    (checkout / "home" / "murmuration").chmod(mode)
    assert tasks.compile_cache() is None


def test_a_directory_of_another_user_is_not_used(checkout, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert tasks.compile_cache() is None


def test_a_link_is_not_used(checkout):
    (checkout / "elsewhere").mkdir(mode=0o700)
    (checkout / ".stack").mkdir(mode=0o700)
    (checkout / ".stack" / "numba").symlink_to(checkout / "elsewhere")
    assert tasks.compile_cache().parent == checkout / "home" / "murmuration" / "numba"


def test_without_a_home_only_the_checkout_counts(checkout, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "expanduser", lambda self: (_ for _ in ()).throw(RuntimeError()))
    assert tasks.compile_cache().parent == checkout / ".stack" / "numba"
    (checkout / "pyproject.toml").unlink()
    assert tasks.compile_cache() is None


def test_the_cache_follows_the_code_of_the_kernels_only(checkout):
    before = tasks.compile_cache()
    (checkout / "tasks" / "other.py").write_text("changed = 1\n")
    assert tasks.compile_cache() == before
    (checkout / "checks" / "more.py").write_text("import numba\n")
    added = tasks.compile_cache()
    (checkout / "tasks" / "kernel.py").write_text("from numba import njit\n# changed\n")
    assert len({before, added, tasks.compile_cache()}) == 3


def test_compiled_functions_use_no_name_from_files_outside_the_digest():
    """numba freezes imported constants: a constant from another file could change without the digest."""
    files = tasks.kernel_files()
    covered = {".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files}
    assert len(covered) > 20
    for file in files:
        tree = ast.parse(file.read_text())
        foreign = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("tasks", "checks"))
            for alias in node.names
            if node.module not in covered
        }
        compiled = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and any("njit" in ast.unparse(d) for d in node.decorator_list)
        ]
        used = {name.id for node in compiled for name in ast.walk(node) if isinstance(name, ast.Name)}
        assert not used & foreign, file


@pytest.mark.parametrize(
    ("package", "given"),
    [
        ("tasks.kernels.als", None),
        ("checks.linkage.kernel", None),
        ("tasks.kernels.als", "/chosen/by/the/user"),
        ("checks.linkage.kernel", "an earlier version"),
    ],
)
def test_every_entrance_sets_the_directory_and_the_users_choice_wins(package, given):
    own = str(tasks.compile_cache())
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    if given:
        given = str(Path(own).with_name("0")) if given == "an earlier version" else given
        environment["NUMBA_CACHE_DIR"] = given
    code = (
        f"import os, {package}\nprint(os.environ['NUMBA_CACHE_DIR'])\n"
        "from numba.core import config\nassert config.CACHE_DIR == os.environ['NUMBA_CACHE_DIR']\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=300,
        check=True,
    )
    assert result.stdout.strip() == ("/chosen/by/the/user" if given == "/chosen/by/the/user" else own)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Point the warm-up to a cache of its own."""
    place = tmp_path / "numba" / "current"
    place.mkdir(parents=True)
    monkeypatch.setattr(warm_kernels, "compile_cache", lambda: place)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(place))
    return place


def test_warming_happens_once(cache, monkeypatch, capsys):
    warmed = []
    monkeypatch.setattr(warm_kernels, "warm", lambda progress: warmed.append(progress(1, 6)))
    assert not warm_kernels.is_warm()
    assert warm_kernels.main() == warm_kernels.main() == 0
    assert len(warmed) == 1
    assert warm_kernels.is_warm()
    err = capsys.readouterr().err
    assert err.count("compiling kernels") == 1
    assert "1 of 6" in err


def test_warming_leaves_the_users_own_directory_alone(cache, monkeypatch):
    monkeypatch.setattr(warm_kernels, "warm", lambda progress: pytest.fail("warmed"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/chosen/by/the/user")
    assert warm_kernels.main() == 0
    monkeypatch.setattr(warm_kernels, "compile_cache", lambda: None)
    assert warm_kernels.main() == 0


def test_only_old_versions_are_removed(cache):
    for name, age in (("old", 15), ("recent", 3)):
        (cache.parent / name).mkdir()
        os.utime(cache.parent / name, times=(cache.stat().st_mtime - age * 86_400,) * 2)
    os.utime(cache, times=(1, 1))
    warm_kernels.remove_unused(cache)
    assert sorted(place.name for place in cache.parent.iterdir()) == ["current", "recent"]


def test_the_releases_of_the_warm_up_are_valid():
    from tasks.config import parse

    for name, tables in warm_kernels.RELEASES.items():
        parse({"release": {"name": name}, "source": warm_kernels.SOURCE, **tables})
