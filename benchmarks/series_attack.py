"""Attack a cohort's release with and without the prior: `python -m benchmarks.series_attack --data DIR`.

The spectral attack of the gate (checks/recovery/spectral.py) on the profiles of one cohort: does a group whose
direction agrees with a rare item's hold one of its raters? Share of the highest flags that are right, above what the
activity of the group and the popularity of the item explain. Of all scores the best for the attacker counts. What taste
explains is not taken off, unlike in the gate.

    alone             the cohort's model from its own ratings alone
    prior             with the prior that the earlier releases of the series give
    prior taken off   the same profiles less what the prior explains of them: the attacker knows the prior too
    undefended        alone, without the defences: where this is not high, the attack has no power and shows nothing

Each release is drawn with several secrets; the prior is the same for all of them.
"""

import argparse
import collections
import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import real_data_directory
from benchmarks.series_model import Made, World, configured, make, make_series, write_ratings
from checks.recovery.spectral import centred, find_directions
from tasks.data.public_prior import copy_prior, read_prior
from tasks.data.ratings import Ratings
from tasks.keys import OwnerKey

HEADS = (100, 500)
RARE_SHARE = 0.05
ROUNDS = 30


def real_cells(release: Made, ratings: Ratings) -> np.ndarray:
    """Return which (group, item) cells a member really rated."""
    matrix = ratings.by_user.whole()
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    real = np.zeros(release.table.shape, bool)
    real[release.labels[row], matrix.indices] = True
    return real


def explained(real: np.ndarray) -> np.ndarray:
    """Return the chance of each cell by activity and popularity: 1 − exp(−activity · popularity), margins fitted."""
    activity = np.ones((len(real), 1))
    popularity = -np.log1p(-np.minimum(real.mean(axis=0, keepdims=True), 1 - 1e-6))
    for _ in range(ROUNDS):
        for axis in (1, 0):
            chance = 1 - np.exp(-activity * popularity)
            times = real.sum(axis=axis, keepdims=True) / np.maximum(
                chance.sum(axis=axis, keepdims=True), 1e-12
            )
            if axis:
                activity = activity * times
            else:
                popularity = popularity * times
    return 1 - np.exp(-activity * popularity)


def attack(table: np.ndarray, real: np.ndarray) -> dict[str, float]:
    """Return the excess of the best score for each head."""
    share = real.mean(axis=0)
    rare = np.flatnonzero((share > 0) & (share <= RARE_SHARE))
    chance = explained(real[:, rare])
    directions = find_directions(lambda: [(0, table)], table.shape)
    left = directions.groups(table)
    excess: dict[str, list[float]] = {str(head): [] for head in HEADS}
    for score in directions.scores():
        value = left[:, : score.rank] @ directions.items(score)[rare].T
        if score.left_over:
            value = value - centred(table, directions.mean)[:, rare]
        order = np.argsort(-(value if score.signed else np.abs(value)), axis=None, kind="stable")
        gain = (real[:, rare] - chance).ravel()
        for head in HEADS:
            excess[str(head)].append(float(gain[order[:head]].mean()))
    return {head: round(max(own), 3) for head, own in excess.items()}


def without_prior(table: np.ndarray, ratings: Ratings) -> np.ndarray:
    """Return what the prior does not explain of the profiles."""
    prior = read_prior(ratings)
    assert prior is not None
    known = np.column_stack([prior.factors, np.ones(len(prior.levels))])
    rest = table - prior.levels
    return (rest.T - known @ np.linalg.lstsq(known, rest.T, rcond=None)[0]).T.astype(np.float32)


def main() -> int:
    """Print one JSON object per cohort."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.series_attack", description=__doc__)
    parser.add_argument("--data", type=Path, default=real_data_directory() / "ml-1m")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--cohorts", default="3,7", help="numbers of the cohorts to attack")
    parser.add_argument("--secrets", type=int, default=5)
    asked = parser.parse_args()
    world, config = World.read(asked.data), configured(asked.k, {})
    bare = configured(
        asked.k,
        {
            "padding": {"rank": 16, "phantom_raters": 0, "level_only_below": 0},
            "privacy": {"clip_groups": 1.0},
        },
    )
    with tempfile.TemporaryDirectory() as work:
        series = make_series(Path(work) / "prior", world, config, with_prior=True)
        months = [month for month, _ in world.cohorts(max(50, 4 * asked.k))]
        for number in map(int, asked.cohorts.split(",")):
            one, month = series[number], months[number]
            given = Ratings(Path(work) / "prior" / f"{month:02}" / "ingest")
            found: dict[str, list[dict[str, float]]] = collections.defaultdict(list)
            for draw in range(asked.secrets):
                key = OwnerKey(hashlib.sha256(f"series attack {draw}".encode()).digest())
                for name, settings in (("alone", config), ("prior", config), ("undefended", bare)):
                    place = Path(work) / f"{name}-{number}-{draw}"
                    chosen = ~world.held_out & (world.month <= month)
                    write_ratings(place / "ingest", world, chosen, one.people, one.items)
                    if name == "prior":
                        copy_prior(given, place / "ingest")
                    made = make(place, settings, one.people, one.items, key)
                    real = real_cells(made, given)
                    found[name].append(attack(made.table, real))
                    if name == "prior":
                        found["prior taken off"].append(attack(without_prior(made.table, given), real))
            print(json.dumps({"k": asked.k, "people": len(one.people), **found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
