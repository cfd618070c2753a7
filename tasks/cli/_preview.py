"""What `murmur check` says about a source before anything runs: first rows, what is odd, and what a run would cost."""

import datetime
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import methods
from tasks.attributes import figures, known_of, refuse_unknown
from tasks.config import ReleaseConfig
from tasks.errors import UsageError
from tasks.formats import RatingBlock, attributes, no_ratings, pieces, read

ROWS_SHOWN = 5
BLOCKS_READ = 3
# Measured on MovieLens 1M with `murmur run` (two workers): a fixed part, and a part per rating.
BASE_BYTES, BYTES_PER_RATING = 750e6, 250
BASE_SECONDS, SECONDS_PER_RATING = 20.0, 4e-5


def preview(config: ReleaseConfig, snapshot: datetime.date) -> dict[str, Any]:
    """Read the beginning of the source; refuse what the run itself would refuse there."""
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
    return {
        "method": config.privacy.method,
        "promise": _promise(config),
        "not_used_by_this_method": _not_used(config),
        "reach": _reach(config, len(users), len(items)),
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
    """What is promised; where nobody shares a record, k is a bound on the risk instead."""
    promised = methods.promised(config)
    if not methods.method(config).SINGLE:
        return promised
    return {"records": methods.in_words(config), "l": promised["l"], "b": promised["b"]}


def _not_used(config: ReleaseConfig) -> str | None:
    """Tables of the file that are another method's."""
    used = {config.privacy.method, methods.change(config)}
    others = (set(methods.registered()) & config.model_fields_set) - used
    return ", ".join(f"[{name}]" for name in sorted(others)) or None


def _reach(config: ReleaseConfig, users: int, items: int) -> str | None:
    """Refuse more people and items than MDAV can group at once; how large bins will be nobody knows yet."""
    if config.privacy.method != "microaggregation":
        return None
    if config.microaggregation.within_bins:
        return "asked when the bins are known: each is grouped by itself"
    from tasks.groupings import mdav

    mdav.reach(users, items, mdav.params(config))
    return f"the {users:,} users × {items:,} items read here can be grouped at once"


def _attributes(
    config: ReleaseConfig, snapshot: datetime.date, users: pa.Array, *, whole: bool
) -> dict[str, dict[str, Any]]:
    """Which attributes are known, of how many of the users read here, and which are protected; no value."""
    table = attributes(config.source, snapshot)
    known = known_of(users, table)
    # Further users may be known where only a part was read; in what the table has for nobody, they cannot differ.
    judged = known if whole or table is None else known_of(table.column("user").combine_chunks(), table)
    refuse_unknown(judged, config.needed_attributes)
    return {
        name: {"users_read": len(users), **figures(values), "protected": name in config.privacy.protect}
        for name, values in known.items()
    }


def _different(ids: list[pa.Array]) -> pa.Array:
    """The ids in some blocks, each of which may have a dictionary of its own."""
    return pc.unique(pa.chunked_array([pc.unique(some).cast(pa.string()) for some in ids]))


def _refuse_what_run_refuses(
    config: ReleaseConfig, blocks: list[RatingBlock], rejected: int, read_rows: int
) -> None:
    if rejected > config.source.max_bad_rows * read_rows:
        lines = [str(offender) for block in blocks for offender in block.offenders][:3]
        raise UsageError(
            f"{rejected:,} of the first {read_rows:,} rows cannot be used, more than source.max_bad_rows allows",
            where="; ".join(lines),
            remedy="correct the rows, or raise source.max_bad_rows",
        )


def _first_rows(block: RatingBlock) -> list[dict[str, Any]]:
    """The first rows, users left out: even here a source id would end up in somebody's terminal log."""
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
