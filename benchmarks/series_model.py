"""Measure what never-changed profiles cost in a series: `python -m benchmarks.series_model --data DIR [--k 5,20]`.

MovieLens by month: the newcomers of a month form a cohort, with their ratings up to the end of that month; a month with
too few of them waits for the next. A cohort's groups are made by the steps of the pipeline (model, sampling, binning,
bounded t-means, profiles) and never change. One rating in ten, keyed by (person, item), is held out of everything. In
the end, RMSE on the held-out ratings of everybody released:

    alone     never-changed profiles, each cohort's model from its own ratings alone
    prior     the same, with a prior from the profiles that were published before
    refined   the profiles of `prior`, re-estimated by a reader from the public files alone: `murmur expand --earlier`
    free      everybody grouped anew with one model of all ratings
    random    random groups of the same sizes, by the model of `free`
    model     predictions for each person by a model without defences, of all ratings

The loss of x as a share of random groups' loss is (x − model) / (random − model). Where a group's profile lacks an item
(it entered the catalogue later), the mean of the profile is taken plus the item's level in the newest profiles.
"""

import argparse
import datetime
import functools
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks import real_data_directory
from tasks import methods
from tasks.config import ReleaseConfig
from tasks.data import profiles
from tasks.data.factors import FactorParams, fit_factors, open_model
from tasks.data.public_prior import SEED, write_prior
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.data.refined import RANK
from tasks.engine import Engine
from tasks.kernels.group_profiles import clip_outlying_groups
from tasks.kernels.padded import encode
from tasks.kernels.public_prior import Block, find_prior, nothing_known
from tasks.kernels.refinement import Refinement
from tasks.keys import OwnerKey
from tasks.pipeline import Run, StepContext, execute, plan
from tasks.store import Store, digest_of, files_below

MONTHS = 12
SNAPSHOT = datetime.date(2001, 4, 1)
CODING = profiles.Coding.in_steps((1.0, 5.0), 0.1)
KEY = OwnerKey(b"benchmark of the series' model!!")
UNDEFENDED = {"padding": {"rank": 16, "phantom_raters": 0, "level_only_below": 0}}


@dataclass(frozen=True)
class World:
    """Hold all ratings, which of them are held out, and the month of each."""

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    month: np.ndarray
    held_out: np.ndarray

    @classmethod
    def read(cls, path: Path) -> "World":
        """Read MovieLens 1M or 100K."""
        file, mark = (
            (path / "ratings.dat", "::") if (path / "ratings.dat").exists() else (path / "u.data", "\t")
        )
        names = ["user", "item", "rating", "seconds"]
        table = pd.read_csv(file, sep=mark, engine="python", names=names)
        time = pd.to_datetime(table["seconds"], unit="s")
        month = (time.dt.year * 12 + time.dt.month).to_numpy()
        month = month - month.min()
        first = table.assign(month=month).groupby("user")["month"].transform("min").to_numpy()
        kept = (month < MONTHS) & (first < MONTHS)
        user, item, rating = (table[name].to_numpy()[kept] for name in names[:3])
        return cls(user, item, rating.astype(np.float32), month[kept], _keyed(user, item) % 10 == 0)

    def cohorts(self, fewest: int) -> list[tuple[int, np.ndarray]]:
        """Return the last month of each cohort and its people."""
        people, place = np.unique(self.user, return_inverse=True)
        first = np.full(len(people), MONTHS)
        np.minimum.at(first, place, self.month)
        found, waiting = [], np.empty(0, people.dtype)
        for month in range(MONTHS):
            waiting = np.concatenate([waiting, people[first == month]])
            if len(waiting) >= fewest:
                found.append((month, np.sort(waiting)))
                waiting = waiting[:0]
        return found


def _keyed(user: np.ndarray, item: np.ndarray) -> np.ndarray:
    """Return a number for each (person, item) that looks random and never changes."""
    mixed = user.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + item.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))).astype(np.int64) & 0x7FFFFFFF


def write_ratings(out: Path, world: World, chosen: np.ndarray, people: np.ndarray, items: np.ndarray) -> None:
    """Write the chosen ratings of these people for these items, like ingest does."""
    out.mkdir(parents=True)
    chosen = chosen & np.isin(world.user, people) & np.isin(world.item, items)
    row, column = np.searchsorted(people, world.user[chosen]), np.searchsorted(items, world.item[chosen])
    matrix = sp.csr_array((world.rating[chosen], (row, column)), shape=(len(people), len(items)))
    matrix.sort_indices()
    write_ids(out, "user", [str(one) for one in people])
    write_ids(out, "item", [str(one) for one in items])
    write_matrix(out, matrix)


