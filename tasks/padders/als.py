"""Regularized matrix factorization with user and item biases, by alternating least squares over blocks.

The paper uses regularized SVD (section 4.1); ALS minimises the same kind of error, is deterministic and
distributes: given the item factors every user is solved alone, and the other way round. Factors pass through the
store as arrays that workers map; only block numbers pass through the scheduler.
"""

from pathlib import Path

import numpy as np

from tasks.kernels.als import half_step
from tasks.kernels.padded import LowRank
from tasks.pipeline import Job
from tasks.ratings import Ratings, Side


def fit(job: Job, ratings: Ratings, fit_items: np.ndarray) -> LowRank:
    """Alternate between users and items; both are written block by block into shared arrays."""
    rank, users, items = job.params.rank, ratings.by_user, ratings.by_item
    mean = _mean_of_fitted(ratings, fit_items)
    work = {"users": job.out / "users.work.npy", "items": job.out / "items.work.npy"}
    start = np.zeros((items.rows, rank + 1), np.float32)
    start[:, :rank] = job.rng("start").standard_normal((items.rows, rank), dtype=np.float32) / np.sqrt(rank)
    start[~fit_items] = 0
    np.save(work["items"], start)
    np.save(work["users"], np.zeros((users.rows, rank + 1), np.float32))
    np.save(job.out / "fit_items.npy", fit_items)

    user_blocks, item_blocks = users.blocks(), items.blocks()
    turns = [("users", user_blocks), ("items", item_blocks)] * job.params.iterations + [("users", user_blocks)]
    for turn, (side, blocks) in enumerate(turns, start=1):
        job.engine.map(
            _solve_block,
            blocks,
            side=side,
            ratings=ratings.directory,
            work=work,
            fit_items=job.out / "fit_items.npy",
            mean=mean,
            regularization=job.params.regularization,
        )
        job.progress(turn, len(turns))
    model = LowRank(_with_constant(np.load(work["users"]), -1), _with_constant(np.load(work["items"]), -2), mean)
    for path in (*work.values(), job.out / "fit_items.npy"):
        path.unlink()
    return model


def _with_constant(solved: np.ndarray, place: int) -> np.ndarray:
    """[p, b] → [p, b, 1] for users, [q, b] → [q, 1, b] for items, so that A·B = p·q + b_u + b_i."""
    ones = np.ones((len(solved), 1), np.float32)
    columns = [solved, ones] if place == -1 else [solved[:, :-1], ones, solved[:, -1:]]
    return np.ascontiguousarray(np.concatenate(columns, axis=1))


def _mean_of_fitted(ratings: Ratings, fit_items: np.ndarray) -> float:
    by_item = ratings.by_item
    starts = np.asarray(by_item.indptr[:-1])
    filled = by_item.counts() > 0
    sums = np.zeros(by_item.rows)
    if filled.any():
        sums[filled] = np.add.reduceat(np.asarray(by_item.values), starts[filled], dtype=np.float64)
    count = by_item.counts()[fit_items].sum()
    return float(sums[fit_items].sum() / count) if count else float(np.mean(by_item.values))


def _solve_block(
    block: tuple[int, int],
    *,
    side: str,
    ratings: Path,
    work: dict[str, Path],
    fit_items: Path,
    mean: float,
    regularization: float,
) -> None:
    """Solve the users (or items) of one block and write them into the shared array."""
    other = "items" if side == "users" else "users"
    fixed = np.load(work[other], mmap_mode="r")
    features, offsets = np.array(fixed), np.array(fixed[:, -1]) + np.float32(mean)
    features[:, -1] = 1  # the solved side's own bias
    fitted = np.load(fit_items)
    opened = Ratings(ratings)
    indptr, indices, values = _fitted_rows(opened, side, block, fitted)
    solved = half_step(indptr, indices, values, features, offsets, regularization)
    target = np.load(work[side], mmap_mode="r+")
    target[block[0] : block[1]] = solved
    target.flush()


def _fitted_rows(
    ratings: Ratings, side: str, block: tuple[int, int], fitted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The block's ratings without those of items that must not enter the fit."""
    rows: Side = ratings.by_user if side == "users" else ratings.by_item
    part = rows.block(*block)
    if side == "users":
        keep = fitted[part.indices]
    else:
        keep = np.repeat(fitted[block[0] : block[1]], np.diff(part.indptr))
    kept = np.concatenate([[0], np.cumsum(keep)])
    return kept[part.indptr], part.indices[keep], part.data[keep]
