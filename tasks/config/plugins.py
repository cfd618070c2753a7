"""Find plug-ins by their files, without importing them.

A plug-in is one file of a package such as tasks/methods. Files whose names begin with an underscore are shared parts.
Light on purpose: reading a configuration must not import what a plug-in needs to run.
"""

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules


def stems(package: str) -> list[str]:
    """Return the file stems of all plug-ins of a package, sorted."""
    found = (module.name for module in iter_modules([str(place) for place in _directories(package)]))
    return sorted(stem for stem in found if not stem.startswith("_"))


def names(package: str) -> list[str]:
    """Return the names that release files use: the stems with '-' for '_'."""
    return [stem.replace("_", "-") for stem in stems(package)]


def module_name(package: str, name: str) -> str:
    """Return the module of the plug-in with this name."""
    return f"{package}.{name.replace('-', '_')}"


def file_of(package: str, name: str) -> Path:
    """Return the file of the plug-in with this name."""
    file = f"{name.replace('-', '_')}.py"
    return next(place / file for place in _directories(package) if (place / file).exists())


def known(package: str, name: str, kind: str) -> str:
    """Return the name, or refuse it with the list of those that exist; `kind` says what it names."""
    if name not in names(package):
        raise ValueError(f"there is no {kind} '{name}'; use one of: {', '.join(names(package))}")
    return name


def _directories(package: str) -> list[Path]:
    """Return where a package's files are. `find_spec` imports the package's parent only."""
    loaded = sys.modules.get(package)
    places: Iterable[str] = loaded.__path__ if loaded else []
    if not loaded and (spec := find_spec(package)):
        places = spec.submodule_search_locations or []
    return [Path(place) for place in places]
