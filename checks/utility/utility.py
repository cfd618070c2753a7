"""Test the utility floor: a release that predicts no better than random groups is not worth its risk.

The predictions come from a shadow run on 90 % of the ratings; here they are only scored on the held-out rest. A release
is refused where the loss is *shown* to be too large (lower bound): few held-out ratings leave the figure to chance, and
a release of doubtful use harms no one. Everything else in the gate takes the upper bound.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checks.evidence.case import Case
from checks.registry import check
from checks.result import Finding
from checks.stats import Z95
from tasks.errors import Refused

_COLUMNS = ("truth", "original", "target", "similar", "random_group", "item_mean")
SMALLEST_ROOM = 1e-4
BLOCKS = 20
FEWEST_PER_BLOCK = 5


@check("utility", threshold=0.75)
def run(case: Case, threshold: float) -> Finding:
    """Measure (target − original) / (random groups − original), in RMSE: 0 loses nothing, 1 is as bad as
    random groups."""
    if case.private is None:
        raise Refused(
            "there is no private directory with the figures of the shadow run", remedy="run `murmur audit`"
        )
    figures = summary(case.private / "utility")
    observed = _loss(figures)
    low, high = _interval(case.private / "utility", observed)
    # Of single people's records the figures are what a recommender trained on the release predicts by them.
    own, by_chance = ("own record", "another person") if case.single else ("own group", "random groups")
    text = (
        f"RMSE on held-out ratings: model {figures['original_rmse']:.4f}, {own} "
        f"{figures['target_deviation_rmse']:.4f}, "
        f"nearest profile {figures['similar_user_rmse']:.4f}, {by_chance} "
        f"{figures['random_group_rmse']:.4f}, "
        f"item means {figures['item_mean_rmse']:.4f}; {figures['null_share']:.1%} of the "
        f"cells are not published; the {own} is the nearest for {figures['self_rank_1_share']:.1%}."
    )
    if observed is None:
        text = (
            f"the model predicts no better than {by_chance}: there is no scale to judge the loss on. {text}"
        )
    shown = observed if low is None else low
    return Finding(
        shown is not None and shown <= threshold, observed, figures["heldout"], text, ci_low=low, ci_high=high
    )


def _loss(figures: dict[str, Any]) -> float | None:
    """Return the share of random groups' loss that the release loses; None where there is no scale to measure it on."""
    loss, room = (
        figures[name] - figures["original_rmse"] for name in ("target_deviation_rmse", "random_group_rmse")
    )
    if room >= SMALLEST_ROOM:
        return loss / room
    return 0.0 if loss <= 0 else None


def _interval(utility_dir: Path, observed: float | None) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the loss by a jackknife over blocks; the ratings lie by user, so blocks keep people
    together."""
    heldout = _read(utility_dir / "heldout.parquet", _COLUMNS)
    places = np.arange(len(heldout["truth"]))
    if observed is None or len(places) < FEWEST_PER_BLOCK * BLOCKS:
        return None, None
    without = []
    for block in range(BLOCKS):
        rest = places * BLOCKS // len(places) != block
        part = {name: values[rest] for name, values in heldout.items()}
        loss = None if np.isnan(part["target"]).all() else _loss(_errors(part))
        if loss is None:
            return None, None
        without.append(loss)
    spread = Z95 * math.sqrt((BLOCKS - 1) * float(np.var(without)))
    return observed - spread, observed + spread


def summary(utility_dir: Path) -> dict[str, Any]:
    """Return the figures of `utility` in the command line's JSON and in the report."""
    ranks = _read(utility_dir / "ranks.parquet", ("self_rank", "groups"))
    figures = _errors(_read(utility_dir / "heldout.parquet", _COLUMNS))
    heldout = figures.pop("heldout")
    return {**figures, "self_rank_1_share": float((ranks["self_rank"] == 1).mean()), "heldout": heldout}


def _errors(heldout: dict[str, np.ndarray]) -> dict[str, Any]:
    truth = heldout["truth"]
    known = ~np.isnan(heldout["target"])
    if not known.any():
        raise Refused(
            "no held-out rating lies in a published cell",
            where="utility/heldout.parquet",
            remedy="raise density",
        )
    return {
        "original_rmse": _rmse(heldout["original"] - truth),
        "original_mae": float(np.abs(heldout["original"] - truth).mean()),
        "target_deviation_rmse": _rmse((heldout["target"] - truth)[known]),
        "null_share": float(1 - known.mean()),
        "similar_user_rmse": _rmse((heldout["similar"] - truth)[~np.isnan(heldout["similar"])]),
        "random_group_rmse": _rmse((heldout["random_group"] - truth)[~np.isnan(heldout["random_group"])]),
        "item_mean_rmse": _rmse(heldout["item_mean"] - truth),
        "heldout": len(truth),
    }


def _read(path: Path, columns: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        raise Refused(
            f"the shadow run left no {path.name}: utility was not measured", where=path.name
        ) from None
    if missing := sorted(set(columns) - set(table.column_names)):
        raise Refused(f"{path.name} has no {', '.join(missing)}: utility was not measured", where=path.name)
    if table.num_rows == 0:
        raise Refused(f"{path.name} is empty: utility was not measured", where=path.name)
    return {name: table.column(name).to_numpy().astype(np.float64) for name in columns}


def _rmse(error: np.ndarray) -> float:
    if not len(error):
        raise Refused("a baseline of the shadow run has no value at all: utility was not measured")
    value = math.sqrt(float(np.mean(error**2)))
    if not math.isfinite(value):
        raise Refused("a prediction of the shadow run is not a number: utility was not measured")
    return value
