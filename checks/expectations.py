"""Validate the ingested ratings, and restate the gate's verdict, with Great Expectations.

This is the only file that imports Great Expectations, and only inside functions: the import takes about ten seconds.
It works in memory, contacts no host and writes nothing. It sees positions of users and items, never ids.

`validate_ratings` tests schema, nulls, range, uniqueness and a sufficient number of users and items on two frames.
`totals` has one row of exact figures over all ratings, counted in blocks. `ratings` has the ratings themselves; above
`WHOLE_FRAME` of them, those of every s-th user, each with all ratings of that user, so that memory stays bounded and
the same data are always judged by the same sample. Every expectation carries the words for its refusal.

`validate_verdict` tests one row per line of checks.json with expectations of our own. It decides nothing, because the
gate has decided: it gives the same verdict as a validation result of Great Expectations, for owners who collect those.
"""

import logging
import math
import os
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from tasks.config.gate import check_names
from tasks.errors import UsageError

WHOLE_FRAME = 2_000_000
BLOCK_USERS = 4096

_COLUMNS = {"user": "int32", "item": "int32", "rating": "float32"}
_MUST_BE_ZERO = ("not_a_number", "off_scale", "duplicates", "users_without_ratings")


def validate_ratings(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    *,
    items: int,
    scale: tuple[float, float],
    minimum_users: int,
    minimum_items: int = 2,
    where: str = "source",
) -> dict[str, Any]:
    """Validate ratings by user (CSR arrays); return what was tested, or raise UsageError in the owner's words.

    `where` names the source for the message.
    """
    if not int(indptr[-1]) == len(indices) == len(values):
        counted = (
            f"{len(indices):,} items and {len(values):,} values were written for {int(indptr[-1]):,} ratings"
        )
        raise _damaged([counted], where)
    stride = max(1, -(-len(values) // WHOLE_FRAME))
    frame = _every_user(indptr, indices, values, stride)
    totals = _totals(indptr, indices, values, items, scale)
    gx = _great_expectations()
    users = len(indptr) - 1
    minimum = {"users": minimum_users, "items": minimum_items}
    suites = {
        "totals": (totals, _expected_totals(totals, minimum, items, len(indices), scale)),
        "ratings": (frame, _expected_ratings(frame, totals, users, items, scale, stride)),
    }
    failed: list[Any] = []
    for name, (data, expectations) in suites.items():
        suite = gx.ExpectationSuite(name=name, expectations=expectations)
        result = _batch("ingested", name, data).validate(suite, result_format="BOOLEAN_ONLY")
        failed += [one for one in result.results if not one.success]
    if failed:
        raise _refusal(failed, where)
    return {
        "expectations": sum(len(expectations) for _, expectations in suites.values()),
        "ratings": len(values),
        "ratings_in_frame": len(frame),
        "users": users,
        "items": items,
    }


def _expected_totals(
    totals: pd.DataFrame, minimum: dict[str, int], items: int, ratings: int, scale: tuple[float, float]
) -> list[Any]:
    """Return what is expected of the figures over all ratings."""
    import great_expectations.expectations as gxe

    between = gxe.ExpectColumnValuesToBeBetween
    counted = totals.iloc[0]
    faults = _faults(totals, scale)
    too_few_users = _source_problem(
        f"the source has {_count(counted['users'], 'user')}, fewer than privacy.k = {minimum['users']}",
        "use more data, or a smaller privacy.k",
    )
    too_few_items = _source_problem(
        f"the source has ratings of {_count(counted['items'], 'item')}; at least {minimum['items']} are needed",
        "use more data; check that source.columns.item names the column of items",
    )
    other_items = _fault(f"the ratings refer to {counted['items']:,} items, but the item list has {items:,}")
    other_ratings = _fault(f"{ratings:,} ratings were written, but the users have {counted['ratings']:,}")
    return [
        gxe.ExpectTableRowCountToEqual(value=1, meta=_fault("the ratings could not be counted")),
        between(column="users", min_value=minimum["users"], meta=too_few_users),
        between(column="items", min_value=minimum["items"], meta=too_few_items),
        between(column="items", min_value=items, max_value=items, meta=other_items),
        between(column="ratings", min_value=ratings, max_value=ratings, meta=other_ratings),
        *(between(column=name, min_value=0, max_value=0, meta=faults[name]) for name in _MUST_BE_ZERO),
    ]


def _expected_ratings(
    frame: pd.DataFrame,
    totals: pd.DataFrame,
    users: int,
    items: int,
    scale: tuple[float, float],
    stride: int,
) -> list[Any]:
    """Return what is expected of the ratings themselves."""
    import great_expectations.expectations as gxe

    between, unique = gxe.ExpectColumnValuesToBeBetween, gxe.ExpectColumnUniqueValueCountToBeBetween
    of_type, not_null = gxe.ExpectColumnValuesToBeOfType, gxe.ExpectColumnValuesToNotBeNull
    columns, faults = list(_COLUMNS), _faults(totals, scale)
    types = {
        name: _fault(f"the {name} column has the type {frame[name].dtype}, not {kind}")
        for name, kind in _COLUMNS.items()
    }
    missing = {name: _fault(f"a rating has no {name}") for name in columns} | {
        "rating": faults["not_a_number"]
    }
    outside = {
        "user": _fault(f"a rating belongs to a user outside the list of {users:,} users"),
        "item": _fault(f"a rating refers to an item outside the list of {items:,} items"),
    }
    no_columns = _fault(f"the ratings do not have the columns {', '.join(columns)}")
    empty = _source_problem("the source has no ratings", "use a source with ratings; check source.path")
    low, high = scale
    return [
        gxe.ExpectTableColumnsToMatchOrderedList(column_list=columns, meta=no_columns),
        gxe.ExpectTableRowCountToBeBetween(min_value=1, meta=empty),
        *(of_type(column=name, type_=kind, meta=types[name]) for name, kind in _COLUMNS.items()),
        *(not_null(column=name, meta=missing[name]) for name in columns),
        between(column="rating", min_value=low, max_value=high, meta=faults["off_scale"]),
        between(column="user", min_value=0, max_value=users - 1, meta=outside["user"]),
        between(column="item", min_value=0, max_value=items - 1, meta=outside["item"]),
        gxe.ExpectCompoundColumnsToBeUnique(column_list=["user", "item"], meta=faults["duplicates"]),
        unique(
            column="user",
            min_value=-(-users // stride),
            max_value=-(-users // stride),
            meta=faults["users_without_ratings"],
        ),
    ]


def _faults(totals: pd.DataFrame, scale: tuple[float, float]) -> dict[str, dict[str, str]]:
    """Return the words for each figure that must be zero."""
    counted = totals.iloc[0]
    ratings = {name: _count(counted[name], "rating") for name in _MUST_BE_ZERO}
    return {
        "not_a_number": _fault(f"not a number: {ratings['not_a_number']}"),
        "off_scale": _fault(f"outside the scale from {scale[0]:g} to {scale[1]:g}: {ratings['off_scale']}"),
        "duplicates": _fault(f"more than one rating of an item by the same user: {ratings['duplicates']}"),
        "users_without_ratings": _fault(
            f"without any rating: {_count(counted['users_without_ratings'], 'user')}"
        ),
    }


def _source_problem(what: str, remedy: str) -> dict[str, str]:
    """Return the words for a problem that the owner of the source can solve."""
    return {"what": what, "remedy": remedy}


def _fault(what: str) -> dict[str, str]:
    """Return the words for a problem that ingest has caused or overlooked: it rejects such rows while reading."""
    return {"what": what}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _refusal(failed: list[Any], where: str) -> UsageError:
    """Return the error for failed expectations: problems of the source first, each problem once."""
    words = [one.expectation_config.meta for one in failed]
    problems = [meta for meta in words if "remedy" in meta]
    if problems:  # what else failed follows from these
        return UsageError(
            "; ".join(dict.fromkeys(meta["what"] for meta in problems)),
            where=where,
            remedy="; ".join(dict.fromkeys(meta["remedy"] for meta in problems)),
        )
    untested = any(one.exception_info.get("raised_exception") for one in failed)
    found = [meta["what"] for meta in words] + (["a test could not be evaluated"] if untested else [])
    return _damaged(found, where)


def _damaged(problems: list[str], where: str) -> UsageError:
    return UsageError(
        "the ratings that ingest wrote are damaged: " + "; ".join(dict.fromkeys(problems)),
        where=f"ingest of {where}",
        remedy="run the step again; if it fails again, check disk and memory, then report it as a fault of ingest",
    )


def validate_verdict(checks: list[dict[str, Any]], names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the gate's verdict (lines of checks.json) as a validation result of Great Expectations, as JSON.

    `names` are the checks that must have run, by default all checks. `success` is true exactly when each of them has
    one line and the verdict passed. Advisory checks are listed and cannot fail it, as in the gate. The result has no
    times and no run ids: the same verdict gives the same bytes.
    """
    gx = _great_expectations()
    every, gating, passing, answering = _verdict_expectations()
    expected = sorted(check_names() if names is None else names)
    frame = pd.DataFrame(
        [{column: _plain(check.get(column)) for column in _LINE} for check in checks], dtype=object
    )
    expectations = [
        every(names=expected, description="Every check of the gate has run exactly once."),
        gating(description="There is at least one gating check, and all gating checks have passed."),
    ]
    for name, severity in {check["name"]: check["severity"] for check in checks}.items():
        if severity == "advisory":
            text = f"The advisory check '{name}' has a result; it does not decide on publication."
            expectations.append(answering(check=name, severity="info", description=text))
        else:
            expectations.append(passing(check=name, description=f"The check '{name}' has passed."))
    suite = gx.ExpectationSuite(name="gate", expectations=expectations)
    outcome = _batch("verdict", "checks", frame.reindex(columns=list(_LINE))).validate(suite).to_json_dict()
    outcome["meta"] = {
        name: value
        for name, value in outcome["meta"].items()
        if name not in ("batch_markers", "batch_spec", "run_id")
    }
    return outcome


_LINE = (
    *("name", "passed", "applicable", "void", "observed", "threshold"),
    *("ci_low", "ci_high", "n", "severity", "detail"),
)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _verdict_expectations() -> tuple[Any, Any, Any, Any]:
    """Define our own expectations, once: Great Expectations registers each class."""
    from great_expectations.core.metric_domain_types import MetricDomainTypes
    from great_expectations.execution_engine import PandasExecutionEngine
    from great_expectations.expectations.expectation import BatchExpectation
    from great_expectations.expectations.metrics.metric_provider import metric_value
    from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

    lines_metric = "table.murmuration.checks"

    class Lines(TableMetricProvider):
        """Provide the lines of checks.json as a metric."""

        metric_name = lines_metric

        @metric_value(engine=PandasExecutionEngine)
        def _pandas(
            cls: Any,
            execution_engine: Any,
            metric_domain_kwargs: Any,
            metric_value_kwargs: Any,
            metrics: Any,
            runtime_configuration: Any,
        ) -> list[dict[str, Any]]:
            domain = execution_engine.get_compute_domain(metric_domain_kwargs, MetricDomainTypes.TABLE)
            return domain[0].to_dict("records")

    class ExpectEveryCheckToHaveRun(BatchExpectation):
        """Expect one line for each of these checks."""

        names: list[str]
        metric_dependencies = (lines_metric,)
        success_keys = ("names",)

        def _validate(
            self, metrics: dict, runtime_configuration: Any = None, execution_engine: Any = None
        ) -> dict:
            found = [line["name"] for line in metrics[lines_metric]]
            missing = [name for name in self.names if name not in found]
            repeated = sorted({name for name in found if found.count(name) > 1})
            details = {"missing": missing, "repeated": repeated}
            return {
                "success": not missing and not repeated,
                "result": {"observed_value": len(found), "details": details},
            }

    class ExpectGatingChecksToPass(BatchExpectation):
        """Expect at least one gating check, and every gating check to have passed."""

        metric_dependencies = (lines_metric,)

        def _validate(
            self, metrics: dict, runtime_configuration: Any = None, execution_engine: Any = None
        ) -> dict:
            gating = [line for line in metrics[lines_metric] if line["severity"] != "advisory"]
            failed = [line["name"] for line in gating if line["passed"] is not True]
            details = {"gating": len(gating), "failed": failed}
            success = bool(gating) and not failed
            return {
                "success": success,
                "result": {"observed_value": len(gating) - len(failed), "details": details},
            }

    class ExpectCheckToPass(BatchExpectation):
        """Expect a check to have passed; the result contains its observed value, its threshold and its detail."""

        check: str
        metric_dependencies = (lines_metric,)
        success_keys = ("check",)

        def _validate(
            self, metrics: dict, runtime_configuration: Any = None, execution_engine: Any = None
        ) -> dict:
            lines = [line for line in metrics[lines_metric] if line["name"] == self.check]
            success = bool(lines) and all(self._satisfied(line) for line in lines)
            shown = next((line for line in lines if not self._satisfied(line)), lines[0] if lines else {})
            details = {column: shown.get(column) for column in _LINE if column not in ("name", "observed")}
            return {
                "success": success,
                "result": {"observed_value": shown.get("observed"), "details": details},
            }

        def _satisfied(self, line: dict) -> bool:
            return line["passed"] is True

    class ExpectAdvisoryCheckToAnswer(ExpectCheckToPass):
        """Expect an advisory check to have passed or failed; its result does not decide on publication."""

        def _satisfied(self, line: dict) -> bool:
            return isinstance(line["passed"], bool)

    return ExpectEveryCheckToHaveRun, ExpectGatingChecksToPass, ExpectCheckToPass, ExpectAdvisoryCheckToAnswer


def _great_expectations() -> Any:
    """Import the library silently: the import logs hundreds of lines at level INFO, which Airflow shows."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read on import
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    import great_expectations as gx
    import great_expectations.data_context.types.base as talkative

    logging.getLogger(talkative.__name__).setLevel(logging.ERROR)  # its import sets another
    return gx


def _batch(source: str, name: str, data: pd.DataFrame) -> Any:
    """Return a frame in memory as a batch of Great Expectations."""
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = _great_expectations().get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas(source).add_dataframe_asset(name)
    return asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": data})


def _every_user(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, stride: int) -> pd.DataFrame:
    """Return all ratings of every `stride`-th user."""
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
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, items: int, scale: tuple[float, float]
) -> pd.DataFrame:
    """Return one row of exact figures, counted block by block."""
    low, high = scale
    users = len(indptr) - 1
    known, outside = np.zeros(items, bool), np.zeros(0, np.int64)
    figures = dict.fromkeys(("ratings", *_MUST_BE_ZERO), 0)
    for start in range(0, users, BLOCK_USERS):
        bounds = np.asarray(indptr[start : start + BLOCK_USERS + 1])
        item, value = indices[bounds[0] : bounds[-1]], values[bounds[0] : bounds[-1]]
        inside = (item >= 0) & (item < items)
        known[item[inside]] = True
        outside = np.union1d(outside, item[~inside])
        figures["ratings"] += len(value)
        figures["not_a_number"] += int(np.isnan(value).sum())
        figures["off_scale"] += int(((value < low) | (value > high)).sum())
        figures["duplicates"] += _duplicates(item, np.diff(bounds))
        figures["users_without_ratings"] += int((np.diff(bounds) == 0).sum())
    return pd.DataFrame([{"users": users, "items": int(known.sum()) + len(outside), **figures}])


def _duplicates(item: np.ndarray, count: np.ndarray) -> int:
    """Return the number of repeated (user, item) pairs of consecutive users with `count` ratings each."""
    user = np.repeat(np.arange(len(count), dtype=np.int32), count)
    if (
        (item[1:] > item[:-1]) | (user[1:] != user[:-1])
    ).all():  # ingest writes them in this order: nothing to sort
        return 0
    pair = np.sort((user.astype(np.int64) << 32) + item)
    return int((pair[1:] == pair[:-1]).sum())
