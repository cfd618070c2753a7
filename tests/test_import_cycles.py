"""Test that no modules of tasks and checks import each other in a circle.

The graph is read from the syntax trees, so an import inside a function counts as well: it only delays the circle until
the function is called. What stands under `if TYPE_CHECKING:` never runs and does not count. `from package import name`
is an edge to the module `package.name` where there is one, else to the package; that Python also runs the `__init__`
of every package on the way is not an edge.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[1]
ROOMS = (
    "evidence",
    "history",
    "recovery",
    "reconstruction",
    "linkage",
    "inference",
)  # each imports only those before it


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_that_run(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements below a node, except those under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from imports_that_run(ast.Module([other], []))
        else:
            yield from imports_that_run(child)


def imported_modules(source: str, modules: set[str]) -> set[str]:
    found = set()
    for statement in imports_that_run(ast.parse(source)):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        else:
            package = statement.module or ""
            whole = {f"{package}.{alias.name}" for alias in statement.names}
            found |= {name if name in modules else package for name in whole}
    return found & modules


def import_cycles(root: Path, *packages: str) -> list[list[str]]:
    """Return the strongly connected components of more than one module."""
    files = {module_name(path, root): path for package in packages for path in (root / package).rglob("*.py")}
    names = sorted(files)
    number = {name: place for place, name in enumerate(names)}
    edges = [
        (number[name], number[other])
        for name, path in files.items()
        for other in imported_modules(path.read_text(encoding="utf-8"), set(names)) - {name}
    ]
    rows, columns = np.array(edges, dtype=int).reshape(-1, 2).T
    graph = sp.csr_array((np.ones(len(edges)), (rows, columns)), shape=(len(names), len(names)))
    count, component = connected_components(graph, directed=True, connection="strong")
    members = [[names[place] for place in np.flatnonzero(component == one)] for one in range(count)]
    return [cycle for cycle in members if len(cycle) > 1]


def room(module: str) -> str:
    """Return the room of checks a module lies in; an empty text for the spine."""
    parts = module.split(".")
    return parts[1] if len(parts) > 2 else ""


def write_modules(root: Path, **sources: str) -> None:
    (root / "house").mkdir()
    (root / "house" / "__init__.py").write_text("")
    for name, source in sources.items():
        (root / "house" / f"{name}.py").write_text(source)


def test_no_modules_import_each_other():
    cycles = import_cycles(ROOT, "tasks", "checks")
    assert not cycles, "import cycles: " + "; ".join(" <-> ".join(cycle) for cycle in cycles)


def test_rooms_of_checks_import_only_earlier_rooms():
    files = {module_name(path, ROOT): path for path in (ROOT / "checks").rglob("*.py")}
    upward = [
        f"{name} -> {other}"
        for name, path in files.items()
        for other in imported_modules(path.read_text(encoding="utf-8"), set(files))
        if (own := room(name)) in ROOMS
        if room(other) not in {*ROOMS[: ROOMS.index(own) + 1], ""}
    ]
    assert upward == []


def test_a_planted_cycle_is_found_and_named(tmp_path):
    write_modules(
        tmp_path,
        a="from house import b",
        b="def late():\n    from house.c import thing",
        c="import house.a",
        d="import house.a",
    )
    assert import_cycles(tmp_path, "house") == [["house.a", "house.b", "house.c"]]


def test_imports_for_types_alone_close_no_cycle(tmp_path):
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house import a\n"
    write_modules(tmp_path, a="from house import b", b=types)
    assert import_cycles(tmp_path, "house") == []


def test_the_other_branch_of_a_type_import_counts(tmp_path):
    both = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    from house import a\n"
    write_modules(tmp_path, a="from house import b", b=both)
    assert import_cycles(tmp_path, "house") == [["house.a", "house.b"]]
