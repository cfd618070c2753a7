"""Recommenders that other people would train on a release; what they achieve is what the release is worth.

A recommender is one file here with

    fit(train, weights=None, **settings) -> Model

`train` holds a row per person (or per released profile) and a column per item: a `scipy.sparse.csr_array` whose stored
cells are the known values (a stored 0 is a value, too), or a dense array in which every cell is known. `weights` says
how many people share each row (None: one each): training on rows with weights gives the same model as training on
every row repeated that many times, without ever building those. A file that only serves studies of single records
may leave `weights` out. Nothing here is random.

    Model.rows(users) -> (len(users), items)      scores by which items are ranked for these rows of `train`
    Model.predict(users, items) -> (len(users),)  predicted values of single cells, in the unit of `train`, unclipped

Scores and predictions need not agree: rating predictors rank by what they predict, others by how much an item fits the
company of what a person has.
"""

from typing import Protocol

import numpy as np
import scipy.sparse as sp

Train = np.ndarray | sp.csr_array


class Model(Protocol):
    """What `fit` returns."""

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Scores of every item for some rows of `train`; only their order within a row counts."""
        ...

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predicted values of single cells."""
        ...
