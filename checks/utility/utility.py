"""Test the utility floor: a release that predicts no better than random groups is not worth its risk.

The predictions come from a shadow run on 90 % of the ratings; here they are only scored on the held-out rest. A release
is refused where the loss is *shown* to be too large (lower bound): few held-out ratings leave the figure to chance, and
a release of doubtful use harms no one. Where even random groups are not shown to be worse than the model, there is no
interval, and what decides is whether loss − threshold · room is shown to be above 0 ([Fieller1954]): the same question
without the division. Everything else in the gate takes the upper bound. The intervals of this check
are not widened for further attempts: that would make passing easier.

Recommenders also need lists. How well these are ranked (checks/evidence/shadow_ranking.py) is reported for every
release. It is decisive where a release claims to say what goes together: synthetic rows, whose cells predict nobody's
ratings, and groups with numbers of raters (support.parquet). There own histories must be *shown* to be ranked better
than by popularity, which is nearly public: the lower bound of the difference in nDCG@10 is above 0, of the shadow's
release and of the release's own rows (checks/evidence/own_ranking.py). Its intervals are widened for further attempts:
a release must not become useful by luck. The line then holds the shortfall, popularity less the release, and its
threshold is 0.

The RMSE is about the shadow. Whether the release is what was measured is tested on its own cells: its error on what its
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

from checks.about import About
from checks.evidence import own_ranking, shadow_ranking
from checks.evidence.case import Case
from checks.evidence.own_error import OwnErrors, own_errors
from checks.evidence.own_ranking import support_of
from checks.evidence.shadow_ranking import FEWEST_PEOPLE, Ranks
from checks.evidence.views.shadow import shadow_view
from checks.registry import ANY, check
from checks.result import Finding
from checks.stats import Z95, interval_z, ratio_interval, shown_above
from tasks.errors import Refused

_COLUMNS = ("truth", "original", "target", "similar", "random_group", "item_mean")
SYNTHETIC = "dp-synthetic"  # the method whose records are nobody's
SMALLEST_ROOM = 1e-4
BLOCKS = 20
FEWEST_PER_BLOCK = 5
OWN_LIMIT = 0.25  # of the way from the shadow's own error to that of random groups (docs/threat-model.md)
FEWEST_APART = 0.05  # of the shadow's error, from which on there is a way to measure


@check(
    "utility",
    threshold=0.75,
    units=ANY,
    about=About(
        title="Accuracy lost",
        summary="Test that the release predicts better than chance",
        knows="The check has one rating in ten that was held out before anything was fitted.",
        tries="It compares the error of a release made of the rest with that of the full data and of random groups.",
        means=(
            "0 % loses nothing and 100 % is as bad as random groups; a release beyond the limit is not worth its "
            "risk."
        ),
        measure="share of the accuracy lost, on the way to random groups",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure (target − original) / (random groups − original), in RMSE: 0 loses nothing, 1 is as bad as
    random groups."""
    if case.private is None:
        raise Refused(
            "there is no private directory with the figures of the shadow run", remedy="run `murmur audit`"
        )
    if case.release.manifest["method"] == SYNTHETIC:
        return _ranking(case)
    found = _rmse_loss(case, case.private, threshold)
    if not found.passed or support_of(case.as_published) is None:
        return found
    ranked = _ranking(case)
    return found if ranked.passed else ranked


