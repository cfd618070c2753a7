"""Attack a series of releases as it was and as it is: erased, joined, changed, waiting people; catalogue; averages.

    python -m benchmarks.series_attacks [--data DIR] [--json benchmarks/results/series-attacks.json]

Before: releases as an owner without a series would make them, with the pipeline's own steps: survivors return together,
a newcomer joins a group, profiles are refreshed, models refitted, everybody regrouped. After: three snapshots of a
sticky series through the pipeline (checks of the series alone), with people who wait, ratings that are added and people
who are erased. Every attack is given the links between releases without error, and what the model predicts for each
person: the person whose predictions are nearest is the answer. Rates have Wilson intervals (95 %); the
baseline is what the same attacker reaches with one release, or by guessing. `after` must be at most the upper end of
the baseline's interval. Where carried-over groups have the same bytes, there is no difference to work on: the number of
comparisons is given.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import real_data_directory, series_model
from benchmarks.difference_attacks import (
    Candidates,
    found,
    guess_items,
    is_within,
    precision,
    rate,
    smallest_intersections,
)
from benchmarks.series_made import MadeSeries, World
from tasks.data.factors import FactorParams, fit_factors, open_model
from tasks.data.ratings import Ratings
from tasks.engine import Engine
from tasks.kernels.group_profiles import clip_outlying_groups
from tasks.kernels.padded import LowRank, encode
from tasks.pipeline import StepContext

K, SEED, RARE_SHARE, HEAD = 5, 15, 0.05, 10
AVERAGED = (1, 2, 4, 8)
REFITS = 25
CHANGED = 3  # members of a group with a new rating

Figures = dict[str, Any]


class Naive:
    """Make releases without a series, by the pipeline's steps."""

    def __init__(self, world: World, work: Path) -> None:
        self.world, self.work, self.made = world, work, 0
        self.config = series_model.configured(K, {})

    def ratings(self, people: np.ndarray, kept: np.ndarray | None = None) -> tuple[Path, np.ndarray]:
        """Write the ratings of these people (and of the entries that are kept); return the place and the items."""
        row, column, rating = self.world.entries()
        chosen = np.isin(row, people) & (True if kept is None else kept)
        items = np.unique(column[chosen])
        self.made += 1
        place = self.work / str(self.made)
        zero = np.zeros(len(row), np.int64)
        given = series_model.World(row, column, rating.astype(np.float32), zero, zero.astype(bool))
        series_model.write_ratings(place / "ingest", given, chosen, people, items)
        return place, items

    def release(self, people: np.ndarray, seed: int = 0) -> series_model.Made:
        """Group everybody anew with a new model, as a release of its own."""
        config = self.config.model_copy(
            update={"clustering": self.config.clustering.model_copy(update={"seed": seed})}
        )
        place, items = self.ratings(people)
        return series_model.make(place, config, people, items)

    def model(self, people: np.ndarray, kept: np.ndarray | None, start: int) -> tuple[LowRank, np.ndarray]:
        """Fit a model; the same start gives the same random numbers."""
        place, items = self.ratings(people, kept)
        out = place / "model"
        out.mkdir()
        rng = np.random.default_rng(start)
        context = StepContext(
            FactorParams.of(self.config),
            out,
            Engine(),
            lambda *_: rng,
            series_model.KEY.noise,
            lambda *_: None,
        )
        fit_factors(context, Ratings(place / "ingest"))
        return open_model(out), items

    def profiles(self, model: LowRank, items: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the published values of groups (label −1: nobody's), over all items of the world."""
        rows = np.flatnonzero(labels >= 0)
        part = LowRank(np.asarray(model.users)[rows], model.items, model.mean)
        means = part.group_means(labels[rows], int(labels.max()) + 1)
        means = clip_outlying_groups(means, self.config.privacy.clip_groups)
        codes = encode(means.rows(slice(None)), (1.0, 5.0), 0.1)
        table = np.full((len(codes), self.world.ratings.shape[1]), np.nan)
        table[:, items] = series_model.CODING.values(codes)
        return table

    def observed(self, model: LowRank, items: np.ndarray, labels: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return profiles as means of ratings, and of predictions where a member has none (`keep_observed`)."""
        row, column, rating = self.world.entries()
        table = self.candidates(model, items).table.copy()
        table[row[kept], column[kept]] = rating[kept]
        total = np.zeros((int(labels.max()) + 1, table.shape[1]))
        np.add.at(total, labels, table)
        return np.rint(10 * np.clip(total / np.bincount(labels)[:, None], 1, 5)) / 10

    def candidates(self, model: LowRank, items: np.ndarray) -> Candidates:
        """Return everybody with the model's predictions."""
        table = np.full(self.world.ratings.shape, np.nan)
        table[:, items] = model.rows(slice(None))
        return Candidates(np.arange(len(table)), table)


def leave_and_join(naive: Naive, rng: np.random.Generator) -> Figures:
    """Attack groups from which one person left, or which one joined: n₁P₁ − n₂P₂, before."""
    everybody = np.arange(naive.world.ratings.shape[0])
    first = naive.release(everybody)
    model = open_model(first.factors)
    whole = naive.profiles(model, first.items, first.labels)
    sizes = np.bincount(first.labels)
    targets = np.array([rng.choice(np.flatnonzero(first.labels == group)) for group in range(len(sizes))])
    labels = first.labels.copy()
    labels[targets] = -1
    without = naive.profiles(model, first.items, labels)
    difference = sizes[:, None] * whole - (sizes - 1)[:, None] * without
    own, known = [{int(one)} for one in targets], naive.candidates(model, first.items)
    return {
        "difference": rate(*found(known, difference, own)),
        "baseline_one_release": rate(*found(known, whole, own)),
    }


def changed_rating(naive: Naive, rng: np.random.Generator) -> Figures:
    """Guess the item of a new rating from refreshed profiles: the groups stay, and some members rate, before.

    `observed`: profiles are means of ratings where there are some, by a model that stays. `refit`: means of
    predictions, by a model that is fitted anew.
    """
    everybody = np.arange(naive.world.ratings.shape[0])
    row, column, _ = naive.world.entries()
    labels = naive.release(everybody).labels
    new, kept = [], np.ones(len(row), bool)
    for group in range(int(labels.max()) + 1):
        own = rng.choice(np.flatnonzero(labels == group), CHANGED, replace=False)
        added = [int(rng.choice(np.flatnonzero(row == person))) for person in own]
        kept[added] = False
        new.append({int(column[one]) for one in added})
    model, items = naive.model(everybody, kept, SEED)
    before = naive.profiles(model, items, labels)
    after = naive.profiles(*naive.model(everybody, None, SEED), labels)
    usable = ~np.isnan(before).any(axis=0)
    guesses = guess_items(np.where(usable, after - before, 0), np.where(usable, before, 0))
    means = [naive.observed(model, items, labels, part) for part in (kept, np.ones_like(kept))]
    guesses["observed"] = np.argsort(-np.abs(np.nan_to_num(means[1] - means[0])), axis=1)
    hits = {
        name: sum(int(order[0]) in own for order, own in zip(guess, new, strict=True))
        for name, guess in guesses.items()
    }
    raters = np.bincount(column[kept], minlength=naive.world.ratings.shape[1])
    popular = int(raters.argmax())
    return {
        "observed": rate(hits["observed"], len(new)),
        "refit": rate(max(hits["size"], hits["direction"]), len(new)),
        "baseline_most_popular_item": rate(sum(popular in own for own in new), len(new)),
        "note": f"{CHANGED} members of each group have one new rating; the guess is right if it is one of them",
    }


def withheld_person(naive: Naive, rng: np.random.Generator) -> Figures:
    """Find the rare items of one person by whom the model was refitted and who is in no group, before."""
    n = naive.world.ratings.shape[0]
    row, column, _ = naive.world.entries()
    raters = np.bincount(column, minlength=naive.world.ratings.shape[1])
    labels = naive.release(np.arange(n)).labels
    found_of, base_of = {"same start": [0, 0], "another start": [0, 0]}, [0, 0]
    for person in rng.choice(n, REFITS, replace=False):
        others = np.delete(np.arange(n), person)
        own = np.zeros(len(raters), bool)
        own[column[row == person]] = True
        label = labels.copy()
        label[person] = -1
        without = naive.profiles(*naive.model(others, None, SEED), np.delete(labels, person))
        rare = np.flatnonzero((raters - own >= 3) & (raters <= RARE_SHARE * n))
        for name, start in (("same start", SEED), ("another start", SEED + 1)):
            withheld = naive.profiles(*naive.model(np.arange(n), None, start), label)
            moved = np.nan_to_num(np.abs(withheld - without).mean(axis=0))
            hits, tried = precision(moved, own, rare, HEAD)
            found_of[name][0] += hits
            found_of[name][1] += tried
        base_of[0] += int(own[rare].sum())
        base_of[1] += len(rare)
    return {
        **{f"refit, {name}": rate(*counts) for name, counts in found_of.items()},
        "baseline_share_of_rare_items": rate(*base_of),
    }


def new_lines(world: World) -> Figures:
    """Count the lines of a catalogue of everything rated that one newcomer explains, before."""
    raters = np.bincount(world.ratings.indices, minlength=world.ratings.shape[1])
    sole = raters[world.ratings.indices] == 1
    owner = np.repeat(np.arange(world.ratings.shape[0]), np.diff(world.ratings.indptr))[sole]
    return {
        "people_whose_arrival_adds_lines": len(np.unique(owner)),
        "lines": int(sole.sum()),
        "explained_by_one_newcomer": rate(int(sole.sum()), int(sole.sum())),
        "note": "each person in turn joins all others; every line that appears is theirs",
    }


def averages(naive: Naive) -> Figures:
    """Average each person's group over independent releases of unchanged data, before."""
    everybody = np.arange(naive.world.ratings.shape[0])
    own = [{int(one)} for one in everybody]
    total, predicted = np.zeros(naive.world.ratings.shape), np.zeros(naive.world.ratings.shape)
    figures, labels = {}, []
    for number in range(1, max(AVERAGED) + 1):
        made = naive.release(everybody, seed=number)
        labels.append(made.labels)
        table = np.full((len(made.table), total.shape[1]), np.nan)
        table[:, made.items] = made.table
        total += table[made.labels]
        predicted += naive.candidates(open_model(made.factors), made.items).table
        if number in AVERAGED:
            known = Candidates(everybody, predicted / number)
            figures[f"{number} releases"] = rate(*found(known, total / number, own))
        if number == 2:
            figures["two releases intersected"] = smallest_intersections(labels, K)
    return figures


def summarise(before: Figures, after: Figures) -> list[Figures]:
    """Return a line for each attack: before, after, baseline, and whether after is within the baseline's interval."""
    lines = []
    for name, own in after.items():
        line = {"attack": name, "before": before[name], **own}
        if "rate" in own.get("after", {}):
            line["within"] = is_within(own["after"], own["baseline"])
        else:
            line["within"] = own["differences"] == 0
        lines.append(line)
    return lines


def main() -> int:
    """Print the attacks side by side; return 1 where one finds more than its baseline."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.series_attacks", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--data", type=Path, default=real_data_directory() / "ml-100k")
    parser.add_argument("--only", choices=("before", "after"), default=None)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    world, rng = World.read(options.data), np.random.default_rng(SEED)
    before: Figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        if options.only != "before":
            after = MadeSeries(world, Path(scratch) / "series", K, SEED).attack()
            print(json.dumps(after, indent=1), flush=True)
        if options.only != "after":
            naive = Naive(world, Path(scratch) / "naive")
            moved = leave_and_join(naive, rng)
            before = {"erased person": moved, "newcomer": moved}
            before["changed rating"] = changed_rating(naive, rng)
            before["waiting person"] = withheld_person(naive, rng)
            before["catalogue"] = new_lines(world)
            before["averaging"] = averages(naive)
            print(json.dumps(before, indent=1), flush=True)
    if options.only:
        return 0
    before["pooled survivors"] = before["erased person"]
    for name in after:
        if name.startswith("averaging"):
            before[name] = before["averaging"]
    lines = summarise(before, after)
    answer = {
        "command": "python -m benchmarks.series_attacks",
        "data": options.data.name,
        "k": K,
        "attacks": lines,
    }
    print(json.dumps(answer, indent=1))
    if options.json:
        options.json.write_text(json.dumps(answer, indent=1) + "\n")
    return int(not all(line["within"] for line in lines))


if __name__ == "__main__":
    sys.exit(main())
