"""Test that every registered plug-in has a test class that inherits the contract of its kind.

The classes are read from the syntax trees of all test files, so it does not matter which tests are selected.
"""

import ast
import functools
from pathlib import Path
from pkgutil import iter_modules
from typing import get_args

import pytest

import tasks.obfuscators
import tasks.padders
import tasks.recommenders
from checks.registry import registered as registered_checks
from tasks import formats, methods
from tasks.config import formats as format_declarations
from tasks.config.gate import AT_LEAST, check_names
from tasks.config.padding import Padding
from tasks.config.privacy import method_names

TESTS = Path(__file__).parent


def files_of(package) -> set[str]:
    """Return the names of a package's public modules."""
    return {found.name for found in iter_modules(package.__path__) if not found.name.startswith("_")}


REGISTERED = {
    "CheckContract": set(registered_checks()),
    "FormatContract": set(formats.registered()),
    "MethodContract": set(methods.registered()),
    "PadderContract": files_of(tasks.padders),
    "RecommenderContract": files_of(tasks.recommenders),
    "StrategyContract": set(tasks.obfuscators.registered()),
}


@functools.cache
def trees() -> list[ast.Module]:
    """Parse every test file that uses contracts."""
    sources = (path.read_text() for path in sorted(TESTS.rglob("test_*.py")))
    return [ast.parse(source) for source in sources if "from tests.contracts import" in source]


def names_with(contract: str) -> list[str]:
    """Return the `name` of every test class that inherits a contract, directly or by way of another class."""
    names = []
    for tree in trees():
        heirs = {contract}
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id in heirs for base in node.bases
            ):
                heirs.add(node.name)
                names += [
                    ast.literal_eval(line.value)
                    for line in node.body
                    if node.name.startswith("Test")
                    and isinstance(line, ast.Assign)
                    and any(isinstance(target, ast.Name) and target.id == "name" for target in line.targets)
                ]
    return names


@pytest.mark.parametrize("contract", REGISTERED)
def test_every_plugin_has_its_contract(contract):
    """A plug-in without a test class, and a test class without a plug-in, both fail."""
    assert sorted(names_with(contract)) == sorted(REGISTERED[contract])


def test_configuration_knows_the_plugins():
    """Names that the configuration accepts are those of the files."""
    assert sorted(format_declarations.names()) == formats.registered()
    assert method_names() == sorted(methods.registered())
    assert set(get_args(Padding.model_fields["predictor"].annotation)) == files_of(tasks.padders)
    assert sorted(registered_checks()) == check_names()


def test_configuration_knows_minimum_thresholds():
    """The configuration knows which thresholds are a minimum."""
    assert {check.name for check in registered_checks().values() if check.larger_is_safer} == set(AT_LEAST)
