"""Restore added items in a recommender's lists: the reverse operator of [RFPP], section 5.2, equation 7.

A recommender trained on obfuscated ratings treats added items as items the user has seen, and does not recommend
them. The owner knows which items were added: each of them is inserted into the user's list, with its factitious
rating as the predicted score, at the position of that score. An item that the recommender lists already keeps its
score.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tasks.data.ratings import places
from tasks.data.spreadsheets import marked, unmarked
from tasks.errors import UsageError, room_in

SCORES = ("score", "rating")
COLUMNS = "user, item, score (or rating) and, if there is one, rank"


def restore(recommendations: Path, private: Path, out: Path) -> dict[str, Any]:
    """Write the lists with the added items inserted; `out` appears whole or not at all, readable by the owner only."""
    if out.exists() or out.is_symlink():
        raise UsageError(
            "this file exists already", where=str(out), remedy="choose another path or remove it"
        )
    if not out.parent.is_dir():
        raise UsageError("there is no such directory", where=str(out.parent), remedy="make it first")
    lists = _read(recommendations)
    added = _read_private_table(private, "added.parquet")
    names, people = _identify_users(lists.column("user"), private, recommendations)
    score = next(name for name in SCORES if name in lists.column_names)
    back = _missing_additions(lists, names, added, people)
    rows = pa.table(
        {
            "user": pa.concat_arrays([lists.column("user").combine_chunks(), back["user"]]),
            "item": pa.concat_arrays([lists.column("item").combine_chunks(), back["item"]]),
            score: pa.concat_arrays([lists.column(score).combine_chunks(), back["text"]]),
        }
    )
    person = np.concatenate([names, back["name"]])
    scores = np.concatenate([_parse_scores(lists.column(score), score, recommendations), back["score"]])
    order = np.lexsort(
        (np.arange(len(person)), -scores, person)
    )  # of equal scores the recommender's own come first
    rows = rows.take(pa.array(order))
    if "rank" in lists.column_names:
        starts = np.flatnonzero(np.diff(person[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order)))) + 1
        rows = rows.append_column("rank", pa.array(rank))
    for name in ("user", "item"):
        rows = rows.set_column(rows.column_names.index(name), name, marked(rows.column(name)))
    with _written_atomically(out) as arriving:
        pa.csv.write_csv(rows, arriving, pa.csv.WriteOptions(quoting_style="needed"))
    return {
        "status": "restored",
        "out": str(out),
        "users": int(person.max(initial=-1)) + 1,
        "recommended": len(names),
        "put_back": len(back["score"]),
        "recommended_anyway": back["there"],
    }


def _read(path: Path) -> pa.Table:
    """Read the lists, all columns as text: the recommender's own numbers are written as they were read."""
    if path.exists() and not path.is_file():  # a pipe would make the reader wait
        raise UsageError(
            "the file of recommendations is no ordinary file", where=str(path), remedy="copy it to one"
        )
    try:
        with pa.csv.open_csv(path) as head:
            names = head.schema.names
        kinds = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        )
        table = pa.csv.read_csv(path, convert_options=kinds)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as problem:
        why = "does not exist" if isinstance(problem, FileNotFoundError) else "cannot be read as a csv table"
        raise UsageError(
            f"the file of recommendations {why}",
            where=str(path),
            remedy=f"name a csv file with a header and the columns {COLUMNS}",
        ) from None
    wanted = {"user", "item"}
    missing = sorted(wanted - set(names)) + ([] if set(SCORES) & set(names) else ["score"])
    unknown = sorted(set(names) - wanted - set(SCORES) - {"rank"})
    if missing or unknown or len(set(names)) != len(names) or set(SCORES) <= set(names):
        fault = (
            f"lacks the columns {', '.join(missing)}"
            if missing
            else f"has columns it should not have: {', '.join(unknown) or 'two score columns'}"
        )
        raise UsageError(
            f"the table of recommendations {fault}",
            where=str(path),
            remedy=f"give it the columns {COLUMNS}",
        )
    # Those who read rows of `murmur expand --to csv` have ids with its mark of text.
    for name in ("user", "item"):
        table = table.set_column(names.index(name), name, unmarked(table.column(name)))
    return table


