"""Great Expectations on the ingested ratings: schema, nulls, range, uniqueness, enough users and items.

The only file that imports Great Expectations, and only inside the function: the import takes about ten
seconds. It works in memory, asks no outside host and writes nothing. It sees positions of users and items,
never ids.

Two frames are validated. `totals` has one row of exact figures over all ratings, counted in blocks. `ratings`
has the ratings themselves; above `WHOLE_FRAME` of them, those of every s-th user, each with all of their
ratings, so that the memory stays bounded and the same data is always judged by the same sample.
"""

import logging
import os
from typing import Any

import numpy as np
import pandas as pd

from tasks.errors import UsageError

WHOLE_FRAME = 2_000_000
BLOCK_USERS = 4096

_COLUMNS = {"user": "int32", "item": "int32", "rating": "float32"}
_NEVER = ("not_a_number", "off_scale", "duplicates", "users_without_ratings")


def validate_ratings(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    *,
    items: int,
    scale: tuple[float, float],
    minimum_users: int,
    minimum_items: int = 2,
) -> dict[str, Any]:
    """Validate ratings by user (CSR arrays): what was checked, or UsageError naming what failed."""
    stride = max(1, -(-len(values) // WHOLE_FRAME))
    frame = _every_user(indptr, indices, values, stride)
    totals = _totals(indptr, indices, values, scale)
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read on import
    import great_expectations as gx
    import great_expectations.expectations as gxe
    from great_expectations.data_context.types.base import ProgressBarsConfig

    for name in (
        "great_expectations",
        "great_expectations.data_context.types.base",
    ):  # the second sets its own level
        logging.getLogger(name).setLevel(logging.ERROR)
    low, high = scale
    users = len(indptr) - 1
    between, unique = gxe.ExpectColumnValuesToBeBetween, gxe.ExpectColumnUniqueValueCountToBeBetween
    of_type, not_null = gxe.ExpectColumnValuesToBeOfType, gxe.ExpectColumnValuesToNotBeNull
    about = {
        "totals": [
            gxe.ExpectTableRowCountToEqual(value=1),
            between(column="users", min_value=minimum_users),
            between(column="items", min_value=minimum_items),
            between(column="items", min_value=items, max_value=items),
            between(column="ratings", min_value=len(indices), max_value=len(indices)),
            *(between(column=column, min_value=0, max_value=0) for column in _NEVER),
        ],
        "ratings": [
            gxe.ExpectTableColumnsToMatchOrderedList(column_list=list(_COLUMNS)),
            gxe.ExpectTableRowCountToBeBetween(min_value=1),
            *(of_type(column=column, type_=kind) for column, kind in _COLUMNS.items()),
            *(not_null(column=column) for column in _COLUMNS),
            between(column="rating", min_value=low, max_value=high),
            between(column="user", min_value=0, max_value=users - 1),
            between(column="item", min_value=0, max_value=items - 1),
            gxe.ExpectCompoundColumnsToBeUnique(column_list=["user", "item"]),
            unique(column="user", min_value=-(-users // stride), max_value=-(-users // stride)),
        ],
    }
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    source = context.data_sources.add_pandas("ingested")
    failed = []
    for name, data in (("totals", totals), ("ratings", frame)):
        asset = source.add_dataframe_asset(name)
        batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": data})
        suite = gx.ExpectationSuite(name=name, expectations=about[name])
        outcome = batch.validate(suite, result_format="BOOLEAN_ONLY")
        failed += [_named(result, name) for result in outcome.results if not result.success]
    if failed:
        raise UsageError(
            "the ingested ratings do not meet: " + "; ".join(failed),
            where="ingest",
            remedy="check the source; where it is right, please report this as a fault of ingest",
        )
    return {
        "expectations": sum(map(len, about.values())),
        "ratings": len(values),
        "ratings_in_frame": len(frame),
        "users": users,
        "items": items,
    }


def _named(result: Any, frame: str) -> str:
    """An expectation and what it is about, without any value."""
    settings = result.expectation_config.kwargs
    columns = settings.get("column") or ", ".join(settings.get("column_list", ["rows"]))
    raised = " (could not be evaluated)" if result.exception_info.get("raised_exception") else ""
    return f"{result.expectation_config.type}({frame}: {columns}){raised}"


def _every_user(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, stride: int) -> pd.DataFrame:
    """All ratings of every `stride`-th user."""
    count = np.diff(indptr)
    chosen = np.zeros(len(count), bool)
    chosen[::stride] = True
    rows = np.flatnonzero(np.repeat(chosen, count)) if stride > 1 else slice(None)
    return pd.DataFrame(
        {
            "user": np.repeat(np.flatnonzero(chosen), count[chosen]).astype(np.int32),
            "item": np.asarray(indices[rows]),
            "rating": np.asarray(values[rows]),
        }
    )


def _totals(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, scale: tuple[float, float]
) -> pd.DataFrame:
    """One row of exact figures, counted block by block."""
    low, high = scale
    users = len(indptr) - 1
    seen = np.zeros(0, np.int64)
    figures = dict.fromkeys(("ratings", *_NEVER), 0)
    for start in range(0, users, BLOCK_USERS):
        bounds = np.asarray(indptr[start : start + BLOCK_USERS + 1])
        item, value = indices[bounds[0] : bounds[-1]], values[bounds[0] : bounds[-1]]
        user = np.repeat(np.arange(len(bounds) - 1, dtype=np.int64), np.diff(bounds))
        pair = np.sort((user << 32) + item)
        seen = np.union1d(seen, item)
        figures["ratings"] += len(value)
        figures["not_a_number"] += int(np.isnan(value).sum())
        figures["off_scale"] += int(((value < low) | (value > high)).sum())
        figures["duplicates"] += int((pair[1:] == pair[:-1]).sum())
        figures["users_without_ratings"] += int((np.diff(bounds) == 0).sum())
    return pd.DataFrame([{"users": users, "items": len(seen), **figures}])
