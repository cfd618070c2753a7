"""Publish disguised records: keyed noise on the items a user rated, or on every item.

*z-scores* ([Zhang2006], section 3): every rating as a z-score of its user, plus noise; with entries = "all" missing
ratings are first filled with the user's mean (z = 0). *gna* ([Casino2015], section 4): missing ratings are filled with
the centre of the scale, the noise is in units of the item's deviation (standardising before it and de-standardising
after it cancel out).

The noise belongs to a cell in a state (docs/decisions/0010-perturbation.md). A user whose ratings have not changed has
the same record in every snapshot of the population; a user who changed any rating has a record with all new noise. With
the old noise, the difference of two snapshots would be free of noise and disclose the ratings.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tasks.config import Perturbation, ReleaseConfig
from tasks.config.base import Settings
from tasks.data import profiles
from tasks.data.ratings import Ratings
from tasks.kernels import rating_noise
from tasks.kernels.padded import encode
from tasks.keys import NoiseKey
from tasks.pipeline import StepContext
from tasks.profilers import Inputs
from tasks.profilers._parts import equal_ranges, members_of, write_parts
from tasks.store import remove

CELLS_PER_BLOCK = 2_000_000  # at about 60 bytes while they get their noise
CELL = np.dtype([("item", "<u8"), ("rating", "<f4")])


class Params(Settings):
    """Hold what is disguised, how, and how it is written."""

    perturbation: Perturbation
    population: str
    scale: tuple[float, float]
    rating_step: float

    @property
    def centre(self) -> float:
        """Return the value that GNA fills in for a missing rating."""
        return sum(self.scale) / 2


def params(config: ReleaseConfig) -> Params:
    """Pick this profiler's settings."""
    return Params(
        perturbation=config.perturbation,
        population=config.population,
        scale=config.source.scale,
        rating_step=config.privacy.rating_step,
    )


def coding(config: ReleaseConfig) -> profiles.Coding:
    """Return how values are written: z-scores and ratings that are not rounded as floating-point numbers."""
    chosen = config.perturbation
    if chosen.rounded:
        return profiles.Coding.in_steps(config.source.scale, config.privacy.rating_step)
    return profiles.Coding("float32", unit="z-score" if chosen.scheme == "z-scores" else "rating")


def make(context: StepContext[Params], inputs: Inputs) -> int:
    """Disguise blocks of users in parallel."""
    params, ratings = context.params, Ratings(inputs.ratings)
    chosen = params.perturbation
    # Two disguises of one population must not share noise: if they differ in its amount, or in what it is added to,
    # both releases together disclose it. So the key depends on everything but the rounding. Two configurations of the
    # same disguise must share the noise, or both releases together disclose half of it: the key does not depend on
    # `entries`, which gna ignores.
    disguise = (chosen.model_dump_json(exclude={"clip", "entries"}), chosen.every_item, params.scale)
    key = context.noise(params.population, *disguise)
    names = context.out / "names"  # source ids stay in this process; workers get tokens instead
    names.mkdir()
    np.save(names / "people.npy", key.tokens("people", map(_encoded, ratings.user_ids().to_pylist())))
    items = key.tokens("items", map(_encoded, ratings.item_ids()))
    np.save(names / "items.npy", items)
    if chosen.scheme == "gna":
        steps = _deviation_steps(ratings, params.centre)
        np.save(names / "spreads.npy", rating_noise.stepped_deviations(steps))
        items = key.tokens("spreads", (a.tobytes() + b.tobytes() for a, b in zip(items, steps, strict=True)))
    np.save(names / "columns.npy", items)
    cells = write_parts(
        context,
        inputs.label_file,
        lambda order, starts: _blocks(ratings, order, chosen.every_item),
        _disguise_block,
        ratings=ratings,
        names=names,
        params=params,
        key=key,
    )
    remove(names)
    return cells


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _deviation_steps(ratings: Ratings, centre: float) -> np.ndarray:
    """Return the deviation of every item's filled column, in steps.

    In steps, because the exact value changes with every new rating, and with it all noise on the item.
    """
    side = ratings.by_item
    blocks = (side.block(*block) for block in side.blocks())
    spreads = [rating_noise.filled_column_deviations(block, centre) for block in blocks]
    return rating_noise.deviation_steps(np.concatenate(spreads))


