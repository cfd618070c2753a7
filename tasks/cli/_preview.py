"""Read a source for `murmur check`: first rows, what a run would refuse, or accept by mistake, and its cost."""

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tasks import methods
from tasks.cli._source_survey import survey, to_note
from tasks.config import ReleaseConfig
from tasks.data.attributes import figures, known_of, refuse_unknown
from tasks.errors import UsageError
from tasks.formats import RatingBlock, attributes
from tasks.series.budget import planned

ROWS_SHOWN = 5
# Measured on MovieLens 1M with `murmur run` (two workers): a fixed part, and a part per rating.
BASE_BYTES, BYTES_PER_RATING = 750e6, 250
BASE_SECONDS, SECONDS_PER_RATING = 20.0, 4e-5


def preview(
    config: ReleaseConfig,
    snapshot: datetime.date,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Describe the source, and what a run would do with it; refuse what the run itself would refuse."""
    table = attributes(config.source, snapshot)  # first, as a run does: it is small, and may be refused
    found = survey(config, snapshot, progress)
    tally, first = found.tally, found.first
    if first is None:
        raise UsageError(
            f"none of the {tally.rows_read:,} rows can be used: {'; '.join(sorted(tally.rejected)[:3])}",
            where="source",
            remedy="check source.format, source.columns, source.delimiter and source.scale",
        )
    reach = methods.method(config).reach
    return {
        "method": config.privacy.method,
        "promise": _promise(config),
        "not_used_by_this_method": ", ".join(f"[{name}]" for name in methods.unused_tables(config)) or None,
        "reach": reach(config, len(found.users), len(found.items)) if reach else None,
        "steps": " → ".join(methods.graph(config)),
        "source": {
            "format": config.source.format,
            "columns": "user, item, rating" + ("" if first.timestamps is None else ", timestamp"),
            "whole": found.whole,
            "rows_read": tally.rows_read,
            "rows_rejected": tally.rows_read - tally.accepted,
            "duplicates": found.duplicates,
            "ratings": found.ratings,
            "users_read": len(found.users),
            "items_read": len(found.items),
            "scale": list(config.source.scale),
            "lowest_rating": float(found.levels[0]),
            "highest_rating": float(found.levels[-1]),
            "distinct_ratings": len(found.levels),
        },
        "attributes": _attributes(config, table, found.users, whole=found.whole),
        "estimate": {
            "memory_bytes": round(BASE_BYTES + BYTES_PER_RATING * found.ratings),
            "cpu_seconds": round(BASE_SECONDS + SECONDS_PER_RATING * found.ratings),
        },
        "notes": to_note(config, found),
        "rows": _first_rows(first),
    }


def _promise(config: ReleaseConfig) -> dict[str, Any]:
    """Return the privacy parameters; where every record is one person's, k is an upper bound of the risk instead."""
    if config.privacy.budget is not None:
        share = planned(config.privacy.budget)
        words = methods.promise_in_words(config)
        return {"rows": words, **{name: getattr(share, name) for name in ("epsilon", "delta", "rho")}}
    promised = methods.promised_parameters(config)
    if not methods.method(config).publishes_persons:
        return promised
    return {"records": methods.promise_in_words(config), "l": promised["l"], "b": promised["b"]}


def _attributes(
    config: ReleaseConfig, table: pa.Table | None, users: pa.Array, *, whole: bool
) -> dict[str, dict[str, Any]]:
    """Count for each attribute the users with a known value, and say whether it is protected; show no value."""
    known = known_of(users, table)
    # Where only a part was read, the table may know further users; what it knows for no user cannot differ.
    judged = known if whole or table is None else known_of(table.column("user").combine_chunks(), table)
    refuse_unknown(judged, config.needed_attributes)
    return {
        name: {"users_read": len(users), **figures(values), "protected": name in config.privacy.protect}
        for name, values in known.items()
    }


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
