"""Who may import whom: read from the syntax trees, so that no import hides inside a function."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
    may_ask = {"cli.py", "outcome.py", "pipeline.py", "steps/ingest.py", "steps/validate.py"}
    may_ask |= {"steps/suppression.py"}  # it leaves out as little as the gate's attacks allow
    # The papers' subject is the attacks.
    may_ask |= {"studies/compare.py"}  # the gate's attacks are half of what is compared
    may_ask |= {"studies/reproduce_p1.py", "studies/trials_p1.py", "studies/reproduce_p2.py"}
    asks = any(within(name, "checks") for name in imports_of(path))
    assert not asks or str(path.relative_to(ROOT / "tasks")) in may_ask
    assert not any(within(name, "dags") for name in imports_of(path))


@pytest.mark.parametrize("path", modules("tasks") + modules("checks"), ids=named)
def test_heavy_libraries_have_their_places(path):
    names, place = imports_of(path), named(path)
    if any(within(name, "airflow") for name in names):
        assert place.startswith("tasks/stack")
    if any(within(name, "great_expectations") for name in names):
        assert place == "checks/expectations.py"
    if any(within(name, "dask", "distributed") for name in names):
        assert place == "tasks/engine.py" or place.startswith(
            ("tasks/steps/", "tasks/formats/", "tasks/stack")
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
    """pytest would stop before the first test: they have no package to tell them apart."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
