"""Disguised records: what a person rated, or every item, with keyed noise on it.

*z-scores* (paper 001, section 3): every rating as a z-score of its owner, plus noise; with entries = "all" what was
not rated is filled with the owner's mean (z = 0) first. *gna* (paper 003, section 4): missing ratings filled with the
centre of the scale, noise in units of the item's deviation (to standardise before and de-standardise after it cancel
out).

The noise belongs to a cell in a state (docs/decisions/0010-perturbation.md). A person whose ratings have not changed
has the same record in every snapshot of the population; who changed anything has a wholly new one. Were the old noise
kept, the difference of two snapshots would be free of it and tell the ratings.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tasks import profiles
from tasks.config import Perturbation, ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels import perturb
from tasks.kernels.padded import encode
from tasks.keys import NoiseKey
from tasks.pipeline import Job
from tasks.profilers._parts import members_of, write_parts
from tasks.ratings import Ratings
from tasks.store import remove

CELLS_PER_BLOCK = 2_000_000  # at about 60 bytes while they get their noise
CELL = np.dtype([("item", "<u8"), ("rating", "<f4")])


class Params(Settings):
    """What is disguised, how, and how it is written."""

    perturbation: Perturbation
    population: str
    scale: tuple[float, float]
    rating_step: float

    @property
    def centre(self) -> float:
        """What stands for a missing rating in GNA."""
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
    """z-scores and ratings that are not rounded are published as the numbers they are."""
    chosen = config.perturbation
    if chosen.rounded:
        return profiles.Coding.in_steps(config.source.scale, config.privacy.rating_step)
    return profiles.Coding("float32", unit="z-score" if chosen.scheme == "z-scores" else "rating")


def make(job: Job) -> int:
    """Disguise blocks of people in parallel."""
    ratings = Ratings(job.ratings)
    chosen: Perturbation = job.params.perturbation
    # Two disguises of one population must not share noise: where they differ in its amount, or in what it is added to,
    # both together would give it away. So the key is of everything but the rounding; and two ways to ask for one
    # disguise must share it, or both together would give half of it away: not of `entries`, which gna need not be told.
    disguise = (chosen.model_dump_json(exclude={"clip", "entries"}), chosen.every_item, job.params.scale)
    key = job.run.key.noise(job.run.purpose, job.params.population, *disguise)
    names = job.out / "names"  # source ids stay in this process; workers get what they are called by here
    names.mkdir()
    np.save(names / "people.npy", key.tokens("people", map(_encoded, ratings.user_ids().to_pylist())))
    items = key.tokens("items", map(_encoded, ratings.item_ids()))
    np.save(names / "items.npy", items)
    if chosen.scheme == "gna":
        steps = _spread_steps(ratings, job.params.centre)
        np.save(names / "spreads.npy", perturb.stepped_spreads(steps))
        items = key.tokens("spreads", (a.tobytes() + b.tobytes() for a, b in zip(items, steps, strict=True)))
    np.save(names / "columns.npy", items)
    cells = write_parts(
        job,
        lambda order, starts: _blocks(ratings, order, chosen.every_item),
        _disguise_block,
        ingest=job.ratings,
        names=names,
        params=job.params,
        key=key,
    )
    remove(names)
    return cells


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _spread_steps(ratings: Ratings, centre: float) -> np.ndarray:
    """The deviation of every item's filled column, in steps.

    In steps, because it changes a little with every new rating of anybody, and with it all noise on the item.
    """
    side = ratings.by_item
    blocks = (side.block(*block) for block in side.blocks())
    spreads = [perturb.filled_spreads(block, centre) for block in blocks]
    return perturb.spread_steps(np.concatenate(spreads))


def _blocks(ratings: Ratings, order: np.ndarray, every_item: bool) -> list[tuple[int, int]]:
    """Consecutive records that fit into memory together; they follow the data, not the workers."""
    rated = ratings.by_user.counts()[order]
    cells = np.cumsum(np.full(len(order), ratings.n_items) if every_item else rated)
    edges = np.flatnonzero(np.diff(cells // CELLS_PER_BLOCK)) + 1
    return list(pairwise([0, *edges.tolist(), len(order)]))


def _disguise_block(
    block: tuple[tuple[int, int], Path],
    *,
    ingest: Path,
    names: Path,
    members: Path,
    params: Params,
    key: NoiseKey,
) -> int:
    (start, _), path = block
    users, sizes = members_of(members, block[0])
    rated = Ratings(ingest).by_user.take(users)
    chosen = params.perturbation
    people = np.asarray(np.load(names / "people.npy", mmap_mode="r")[users])
    items, columns = (np.load(names / f"{name}.npy") for name in ("items", "columns"))
    # Filled up to the number of items, z-scores of what was rated depend on it.
    filled = rated.shape[1] if chosen.scheme == "z-scores" and chosen.every_item else None
    states = row_states(key, people, items, rated, filled or 0)
    if chosen.scheme == "gna":
        apart = chosen.amount * np.load(names / "spreads.npy")
        values = _filled(rated, rated.data, params.centre)
        values += perturb.noise(_uniforms(key, states, columns), "gaussian", apart)
        rounded = encode(values, params.scale, params.rating_step) if chosen.clip else values.astype("<f4")
        profiles.write_dense(path, start, sizes, rounded)
        return values.size
    scores = perturb.z_scores(rated, *perturb.moments(rated, filled))
    amounts = np.full(len(users), chosen.amount)
    if chosen.flexible:
        amounts *= key.uniforms("amounts", states, np.zeros(len(states), np.uint64))
    if chosen.every_item:
        values = _filled(rated, scores, 0.0)
        values += perturb.noise(_uniforms(key, states, columns), chosen.noise, amounts[:, None])
        profiles.write_dense(path, start, sizes, values.astype("<f4"))
        return values.size
    row = np.repeat(np.arange(len(users)), np.diff(rated.indptr))
    drawn = key.uniforms("cells", states[row], columns[rated.indices])
    scores += perturb.noise(drawn, chosen.noise, amounts[row])
    cells = (scores.astype("<f4"), rated.indices, rated.indptr)
    profiles.write_sparse(path, start, sizes, sp.csr_array(cells, shape=rated.shape))
    return rated.nnz


def row_states(
    key: NoiseKey, people: np.ndarray, items: np.ndarray, rated: sp.csr_array, filled: int
) -> np.ndarray:
    """What the noise of a record is called by: its owner, and all that what it is added to depends on."""
    cells = np.empty(rated.nnz, CELL)
    cells["item"], cells["rating"] = items[rated.indices], rated.data
    content = cells.tobytes()
    edges = pairwise((rated.indptr.astype(np.int64) * CELL.itemsize).tolist())
    heads = (person.tobytes() + filled.to_bytes(8, "little") for person in people)
    return key.tokens("records", (head + content[a:b] for head, (a, b) in zip(heads, edges, strict=True)))


def _uniforms(key: NoiseKey, states: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A number for every cell of some records that hold every item."""
    drawn = key.uniforms("cells", np.repeat(states, len(columns)), np.tile(columns, len(states)))
    return drawn.reshape(len(states), len(columns))


def _filled(rated: sp.csr_array, values: np.ndarray, missing: float) -> np.ndarray:
    """Values of the rated cells among all cells, `missing` in the others."""
    dense = np.full(rated.shape, missing)
    dense[np.repeat(np.arange(rated.shape[0]), np.diff(rated.indptr)), rated.indices] = values
    return dense
