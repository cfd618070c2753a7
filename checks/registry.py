"""Register the checks: each file of a package of checks is one check with the name of the file."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checks.about import About
from checks.evidence.method_rules import Unit
from checks.result import Finding, Severity
from tasks.config.gate import CHECK_PACKAGES

if TYPE_CHECKING:
    from checks.evidence.case import Case

Run = Callable[["Case", float], Finding]

ABOUT_PEOPLE: tuple[Unit, ...] = ("group", "person")
ANY: tuple[Unit, ...] = (*ABOUT_PEOPLE, "synthetic")


@dataclass(frozen=True)
class Check:
    """Represent one registered check.

    `controlled`: it must report a positive control. `offline`: it needs only the published files. `larger_is_safer`:
    its threshold is a minimum, not a maximum. `as_published`: it examines the published numbers themselves, also when
    they are z-scores (`ratings_view` of checks/reconstruction converts them for all other checks). `whole`: it judges
    the release as a whole, groups that were carried over from earlier ones included. `units`: what a published record
    of a release it applies to stands for (checks/evidence/method_rules.py); synthetic rows are no group and nobody's
    record, so that most checks cannot find anything in them. `about`: its
    words for people; `kind` is the package it lies in.
    """

    name: str
    threshold: float
    severity: Severity
    controlled: bool
    offline: bool
    run: Run
    about: About
    kind: str
    larger_is_safer: bool = False
    as_published: bool = False
    whole: bool = False
    units: tuple[Unit, ...] = ABOUT_PEOPLE

    def loosened(self, threshold: float) -> bool:
        """Return True when this threshold lets more pass than the default."""
        return threshold < self.threshold if self.larger_is_safer else threshold > self.threshold


_REGISTER: dict[str, Check] = {}


def check(  # noqa: PLR0913 - what is declared of a check
    name: str,
    *,
    threshold: float,
    about: About,
    severity: Severity = "gate",
    controlled: bool = False,
    offline: bool = False,
    larger_is_safer: bool = False,
    as_published: bool = False,
    whole: bool = False,
    units: tuple[Unit, ...] = ABOUT_PEOPLE,
) -> Callable[[Run], Run]:
    """Register the decorated `run(case, threshold) -> Finding`; `name` must be the name of its file."""

    def register(run: Run) -> Run:
        package, _, module = run.__module__.rpartition(".")
        file = module.replace("_", "-")
        if file != name:
            raise ValueError(
                f"the check '{name}' is in a file named '{file}'; [gate] finds checks by file name"
            )
        _REGISTER[name] = Check(
            name,
            threshold,
            severity,
            controlled,
            offline,
            run,
            about,
            package.rpartition(".")[2],
            larger_is_safer,
            as_published or offline,
            whole,
            units,
        )
        return run

    return register


def registered() -> dict[str, Check]:
    """Return all checks by name, in the order of their files and not of their import."""
    names = []
    for package in CHECK_PACKAGES:
        for module in sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent / package)])):
            importlib.import_module(f"checks.{package}.{module}")
            names.append(module.replace("_", "-"))
    return {name: _REGISTER[name] for name in names if name in _REGISTER}
