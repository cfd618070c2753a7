"""Read a source once for `murmur check`, and say what a run would say about it.

A run reads all rows on the workers and sorts them; here they are only counted, in one process and in bounded memory:
distinct users and items as text, pairs of them as 64-bit digests.
"""

import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tasks import formats
from tasks.config import ReleaseConfig
from tasks.formats import Ids, RatingBlock
from tasks.steps.ingest import OFFENDERS_SHOWN, Tally, refuse_bad_rows, refuse_few_users

MOST_ROWS = 20_000_000  # read at most: about a minute, and 160 MB for the pairs
MANY_DUPLICATES = 0.01  # share of the rows from which a wrong column is likely
ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class Survey:
    """Hold what was found in a source, or in its beginning (`whole` is False)."""

    tally: Tally = field(default_factory=lambda: Tally(0, 0, Counter(), [], 0))
    users: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    items: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    levels: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))
    duplicates: int = 0
    first: RatingBlock | None = None
    whole: bool = True

    @property
    def ratings(self) -> int:
        """Return how many ratings a run would keep: of duplicates one counts."""
        return self.tally.accepted - self.duplicates


def survey(
    config: ReleaseConfig, snapshot: datetime.date, progress: Callable[[int, int], None] | None = None
) -> Survey:
    """Read the source, at most MOST_ROWS of it, and refuse what a run would refuse."""
    found = Survey()
    parts = formats.pieces(config.source, snapshot)
    users: list[pa.Array] = []
    items: list[pa.Array] = []
    pairs: list[np.ndarray] = []
    for number, part in enumerate(parts):
        before = found.tally.lines if part.start else 0  # a piece inside a file counts from its own beginning
        found.tally.lines = before
        for block in formats.read(part, config.source, snapshot):
            _add(found, block, before)
            if len(block.ratings):
                users.append(_distinct(block.users))
                items.append(_distinct(block.items))
                pairs.append(_digests(block.users) * ODD ^ _digests(block.items))
            if found.tally.rows_read >= MOST_ROWS:
                found.whole = False
                break
        if progress:
            progress(number + 1, len(parts))
        if not found.whole:
            break
    refuse_bad_rows(found.tally, config.source, snapshot)
    found.users, found.items = _together(users), _together(items)
    if pairs:
        every = np.concatenate(pairs)
        found.duplicates = len(every) - len(np.unique(every))
    if found.whole:  # else there may be more
        refuse_few_users(len(found.users), config.privacy.k, config.privacy.l)
    return found


def to_note(config: ReleaseConfig, found: Survey) -> list[str]:
    """Return what a run would accept and the owner probably does not mean, one sentence each."""
    notes = []
    low, high = config.source.scale
    if len(found.levels) and (found.levels[0] > low or found.levels[-1] < high):
        seen = f"{found.levels[0]:g} to {found.levels[-1]:g}"
        notes.append(
            f"source.scale is [{low:g}, {high:g}], and the ratings are {seen}: a scale that is too wide makes "
            "errors look small; set it to the lowest and the highest rating that is possible"
        )
    share = found.duplicates / max(1, found.tally.accepted)
    if share > MANY_DUPLICATES:
        notes.append(
            f"{share:.1%} of the rows rate an item that the same person rates in another row; the latest counts "
            "(without times the last in the file): check source.columns.user and source.columns.item"
        )
    rejected = sum(found.tally.rejected.values())
    if rejected:
        remedy = formats.bad_rows_remedy(found.tally.rejected, found.tally.off_scale, config.source)
        notes.append(f"{rejected:,} rows cannot be used and are set aside (source.max_bad_rows): {remedy}")
    fewest = config.series.fewest_newcomers(config.privacy.k)
    if config.series_mode == "sticky" and found.whole and len(found.users) < fewest:
        notes.append(
            f"the source has {len(found.users):,} people, and a cohort needs {fewest:,} who were never released: a run "
            "releases nobody new; lower series.min_cohort, or wait until more people come"
        )
    return notes


def _add(found: Survey, block: RatingBlock, before: int) -> None:
    tally = found.tally
    tally.rows_read += block.rows_read
    tally.accepted += len(block.ratings)
    tally.rejected.update(block.rejected)
    tally.off_scale = formats.wider(tally.off_scale, block.off_scale)
    tally.offenders = [*tally.offenders, *(one.after(before) for one in block.offenders)][:OFFENDERS_SHOWN]
    tally.lines += block.lines
    found.levels = np.union1d(found.levels, block.ratings)
    if found.first is None and len(block.ratings):
        found.first = block


def _distinct(ids: Ids) -> pa.Array:
    return pc.unique(ids).cast(pa.string())


def _together(parts: list[pa.Array]) -> pa.Array:
    return pc.unique(pa.chunked_array(parts, pa.string()))


def _digests(ids: Ids) -> np.ndarray:
    """Return a digest of each id, equal for equal ids of any block."""
    coded = ids if isinstance(ids, pa.DictionaryArray) else ids.dictionary_encode()
    of = pd.util.hash_array(coded.dictionary.to_numpy(zero_copy_only=False).astype(object), categorize=False)
    return of[coded.indices.to_numpy(zero_copy_only=False)]
