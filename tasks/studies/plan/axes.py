"""Declare which settings `murmur plan` varies, and read those that the user names."""

import tomllib
from collections.abc import Sequence
from typing import Any

from tasks import methods
from tasks.config import ReleaseConfig, parse
from tasks.errors import UsageError
from tasks.studies.plan.lattice import Axis, Setting

KS = (
    10,
    20,
    50,
)  # beside that of the release file, which is the least: how much to promise is the owner's choice
CONTRIBUTORS = (1, 2, 3, 5)
STEPS = (0.05, 0.1, 0.25, 0.5)  # on a scale that spans 4 units
USUAL_SPAN = 4.0
MOST_SETTINGS = 10_000


def usual_axes(config: ReleaseConfig, users: int, *, k_is_fixed: bool) -> tuple[Axis, ...]:
    """Return k, contributors and rounding, each with the release file's own value; of records of single people, where k
    is no number of people, rounding alone."""
    privacy, (low, high) = config.privacy, config.source.scale
    steps = {round(step * (high - low) / USUAL_SPAN, 6) for step in STEPS} | {privacy.rating_step}
    rounding = Axis("privacy.rating_step", tuple(sorted(steps)))
    if methods.method(config).publishes_persons:
        return (rounding,)
    least = 2 * max(2, privacy.l)  # groups that the release and its shadow need
    larger = () if k_is_fixed else tuple(k for k in KS if k > privacy.k and users // k >= least)
    contributors = sorted({*(c for c in CONTRIBUTORS if c <= privacy.k), privacy.min_contributors})
    return (
        Axis("privacy.k", (privacy.k, *larger)),
        Axis("privacy.min_contributors", tuple(contributors)),
        rounding,
    )


def with_named(axes: Sequence[Axis], named: Sequence[str], config: ReleaseConfig) -> tuple[Axis, ...]:
    """Return the axes, replaced and completed by those of `--vary KEY=V1,V2,…`."""
    found = {axis.key: axis for axis in axes}
    for text in named:
        axis = _named(text, config)
        found[axis.key] = axis
    size = 1
    for axis in found.values():
        size *= len(axis.values)
    if size > MOST_SETTINGS:
        raise UsageError(f"{size:,} settings are too many", where="--vary", remedy="name fewer values")
    return tuple(found.values())


def base_of(axes: Sequence[Axis], config: ReleaseConfig) -> Setting:
    """Return the place of the release file's own setting on every axis."""
    return tuple(axis.values.index(value_of(config, axis.key)) for axis in axes)


def value_of(config: ReleaseConfig, key: str) -> Any:
    """Return the value of a key such as `privacy.k`."""
    found: Any = config
    for part in key.split("."):
        found = getattr(found, part)
    return found


def changed(config: ReleaseConfig, values: dict[str, Any], where: str = "--vary") -> ReleaseConfig:
    """Return the configuration with other values, validated as a release file is."""
    tables = config.model_dump(exclude_unset=True)
    for key, value in values.items():
        *path, name = key.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[name] = value
    return parse(tables, where)


def _named(text: str, config: ReleaseConfig) -> Axis:
    key, equals, values = text.partition("=")
    where = f"--vary {text}"
    remedy = "write KEY=V1,V2,… such as privacy.k=3,5,10, the weakest protection first"
    if not equals or not values:
        raise UsageError("this names no values", where=where, remedy=remedy)
    try:
        own = value_of(config, key)
        given = tomllib.loads(f"values = [{values}]")["values"]
    except (AttributeError, TypeError):
        raise UsageError(f"there is no setting '{key}'", where=where, remedy=remedy) from None
    except tomllib.TOMLDecodeError:
        given = [one.strip() for one in values.split(",")]
    if isinstance(own, float):
        given = [float(one) if isinstance(one, int) else one for one in given]
    if len(set(map(repr, given))) != len(given):
        raise UsageError("a value is named twice", where=where, remedy=remedy)
    if own not in given:  # it is the first trial
        raise UsageError(
            f"the release file's own value {own} is not among them", where=where, remedy="add it at its place"
        )
    for one in given:
        changed(config, {key: one}, where)
    return Axis(key, tuple(given))
