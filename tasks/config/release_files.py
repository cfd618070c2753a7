"""Find the release files of a directory, and say what is wrong with those that cannot be used.

Light on purpose: the DAG files import it. One broken file must not stop the other releases.
"""

from pathlib import Path

from tasks.config import ReleaseConfig, load
from tasks.errors import UsageError


def find(directory: Path) -> tuple[dict[Path, ReleaseConfig], list[UsageError]]:
    """Return the settings of every usable `*.toml`, by file in name order, and the errors of the others."""
    usable: dict[Path, ReleaseConfig] = {}
    errors: list[UsageError] = []
    owners: dict[str, Path] = {}
    for path in sorted(directory.glob("*.toml")):
        try:
            config = load(path)
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
