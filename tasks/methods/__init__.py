"""Hold the methods of release, one file each: a named graph of steps, a way to group people and a way to make profiles.

A file declares one `METHOD = Method(…)` (tasks/methods/_base.py); everything that other code asks about a method is in
that declaration. To add a method, add its file and, where no existing one serves, a grouping or a profiler. Light on
purpose: the DAG file draws its boxes from these graphs while it is parsed.

May import config and errors; groupings and profilers inside functions only.
"""

from collections.abc import Collection
from importlib import import_module
from types import ModuleType
from typing import Any

from tasks.config import ReleaseConfig, plugins
from tasks.config.base import Settings
from tasks.errors import UsageError
from tasks.methods._base import Graph, Method, Words

__all__ = ["Graph", "Method", "Words"]

# Checks that fail, or pass, whatever k is.
UNRELATED_TO_K = frozenset({"integrity", "pseudonyms", "ordering", "attribute-inference"})

# Checks whose limit falls as k grows, though what they measure need not (docs/threat-model.md, "Limits, and why").
TIGHTER_WITH_K = frozenset({"membership-inference"})


def registered() -> dict[str, Method]:
    """Return every method by its name, from the files of this package."""
    return {name: _declared(name) for name in plugins.names(__name__)}


def method(config: ReleaseConfig) -> Method:
    """Return the method this release asks for."""
    return _declared(config.privacy.method)


def _declared(name: str) -> Method:
    declared = getattr(import_module(plugins.module_name(__name__, name)), "METHOD", None)
    if not isinstance(declared, Method) or declared.name != name:
        raise UsageError(
            f"the method's file does not declare METHOD = Method(name='{name}', …)",
            where=str(plugins.file_of(__name__, name)),
            remedy="declare it; the name is the file's stem with '-' for '_' (docs/extending.md)",
        )
    return declared


def refuse_impossible(config: ReleaseConfig) -> None:
    """Raise ValueError for settings that the release's method cannot work with."""
    chosen = method(config)
    for setting, reason in chosen.incompatible.items():
        if _differs_from_default(config, setting):
            raise ValueError(f"{setting}: method '{chosen.name}' {reason}")
    if chosen.unit == "synthetic" and config.series.mode == "sticky":
        raise ValueError(
            f"series.mode: method '{chosen.name}' releases nobody, so no groups are carried over; remove mode or "
            'use "independent" (several releases share [privacy.budget] through its keys per and releases)'
        )
    if chosen.unit != "synthetic" and config.privacy.budget is not None:
        raise ValueError(
            f"privacy.budget: method '{chosen.name}' has no differential privacy; use method 'dp-synthetic', or remove "
            "the table [privacy.budget]"
        )
    if chosen.publishes_persons and config.series.mode == "sticky":
        raise ValueError(
            f"series.mode: method '{chosen.name}' publishes records of single people; several releases of them were "
            'not shown to be safe together. Use series.mode = "independent" for one release, or a method that '
            "publishes groups"
        )
    chosen.check(config)


def _differs_from_default(config: ReleaseConfig, setting: str) -> bool:
    table, _, key = setting.partition(".")
    given: Settings = getattr(config, table)
    default = type(given)()
    return getattr(given, key) != getattr(default, key) if key else given != default


def grouping(config: ReleaseConfig) -> ModuleType:
    """Return the module that groups the people of this release."""
    return import_module(f"tasks.groupings.{_plugin(config, 'grouping')}")


def profiler(config: ReleaseConfig) -> ModuleType:
    """Return the module that makes the profiles of this release."""
    return import_module(f"tasks.profilers.{_plugin(config, 'profiler')}")


def _plugin(config: ReleaseConfig, kind: str) -> str:
    chosen = method(config)
    named: str | None = getattr(chosen, kind)
    if named is None:
        raise ValueError(f"method '{chosen.name}' has no {kind}")
    return named


