"""Ingest: read ratings from the source into arrays on disk (tasks/data/ratings.py), in memory bounded by the block.

An external sort in four passes over blocks, each pass in parallel on the workers:

1. read      every piece of the source → parts with their own dictionaries of ids
2. encode    neighbouring parts → a run sorted by user, ids replaced by their rank among all ids
3. by user   all runs' share of a range of users → sorted, duplicates resolved; also a run sorted by item
4. by item   all those runs' share of a range of items → sorted

Ids are ranked by their UTF-8 bytes and sorting is stable, so the result depends neither on where blocks
begin nor on the number of workers. A duplicated (user, item) keeps the last by timestamp, then the last in
the file.
"""

import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks import formats
from tasks.config import ReleaseConfig, Source
from tasks.config.base import Settings
from tasks.data.attributes import write_known
from tasks.data.ratings import Ratings, write_chunks, write_ids
from tasks.errors import UsageError
from tasks.formats import BadRow, Ids, Piece
from tasks.series.cohort import SeriesParams
from tasks.series.cohort_ratings import keep_cohort, planned_head
from tasks.series.spending import Payment, keep_unblocked, require_payable
from tasks.store import Store, remove

if TYPE_CHECKING:
    from tasks.pipeline import Job

RESULT = "ratings"
RANGE_RATINGS = 2_000_000  # ratings sorted at once: some 200 MB in a worker
GRAINS = 4096  # ranges are made of this many equal parts of the ids
OFFENDERS_SHOWN = 10
PASSES = 4


class Params(Settings):
    """Hold the source, the number of users that the promises need, and the attributes that must be known."""

    source: Source
    k: int
    l: int  # noqa: E741
    needed: tuple[str, ...]
    series: SeriesParams | None  # None: this release stands alone
    payment: Payment | None  # None: this release spends no privacy budget


@dataclass(frozen=True)
class Inputs:
    """Hold nothing: ingest reads the source."""


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    privacy = config.privacy
    # Of synthetic rows nothing needs so many people, and whether there are is an exact figure of the data.
    k, l = (privacy.k, privacy.l) if privacy.budget is None else (1, 1)  # noqa: E741
    return Params(
        source=config.source,
        k=k,
        l=l,
        needed=config.needed_attributes,
        series=SeriesParams.of(config),
        payment=Payment.of(config),
    )


def external(params: Params, snapshot: datetime.date, store: Store) -> dict[str, Any]:
    """Return what the result depends on beside the settings: the state of the source's files and of the ledger.

    Refuses a release that its privacy budget does not pay for: this is asked before a step runs, and again when an
    earlier result would be used.
    """
    blocked = None if params.payment is None else require_payable(store, params.payment, snapshot)
    state: dict[str, Any] = formats.state(params.source, snapshot)
    if blocked is not None:
        state["blocked"] = blocked
    if params.series is not None:
        state["ledger"] = planned_head(store, params.series, snapshot)
    return state


def run(job: "Job") -> dict[str, Any]:
    """Read, sort, check and write all ratings, in a series those of the cohort alone; return the counts."""
    if job.params.payment is not None:
        require_payable(job.store, job.params.payment, job.snapshot)
    table = formats.attributes(job.params.source, job.snapshot)  # first: it is small, and may be refused
    scratch = job.out / "parts"
    whole = job.params.series is None and job.params.payment is None
    everybody = job.out if whole else job.out / "everybody"
    everybody.mkdir(exist_ok=True)
    scratch.mkdir()
    try:
        counts = _ingest(job, everybody, scratch)
    finally:
        remove(scratch)
    counts |= {"attributes": write_known(everybody, table, job.params.needed)}
    counts |= {"expectations": _validate(job, everybody)["expectations"]}
    if job.params.series is not None:
        counts |= keep_cohort(
            job.params.series, everybody, job.out, job.store, job.snapshot, job.rng("pools")
        )
        remove(everybody)
    elif job.params.payment is not None:
        counts |= keep_unblocked(job.params.payment, everybody, job.out, job.store)
    return counts


