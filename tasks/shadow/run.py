"""Run the method's steps on the shadow's ratings, and fit the model that its predictions are compared with."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.factors import FactorParams
from tasks.data.ratings import Ratings
from tasks.engine import Engine
from tasks.pipeline import Plan, Run, StepContext, execute, plan
from tasks.shadow.baseline import fit_baseline
from tasks.shadow.placement import withhold_same_items


class ShadowPlan(Settings):
    """Hold the steps of the shadow run with their parameters, and the parameters of the baseline model."""

    steps: Plan
    factors: FactorParams
    ratings_step: str  # whose ratings the release is made of: ingest, or a step that changes them
    profiles_step: str

    @classmethod
    def of(cls, config: ReleaseConfig) -> "ShadowPlan":
        """Return the plan for a release."""
        steps, changed = methods.data_steps(config), methods.changing_step(config)
        # What a release leaves out is searched for once: its shadow leaves out the same.
        given = ("ingest", "suppression") if changed == "suppression" else ("ingest",)
        # The model of the ratings is fitted for any method: predictions are compared with it.
        names = tuple(dict.fromkeys(name for name in (*steps, "padding") if name not in given))
        return cls(
            steps=plan(config, names),
            factors=FactorParams.of(config),
            ratings_step=changed or "ingest",
            profiles_step=next(reversed(steps)),
        )


@dataclass(frozen=True)
class Shadow:
    """Hold the results of a shadow run."""

    run: Run
    ratings: Ratings
    released: Ratings  # as a step changed them
    profiles: Path  # its groups.parquet
    labels: np.ndarray
    baseline: Path  # factors of the baseline model; the release's own where nothing is predicted

    @property
    def n_groups(self) -> int:
        """Return the number of released records."""
        return int(self.labels.max()) + 1


def run_shadow(
    inner_run: Callable[..., Run],
    chosen: ShadowPlan,
    work: Path,
    suppressed: Path | None,
    engine: Engine,
    *,
    draw_number: int = 1,
) -> Shadow:
    """Run the steps on the ratings in work/ingest; `suppressed` are the release's ratings where items were left out.

    Predictions are measured on the first draw only, so further ones have no baseline of their own.
    """
    ratings = Ratings(work / "ingest")
    given = {"ingest": ratings.directory}
    if suppressed is not None:
        given["suppression"] = work / "suppression"
        withhold_same_items(ratings, Ratings(suppressed), given["suppression"])
    inner = inner_run(chosen.steps, given, work, "shadow" if draw_number == 1 else f"shadow {draw_number}")
    made = given | {name: Path(execute(name, inner)["path"]) for name in chosen.steps.steps}
    baseline = made["padding"]
    protected = bool(chosen.factors.neutral) or chosen.factors.hides_raters
    if draw_number == 1 and (chosen.steps.steps["padding"].inputs != ("ingest",) or protected):
        rng, out = partial(inner.rng, "padding"), work / "original"
        baseline = fit_baseline(
            StepContext(chosen.factors, out, engine, rng, inner.noise, _no_progress), ratings
        )
    return Shadow(
        inner,
        ratings,
        Ratings(made[chosen.ratings_step]),
        made[chosen.profiles_step] / "groups.parquet",
        np.load(made["clustering"] / "labels.npy"),
        baseline,
    )


def _no_progress(done: int, total: int) -> None:
    return None
