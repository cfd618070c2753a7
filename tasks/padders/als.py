"""Predict by regularized matrix factorization with user and item biases: alternating least squares over blocks.

[Chang2009], section 4.1, uses regularized SVD; ALS minimises the same kind of error, is deterministic and runs in
parallel: given the item factors every user is solved alone, and vice versa. Factors pass through the store as arrays
that workers map: the half step of a block of items is summed up over ranges of users, one after the other, so a worker
need not hold all users' factors. Only block numbers pass through the scheduler.

With a prior from public releases (kernels/public_prior.py) items are shrunk towards it instead of towards zero: a half
step solves for the deviation from the prior, on ratings less what the prior says of them. Items that would show their
level alone, or nothing, show what the prior says.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tasks.data.ratings import Ratings
from tasks.kernels.als import BIAS_PRIOR, half_step, items_matrix, keep_items, regressors, start, users_matrix
from tasks.kernels.padded import LowRank
from tasks.kernels.phantom_raters import (
    add_phantoms,
    draw_ratings,
    draw_tastes,
    hide_levels,
    rater_covariance,
)
from tasks.kernels.public_prior import Prior, predicted
from tasks.pipeline import StepContext
from tasks.store import remove

REGULARIZATION_SPAN = 4.0  # padding.regularization is meant for ratings that span this many units (1 to 5)


def fit(
    context: StepContext[Any], ratings: Ratings, fit_items: np.ndarray, prior: Prior | None = None
) -> LowRank:
    """Alternate between users and items; both are written block by block into shared arrays."""
    params = context.params
    if prior is not None:
        prior = prior.with_rank(params.rank)
    users, items = ratings.by_user, ratings.by_item
    # Items in larger blocks: the more of them pass over a range of users at once, the less is read twice.
    blocks = {"users": users.blocks(), "items": items.blocks(entries=3_000_000, rows=512)}
    sums = np.concatenate(context.engine.map(_sum_items, blocks["items"], ratings=ratings.directory))
    if prior is not None:
        sums -= items.counts() * prior.levels
    mean = _mean(sums, items.counts(), fit_items)
    first = start(sums, items.counts(), mean, params.rank, context.rng("start"))
    first[~fit_items] = 0
    work = context.out / "work"
    work.mkdir()
    if prior is not None:
        first[prior.known, :-1] = prior.factors[prior.known]
        first[:, -1] += prior.levels
        np.save(work / "prior.npy", np.column_stack([prior.factors, prior.levels]))
    _create(work, "users", np.zeros((users.rows, params.rank + 1), np.float32))
    _create(work, "items", first)
    np.save(work / "fit_items.npy", fit_items)

    hide_raters = ["phantoms", "users"] if params.hides_raters else []
    ridge = params.regularization * params.span / REGULARIZATION_SPAN
    turns = ["users", "items"] * params.iterations + ["users", *hide_raters]
    for turn, side in enumerate(turns):
        if side == "phantoms":
            _write_phantoms(context, ratings, blocks["users"], work, mean, prior)
        context.engine.map(
            _solve_block,
            blocks["items" if side == "phantoms" else side],
            progress=_progress_of(context, turn, len(turns)),
            side=side,
            ratings=ratings.directory,
            work=work,
            mean=mean,
            regularization=ridge,
        )
        if side == "phantoms":
            _hide_raters(context, work, items.counts(), fit_items, ridge * BIAS_PRIOR, prior)
    model = LowRank(users_matrix(_solution(work, "users")), items_matrix(_solution(work, "items")), mean)
    remove(work)
    return model


def _progress_of(context: StepContext[Any], turn: int, turns: int) -> Callable[[int, int], None]:
    """Return a function that reports the progress of one half step within all of them, counted as equal."""

    def report(done: int, total: int) -> None:
        context.progress(round(100 * (turn + done / total)), 100 * turns)

    return report


def _write_phantoms(
    context: StepContext[Any],
    ratings: Ratings,
    blocks: list[tuple[int, int]],
    work: Path,
    mean: float,
    prior: Prior | None,
) -> None:
    """Write the phantom raters' ratings, and the features and biases of all raters with the phantoms behind them.

    Phantoms rate an item at its level, moved by what the prior says of their taste.
    """
    params, counts = context.params, ratings.by_user.counts()
    sums = context.engine.map(_square_errors, blocks, ratings=ratings.directory, work=work, mean=mean)
    squares, cells = np.sum(sums, axis=0)
    factors, biases = np.load(work / "users.npy"), np.load(work / "users_biases.npy")
    tastes = draw_tastes(
        rater_covariance(factors, counts), params.phantom_raters, context.rng("phantom tastes")
    )
    given = draw_ratings(
        np.load(work / "items_biases.npy"),
        params.phantom_raters,
        float(np.sqrt(squares / max(1, cells))),
        context.rng("phantom ratings"),
    )
    if prior is not None:
        given += prior.factors @ tastes.T
    np.save(work / "phantom_ratings.npy", given)
    np.save(work / "raters.npy", np.vstack([factors, tastes]))
    np.save(work / "raters_biases.npy", np.append(biases, np.zeros(len(tastes), np.float32)))


def _hide_raters(
    context: StepContext[Any],
    work: Path,
    counts: np.ndarray,
    fit_items: np.ndarray,
    shrinkage: float,
    prior: Prior | None,
) -> None:
    """Leave rare items their level alone, with the factors of the prior, and add noise to the levels of all fitted
    items."""
    file = work / "items.npy"
    factors = np.load(file)
    rare = counts < context.params.level_only_below
    factors[rare] = 0 if prior is None else prior.factors[rare]
    np.save(file, factors)
    file = work / "items_biases.npy"
    levels, rng = np.load(file), context.rng("levels")
    levels[fit_items] = hide_levels(
        levels[fit_items],
        counts[fit_items],
        shrinkage,
        context.params.span,
        rng,
        None if prior is None else np.where(prior.known, prior.levels, np.nan)[fit_items],
    )
    np.save(file, levels)


def _square_errors(block: tuple[int, int], *, ratings: Path, work: Path, mean: float) -> tuple[float, float]:
    """Return the sum of the squared errors of the model over the fitted ratings of some users, and their number."""
    part = keep_items(Ratings(ratings).by_user.block(*block), np.load(work / "fit_items.npy"))
    model = LowRank(
        users_matrix(_solution(work, "users")[slice(*block)]), items_matrix(_solution(work, "items")), mean
    )
    row = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
    errors = part.data - model.cells(row, part.indices)
    return float((errors.astype(np.float64) ** 2).sum()), float(len(errors))


def _sum_items(block: tuple[int, int], *, ratings: Path) -> np.ndarray:
    """Return the sum of the ratings of each item of a block."""
    part = Ratings(ratings).by_item.block(*block)
    return np.asarray(part.sum(axis=1, dtype=np.float64)).ravel()


def _mean(sums: np.ndarray, counts: np.ndarray, fit_items: np.ndarray) -> float:
    """Return the mean of the ratings that enter the fit (of all ratings where none does)."""
    fitted = fit_items if counts[fit_items].any() else np.ones_like(fit_items)
    return float(sums[fitted].sum() / counts[fitted].sum())


def _create(work: Path, side: str, solution: np.ndarray) -> None:
    """Write the shared arrays of one side, separated as the other side's half step needs them: factors and biases."""
    np.save(work / f"{side}.npy", regressors(solution))
    np.save(work / f"{side}_biases.npy", np.ascontiguousarray(solution[:, -1]))


