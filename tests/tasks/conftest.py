"""Share among tests of tasks: a way to add plug-ins from outside the repository."""

import sys
import textwrap
from importlib import import_module, invalidate_caches

import pytest


@pytest.fixture
def add_plugin(tmp_path_factory):
    """Write a plug-in's file into a directory of its own and put that on the package's path: (module, text) → None.

    Nothing in the repository is touched, and everything is undone after the test.
    """
    added: list[str] = []
    paths: dict = {}

    def add(module: str, text: str) -> None:
        package, _, stem = module.rpartition(".")
        directory = tmp_path_factory.mktemp("plugin")
        (directory / f"{stem}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        parent = import_module(package)
        paths.setdefault(package, parent.__path__)
        parent.__path__ = [*parent.__path__, str(directory)]
        invalidate_caches()
        added.append(module)

    yield add
    for package, path in paths.items():
        sys.modules[package].__path__ = path
    for module in added:
        package, _, stem = module.rpartition(".")
        sys.modules.pop(module, None)
        vars(sys.modules[package]).pop(stem, None)
    invalidate_caches()