def _ranking(case: Case) -> Finding:
    """Decide whether own histories are shown to be ranked better by the release than by popularity."""
    assert case.private is not None
    ranks = Ranks.read(case.private / "utility")
    if ranks is None:
        raise Refused(
            "the shadow run left no ranking.parquet: ranking was not measured", remedy="run the release anew"
        )
    text = shadow_ranking.words(shadow_ranking.summary(case.private / "utility"), single=False)
    people = len(ranks.people)
    if people < FEWEST_PEOPLE:
        return Finding(False, None, people, text, threshold=0.0)
    of_shadow = shadow_ranking.above_popularity(ranks)
    of_rows = own_ranking.above_popularity(case.as_published, ranks)
    shown = [found.interval(interval_z())[0] > 0 for found in (of_shadow, of_rows)]
    found = of_rows if shown[0] and not shown[1] else of_shadow
    low, high = found.interval(interval_z())
    text = (
        f"nDCG@10 with own histories above popularity: shadow {of_shadow.value:+.3f}, rows of the release itself "
        f"{of_rows.value:+.3f}. {text}"
    )
    return Finding(all(shown), -found.value, found.people, text, ci_low=-high, ci_high=-low, threshold=0.0)


def _rmse_loss(case: Case, private: Path, threshold: float) -> Finding:
    """Decide on the loss in RMSE, and whether the release is what the shadow run measured."""
    figures = summary(private / "utility")
    observed = _loss(figures)
    low, high, worth = _judge_loss(private / "utility", figures, threshold)
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
    own_values = _own_distance(case.as_published)
    ranking = shadow_ranking.words(figures["ranking"], single=case.single)
    text = f"{text} {own_values.words(own, by_chance)} {ranking}"
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


def _loss_and_room(figures: dict[str, Any]) -> tuple[float, float]:
    """Return how much worse than the model the release is, and how much worse random groups are."""
    model = figures["original_rmse"]
    return figures["target_deviation_rmse"] - model, figures["random_group_rmse"] - model


def _loss(figures: dict[str, Any]) -> float | None:
    """Return the share of random groups' loss that the release loses; None where there is no scale to measure it on."""
    loss, room = _loss_and_room(figures)
    if room >= SMALLEST_ROOM:
        return loss / room
    return 0.0 if loss <= 0 else None


def _judge_loss(
    utility_dir: Path, figures: dict[str, Any], threshold: float
) -> tuple[float | None, float | None, bool]:
    """Return the 95 % interval of the loss, and whether it is not shown to be above the threshold.

    Both from a jackknife over blocks of loss and room, the two parts of the ratio: the room of few held-out ratings may
    be near 0, where the ratio itself says nothing but loss − threshold · room still does (checks/stats.py). The ratings
    lie by user, so blocks keep people together.
    """
    parts = _loss_and_room(figures)
    heldout = _read(utility_dir / "heldout.parquet", _COLUMNS)
    places = np.arange(len(heldout["truth"]))
    without = []
    if len(places) >= FEWEST_PER_BLOCK * BLOCKS:
        for block in range(BLOCKS):
            rest = places * BLOCKS // len(places) != block
            part = {name: values[rest] for name, values in heldout.items()}
            if not np.isnan(part["target"]).all():
                without.append(_loss_and_room(_errors(part)))
    if len(without) < BLOCKS:
        observed = _loss(figures)
        return None, None, observed is not None and observed <= threshold
    spread = (BLOCKS - 1) * np.cov(np.array(without), rowvar=False, bias=True)
    return *ratio_interval(*parts, spread, Z95), not shown_above(*parts, threshold, spread, Z95)


def summary(utility_dir: Path) -> dict[str, Any]:
    """Return the figures of `utility` in the command line's JSON and in the report; of synthetic rows, which predict
    nobody's ratings, only those of `ranking`."""
    ranking = shadow_ranking.summary(utility_dir)
    if not (utility_dir / "heldout.parquet").exists() and (utility_dir / shadow_ranking.FILE).exists():
        return {"ranking": ranking}
    ranks = _read(utility_dir / "ranks.parquet", ("self_rank", "groups"))
    figures = _errors(_read(utility_dir / "heldout.parquet", _COLUMNS))
    heldout = figures.pop("heldout")
    return {
        **figures,
        "self_rank_1_share": float((ranks["self_rank"] == 1).mean()),
        "heldout": heldout,
        "ranking": ranking,
    }


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