@dataclass(frozen=True)
class Made:
    """Hold one release: whom its groups hold and their profiles."""

    people: np.ndarray
    items: np.ndarray
    labels: np.ndarray
    table: np.ndarray  # groups × items
    published: Path
    factors: Path

    def cells(self, user: np.ndarray, item: np.ndarray) -> np.ndarray:
        """Return the published values for people and items; NaN where there is none."""
        row, column = np.searchsorted(self.people, user), np.searchsorted(self.items, item)
        column[column == len(self.items)] = 0
        value = self.table[self.labels[row], column]
        return np.where(self.items[column] == item, value, np.nan)


def make(
    place: Path, config: ReleaseConfig, people: np.ndarray, items: np.ndarray, key: OwnerKey = KEY
) -> Made:
    """Run the pipeline's steps on the ratings in place/ingest and keep the public files."""
    given, names = place / "ingest", tuple(n for n in methods.data_steps(config) if n != "ingest")
    reference = {"path": str(given), "digest": digest_of(files_below(given)), "counts": {}}
    run = Run(
        config,
        SNAPSHOT,
        Store(place),
        key,
        Engine(),
        place,
        lambda *_: None,
        given={"ingest": reference},
        plan=plan(config, names),
    )
    made = {name: Path(execute(name, run)["path"]) for name in names}
    groups = made[names[-1]] / "groups.parquet"
    published = place / "published"
    published.mkdir()
    (published / "groups.parquet").write_bytes(groups.read_bytes())
    write_ids(published, "item", [str(one) for one in items])
    facts = {"unit": "rating", "rating_encoding": CODING.encoding, "rating_scale": [1, 5], "rating_step": 0.1}
    (published / "manifest.json").write_text(json.dumps(facts))
    blocks = [block.codes.reshape(len(block.sizes), -1) for block in profiles.blocks(groups, CODING.dtype)]
    table = CODING.values(np.concatenate(blocks))
    labels = np.load(made["clustering"] / "labels.npy")
    return Made(people, items, labels, table, published, made["padding"])


def make_series(work: Path, world: World, config: ReleaseConfig, *, with_prior: bool) -> list[Made]:
    """Release the cohorts one after the other."""
    fewest, c = max(50, 4 * config.privacy.k), config.privacy.min_contributors
    catalogue = np.empty(0, world.item.dtype)
    series: list[Made] = []
    for month, people in world.cohorts(fewest):
        chosen = ~world.held_out & (world.month <= month) & np.isin(world.user, people)
        item, raters = np.unique(world.item[chosen], return_counts=True)
        catalogue = np.union1d(catalogue, item[raters >= c])
        place = work / f"{month:02}"
        write_ratings(place / "ingest", world, chosen, people, catalogue)
        if with_prior and series:
            ids, before = [str(one) for one in catalogue], [one.published for one in series]
            write_prior(place / "ingest", ids, before, config.padding.rank)
        series.append(make(place, config, people, catalogue))
    return series