def _solution(work: Path, side: str) -> np.ndarray:
    """Return [factors, biases] of one side."""
    return np.column_stack([np.load(work / f"{side}{kind}.npy") for kind in ("", "_biases")])


def _solve_block(
    block: tuple[int, int], *, side: str, ratings: Path, work: Path, mean: float, regularization: float
) -> None:
    """Solve the users (or items) of one block and write them into the shared arrays."""
    fitted = np.load(work / "fit_items.npy")
    if side == "users":
        part = keep_items(Ratings(ratings).by_user.block(*block), fitted)
    else:
        part = Ratings(ratings).by_item.block(*block)
    other = {"users": "items", "items": "users", "phantoms": "raters"}[side]
    if side == "phantoms":
        here = slice(*block)
        given = np.load(work / "phantom_ratings.npy", mmap_mode="r")[here] + np.float32(mean)
        part = add_phantoms(part, np.asarray(given), fitted[here])
        side = "items"
    features, biases = (np.load(work / f"{other}{kind}.npy", mmap_mode="r") for kind in ("", "_biases"))
    offsets = np.asarray(biases) + np.float32(mean)
    if side == "items" and (work / "prior.npy").exists():
        here = slice(*block)
        prior = np.asarray(np.load(work / "prior.npy", mmap_mode="r")[here])
        solved = _solve_from_prior(part, np.asarray(features), offsets, regularization, prior, fitted[here])
    else:
        solved = half_step(
            part.indptr, part.indices, part.data, np.asarray(features), offsets, regularization
        )
        if side == "items":
            solved[~fitted[block[0] : block[1]]] = 0  # such an item predicts every user's own level
    _write(work / f"{side}_biases.npy", block, solved[:, -1])
    _write(work / f"{side}.npy", block, regressors(solved))


def _solve_from_prior(
    part: sp.csr_array,
    features: np.ndarray,
    offsets: np.ndarray,
    regularization: float,
    prior: np.ndarray,
    fitted: np.ndarray,
) -> np.ndarray:
    """Solve the items of a block for their deviation from the prior; items outside the fit show the prior alone."""
    said = predicted(part.indptr, part.indices, features, prior[:, :-1], prior[:, -1])
    apart = half_step(part.indptr, part.indices, part.data - said, features, offsets, regularization)
    apart[~fitted] = 0
    return prior + apart


def _write(path: Path, block: tuple[int, int], values: np.ndarray) -> None:
    """Write some rows of a shared array; written, not mapped, so that closing makes them visible on other machines."""
    array = np.load(path, mmap_mode="r")
    assert isinstance(array, np.memmap)
    with path.open("r+b") as file:
        file.seek(array.offset + block[0] * array.strides[0])
        file.write(np.ascontiguousarray(values, array.dtype).data)