def least_size(config: ReleaseConfig) -> int:
    """Return how many members every group of this release has at least."""
    return config.privacy.k if method(config).publishes_groups else 1


def depends_on_k(failed: Collection[str]) -> bool:
    """Return whether larger groups may help against the failed checks: against all but what is wrong with the files, or
    with an attribute, which tastes reveal of large groups nearly as well as of small ones."""
    return bool(failed) and not set(failed) & UNRELATED_TO_K


def promised_parameters(config: ReleaseConfig) -> dict[str, Any]:
    """Return the privacy parameters that hold for this release; real ratings behind a cell are counted in groups
    only, and k, l and b are about people in groups."""
    privacy = config.privacy
    if privacy.budget is not None:
        return privacy.budget.model_dump(include={"epsilon", "delta", "per"})
    parameters = {"k": privacy.k, "l": privacy.l, "b": privacy.b}
    if method(config).publishes_persons:
        return parameters
    return {**parameters, "min_contributors": privacy.min_contributors}


def promise_in_words(config: ReleaseConfig) -> str:
    """Say what is promised for this release, and which attribute is hidden."""
    if budget := config.privacy.budget:
        return f"user-level differential privacy, ε = {budget.epsilon:g} and δ = {budget.delta:g} per {budget.per}"
    k, hidden = config.privacy.k, config.obfuscation.attribute
    also = f", made-up ratings hide {hidden}" if hidden else ""
    if method(config).publishes_persons:
        return f"one record per person, risk at most 1/{k} as judged by the gate{also}"
    return f"at least {k} people share every profile{also}"


def unused_tables(config: ReleaseConfig) -> list[str]:
    """Return the tables of the release file that only other methods read."""
    used = set(method(config).tables)
    # The shadow run that measures utility reads the model's and the metric's settings, whatever the method is.
    used |= {"padding", "clustering"}
    read_by_any = {table for declared in registered().values() for table in declared.tables}
    return sorted((read_by_any - used) & config.model_fields_set)


def without_incompatible(tables: dict[str, Any], chosen: Method) -> dict[str, Any]:
    """Return the tables of a release file without the settings that a method refuses."""
    kept = {name: dict(table) for name, table in tables.items()}
    if chosen.unit != "synthetic":
        kept.get("privacy", {}).pop("budget", None)
    for setting in chosen.incompatible:
        table, _, key = setting.partition(".")
        if key:
            kept.get(table, {}).pop(key, None)
        else:
            kept.pop(table, None)
    return kept


def changing_step(config: ReleaseConfig) -> str | None:
    """Return the step that changes this release's ratings before all other steps; None: no step does."""
    return method(config).removal_step or ("obfuscation" if config.obfuscation.attribute else None)


def data_steps(config: ReleaseConfig) -> Graph:
    """Return the steps that make the candidate release: step → the steps it reads from, in order."""
    steps, changed = method(config).steps(config), changing_step(config)
    if changed is None:
        return steps
    rewired = {
        name: tuple(changed if one == "ingest" else one for one in needed)
        for name, needed in steps.items()
        if needed
    }
    return {"ingest": (), changed: ("ingest",), **rewired}


def inputs(name: str, config: ReleaseConfig) -> tuple[str, ...]:
    """Return the steps a step reads from. Padding may run for any method: the shadow run compares with its model."""
    return {"padding": ("ingest",), **graph(config)}[name]


def graph(config: ReleaseConfig) -> Graph:
    """Return all steps of a release, judgement and publication included: step → the steps it waits for."""
    steps, changed, removal = data_steps(config), changing_step(config), method(config).removal_step
    also = [step for step in ("clustering", "statistics") if step in steps]
    judged = ("ingest", *([changed] if changed else []), *also, next(reversed(steps)), "evaluate")
    # The shadow run removes the same items as the release, so it waits until they are known.
    shadow = ("ingest", removal) if removal else ("ingest",)
    return {**steps, "evaluate": shadow, "validate": judged, "publish": ("validate",)}