def predict(series: list[Made], user: np.ndarray, item: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the published values; where there is none, the mean of the profile plus the item's newest level."""
    value, level, own = np.full(len(user), np.nan), np.zeros(len(user)), np.zeros(len(user))
    for one in series:
        here = np.isin(user, one.people)
        value[here] = one.cells(user[here], item[here])
        own[here] = one.table.mean(axis=1)[one.labels[np.searchsorted(one.people, user[here])]]
    newest = series[-1]
    levels = newest.table.mean(axis=0) - newest.table.mean()
    column = np.minimum(np.searchsorted(newest.items, item), len(newest.items) - 1)
    level = np.where(newest.items[column] == item, levels[column], 0.0)
    missing = np.isnan(value)
    return np.where(missing, own + level, value), float(missing.mean())


def refine(series: list[Made]) -> list[Made]:
    """Return all profiles re-estimated from what is public; nothing but published values is read."""
    items, found = series[-1].items, []
    everybody = nothing_known(len(items), RANK)
    for one in series:
        table = np.full((len(one.table), len(items)), np.nan, np.float32)
        table[:, np.searchsorted(items, one.items)] = one.table
        sizes = np.bincount(one.labels, minlength=len(table))
        own = find_prior(
            functools.partial(_once, table, sizes), len(items), RANK, np.random.default_rng(SEED)
        )
        everybody = everybody.followed_by(own)
        found.append((table, own))
    refined = []
    for one, (table, own) in zip(series[:-1], found[:-1], strict=True):
        new = np.clip(Refinement.between(own, everybody).values(table), 1, 5)
        refined.append(replace(one, items=items, table=new))
    return [*refined, series[-1]]


def _once(table: np.ndarray, sizes: np.ndarray) -> Iterator[Block]:
    yield table, sizes


def rmse(predicted: np.ndarray, rating: np.ndarray) -> float:
    """Return the root mean square error."""
    return float(np.sqrt(np.mean((predicted - rating) ** 2)))


def configured(k: int, further: dict[str, Any]) -> ReleaseConfig:
    """Return the settings of a release: the defaults, but for further ones."""
    given: dict[str, Any] = {
        "release": {"name": "series", "schedule": "@monthly", "start_date": SNAPSHOT},
        "source": {"format": "csv", "path": "ratings.csv", "scale": [1.0, 5.0]},
        "privacy": {"k": k, **further.get("privacy", {})},
        "padding": further.get("padding", {}),
    }
    return ReleaseConfig.model_validate(given)


def measure(world: World, config: ReleaseConfig, work: Path, only: set[str]) -> dict[str, Any]:
    """Return all figures for one setting; `only` names which (empty: all)."""
    k = config.privacy.k
    people = np.concatenate([people for _, people in world.cohorts(max(50, 4 * k))])
    tested = world.held_out & np.isin(world.user, people)
    user, item, rating = world.user[tested], world.item[tested], world.rating[tested]
    figures: dict[str, Any] = {"k": k, "people": len(people), "tested": len(rating)}

    def wanted(*names: str) -> bool:
        return not only or any(name in only for name in names)

    for name in ("alone", "prior"):
        if wanted(name):
            series = make_series(work / name, world, config, with_prior=name == "prior")
            value, figures[f"{name}_missing"] = predict(series, user, item)
            figures[name] = rmse(value, rating)
            figures[f"{name}_by_cohort"] = [
                round(rmse(value[here], rating[here]), 4)
                for here in (np.isin(user, one.people) for one in series)
            ]
            print(f"k={k} {name}: {figures[name]:.4f}", file=sys.stderr, flush=True)
        if name == "prior" and wanted(name):
            refined = refine(series)
            value = predict(refined, user, item)[0]
            figures["refined"] = rmse(value, rating)
            figures["refined_by_cohort"] = [
                round(rmse(value[here], rating[here]), 4)
                for here in (np.isin(user, one.people) for one in series)
            ]
            print(f"k={k} refined: {figures['refined']:.4f}", file=sys.stderr, flush=True)
    if wanted("free", "random", "model"):
        figures |= _free(world, config, work / "free", np.sort(people), tested)
        spread = figures["random"] - figures["model"]
        for name in {"alone", "prior", "refined", "free"} & figures.keys():
            figures[f"{name}_share"] = (figures[name] - figures["model"]) / spread
    return figures


def _free(
    world: World, config: ReleaseConfig, work: Path, people: np.ndarray, tested: np.ndarray
) -> dict[str, float]:
    user, item, rating = world.user[tested], world.item[tested], world.rating[tested]
    chosen = ~world.held_out & np.isin(world.user, people)
    items = np.unique(world.item[chosen])
    write_ratings(work / "ingest", world, chosen, people, items)
    free = make(work, config, people, items)
    value, _ = predict([free], user, item)
    figures = {"free": rmse(value, rating)}
    labels = np.random.default_rng(0).permutation(free.labels)
    model = open_model(free.factors)
    means = clip_outlying_groups(model.group_means(labels, len(free.table)), config.privacy.clip_groups)
    table = CODING.values(encode(means.rows(slice(None)), (1.0, 5.0), 0.1))
    random = Made(people, items, labels, table, free.published, free.factors)
    figures["random"] = rmse(predict([random], user, item)[0], rating)
    params = FactorParams.of(config)
    out = work / "unprotected"
    out.mkdir()
    rng = np.random.default_rng(1)
    context = StepContext(params.unprotected(), out, Engine(), lambda *_: rng, KEY.noise, lambda *_: None)
    fit_factors(context, Ratings(work / "ingest"))
    for name, factors in (("model", out), ("defended_model", free.factors)):
        figures[name] = _rmse_of_people(open_model(factors), free, user, item, rating)
    return figures


def _rmse_of_people(
    model: Any, release: Made, user: np.ndarray, item: np.ndarray, rating: np.ndarray
) -> float:
    column = np.minimum(np.searchsorted(release.items, item), len(release.items) - 1)
    row = np.searchsorted(release.people, user)
    value = np.clip(model.cells(row, column), 1, 5)
    level = model.rows(slice(None)).mean(axis=1)
    return rmse(np.where(release.items[column] == item, value, level[row]), rating)


def main() -> int:
    """Print the figures of every k as one JSON object each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.series_model", description=__doc__)
    parser.add_argument("--data", type=Path, default=real_data_directory() / "ml-1m")
    parser.add_argument("--k", default="5,20")
    parser.add_argument("--only", default="", help="some of alone,prior,free")
    parser.add_argument("--undefended", action="store_true", help="without the defences of decision 18")
    asked = parser.parse_args()
    world = World.read(asked.data)
    further = {**UNDEFENDED, "privacy": {"clip_groups": 1.0}} if asked.undefended else {}
    for k in map(int, asked.k.split(",")):
        with tempfile.TemporaryDirectory() as work:
            only = set(asked.only.split(",")) - {""}
            print(json.dumps(measure(world, configured(k, further), Path(work), only)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
