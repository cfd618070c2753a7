"""The register of checks: one file under privacy/, attacks/ or utility/ is one check, called after its
file.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checks.result import Finding, Severity
from tasks.config.gate import CHECK_PACKAGES

if TYPE_CHECKING:
    from checks.case import Case

Run = Callable[["Case", float], Finding]


@dataclass(frozen=True)
class Check:
    """A registered check. `controlled`: it must bring a positive control; `offline`: it can do without
    secrets; `larger_is_safer`: its threshold is the least it demands, not the most it allows; `as_published`: it looks
    at the published numbers themselves, also where they are no ratings (`Case.as_ratings`)."""

    name: str
    threshold: float
    severity: Severity
    controlled: bool
    offline: bool
    run: Run
    larger_is_safer: bool = False
    as_published: bool = False

    def loosened(self, threshold: float) -> bool:
        """Whether this threshold lets more pass than the check's own."""
        return threshold < self.threshold if self.larger_is_safer else threshold > self.threshold


_REGISTER: dict[str, Check] = {}


def check(
    name: str,
    *,
    threshold: float,
    severity: Severity = "gate",
    controlled: bool = False,
    offline: bool = False,
    larger_is_safer: bool = False,
    as_published: bool = False,
) -> Callable[[Run], Run]:
    """Register the decorated `run(case, threshold) -> Finding` under the name of its file."""

    def register(run: Run) -> Run:
        file = run.__module__.rpartition(".")[2].replace("_", "-")
        if file != name:
            raise ValueError(
                f"the check '{name}' lies in a file called '{file}'; [gate] finds checks by their file"
            )
        _REGISTER[name] = Check(
            name, threshold, severity, controlled, offline, run, larger_is_safer, as_published or offline
        )
        return run

    return register


def registered() -> dict[str, Check]:
    """All checks by name, in the order of their files, whoever was imported first."""
    names = []
    for package in CHECK_PACKAGES:
        for module in sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent / package)])):
            importlib.import_module(f"checks.{package}.{module}")
            names.append(module.replace("_", "-"))
    return {name: _REGISTER[name] for name in names if name in _REGISTER}
