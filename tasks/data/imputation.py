"""Write imputed values for missing ratings ([Casino2015], section 3, step 1).

In the form of a fitted model (users.npy, items.npy, model.json), so that `factors.open_model` reads them.
"""

from pathlib import Path

import numpy as np

from tasks.data.ratings import Ratings, Side
from tasks.kernels import fill_models
from tasks.kernels.padded import LowRank
from tasks.store import write_json


def write_imputed(
    directory: Path, ratings: Ratings, kind: str, *, scale: tuple[float, float], fewest: int
) -> None:
    """Fit the imputation "central", "item-mean" or "user-mean" and write it."""
    model = _impute(ratings, kind, scale, fewest)
    directory.mkdir()
    np.save(directory / "users.npy", model.users)
    np.save(directory / "items.npy", model.items)
    write_json(directory / "model.json", {"mean": model.mean})


def _impute(ratings: Ratings, kind: str, scale: tuple[float, float], fewest: int) -> LowRank:
    if kind == "central":
        return fill_models.centre_model((ratings.n_users, ratings.n_items), scale)
    centre = sum(scale) / 2
    if kind == "item-mean":
        totals, counts = _real_sums(ratings, "item", np.ones(ratings.n_users))
        return fill_models.item_mean_model(ratings.n_users, totals, counts, fewest, centre)
    known = (ratings.real_raters() >= fewest).astype(np.float64)
    totals, counts = _real_sums(ratings, "user", known)
    return fill_models.user_mean_model(ratings.n_items, totals, counts, fewest, centre)


def _real_sums(ratings: Ratings, of: str, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sum and number of the real ratings of each item or user: made-up ones must not hide that few are real."""
    totals, counts = _sums(ratings.by_item if of == "item" else ratings.by_user, counted)
    if ratings.added is not None:
        made_up = ratings.added.whole().astype(np.float64)
        made_up = made_up.T.tocsr() if of == "item" else made_up
        totals -= made_up @ counted
        made_up.data[:] = 1
        counts -= made_up @ counted
    return totals, counts


def _sums(side: Side, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sum and number of each row's ratings in the counted columns."""
    totals, counts = np.empty(side.rows), np.empty(side.rows)
    for start, stop in side.blocks():
        block = side.block(start, stop).astype(np.float64)
        totals[start:stop] = block @ counted
        block.data[:] = 1
        counts[start:stop] = block @ counted
    return totals, counts
