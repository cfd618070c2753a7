"""The public data sets that papers are reproduced on, told by the files in their directories."""

from pathlib import Path

from tasks.errors import UsageError

FORMATS = {
    "u.data": "movielens-100k",
    "ratings.dat": "movielens-1m",
    "training_set": "netflix-prize",
    "jester-data*": "jester",
}


def format_of(data: Path) -> str:
    """The format of the ratings in a directory."""
    for name, kind in FORMATS.items():
        if any(data.glob(name)):
            return kind
    raise UsageError(
        f"none of {', '.join(FORMATS)} is in there",
        where=f"--data {data}",
        remedy="give the directory of MovieLens 100K, MovieLens 1M, Jester or the Netflix Prize data",
    )
