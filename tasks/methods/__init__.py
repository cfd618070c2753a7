"""Methods of release: each a named graph of steps, a way to group people and a way to make profiles.

A method is one file here with `NAMES`, `steps(config)`, `GROUPING` (a file of tasks/groupings), `PROFILER` (a file of
tasks/profilers) and `SINGLE` (every record is one person's). Light on purpose: the DAG file draws its boxes from
these graphs while parsing.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from tasks.config import ReleaseConfig
from tasks.errors import UsageError

Graph = dict[str, tuple[str, ...]]

# Steps that change the ratings themselves: what follows works on theirs instead of on the ingested ones.
CHANGES = ("obfuscation", "suppression")


def registered() -> dict[str, ModuleType]:
    """Every method's name and its file, from the files of this package."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return {name: module for module in modules for name in module.NAMES}


def method(config: ReleaseConfig) -> ModuleType:
    """The file of the method this release asks for."""
    methods = registered()
    if config.privacy.method not in methods:
        raise UsageError(
            f"privacy.method: '{config.privacy.method}' is not available in this version",
            where=f"release {config.release.name}",
            remedy=f"use one of: {', '.join(sorted(methods))}",
        )
    return methods[config.privacy.method]


def grouping(config: ReleaseConfig) -> ModuleType:
    """How this release groups people."""
    return import_module(f"tasks.groupings.{method(config).GROUPING}")


def profiler(config: ReleaseConfig) -> ModuleType:
    """How this release makes profiles."""
    return import_module(f"tasks.profilers.{method(config).PROFILER}")


def least_size(config: ReleaseConfig) -> int:
    """Members every group of this release has at least."""
    return 1 if method(config).SINGLE else config.privacy.k


def promised(config: ReleaseConfig) -> dict[str, int]:
    """The promises that hold for this release; real ratings behind a cell are counted in groups only."""
    privacy = config.privacy
    promises = {"k": privacy.k, "l": privacy.l, "b": privacy.b}
    return promises if method(config).SINGLE else {**promises, "min_contributors": privacy.min_contributors}


def in_words(config: ReleaseConfig) -> str:
    """What k means for this release, and whose attribute is hidden."""
    k, hidden = config.privacy.k, config.obfuscation.attribute
    also = f", made-up ratings hide {hidden}" if hidden else ""
    if method(config).SINGLE:
        return f"one record per person, risk at most 1/{k} as judged by the gate{also}"
    return f"at least {k} people share every profile{also}"


def change(config: ReleaseConfig) -> str | None:
    """The step that changes this release's ratings before anything else sees them; None: they stay as they are."""
    if config.privacy.method == "suppression":
        return "suppression"
    return "obfuscation" if config.obfuscation.attribute else None


def data_steps(config: ReleaseConfig) -> Graph:
    """The steps that make the candidate release: step → the steps it reads from, in order."""
    steps, changed = method(config).steps(config), change(config)
    if changed is None:
        return steps
    rewired = {
        name: tuple(changed if one == "ingest" else one for one in needed)
        for name, needed in steps.items()
        if needed
    }
    return {"ingest": (), changed: ("ingest",), **rewired}


def inputs(name: str, config: ReleaseConfig) -> tuple[str, ...]:
    """The steps a step reads from. Padding may be run for any method: the shadow run compares with its model."""
    return {"padding": ("ingest",), **graph(config)}[name]


def graph(config: ReleaseConfig) -> Graph:
    """All steps of a release, judgement and publication included: step → the steps it waits for."""
    steps, changed = data_steps(config), change(config)
    judged = (changed or "ingest", "clustering", next(reversed(steps)), "evaluate")
    # What a release leaves out is searched for once: its shadow leaves out the same, and waits to hear what.
    shadow = ("ingest", "suppression") if changed == "suppression" else ("ingest",)
    return {**steps, "evaluate": shadow, "validate": judged, "publish": ("validate",)}
