"""Predict by regularized matrix factorization with user and item biases: alternating least squares over blocks.

[Chang2009], section 4.1, uses regularized SVD; ALS minimises the same kind of error, is deterministic and runs in
parallel: given the item factors every user is solved alone, and vice versa. Factors pass through the store as arrays
that workers map: the half step of a block of items is summed up over ranges of users, one after the other, so a worker
need not hold all users' factors. Only block numbers pass through the scheduler.

With a prior from public releases (kernels/public_prior.py) the items that it knows are shrunk towards it instead of
towards zero, by as much as stands behind it (kernels/prior_steps.py): a half step solves for the deviation from the
prior, on ratings less what the prior says of them. Items with too few raters show what the prior says.
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
from tasks.kernels.prior_steps import (
    FURTHER_PHANTOMS,
    Worth,
    balance,
    deviates,
    deviation,
    fading_start,
    hidden_deviation,
    phantoms_of,
    rating_variance,
    sum_up,
    worth_of_prior,
)
from tasks.kernels.public_prior import Prior, predicted
from tasks.pipeline import StepContext
from tasks.store import remove

BALANCE_ROUNDS = 4
ITEMS_PER_BLOCK, MOST_ITEM_BLOCKS = 512, 64
REGULARIZATION_SPAN = 4.0  # padding.regularization is meant for ratings that span this many units (1 to 5)


def fit(
    context: StepContext[Any], ratings: Ratings, fit_items: np.ndarray, prior: Prior | None = None
) -> LowRank:
    """Alternate between users and items; the solutions of all blocks are put together in shared arrays."""
    params = context.params
    if prior is not None:
        prior = prior.with_rank(params.rank)
    users, items = ratings.by_user, ratings.by_item
    # Items in larger blocks: the more of them pass over a range of users at once, the less is read twice. Of a long
    # tail of items a block has more: every block of every half step costs some milliseconds, whatever is in it.
    rows = max(ITEMS_PER_BLOCK, -(-items.rows // MOST_ITEM_BLOCKS))
    blocks = {"users": users.blocks(), "items": items.blocks(entries=3_000_000, rows=rows)}
    sums = np.concatenate(context.engine.map(_sum_items, blocks["items"], ratings=ratings.directory))
    if prior is not None:
        sums -= items.counts() * prior.levels
    mean = _mean(sums, items.counts(), fit_items)
    first = start(sums, items.counts(), mean, params.rank, context.rng("start"))
    first[~fit_items] = 0
    work = context.out / "work"
    work.mkdir()
    _create(work, "users", np.zeros((users.rows, params.rank + 1), np.float32))
    _create(work, "items", first)
    np.save(work / "fit_items.npy", fit_items)
    ridge = params.regularization * params.span / REGULARIZATION_SPAN
    if prior is not None:
        prior = _begin_with_prior(context, ratings, blocks["users"], work, prior, first, (mean, ridge))

    hide_raters = ["phantoms", "users"] if params.hides_raters else []
    turns = ["users", "items"] * params.iterations + ["users", *hide_raters]
    for turn, side in enumerate(turns):
        if side == "phantoms":
            _write_phantoms(context, ratings, blocks["users"], work, mean, prior)
        if prior is not None and side != "users":
            np.save(work / "moments.npy", rater_covariance(np.load(work / "users.npy"), users.counts()))
        of_side = blocks["items" if side == "phantoms" else side]
        context.engine.map(
            _solve_block,
            of_side,
            progress=_progress_of(context, turn, len(turns)),
            side=side,
            ratings=ratings.directory,
            work=work,
            mean=mean,
            regularization=ridge,
        )
        _put_together(work, side, of_side)
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


def _begin_with_prior(
    context: StepContext[Any],
    ratings: Ratings,
    blocks: list[tuple[int, int]],
    work: Path,
    prior: Prior,
    first: np.ndarray,
    fit: tuple[float, float],
) -> Prior:
    """Write what the prior says and is worth, and items that begin there; return the prior in the cohort's scale.

    `first` is the start without a prior, `fit` the mean and the regularization. Directions of a prior may have any
    length. They are stretched until people and items are penalized alike, given this cohort's people.
    """
    params, counts = context.params, ratings.by_item.counts()
    worth = worth_of_prior(
        prior,
        counts,
        ratings.by_user.rows,
        phantoms=params.phantom_raters,
        level_only_below=params.level_only_below,
        span=params.span,
    )
    mean, ridge = fit
    biases = first[:, -1] + prior.levels
    for _ in range(BALANCE_ROUNDS if prior.factors.any() else 0):
        _create(work, "items", np.column_stack([prior.factors, biases]))
        context.engine.map(
            _solve_block,
            blocks,
            side="users",
            ratings=ratings.directory,
            work=work,
            mean=mean,
            regularization=ridge,
        )
        _put_together(work, "users", blocks)
        prior = prior.stretched(balance(prior, np.load(work / "users.npy"), ratings.by_user.counts(), counts))
    random = fading_start(first[:, :-1], worth.factors)
    _create(work, "items", np.column_stack([prior.factors + random, biases]))
    np.save(work / "prior.npy", np.column_stack([prior.factors, prior.levels]))
    np.save(work / "known.npy", prior.known)
    np.save(work / "worth.npy", np.column_stack([worth.factors, worth.levels]))
    np.save(work / "variance.npy", np.float64(rating_variance(params.span)))
    return prior


def _write_phantoms(
    context: StepContext[Any],
    ratings: Ratings,
    blocks: list[tuple[int, int]],
    work: Path,
    mean: float,
    prior: Prior | None,
) -> None:
    """Write the phantom raters' ratings, and the features and biases of all raters with the phantoms behind them.

    To items that the prior knows they give noise alone: what they add to the sums that factors are solved from.
    """
    params, counts = context.params, ratings.by_user.counts()
    sums = context.engine.map(_square_errors, blocks, ratings=ratings.directory, work=work, mean=mean)
    squares, cells = np.sum(sums, axis=0)
    factors, biases = np.load(work / "users.npy"), np.load(work / "users_biases.npy")
    covariance = rater_covariance(factors, counts)
    tastes = draw_tastes(covariance, params.phantom_raters, context.rng("phantom tastes"))
    given = draw_ratings(
        np.load(work / "items_biases.npy"),
        params.phantom_raters,
        float(np.sqrt(squares / max(1, cells))),
        context.rng("phantom ratings"),
    )
    if prior is not None:
        error = float(np.sqrt(squares / max(1, cells)))
        _write_noise(context, ratings.by_item.counts(), work, error, covariance)
    np.save(work / "phantom_ratings.npy", given)
    np.save(work / "raters.npy", np.vstack([factors, tastes]))
    np.save(work / "raters_biases.npy", np.append(biases, np.zeros(len(tastes), np.float32)))


def _write_noise(
    context: StepContext[Any], counts: np.ndarray, work: Path, error: float, covariance: np.ndarray
) -> None:
    """Write the sum over each item's phantoms of taste · noise, how many phantoms these are, and which items may
    deviate from the prior."""
    params = context.params
    noise = np.zeros((len(counts), len(covariance)), np.float32)
    phantoms = phantoms_of(counts, params.phantom_raters, params.level_only_below)
    few = phantoms > params.phantom_raters
    for name, number, items in (
        ("all", params.phantom_raters, np.ones_like(few)),
        ("few", FURTHER_PHANTOMS * params.level_only_below, few),
    ):
        tastes = draw_tastes(covariance, number, context.rng("tastes", name))
        levels = np.zeros(int(items.sum()), np.float32)
        noise[items] += draw_ratings(levels, number, error, context.rng("noise", name)) @ tastes
    np.save(work / "noise.npy", noise)
    np.save(work / "phantoms.npy", phantoms)
    np.save(work / "moving.npy", deviates(counts, params.level_only_below))


def _hide_raters(
    context: StepContext[Any],
    work: Path,
    counts: np.ndarray,
    fit_items: np.ndarray,
    shrinkage: float,
    prior: Prior | None,
) -> None:
    """Leave rare items their level alone, if the prior does not know them, and add noise to the levels of all fitted
    items."""
    file = work / "items.npy"
    factors = np.load(file)
    rare = counts < context.params.level_only_below
    factors[rare if prior is None else rare & ~prior.known] = 0
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
        None if prior is None else np.load(work / "worth.npy")[fit_items, 1],
        rating_variance(context.params.span),
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
    """Solve the users (or items) of one block and write them into a file of its own."""
    fitted = np.load(work / "fit_items.npy")
    if side == "users":
        part = keep_items(Ratings(ratings).by_user.block(*block), fitted)
    else:
        part = Ratings(ratings).by_item.block(*block)
    other = {"users": "items", "items": "users", "phantoms": "raters"}[side]
    whole, hidden = part, side == "phantoms"
    if side == "phantoms":
        here = slice(*block)
        given = np.load(work / "phantom_ratings.npy", mmap_mode="r")[here] + np.float32(mean)
        part = add_phantoms(part, np.asarray(given), fitted[here])
        side = "items"
    features, biases = (np.load(work / f"{other}{kind}.npy", mmap_mode="r") for kind in ("", "_biases"))
    offsets = np.asarray(biases) + np.float32(mean)
    solved = half_step(part.indptr, part.indices, part.data, np.asarray(features), offsets, regularization)
    if side == "items":
        solved[~fitted[block[0] : block[1]]] = 0  # such an item predicts every user's own level
        if (work / "prior.npy").exists():
            known = np.load(work / "known.npy")[slice(*block)]
            near = _solve_from_prior(
                whole, np.asarray(features), offsets, block, work, regularization, hidden=hidden
            )
            solved = np.where(known[:, None], near, solved).astype(np.float32)
    np.save(_part(work, side, block), solved)


def _solve_from_prior(
    part: sp.csr_array,
    features: np.ndarray,
    offsets: np.ndarray,
    block: tuple[int, int],
    work: Path,
    regularization: float,
    *,
    hidden: bool,
) -> np.ndarray:
    """Solve the items of a block for their deviation from the prior; items outside the fit show the prior alone."""
    here = slice(*block)
    prior, worth, fitted = (
        np.asarray(np.load(work / f"{name}.npy", mmap_mode="r")[here])
        for name in ("prior", "worth", "fit_items")
    )
    moments, variance = np.load(work / "moments.npy"), float(np.load(work / "variance.npy"))
    said = predicted(part.indptr, part.indices, features, prior[:, :-1], prior[:, -1])
    sums = sum_up(part.indptr, part.indices, part.data - said, features, offsets)
    given = (sums, Worth(worth[:, 0], worth[:, 1]), moments, regularization, variance)
    if hidden:
        noise, phantoms, moving = (
            np.load(work / f"{name}.npy")[here] for name in ("noise", "phantoms", "moving")
        )
        apart = hidden_deviation(*given, noise, phantoms, moving)
    else:
        apart = deviation(*given)
    return np.where(fitted[:, None], prior + apart, prior)


def _put_together(work: Path, side: str, blocks: list[tuple[int, int]]) -> None:
    """Write what the workers solved into the shared arrays, which they only read: they may have copies of their own."""
    side = "items" if side == "phantoms" else side
    for block in blocks:
        part = _part(work, side, block)
        solved = np.load(part)
        _write(work / f"{side}_biases.npy", block, solved[:, -1])
        _write(work / f"{side}.npy", block, regressors(solved))
        part.unlink()


def _part(work: Path, side: str, block: tuple[int, int]) -> Path:
    return work / f"{side}-{block[0]}.npy"


def _write(path: Path, block: tuple[int, int], values: np.ndarray) -> None:
    """Write some rows of a shared array; written, not mapped: workers may have mapped it."""
    array = np.load(path, mmap_mode="r")
    assert isinstance(array, np.memmap)
    with path.open("r+b") as file:
        file.seek(array.offset + block[0] * array.strides[0])
        file.write(np.ascontiguousarray(values, array.dtype).data)
