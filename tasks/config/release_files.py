"""The release files of a directory: those that can be used, and what is wrong with the others.

Light on purpose: the DAG files import it. One broken file must not take the other releases down.
"""

from pathlib import Path

from tasks.config import ReleaseConfig, load
from tasks.errors import UsageError
from tasks.methods import graph


def find(directory: Path) -> tuple[dict[Path, ReleaseConfig], list[UsageError]]:
    """Every `*.toml` in name order: file → settings, and the errors of the files that are refused."""
    usable: dict[Path, ReleaseConfig] = {}
    errors: list[UsageError] = []
    owners: dict[str, Path] = {}
    for path in sorted(directory.glob("*.toml")):
        try:
            config = load(path)
            graph(
                config
            )  # a method this version does not have is refused here, not in the middle of the night
            owner = owners.setdefault(config.release.name, path)
            if owner != path:
                raise UsageError(
                    f"release.name: '{config.release.name}' is taken by {owner.name}",
                    where=str(path),
                    remedy="give every release a name of its own",
                )
        except UsageError as error:
            errors.append(error)
        else:
            usable[path] = config
    return usable, errors
