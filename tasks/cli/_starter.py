"""Fill in the starter file that `murmur init` writes: the release's name, and what plug-ins declare."""

from importlib.resources import files

from tasks import methods
from tasks.config import formats


def starter(name: str) -> str:
    """Return the text of a commented release file with this name."""
    text = files("tasks.cli").joinpath("starter.toml").read_text(encoding="utf-8")
    filled = {"@NAME@": name, "@FORMATS@": " ".join(formats.names()), "# @METHODS@": _method_lines()}
    for placeholder, value in filled.items():
        text = text.replace(placeholder, value)
    return text


def _method_lines() -> str:
    """Return a comment line for each method, those that publish groups first."""
    declared = sorted(methods.registered().values(), key=lambda one: (one.publishes_persons, one.name))
    width = max(len(one.name) for one in declared)
    return "\n".join(f"# {one.name:<{width}}  {one.summary}" for one in declared)