def _ingest(job: "Job", out: Path, scratch: Path) -> dict[str, Any]:
    source = job.params.source
    pieces = formats.pieces(source, job.snapshot)
    tallies = _mapped(
        job, 0, _read, list(enumerate(pieces)), source=source, snapshot=job.snapshot, scratch=scratch
    )
    total = _total(pieces, tallies)
    refuse_bad_rows(total, source, job.snapshot)

    parts = sorted(scratch.glob("read-*.arrow"))
    users, items = (_ranked(parts, column) for column in ("user", "item"))
    refuse_few_users(len(users), job.params.k, job.params.l)
    write_ids(out, "user", users)
    write_ids(out, "item", items)
    shape = (len(users), len(items))
    del users, items

    grains = _mapped(job, 1, _encode, list(enumerate(_groups(parts))), out=out, scratch=scratch)
    _discard(parts)
    runs = sorted(scratch.glob("encoded-*.arrow"))
    ranges = list(enumerate(_ranges(sum(grains), shape[0])))
    merged = _mapped(job, 2, _merge_users, ranges, runs=runs, items=shape[1], scratch=scratch)
    _discard(runs)
    sorted_by_user = [scratch / f"user-{number:06}.arrow" for number, _ in ranges]
    _write_side(out / "by_user", sorted_by_user, row="user", column="item", rows=shape[0])
    _discard(sorted_by_user)

    runs = [scratch / f"item-run-{number:06}.arrow" for number, _ in ranges]
    ranges = list(enumerate(_ranges(sum(grain for _, grain in merged), shape[1])))
    _mapped(job, 3, _merge_items, ranges, runs=runs, scratch=scratch)
    sorted_by_item = [scratch / f"item-{number:06}.arrow" for number, _ in ranges]
    _write_side(out / "by_item", sorted_by_item, row="item", column="user", rows=shape[1])

    duplicates = sum(count for count, _ in merged)
    return {
        "rows_read": total.rows_read,
        "accepted": total.accepted,
        "rejected": sum(total.rejected.values()),
        "rejected_by_reason": dict(sorted(total.rejected.items())),
        "first_rejected": [asdict(offender) for offender in total.offenders],
        "duplicates": duplicates,
        "users": shape[0],
        "items": shape[1],
        "ratings": total.accepted - duplicates,
    }


def _mapped(job: "Job", number: int, function: Callable[..., Any], blocks: list, **common: Any) -> list:
    """Run one pass on the workers; progress counts all passes as equal."""

    def progress(done: int, total: int) -> None:
        job.progress(round(100 * (number + done / total)), 100 * PASSES)

    return job.engine.map(function, blocks, progress=progress, **common)


# --- pass 1: read -------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """Hold the counts of the rows of a piece, or of the whole source. No content of any row."""

    rows_read: int
    accepted: int
    rejected: Counter[str]
    offenders: list[BadRow]
    lines: int
    off_scale: tuple[float, float] | None = None


def _read(numbered: tuple[int, Piece], source: Source, snapshot: datetime.date, scratch: Path) -> Tally:
    """Write the blocks of a piece as parts, their ids as dictionaries."""
    number, piece = numbered
    tally = Tally(0, 0, Counter(), [], 0)
    for position, block in enumerate(formats.read(piece, source, snapshot)):
        tally.rows_read += block.rows_read
        tally.accepted += len(block.ratings)
        tally.rejected.update(block.rejected)
        tally.offenders = [*tally.offenders, *block.offenders][:OFFENDERS_SHOWN]
        tally.lines += block.lines
        tally.off_scale = formats.wider(tally.off_scale, block.off_scale)
        if len(block.ratings):
            part = {"user": _coded(block.users), "item": _coded(block.items), "value": block.ratings}
            if block.timestamps is not None:
                part["time"] = block.timestamps
            _write(scratch / f"read-{number:06}-{position:06}.arrow", part)
    return tally


def _coded(ids: Ids) -> pa.DictionaryArray:
    """Return ids as a dictionary of those that occur: the ids of rejected rows must not remain in it."""
    coded = ids.dictionary_encode()
    codes = coded.indices.to_numpy()
    used = np.bincount(codes, minlength=len(coded.dictionary)) > 0
    if used.all():
        return coded
    place = np.cumsum(used) - 1
    return pa.DictionaryArray.from_arrays(
        place[codes].astype(np.int32), coded.dictionary.filter(pa.array(used))
    )


def _total(pieces: list[Piece], tallies: list[Tally]) -> Tally:
    """Add up all pieces; a piece inside a file counted its lines from its own beginning."""
    total = Tally(0, 0, Counter(), [], 0)
    for piece, tally in zip(pieces, tallies, strict=True):
        before = total.lines if piece.start else 0
        total.rows_read += tally.rows_read
        total.accepted += tally.accepted
        total.rejected.update(tally.rejected)
        total.offenders += [o.after(before) for o in tally.offenders]
        total.lines = before + tally.lines
        total.off_scale = formats.wider(total.off_scale, tally.off_scale)
    total.offenders = total.offenders[:OFFENDERS_SHOWN]
    return total


