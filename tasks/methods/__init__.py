"""Methods of release: each a named graph of steps. A method is one file here.

Light on purpose: the DAG file draws its boxes from these graphs while parsing.
"""

from importlib import import_module
from pkgutil import iter_modules

from tasks.config import ReleaseConfig
from tasks.errors import UsageError

Graph = dict[str, tuple[str, ...]]


def registered() -> dict[str, Graph]:
    """Every method's name and the graph of its data steps, from the files of this package."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return {name: module.STEPS for module in modules for name in module.NAMES}


def data_steps(config: ReleaseConfig) -> Graph:
    """The steps that make the candidate release: step → the steps it reads from, in order."""
    methods = registered()
    if config.privacy.method not in methods:
        raise UsageError(
            f"privacy.method: '{config.privacy.method}' is not available in this version",
            where=f"release {config.release.name}",
            remedy=f"use one of: {', '.join(sorted(methods))}",
        )
    return methods[config.privacy.method]


def graph(config: ReleaseConfig) -> Graph:
    """All steps of a release, judgement and publication included: step → the steps it waits for."""
    steps = data_steps(config)
    judged = ("ingest", "clustering", next(reversed(steps)), "evaluate")
    return {**steps, "evaluate": ("ingest",), "validate": judged, "publish": ("validate",)}
