"""Detect which public data set a directory holds, by the files in it."""

from collections.abc import Collection, Iterable
from pathlib import Path

from tasks.errors import UsageError

FORMATS = {
    "u.data": "movielens-100k",
    "ratings.dat": "movielens-1m",
    "training_set": "netflix-prize",
    "jester-data*": "jester",
}
NAMES = {
    "movielens-100k": "MovieLens 100K",
    "movielens-1m": "MovieLens 1M",
    "jester": "Jester",
    "netflix-prize": "the Netflix Prize data",
}


def detect_format(data: Path) -> str:
    """Return the format of the ratings in a directory."""
    for name, found in FORMATS.items():
        if any(data.glob(name)):
            return found
    raise UsageError(
        f"the directory holds none of {', '.join(FORMATS)}",
        where=f"--data {data}",
        remedy=f"give the directory of {_enumerate(NAMES.values())}",
    )


def require_format(data: Path, supported: Collection[str], paper: str) -> str:
    """Return the format of the ratings in a directory; refuse data sets that a paper is not reproduced on."""
    found = detect_format(data)
    if found not in supported:
        names = _enumerate(NAMES[name] for name in supported)
        raise UsageError(
            f"{paper} can be reproduced on {names}, not on {NAMES[found]}",
            where=f"--data {data}",
            remedy=f"give the directory of {names}",
        )
    return found


def _enumerate(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
