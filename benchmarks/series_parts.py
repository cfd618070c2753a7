"""Take the loss of a series apart, by cohort: `python -m benchmarks.series_parts --data DIR [--k 5]`.

RMSE on the held-out ratings of everybody released, as in series_model.py, for each cohort and over all:

    series           never-changed profiles with the public prior
    refined          re-estimated by a reader (`murmur expand --earlier`)
    reused           what the proof forbids: item models of the published ratings of everybody released so far, with all
                     defences and noise drawn anew each time, which several releases would average out
    reused refined   the same, re-estimated
    everybody        the same groups with the items of one defended model of all ratings, also later ones
    undefended       the same with items without defences
    levels           the same with the levels of that model alone, without tastes
    free             everybody grouped anew with one model

`everybody` is what better item models could reach at most; what is left to `free` is the price of grouping a cohort
among itself, by the ratings up to its month.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks import real_data_directory
from benchmarks.series_model import (
    KEY,
    Made,
    World,
    configured,
    make,
    make_series,
    predict,
    refine,
    rmse,
    write_ratings,
)
from tasks.config import ReleaseConfig
from tasks.data.factors import FactorParams, fit_factors, open_model
from tasks.data.ratings import Ratings
from tasks.engine import Engine
from tasks.kernels.als import half_step, users_matrix
from tasks.kernels.padded import LowRank
from tasks.pipeline import StepContext


class FoldIn:
    """Stand in for a padder: items are given, people are fitted to them."""

    def __init__(self, items: np.ndarray, mean: float, regularization: float) -> None:
        self._items, self._mean, self._regularization = items, mean, regularization

    def fit(self, _context: object, ratings: Ratings, _fit_items: np.ndarray, **_: object) -> LowRank:
        """Solve the people."""
        matrix, factors = ratings.by_user.whole(), np.ascontiguousarray(self._items[:, :-2])
        offsets = self._items[:, -1] + np.float32(self._mean)
        users = half_step(matrix.indptr, matrix.indices, matrix.data, factors, offsets, self._regularization)
        return LowRank(users_matrix(users), self._items, self._mean)


def fold_in(
    place: Path, config: ReleaseConfig, people: np.ndarray, items: np.ndarray, model: LowRank
) -> Made:
    """Release the ratings in place/ingest with the items of a given model."""
    stand_in = FoldIn(np.asarray(model.items), model.mean, config.padding.regularization)
    with mock.patch("tasks.data.factors.padder", return_value=stand_in):
        return make(place, config, people, items)


def fitted(place: Path, params: FactorParams) -> LowRank:
    """Return a model of the ratings in place/ingest."""
    out = place / "model"
    out.mkdir()
    rng = np.random.default_rng(1)
    context = StepContext(params, out, Engine(), lambda *_: rng, KEY.noise, lambda *_: None)
    fit_factors(context, Ratings(place / "ingest"))
    return open_model(out)


def releases(work: Path, world: World, config: ReleaseConfig) -> dict[str, list[Made]]:
    """Return the profiles of each kind."""
    params, cohorts = FactorParams.of(config), world.cohorts(max(50, 4 * config.privacy.k))
    everybody = np.sort(np.concatenate([people for _, people in cohorts]))
    training = ~world.held_out & np.isin(world.user, everybody)
    items = np.unique(world.item[training])
    series = make_series(work / "series", world, config, with_prior=True)
    found = {"series": series, "refined": refine(series)}
    write_ratings(work / "free" / "ingest", world, training, everybody, items)
    free = make(work / "free", config, everybody, items)
    models = {
        "everybody": open_model(free.factors),
        "undefended": fitted(work / "free", params.unprotected()),
    }
    bare = np.array(models["everybody"].items)
    bare[:, :-2] = 0
    models["levels"] = LowRank(models["everybody"].users, bare, models["everybody"].mean)
    versions, known = np.zeros(len(world.user), bool), np.empty(0, everybody.dtype)
    for name in ("reused", *models):
        found[name] = []
    for month, people in cohorts:
        chosen = ~world.held_out & (world.month <= month) & np.isin(world.user, people)
        versions, known = versions | chosen, np.sort(np.append(known, people))
        write_ratings(work / f"so-far-{month}" / "ingest", world, versions, known, items)
        own = {"reused": fitted(work / f"so-far-{month}", params), **models}
        for name, model in own.items():
            place = work / f"{name}-{month}"
            write_ratings(place / "ingest", world, chosen, people, items)
            found[name].append(fold_in(place, config, people, items, model))
    return {**found, "reused refined": refine(found["reused"]), "free": [free]}


def main() -> int:
    """Print one JSON object per kind."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.series_parts", description=__doc__)
    parser.add_argument("--data", type=Path, default=real_data_directory() / "ml-1m")
    parser.add_argument("--k", type=int, default=5)
    asked = parser.parse_args()
    world, config = World.read(asked.data), configured(asked.k, {})
    cohorts = [people for _, people in world.cohorts(max(50, 4 * asked.k))]
    tested = world.held_out & np.isin(world.user, np.concatenate(cohorts))
    user, item, rating = world.user[tested], world.item[tested], world.rating[tested]
    print(json.dumps({"k": asked.k, "people": [len(people) for people in cohorts]}), flush=True)
    with tempfile.TemporaryDirectory() as work:
        for name, made in releases(Path(work), world, config).items():
            value = predict(made, user, item)[0]
            by_cohort = [
                round(rmse(value[here], rating[here]), 4) for here in (np.isin(user, own) for own in cohorts)
            ]
            print(json.dumps({"kind": name, "rmse": round(rmse(value, rating), 4), "by_cohort": by_cohort}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
