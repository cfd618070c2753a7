"""Read the beginning of a source for `murmur check`: first rows, anomalies, and what a run would cost."""

import datetime
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.data.attributes import figures, known_of, refuse_unknown
from tasks.errors import UsageError
from tasks.formats import RatingBlock, attributes, no_ratings, pieces, read

ROWS_SHOWN = 5
BLOCKS_READ = 3
# Measured on MovieLens 1M with `murmur run` (two workers): a fixed part, and a part per rating.
BASE_BYTES, BYTES_PER_RATING = 750e6, 250
BASE_SECONDS, SECONDS_PER_RATING = 20.0, 4e-5


def preview(config: ReleaseConfig, snapshot: datetime.date) -> dict[str, Any]:
    """Describe the beginning of the source; refuse what the run itself would refuse there."""
    parts = pieces(config.source, snapshot)
    beginnings = (list(islice(read(part, config.source, snapshot), BLOCKS_READ)) for part in parts)
    blocks = next((some for some in beginnings if any(block.rows_read for block in some)), [])
    if not blocks:
        raise no_ratings(config.source, snapshot)
    read_rows = sum(block.rows_read for block in blocks)
    accepted = sum(len(block.ratings) for block in blocks)
    if accepted == 0:
        reasons = sorted({reason for block in blocks for reason in block.rejected})
        raise UsageError(
            f"none of the first {read_rows:,} rows can be used"
            + (f": {'; '.join(reasons[:3])}" if reasons else ""),
            where="source",
            remedy="check source.format, source.columns, source.delimiter and source.scale",
        )
    _refuse_what_run_refuses(config, blocks, read_rows - accepted, read_rows)
    # Whatever else the source holds, it has no fewer people and items than these.
    users, items = (_different([getattr(block, ids) for block in blocks]) for ids in ("users", "items"))
    whole = len(parts) == 1 and len(blocks) < BLOCKS_READ
    ratings = np.concatenate([block.ratings for block in blocks])
    estimate = accepted * len(parts)
    reach = methods.method(config).reach
    return {
        "method": config.privacy.method,
        "promise": _promise(config),
        "not_used_by_this_method": ", ".join(f"[{name}]" for name in methods.unused_tables(config)) or None,
        "reach": reach(config, len(users), len(items)) if reach else None,
        "steps": " → ".join(methods.graph(config)),
        "source": {
            "format": config.source.format,
            "columns": "user, item, rating" + ("" if blocks[0].timestamps is None else ", timestamp"),
            "rows_read": read_rows,
            "rows_rejected": read_rows - accepted,
            "users_read": len(users),
            "items_read": len(items),
            "scale": list(config.source.scale),
            "lowest_rating": float(ratings.min()),
            "highest_rating": float(ratings.max()),
            "distinct_ratings": len(np.unique(ratings)),
        },
        "attributes": _attributes(config, snapshot, users, whole=whole),
        "estimate": {
            "ratings": estimate,
            "memory_bytes": round(BASE_BYTES + BYTES_PER_RATING * estimate),
            "cpu_seconds": round(BASE_SECONDS + SECONDS_PER_RATING * estimate),
        },
        "rows": _first_rows(blocks[0]),
    }


def _promise(config: ReleaseConfig) -> dict[str, Any]:
    """Return the privacy parameters; where every record is one person's, k is an upper bound of the risk instead."""
    promised = methods.promised_parameters(config)
    if not methods.method(config).publishes_persons:
        return promised
    return {"records": methods.promise_in_words(config), "l": promised["l"], "b": promised["b"]}


def _attributes(
    config: ReleaseConfig, snapshot: datetime.date, users: pa.Array, *, whole: bool
) -> dict[str, dict[str, Any]]:
    """Count for each attribute the users with a known value, and say whether it is protected; show no value."""
    table = attributes(config.source, snapshot)
    known = known_of(users, table)
    # Where only a part was read, the table may know further users; what it knows for no user cannot differ.
    judged = known if whole or table is None else known_of(table.column("user").combine_chunks(), table)
    refuse_unknown(judged, config.needed_attributes)
    return {
        name: {"users_read": len(users), **figures(values), "protected": name in config.privacy.protect}
        for name, values in known.items()
    }


def _different(ids: list[pa.Array]) -> pa.Array:
    """Return the distinct ids of some blocks, each of which may have a dictionary of its own."""
    return pc.unique(pa.chunked_array([pc.unique(some).cast(pa.string()) for some in ids]))


def _refuse_what_run_refuses(
    config: ReleaseConfig, blocks: list[RatingBlock], rejected: int, read_rows: int
) -> None:
    if rejected > config.source.max_bad_rows * read_rows:
        places = list(dict.fromkeys(str(offender) for block in blocks for offender in block.offenders))
        raise UsageError(
            f"{rejected:,} of the first {read_rows:,} rows cannot be used, more than source.max_bad_rows allows",
            where="; ".join(places[:3]),
            remedy="correct the rows, or raise source.max_bad_rows",
        )


def _first_rows(block: RatingBlock) -> list[dict[str, Any]]:
    """Return the first rows without the users: a source id would stay in the terminal's log."""
    times = block.timestamps
    return [
        {
            "user": "(hidden)",
            "item": block.items[row].as_py(),
            "rating": float(block.ratings[row]),
            "timestamp": None if times is None else int(times[row]),
        }
        for row in range(min(ROWS_SHOWN, len(block.ratings)))
    ]
