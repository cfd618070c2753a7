"""Ask how much of `sybil`'s area was public before: `python -m benchmarks.series_sybil STORE/private/NAME`.

The check `sybil` infers what an item's one real rater thought of it, from runs of the method with made-up accounts.
In a series a cohort's model is shrunk towards a prior that is public, and a good prior predicts opinions of anybody.
Scores of the same opinions, for each snapshot whose intermediate results are still there:

    release   the two main scores of the check: the item's level, and the item in the rater's group
    before    the same without the item's column: its level in the prior, and the prior's factors of the item times the
              taste of the rater's group. The taste is fitted to the columns of items that are not attacked
    both      all four scores together: what it has more than `before` is owed to the column

Scores are combined as the check does: weights learned on the opinions of half of the people, tested on the others'.
Prints the area and its standard error.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from checks.opinions.area import Area, area_under_curve, mean_area
from tasks.store import read_json

SAME = 1e-6  # no opinion


def standardized(scores: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and deviation 1."""
    spread = scores.std(axis=0)
    return (scores - scores.mean(axis=0)) / np.where(spread > 0, spread, 1)


def combined(scores: np.ndarray, liked: np.ndarray, rater: np.ndarray) -> Area:
    """Return the area of the best linear score."""
    half = np.random.default_rng(1).random(int(rater.max()) + 1)[rater] < 0.5
    areas = []
    for test in (half, ~half):
        known = np.column_stack([scores[~test], np.ones(int((~test).sum()))])
        weights = np.linalg.lstsq(known, np.where(liked[~test], 1.0, -1.0), rcond=None)[0][:-1]
        areas.append(area_under_curve(scores[test] @ weights, liked[test], rater[test]))
    return mean_area(areas)


def scores_of(planted: Path, prior: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the scores by the release, those by what was public before, whether the item was liked, and by whom."""
    manifest = read_json(planted / "manifest.json")
    groups, members = (pq.read_table(planted / f"{name}.parquet") for name in ("groups", "members"))
    codes = [np.frombuffer(one.as_py(), manifest["rating_encoding"]) for one in groups.column("ratings")]
    table = np.stack(codes) * manifest["rating_step"]
    row_of = {number: row for row, number in enumerate(groups.column("group").to_pylist())}
    group_of = dict(zip(members.column("user").to_pylist(), members.column("group").to_pylist(), strict=True))
    targets = pq.read_table(planted / "targets.parquet")
    item = targets.column("item").to_numpy()
    row = np.array([row_of[group_of[one]] for one in targets.column("pseudonym").to_pylist()])
    # Columns behind those of the prior were added for the attack: nothing is known of them.
    added = table.shape[1] - len(prior["levels"])
    levels, factors = np.pad(prior["levels"], (0, added)), np.pad(prior["factors"], ((0, added), (0, 0)))
    apart = table - table.mean(axis=1, keepdims=True)
    level = np.average(apart, axis=0, weights=groups.column("size").to_numpy())
    apart = apart - level
    others = np.setdiff1d(np.arange(table.shape[1]), item)
    taste = np.linalg.lstsq(factors[others], apart[:, others].T, rcond=1e-6)[0].T
    release = np.column_stack([level[item], apart[row, item]])
    before = np.column_stack([levels[item], np.einsum("tf,tf->t", taste[row], factors[item])])
    opinion = targets.column("rating").to_numpy() - targets.column("usual").to_numpy()
    clear = np.abs(opinion) > SAME
    rater = targets.column("rater").to_numpy()
    return standardized(release)[clear], standardized(before)[clear], opinion[clear] > 0, rater[clear]


def measure(work: Path) -> dict[str, list[float]] | None:
    """Return the three areas of a snapshot; None: it has no prior, or was too small to be attacked."""
    planted = sorted((work / "evaluate" / "sybil").glob("opinions*"))
    if not planted or not (work / "ingest" / "prior.npz").exists():
        return None
    with np.load(work / "ingest" / "prior.npz") as held:
        prior = {name: held[name] for name in ("levels", "factors")}
    parts = zip(*(scores_of(one, prior) for one in planted), strict=True)
    release, before, liked, rater = (np.concatenate(part) for part in parts)
    areas = {
        "release": combined(release, liked, rater),
        "before": combined(before, liked, rater),
        "both": combined(np.column_stack([release, before]), liked, rater),
    }
    return {name: [round(area.value, 3), round(area.error, 3)] for name, area in areas.items()}


def main() -> None:
    """Print a line for each snapshot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("private", type=Path, help="STORE/private/NAME")
    for place in sorted(parser.parse_args().private.glob("*/work")):
        found = measure(place)
        if found:
            print(json.dumps({"snapshot": place.parent.name, **found}), flush=True)


if __name__ == "__main__":
    main()
