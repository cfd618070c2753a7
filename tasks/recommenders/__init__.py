"""Hold the recommenders that others would train on a release: their accuracy measures the utility of the release.

A recommender is one file here with

    RECOMMENDER = Recommender(compared=True, position=…)
    fit(train, weights=None, **settings) -> Model

`murmur compare` trains every one that declares `compared`; to add one, add its file.

`train` holds a row per person (or per released profile) and a column per item: a `scipy.sparse.csr_array` whose stored
cells are the known values (a stored 0 is a value, too), or a dense array in which every cell is known. `weights` says
how many people share each row (None: one each): training on rows with weights gives the same model as training on
every row repeated that many times, without ever building those. A file that only serves studies of single records
(`compared=False`) may leave `weights` out. Nothing here is random.

    Model.rows(users) -> (len(users), items)      scores by which items are ranked for these rows of `train`
    Model.predict(users, items) -> (len(users),)  predicted values of single cells, in the unit of `train`, unclipped

Scores and predictions need not agree: rating predictors rank by what they predict, others by how often an item occurs
together with the items a person has.

May import kernels, config and errors; no step and no method.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from tasks.config import plugins
from tasks.errors import UsageError

Train = np.ndarray | sp.csr_array


@dataclass(frozen=True, kw_only=True)
class Recommender:
    """Declare whether `murmur compare` trains a recommender, and where in the list.

    The simplest have the lowest positions: of equally good recommenders the first in the list is called the best.
    """

    compared: bool
    position: int = 100


def registered() -> dict[str, Recommender]:
    """Return what every recommender declares, by the stem of its file."""
    return {stem: _declared(stem) for stem in plugins.stems(__name__)}


def _declared(stem: str) -> Recommender:
    declared = getattr(import_module(f"{__name__}.{stem}"), "RECOMMENDER", None)
    if not isinstance(declared, Recommender):
        raise UsageError(
            "the recommender's file does not declare RECOMMENDER = Recommender(compared=…)",
            where=str(plugins.file_of(__name__, stem)),
            remedy="declare whether `murmur compare` trains it (docs/extending.md)",
        )
    return declared


def compared() -> tuple[str, ...]:
    """Return the recommenders that `murmur compare` trains, the simplest first."""
    found = {stem: declared for stem, declared in registered().items() if declared.compared}
    return tuple(sorted(found, key=lambda stem: (found[stem].position, stem)))


class Model(Protocol):
    """Represent a fitted recommender: what `fit` returns."""

    def rows(self, users: np.ndarray) -> np.ndarray:
        """Return scores of every item for some rows of `train`; only their order within a row counts."""
        ...

    def predict(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return predicted values of single cells."""
        ...