def refuse_bad_rows(total: Tally, source: Source, snapshot: datetime.date) -> None:
    """Refuse a source without rows, or with more rows that cannot be used than it may have."""
    if total.rows_read == 0:
        raise formats.no_ratings(source, snapshot)
    rejected = sum(total.rejected.values())
    if rejected > source.max_bad_rows * total.rows_read:
        raise UsageError(
            f"{rejected:,} of {total.rows_read:,} rows cannot be used, more than source.max_bad_rows "
            f"{source.max_bad_rows:g} allows; the first:\n    "
            + "\n    ".join(dict.fromkeys(map(str, total.offenders))),
            where=formats.expand_path(source, snapshot),
            remedy=formats.bad_rows_remedy(total.rejected, total.off_scale, source),
        )


def refuse_few_users(users: int, k: int, l: int) -> None:  # noqa: E741
    """Refuse fewer people than the promised groups need."""
    if users < k:
        raise UsageError(
            f"the source has {users:,} user{'s' if users != 1 else ''}, fewer than privacy.k = {k:,}: "
            "no group can be formed",
            where="privacy.k",
            remedy="use more data, or a smaller privacy.k",
        )
    if users // k < l:
        formed = f"{users // k:,} group{'s' if users // k != 1 else ''}"
        raise UsageError(
            f"{users:,} users form at most {formed} of privacy.k = {k:,}, fewer than privacy.l = {l:,}",
            where="privacy.l",
            remedy="use more data, or lower privacy.l or privacy.k",
        )


def _ranked(parts: list[Path], column: str) -> pa.StringArray:
    """Return all ids of a column, in the order of their UTF-8 bytes."""
    dictionaries = [_open(part).column(column).chunk(0).dictionary for part in parts]
    ids = pc.unique(pa.chunked_array(dictionaries, pa.string()))
    return ids.take(pc.sort_indices(ids))


# --- passes 2 to 4: sort ------------------------------------------------------------------------------------


def _groups(parts: list[Path]) -> list[list[Path]]:
    """Put neighbouring parts together to about RANGE_RATINGS ratings."""
    sizes = np.array([_open(part).num_rows for part in parts])
    number = (np.cumsum(sizes) - sizes) // RANGE_RATINGS
    return [parts[slice(*np.searchsorted(number, [one, one + 1]))] for one in np.unique(number)]


def _encode(numbered: tuple[int, list[Path]], out: Path, scratch: Path) -> np.ndarray:
    """Turn parts into one run of ranks instead of ids, sorted by user; return the ratings per grain of users."""
    number, parts = numbered
    tables = [_open(part) for part in parts]
    columns, sizes = {}, {}
    for column in ("user", "item"):
        ids = pq.read_table(out / f"{column}s.parquet").column(column).combine_chunks()
        coded = [table.column(column).chunk(0) for table in tables]
        # All dictionaries in one go: Arrow hashes the whole value set anew in every call.
        ranks = pc.index_in(pa.concat_arrays([one.dictionary for one in coded]), value_set=ids).to_numpy()
        first = np.cumsum([0, *(len(one.dictionary) for one in coded)])
        columns[column] = np.concatenate(
            [ranks[start:][one.indices.to_numpy()] for start, one in zip(first, coded, strict=False)]
        )
        sizes[column] = len(ids)
    order = _order(columns["user"], sizes["user"])
    for name in tables[0].column_names[2:]:
        columns[name] = np.concatenate([_numpy(table, name) for table in tables])
    run = {name: column[order] for name, column in columns.items()}
    _write(scratch / f"encoded-{number:06}.arrow", run)
    return _grains(run["user"], sizes["user"])


def _order(keys: np.ndarray, size: int) -> np.ndarray:
    """Return the stable argsort of whole numbers below `size`, in linear time."""
    # SciPy turns columns into rows by counting: column j has its only entry in row keys[j].
    one_each = (np.zeros(len(keys), np.int8), keys, np.arange(len(keys) + 1, dtype=np.int32))
    return sp.csc_array(one_each, shape=(size, len(keys))).tocsr().indices


