"""Test which modules import which, read from the syntax trees, so that no import hides inside a function."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@functools.cache
def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: say the whole module name"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def within(name: str, *roots: str) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules("checks"), ids=named)
def test_the_judge_shares_no_code_with_what_it_judges(path):
    allowed = ("tasks.config", "tasks.store", "tasks.engine", "tasks.formats", "tasks.errors")
    ours = {name for name in imports_of(path) if within(name, "tasks") and name != "tasks"}
    assert {name for name in ours if not within(name, *allowed)} == set()
    assert not any(within(name, "dags") for name in imports_of(path))


@pytest.mark.parametrize("path", modules("tasks"), ids=named)
def test_tasks_ask_checks_only_where_a_release_is_judged(path):
    may_ask = {
        "cli/_command.py",
        "cli/_run_result.py",
        "cli/verify.py",
        "cli/audit.py",
        "cli/attack.py",
        "cli/erase.py",  # a repaired release must pass the offline checks
        "steps/ingest.py",
        "steps/validate.py",
    }
    may_ask |= {"steps/suppression.py"}  # it leaves out as little as the gate's attacks allow
    # The papers' subject is the attacks.
    may_ask |= {"studies/compare/comparison.py"}  # the gate's attacks are half of what is compared
    may_ask |= {"studies/plan/trials.py"}  # it shows the gate's highest risk, and what utility measured
    may_ask |= {"studies/p1/tables.py", "studies/p1/trials.py", "studies/p2/trials.py"}
    asks = any(within(name, "checks") for name in imports_of(path))
    assert not asks or str(path.relative_to(ROOT / "tasks")) in may_ask
    assert not any(within(name, "dags") for name in imports_of(path))


@pytest.mark.parametrize("path", modules("tasks") + modules("checks"), ids=named)
def test_heavy_libraries_have_their_places(path):
    names, place = imports_of(path), named(path)
    assert not any(within(name, "airflow") for name in names)  # dags/ alone imports it
    if any(within(name, "great_expectations") for name in names):
        assert place == "checks/expectations.py"
    if any(within(name, "dask", "distributed") for name in names):
        assert place == "tasks/engine.py"


@pytest.mark.parametrize(
    "path", [path for path in modules("tasks") + modules("checks") if path.name == "__init__.py"], ids=named
)
def test_every_room_says_what_it_may_import(path):
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert re.search(r"\bimport(s|ing)?\b", docstring, re.IGNORECASE)


ROOMS_BELOW_STEPS = ("data", "shadow", "groupings", "profilers", "padders")


@pytest.mark.parametrize("path", modules("tasks/steps"), ids=named)
def test_no_step_imports_another(path):
    """What several steps need is in tasks/data or tasks/shadow; a step reads another's result from the store."""
    assert {name for name in imports_of(path) if within(name, "tasks.steps")} == set()


@pytest.mark.parametrize(
    "path", [path for room in ROOMS_BELOW_STEPS for path in modules(f"tasks/{room}")], ids=named
)
def test_what_steps_use_imports_no_step(path):
    assert {name for name in imports_of(path) if within(name, "tasks.steps")} == set()


@pytest.mark.parametrize("path", modules("tasks/series"), ids=named)
def test_a_series_stands_below_the_steps(path):
    """Steps, the pipeline and the command line use it; the judge reads its files and shares no code with it."""
    allowed = ("config", "data", "formats", "kernels", "store", "keys", "errors", "series", "signatures")
    ours = {name for name in imports_of(path) if within(name, "tasks") and name != "tasks"}
    assert {name for name in ours if not within(name, *(f"tasks.{room}" for room in allowed))} == set()


@pytest.mark.parametrize("path", modules("tasks/signatures"), ids=named)
def test_signatures_need_little(path):
    """A reader who verifies a release runs this code on files from strangers."""
    allowed = ("store", "errors", "signatures")
    ours = {name for name in imports_of(path) if within(name, "tasks") and name != "tasks"}
    assert {name for name in ours if not within(name, *(f"tasks.{room}" for room in allowed))} == set()


@pytest.mark.parametrize("path", modules("tasks") + modules("checks"), ids=named)
def test_databases_are_for_the_ledger(path):
    """The judge may read a ledger's file itself, and one format reads ratings from a database."""
    if any(within(name, "sqlalchemy") for name in imports_of(path)):
        assert path.parent.name == "series" or named(path) in (
            "checks/history/ledgers.py",
            "tasks/formats/sql.py",
        )


@pytest.mark.parametrize("path", modules("tasks/kernels"), ids=named)
def test_kernels_only_compute(path):
    forbidden = (
        "dask",
        "distributed",
        "logging",
        "os",
        "pathlib",
        "pyarrow",
        "random",
        "tasks.engine",
        "tasks.store",
    )
    assert {name for name in imports_of(path) if within(name, *forbidden)} == set()


@pytest.mark.parametrize("path", modules("tasks") + modules("checks") + modules("dags"), ids=named)
def test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= 450


def test_no_two_test_files_share_a_name():
    """pytest would stop before the first test: no package distinguishes them."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
