"""Great Expectations, for the people who live in it: on the ingested ratings, and on the gate's verdict.

The only file that imports Great Expectations, and only inside the functions: the import takes about ten
seconds. It works in memory, asks no outside host and writes nothing. It sees positions of users and items,
never ids.

`validate_ratings`: schema, nulls, range, uniqueness, enough users and items. Two frames are validated. `totals`
has one row of exact figures over all ratings, counted in blocks. `ratings` has the ratings themselves; above
`WHOLE_FRAME` of them, those of every s-th user, each with all of their ratings, so that the memory stays bounded
and the same data is always judged by the same sample.

`validate_verdict`: one row per line of checks.json, judged by expectations of our own. It decides nothing: the
gate has; this says the same in the words of Great Expectations.
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
    totals = _totals(indptr, indices, values, items, scale)
    gx = _great_expectations()
    import great_expectations.expectations as gxe

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
    failed = []
    for name, data in (("totals", totals), ("ratings", frame)):
        suite = gx.ExpectationSuite(name=name, expectations=about[name])
        outcome = _batch("ingested", name, data).validate(suite, result_format="BOOLEAN_ONLY")
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


def validate_verdict(checks: list[dict[str, Any]], names: Iterable[str] | None = None) -> dict[str, Any]:
    """The gate's verdict (lines of checks.json) as a validation result of Great Expectations, as JSON.

    `names` are the checks that must have run, by default all there are. `success` is True exactly when each of
    them has one line and the verdict passed. Advisory checks are shown and cannot fail it, as in the gate.
    Without times and run ids: the same verdict gives the same bytes.
    """
    gx = _great_expectations()
    every, gating, passing, answering = _verdict_expectations()
    expected = sorted(check_names() if names is None else names)
    frame = pd.DataFrame(
        [{column: _plain(check.get(column)) for column in _LINE} for check in checks], dtype=object
    )
    expectations = [
        every(names=expected, description="Every check of the gate has run, once."),
        gating(description="There are checks that gate, and all of them have passed."),
    ]
    for name, severity in {check["name"]: check["severity"] for check in checks}.items():
        if severity == "advisory":
            said = f"The advisory check '{name}' has answered; what it found is for the reader to weigh."
            expectations.append(answering(check=name, severity="info", description=said))
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


_LINE = ("name", "passed", "observed", "threshold", "ci_low", "ci_high", "n", "severity", "detail")


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _verdict_expectations() -> tuple[Any, Any, Any, Any]:
    """Our own expectations; defined once, Great Expectations keeps a register of them."""
    from great_expectations.core.metric_domain_types import MetricDomainTypes
    from great_expectations.execution_engine import PandasExecutionEngine
    from great_expectations.expectations.expectation import BatchExpectation
    from great_expectations.expectations.metrics.metric_provider import metric_value
    from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

    lines_metric = "table.murmuration.checks"

    class Lines(TableMetricProvider):
        """The lines of checks.json."""

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
        """Expect at least one check that gates, and every one of them to have passed."""

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
        """Expect a check to have passed; the result has what it observed, the threshold and why."""

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
        """Expect an advisory check to have passed or failed; its figures are for the reader to weigh."""

        def _satisfied(self, line: dict) -> bool:
            return isinstance(line["passed"], bool)

    return ExpectEveryCheckToHaveRun, ExpectGatingChecksToPass, ExpectCheckToPass, ExpectAdvisoryCheckToAnswer


def _great_expectations() -> Any:
    """Import it, silent: its import alone logs hundreds of lines where INFO is shown, as Airflow does."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read on import
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    import great_expectations as gx
    import great_expectations.data_context.types.base as talkative

    logging.getLogger(talkative.__name__).setLevel(logging.ERROR)  # its import sets another
    return gx


def _batch(source: str, name: str, data: pd.DataFrame) -> Any:
    """A frame as Great Expectations takes it, in memory."""
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = _great_expectations().get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas(source).add_dataframe_asset(name)
    return asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": data})


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
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, items: int, scale: tuple[float, float]
) -> pd.DataFrame:
    """One row of exact figures, counted block by block."""
    low, high = scale
    users = len(indptr) - 1
    known, strangers = np.zeros(items, bool), np.zeros(0, np.int64)
    figures = dict.fromkeys(("ratings", *_NEVER), 0)
    for start in range(0, users, BLOCK_USERS):
        bounds = np.asarray(indptr[start : start + BLOCK_USERS + 1])
        item, value = indices[bounds[0] : bounds[-1]], values[bounds[0] : bounds[-1]]
        inside = (item >= 0) & (item < items)
        known[item[inside]] = True
        strangers = np.union1d(strangers, item[~inside])
        figures["ratings"] += len(value)
        figures["not_a_number"] += int(np.isnan(value).sum())
        figures["off_scale"] += int(((value < low) | (value > high)).sum())
        figures["duplicates"] += _duplicates(item, np.diff(bounds))
        figures["users_without_ratings"] += int((np.diff(bounds) == 0).sum())
    return pd.DataFrame([{"users": users, "items": int(known.sum()) + len(strangers), **figures}])


def _duplicates(item: np.ndarray, count: np.ndarray) -> int:
    """Items that a user has more than once, for consecutive users of `count` ratings."""
    user = np.repeat(np.arange(len(count), dtype=np.int32), count)
    if ((item[1:] > item[:-1]) | (user[1:] != user[:-1])).all():  # as ingest writes them: nothing to sort
        return 0
    pair = np.sort((user.astype(np.int64) << 32) + item)
    return int((pair[1:] == pair[:-1]).sum())