def _merge_users(
    numbered: tuple[int, tuple[int, int]], runs: list[Path], items: int, scratch: Path
) -> tuple[int, np.ndarray]:
    """Merge a range of users from all runs: sorted, one rating per (user, item). Return the duplicates dropped."""
    number, (start, stop) = numbered
    table = _gather(runs, "user", start, stop)
    user, item = _numpy(table, "user"), _numpy(table, "item")
    order = _order(item, items)
    order = order[_order(user[order] - start, stop - start)]
    user, item = user[order], item[order]
    again = np.concatenate([[False], (user[1:] == user[:-1]) & (item[1:] == item[:-1])])
    if again.any() and "time" in table.column_names:
        shared = again | np.append(again[1:], False)
        rows = order[shared]
        when = _numpy(table, "time")[rows]
        order[shared] = rows[np.lexsort((when, item[shared], user[shared]))]  # stable, too
    last = ~np.append(again[1:], False)
    columns = {"user": user[last], "item": item[last]}
    columns |= {name: _numpy(table, name)[order[last]] for name in table.column_names if name not in columns}
    _write(scratch / f"user-{number:06}.arrow", columns)
    by_item = _order(columns["item"], items)
    run = {name: columns[name][by_item] for name in ("item", "user", "value")}
    _write(scratch / f"item-run-{number:06}.arrow", run)
    return int(again.sum()), _grains(run["item"], items)


def _merge_items(numbered: tuple[int, tuple[int, int]], runs: list[Path], scratch: Path) -> None:
    """Merge a range of items from all runs; runs are in the users' order, so users ascend in an item."""
    number, (start, stop) = numbered
    table = _gather(runs, "item", start, stop)
    order = _order(_numpy(table, "item") - start, stop - start)
    _write(scratch / f"item-{number:06}.arrow", {c: _numpy(table, c)[order] for c in table.column_names})


def _gather(runs: list[Path], column: str, start: int, stop: int) -> pa.Table:
    """Return the rows of all runs whose `column` is in start..stop; only their pages are read."""
    slices = []
    ends = np.array([start, stop], np.int32)  # of the ranks' own type, else NumPy converts the whole column
    for table in map(_open, runs):
        first, last = np.searchsorted(_numpy(table, column), ends)
        slices.append(table.slice(first, last - first))
    return pa.concat_tables(slices)


def _grains(ranks: np.ndarray, size: int) -> np.ndarray:
    """Count the ascending ranks in each grain."""
    edges = np.minimum(np.arange(GRAINS + 1) * _grain(size), size).astype(np.int32)
    return np.diff(np.searchsorted(ranks, edges))


def _grain(size: int) -> int:
    return -(-size // GRAINS)


def _ranges(grains: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Put neighbouring grains together to ranges of about RANGE_RATINGS ratings."""
    number = (np.cumsum(grains) - grains) // RANGE_RATINGS
    starts = np.flatnonzero(np.diff(number, prepend=-1)) * _grain(size)
    starts = starts[starts < size].tolist()
    return list(zip(starts, [*starts[1:], size], strict=True))


def _write_side(directory: Path, tables: list[Path], *, row: str, column: str, rows: int) -> None:
    """Write sorted tables, one after the other, as the arrays of one orientation."""
    directory.mkdir()
    counts = np.zeros(rows, np.int64)
    for path in tables:
        numbers = _numpy(_open(path), row)
        if len(numbers):  # ascending: a table has a range of the rows
            first, last = int(numbers[0]), int(numbers[-1]) + 1
            counts[first:last] += np.bincount(numbers - first, minlength=last - first)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    np.save(directory / "indptr.npy", indptr)
    kinds = {column: ("indices", np.int32), "value": ("values", np.float32), "time": ("timestamps", np.int64)}
    for name, (file, dtype) in kinds.items():
        if name in _open(tables[0]).column_names:
            write_chunks(
                directory / f"{file}.npy", dtype, int(indptr[-1]), (_numpy(_open(t), name) for t in tables)
            )


# --- files --------------------------------------------------------------------------------------------------


def _write(path: Path, columns: dict[str, Any]) -> None:
    """Write a table in one chunk, uncompressed, so that it can be mapped; whole or not at all."""
    table = pa.table(columns)
    temporary = path.with_suffix(".tmp")
    with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    temporary.replace(path)


def _open(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _numpy(table: pa.Table, column: str) -> np.ndarray:
    chunks = table.column(column).chunks
    return chunks[0].to_numpy() if len(chunks) == 1 else table.column(column).to_numpy()


def _discard(files: list[Path]) -> None:
    for file in files:
        file.unlink()


def _validate(job: "Job", written: Path) -> dict[str, Any]:
    """Validate with Great Expectations what was written to disk."""
    from checks.expectations import validate_ratings

    ratings = Ratings(written)
    by_user = ratings.by_user
    return validate_ratings(
        by_user.indptr,
        by_user.indices,
        by_user.values,
        items=ratings.n_items,
        scale=job.params.source.scale,
        minimum_users=job.params.k,
        where=formats.expand_path(job.params.source, job.snapshot) or "the synthetic source",
    )
