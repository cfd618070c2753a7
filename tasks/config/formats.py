"""Hold what a format declares about itself, and read it from the format's file without importing that.

A format's file imports NumPy and pyarrow, and the DAG file must parse without them. So `FORMAT = Format(…)` is read
from the syntax tree: its arguments are keywords with literal values.
"""

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tasks.config import plugins
from tasks.errors import UsageError

PACKAGE = "tasks.formats"


@dataclass(frozen=True, kw_only=True)
class Format:
    """Declare what a configuration must know of a format (tasks/formats).

    `scale` is the lowest and the highest rating; None: the release file must give it. `needs_path` is false where
    nothing is read from a file. `attributes` are the user attributes that come with the ratings, `user_table` is the
    file beside the ratings that holds them, and `attribute_edges` are the numbers at which an attribute is cut into
    ranges unless the release file says otherwise. `item_table` is the file beside the ratings that holds titles and
    genres. `table` names the table of [source] with settings of this format alone; its class may refuse a combination
    with [privacy] in `check(privacy)`.
    """

    scale: tuple[float, float] | None = None
    needs_path: bool = True
    attributes: tuple[str, ...] = ()
    user_table: str = ""
    attribute_edges: dict[str, tuple[float, ...]] = field(default_factory=dict)
    item_table: str = ""
    table: str | None = None


def names() -> list[str]:
    """Return the names of all formats."""
    return plugins.names(PACKAGE)


def declared(name: str) -> Format:
    """Return what the format of this name declares."""
    return _declared_in(plugins.file_of(PACKAGE, name))


@cache
def _declared_in(file: Path) -> Format:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["FORMAT"]:
            return _evaluated(node.value, file)
    raise _undeclared(file, "the format does not declare itself")


def _evaluated(call: ast.expr, file: Path) -> Format:
    if not isinstance(call, ast.Call) or call.args:
        raise _undeclared(file, "FORMAT is not a call of Format with keywords only")
    try:
        return Format(**{str(given.arg): ast.literal_eval(given.value) for given in call.keywords})
    except (TypeError, ValueError) as error:
        raise _undeclared(file, f"the format's declaration cannot be read: {error}") from None


def _undeclared(file: Path, what: str) -> UsageError:
    remedy = "write FORMAT = Format(key=value, …) at the top level, each value a literal (docs/extending.md)"
    return UsageError(what, where=str(file), remedy=remedy)