def _blocks(ratings: Ratings, order: np.ndarray, every_item: bool) -> list[tuple[int, int]]:
    """Return ranges of records that fit into memory together."""
    rated = ratings.by_user.counts()[order]
    return equal_ranges((np.full(len(order), ratings.n_items) if every_item else rated) / CELLS_PER_BLOCK)


def _disguise_block(
    block: tuple[tuple[int, int], Path],
    *,
    ratings: Ratings,
    names: Path,
    members: Path,
    params: Params,
    key: NoiseKey,
) -> int:
    (start, _), path = block
    users, sizes = members_of(members, block[0])
    rated = ratings.by_user.take(users)
    chosen = params.perturbation
    people = np.asarray(np.load(names / "people.npy", mmap_mode="r")[users])
    items, columns = (np.load(names / f"{name}.npy") for name in ("items", "columns"))
    # Where missing ratings are filled in, the z-scores of observed ratings depend on the number of items.
    filled = rated.shape[1] if chosen.scheme == "z-scores" and chosen.every_item else None
    states = row_states(key, people, items, rated, filled or 0)
    if chosen.scheme == "gna":
        apart = chosen.amount * np.load(names / "spreads.npy")
        values = _filled(rated, rated.data, params.centre)
        values += rating_noise.noise(_uniforms(key, states, columns), "gaussian", apart)
        rounded = encode(values, params.scale, params.rating_step) if chosen.clip else values.astype("<f4")
        profiles.write_dense(path, start, sizes, rounded)
        return values.size
    scores = rating_noise.z_scores(rated, *rating_noise.moments(rated, filled))
    amounts = np.full(len(users), chosen.amount)
    if chosen.flexible:
        amounts *= key.uniforms("amounts", states, np.zeros(len(states), np.uint64))
    if chosen.every_item:
        values = _filled(rated, scores, 0.0)
        values += rating_noise.noise(_uniforms(key, states, columns), chosen.noise, amounts[:, None])
        profiles.write_dense(path, start, sizes, values.astype("<f4"))
        return values.size
    row = np.repeat(np.arange(len(users)), np.diff(rated.indptr))
    drawn = key.uniforms("cells", states[row], columns[rated.indices])
    scores += rating_noise.noise(drawn, chosen.noise, amounts[row])
    cells = (scores.astype("<f4"), rated.indices, rated.indptr)
    profiles.write_sparse(path, start, sizes, sp.csr_array(cells, shape=rated.shape))
    return rated.nnz


def row_states(
    key: NoiseKey, people: np.ndarray, items: np.ndarray, rated: sp.csr_array, filled: int
) -> np.ndarray:
    """Return tokens that name the noise of each record: they depend on the user and on everything noise is added to."""
    cells = np.empty(rated.nnz, CELL)
    cells["item"], cells["rating"] = items[rated.indices], rated.data
    content = cells.tobytes()
    edges = pairwise((rated.indptr.astype(np.int64) * CELL.itemsize).tolist())
    heads = (person.tobytes() + filled.to_bytes(8, "little") for person in people)
    return key.tokens("records", (head + content[a:b] for head, (a, b) in zip(heads, edges, strict=True)))


def _uniforms(key: NoiseKey, states: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return a uniform number for every cell of some records that hold every item."""
    drawn = key.uniforms("cells", np.repeat(states, len(columns)), np.tile(columns, len(states)))
    return drawn.reshape(len(states), len(columns))


def _filled(rated: sp.csr_array, values: np.ndarray, missing: float) -> np.ndarray:
    """Return dense rows with values in the rated cells and `missing` in the others."""
    dense = np.full(rated.shape, missing)
    dense[np.repeat(np.arange(rated.shape[0]), np.diff(rated.indptr)), rated.indices] = values
    return dense