def _read_private_table(private: Path, file: str, columns: list[str] | None = None) -> pa.Table:
    """Read a table from the owner's private directory; that of a refused release is still with the candidate."""
    places = (private / file, private / "work" / "validate" / "private" / file)
    path = next((place for place in places if place.exists()), None)
    if path is None:
        raise UsageError(
            "there is no record of ratings added to this release",
            where=str(places[0]),
            remedy="name the private directory of a release with [obfuscation], such as store/private/NAME/SNAPSHOT",
        )
    try:
        return pq.read_table(path, columns=columns)
    except (OSError, pa.ArrowException):
        raise UsageError(
            "this private file cannot be read", where=str(path), remedy="run the release again"
        ) from None


def _identify_users(users: pa.ChunkedArray, private: Path, where: Path) -> tuple[np.ndarray, pa.Table]:
    """Return the user of every row, numbered by first appearance, and each user's name in the file and pseudonym.

    All users must be in the release, all under their pseudonyms or all under the source's ids.
    """
    coded = users.combine_chunks().dictionary_encode()
    owner = _read_private_table(private, "membership.parquet", ["user", "pseudonym"])
    found = [places(coded.dictionary, owner.column(name).combine_chunks()) for name in ("pseudonym", "user")]
    best = max(found, key=lambda place: int((place >= 0).sum()))
    if (best < 0).any():
        first = int(np.flatnonzero((best < 0)[coded.indices.to_numpy()])[0])
        raise UsageError(  # an id is never quoted
            f"{int((best < 0).sum()):,} of {len(best):,} users are not in this release",
            where=f"{where}, row {first + 1} after the header",
            remedy="use the release's pseudonyms or the source's user ids, one kind throughout, and the private "
            "directory of the same release",
        )
    pseudonyms = owner.column("pseudonym").take(pa.array(best)).combine_chunks()
    return coded.indices.to_numpy().astype(np.int64), pa.table(
        {"name_in_file": coded.dictionary, "pseudonym": pseudonyms}
    )


def _missing_additions(
    lists: pa.Table, names: np.ndarray, added: pa.Table, people: pa.Table
) -> dict[str, Any]:
    """Return the added items of the listed users that are not recommended to them anyway."""
    name = places(added.column("pseudonym").combine_chunks(), people.column("pseudonym").combine_chunks())
    theirs = added.filter(pa.array(name >= 0))
    name, item = name[name >= 0], theirs.column("item").combine_chunks()
    known = pc.unique(pa.concat_arrays([item, lists.column("item").combine_chunks()]))
    cell = name * len(known) + places(item, known)
    listed = names * len(known) + places(lists.column("item").combine_chunks(), known)
    new = ~np.isin(cell, listed)
    score = theirs.column("rating").to_numpy().astype(np.float64)[new]
    return {
        "name": name[new],
        "user": people.column("name_in_file").combine_chunks().take(pa.array(name[new])),
        "item": item.filter(pa.array(new)),
        "score": score,
        "text": pa.array([f"{value:.6g}" for value in score], pa.string()),
        "there": int((~new).sum()),
    }


def _parse_scores(column: pa.ChunkedArray, name: str, where: Path) -> np.ndarray:
    """Return scores as numbers; refuse the first that is not a number, with its row."""
    import pandas as pd

    found = pd.to_numeric(column.to_pandas(), errors="coerce").to_numpy(np.float64)
    if not np.isfinite(found).all():
        first = int(np.flatnonzero(~np.isfinite(found))[0])
        raise UsageError(
            f"a {name} is not a number",
            where=f"{where}, row {first + 1} after the header",
            remedy="write every score as a number such as 3.7",
        )
    return found


@contextlib.contextmanager
def _written_atomically(out: Path) -> Iterator[Path]:
    """Provide a temporary file beside `out`, readable by the owner only, that is renamed when it is complete."""
    arriving = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with room_in(out.parent):
            os.close(os.open(arriving, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            yield arriving
            arriving.rename(out)
    finally:
        arriving.unlink(missing_ok=True)
