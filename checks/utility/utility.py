"""Test the utility floor: a release that predicts no better than random groups is not worth its risk.

The predictions come from a shadow run on 90 % of the ratings; here they are only scored on the held-out rest. A release
is refused where the loss is *shown* to be too large (lower bound): few held-out ratings leave the figure to chance, and
a release of doubtful use harms no one. Everything else in the gate takes the upper bound. The intervals of this check
are not widened for further attempts: that would make passing easier.

All that is about the shadow. Whether the release is what was measured is tested on its own cells: its error on what its
people rated (checks/evidence/own_error.py) may be at most OWN_LIMIT of the way from the shadow's to that of random
groups, the shadow's or the release's, whichever is lower. Random, permuted and constant values are about as wrong as
random groups. Whether that is shown is decided by a jackknife over people: a few hundred ratings leave a tenth of the
way to chance. Where the shadow's records describe their own people hardly better than others (noise of many standard
deviations, groups of nearly everybody), a quarter of the way is less than what nine tenths of the ratings change by
themselves; then the release's error may only not exceed the shadow's by more than a quarter.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checks.evidence.case import Case
from checks.evidence.own_error import OwnErrors, own_errors
from checks.evidence.views.shadow import shadow_view
from checks.registry import check
from checks.result import Finding
from checks.stats import Z95
from tasks.errors import Refused

_COLUMNS = ("truth", "original", "target", "similar", "random_group", "item_mean")
SMALLEST_ROOM = 1e-4
BLOCKS = 20
FEWEST_PER_BLOCK = 5
OWN_LIMIT = 0.25  # of the way from the shadow's own error to that of random groups (docs/threat-model.md)
FEWEST_APART = 0.05  # of the shadow's error, from which on there is a way to measure


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
    worth = shown is not None and shown <= threshold
    own_values = _own_distance(case.as_published)
    text = f"{text} {own_values.words(own, by_chance)}"
    if worth and not own_values.passed:
        value, (low, high) = own_values.value, own_values.interval
        compared = own_values.compared
        return Finding(False, value, compared, text, ci_low=low, ci_high=high, threshold=OWN_LIMIT)
    return Finding(worth and own_values.passed, observed, figures["heldout"], text, ci_low=low, ci_high=high)


@dataclass(frozen=True)
class OwnDistance:
    """Hold how far the release's own error is from its shadow's.

    `value`: as a share of the way to random groups (`measurable`), or of the shadow's own error; None where nothing
    that people rated is published.
    """

    value: float | None
    spread: float
    errors: tuple[float, float, float]
    measurable: bool
    compared: int

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """The 95 % interval of the value."""
        return (None, None) if self.value is None else (self.value - self.spread, self.value + self.spread)

    @property
    def passed(self) -> bool:
        """Whether the release is not shown to be another than the one that was measured."""
        return self.value is not None and self.value - self.spread <= OWN_LIMIT

    def words(self, own: str, by_chance: str) -> str:
        """Say what was found."""
        if self.value is None:
            return "Of what its people rated the release, or its shadow, publishes nothing."
        release, shadow, drawn = self.errors
        what = (
            f"{self.value:.0%} of the way (allowed {OWN_LIMIT:.0%})"
            if self.measurable
            else f"too near to each other to measure a way; {self.value:+.0%} of the shadow's, allowed {OWN_LIMIT:+.0%}"
        )
        return (
            f"Error of the {own} on what people rated: release {release:.4f}, its shadow {shadow:.4f}, {by_chance} "
            f"{drawn:.4f}: {what}."
        )


def _own_distance(case: Case) -> OwnDistance:
    """Compare the own error of a release with that of its shadow and of random groups."""
    shadow = shadow_view(case)
    found, like = own_errors(case), own_errors(shadow)
    place = pc.index_in(shadow.truth.membership.users, value_set=case.truth.membership.users).to_numpy()
    errors = _own_and_drawn(found, like)
    if any(map(math.isnan, errors)):
        return OwnDistance(None, 0.0, errors, measurable=False, compared=found.compared)
    # The shadow decides: a release of item means would be near to its own random groups.
    room = like.drawn_rmse() - like.own_rmse()
    measurable = room > 0 and room >= FEWEST_APART * like.own_rmse()
    # Blocks of people, the same in release and shadow, in an order that has nothing to do with them.
    block = np.empty(case.truth.users, np.int64)
    block[case.in_drawn_order(np.arange(len(block)), "blocks")] = np.arange(len(block)) % BLOCKS
    without = [
        _distance(_own_and_drawn(found, like, block != one, block[place] != one), measurable=measurable)
        for one in range(BLOCKS)
    ]
    spread = Z95 * math.sqrt((BLOCKS - 1) * float(np.var(without)))
    value = _distance(errors, measurable=measurable)
    return OwnDistance(value, 0.0 if math.isnan(spread) else spread, errors, measurable, found.compared)


def _own_and_drawn(
    found: OwnErrors,
    like: OwnErrors,
    people: np.ndarray | slice = slice(None),
    shadow_people: np.ndarray | slice = slice(None),
) -> tuple[float, float, float]:
    """Return the own error of the release and of its shadow, and the lower of their errors by chance."""
    drawn = min(found.drawn_rmse(people), like.drawn_rmse(shadow_people))
    return found.own_rmse(people), like.own_rmse(shadow_people), drawn


def _distance(errors: tuple[float, float, float], *, measurable: bool) -> float:
    release, shadow, drawn = errors
    return (release - shadow) / max(drawn - shadow if measurable else shadow, SMALLEST_ROOM)


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
