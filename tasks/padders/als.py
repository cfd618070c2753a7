"""Regularized matrix factorization with user and item biases, by alternating least squares over blocks.

The paper uses regularized SVD (section 4.1); ALS minimises the same kind of error, is deterministic and
distributes: given the item factors every user is solved alone, and the other way round. Factors pass through the
store as arrays that workers map; only block numbers pass through the scheduler.
"""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tasks.kernels.als import half_step, items_matrix, keep_items, regressors, start, users_matrix
from tasks.kernels.padded import LowRank
from tasks.pipeline import Job
from tasks.ratings import Ratings

REGULARIZATION_SPAN = (
    4.0  # padding.regularization is meant for ratings that span this many units, as 1..5 does
)


def fit(job: Job, ratings: Ratings, fit_items: np.ndarray) -> LowRank:
    """Alternate between users and items; both are written block by block into shared arrays."""
    users, items = ratings.by_user, ratings.by_item
    mean = _mean(ratings, fit_items)
    by_item = sp.csc_array((items.values, items.indices, items.indptr), shape=(users.rows, items.rows))
    first = start(by_item, mean, job.params.rank, job.rng("start"))
    first[~fit_items] = 0
    work = {"users": job.out / "users.work.npy", "items": job.out / "items.work.npy"}
    np.save(work["items"], first)
    np.save(work["users"], np.zeros((users.rows, job.params.rank + 1), np.float32))
    np.save(job.out / "fit_items.npy", fit_items)

    blocks = {"users": users.blocks(), "items": items.blocks()}
    turns = ["users", "items"] * job.params.iterations + ["users"]
    for turn, side in enumerate(turns, start=1):
        job.engine.map(
            _solve_block,
            blocks[side],
            side=side,
            ratings=ratings.directory,
            work=work,
            fit_items=job.out / "fit_items.npy",
            mean=mean,
            regularization=job.params.regularization * job.params.span / REGULARIZATION_SPAN,
        )
        job.progress(turn, len(turns))
    model = LowRank(users_matrix(np.load(work["users"])), items_matrix(np.load(work["items"])), mean)
    for path in (*work.values(), job.out / "fit_items.npy"):
        path.unlink()
    return model


def _mean(ratings: Ratings, fit_items: np.ndarray) -> float:
    """Mean of the ratings that enter the fit (of all, where none does)."""
    by_item = ratings.by_item
    fitted = np.repeat(fit_items, by_item.counts())
    values = np.asarray(by_item.values)
    return float(np.mean(values[fitted] if fitted.any() else values, dtype=np.float64))


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
    fixed = np.load(work["items" if side == "users" else "users"])
    fitted = np.load(fit_items)
    if side == "users":
        part = keep_items(Ratings(ratings).by_user.block(*block), fitted)
    else:
        part = Ratings(ratings).by_item.block(*block)
    offsets = fixed[:, -1] + np.float32(mean)
    solved = half_step(part.indptr, part.indices, part.data, regressors(fixed), offsets, regularization)
    if side == "items":
        solved[~fitted[block[0] : block[1]]] = 0  # such an item predicts everybody's own level
    target = np.load(work[side], mmap_mode="r+")
    target[block[0] : block[1]] = solved
    target.flush()
