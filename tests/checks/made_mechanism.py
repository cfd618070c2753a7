"""Make a small mechanism of differential privacy that is right, and ones with a mistake, for the audit to judge.

It is independent of the product's mechanism: continuous Gaussian noise, real numbers, no blocks.
"""

import hashlib
import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from tasks.shadow.canaries import Noisy

SHARES = {"choice": 0.15, "total": 0.05, "gram": 0.6, "sums": 0.2}
FAULTS = (
    "half the noise",
    "choice without noise",
    "gram without noise",
    "sums without noise",
    "unclipped rows",
    "exact order",
    "no threshold",
    "same seed",
)


@dataclass(frozen=True)
class Toy:
    """A mechanism with row weights, an item choice by noisy counts above a threshold, a Gram matrix and rating sums."""

    rho: float
    fault: str = ""
    row_limit: int = 5
    most_items: int = 12
    factor: float = 1.0
    centre: float = 3.0
    spread: float = 2.0
    delta: float = 1e-6

    def halved(self) -> "Toy":
        return replace(self, factor=self.factor / 2)

    def deviations(self) -> dict[str, float]:
        c = self.row_limit
        reach = {
            "choice": 1.0,
            "total": 1.0,
            "gram": math.sqrt(c * (c + 1) / 2),
            "sums": self.spread * math.sqrt(c),
        }
        return {
            name: self.factor * reach[name] / math.sqrt(2 * self.rho * share)
            for name, share in SHARES.items()
        }

    def exact(self, ratings: sp.csr_array, items: np.ndarray) -> dict[str, np.ndarray]:
        some = sp.csr_array(ratings[:, items])
        lengths = np.diff(some.indptr)
        weight = np.minimum(1.0, self.row_limit / np.maximum(lengths, 1))
        if self.fault == "unclipped rows":
            weight = np.ones(len(lengths))
        rows = np.repeat(np.arange(some.shape[0]), lengths)
        rated = sp.csr_array((np.ones(some.nnz), some.indices, some.indptr), shape=some.shape).toarray()
        gram = (rated * weight[:, None]).T @ rated
        sums = np.bincount(
            some.indices, weights=(some.data - self.centre) * np.sqrt(weight[rows]), minlength=len(items)
        )
        return {
            "choice": self._counts(ratings)[items],
            "total": np.array([float(ratings.shape[0])]),
            "gram": gram[np.triu_indices(len(items))],
            "sums": sums,
        }

    def release(self, ratings: sp.csr_array, key: int) -> Noisy:
        names = [str(key)]
        if self.fault != "same seed":
            names.append(hashlib.sha256(ratings.data.tobytes() + ratings.indices.tobytes()).hexdigest())
        draw = np.random.default_rng([int(hashlib.sha256("/".join(names).encode()).hexdigest()[:15], 16)])
        sd = self.deviations()
        if self.fault == "half the noise":
            sd = {name: value / 2 for name, value in sd.items()}
        counts = self._counts(ratings)
        noisy = counts + (
            0 if self.fault == "choice without noise" else draw.normal(0, sd["choice"], len(counts))
        )
        limit = 1.0 + sd["choice"] * math.sqrt(2 * math.log(1 / self.delta))
        eligible = np.flatnonzero(
            (counts > 0) if self.fault == "no threshold" else (counts > 0) & (noisy > limit)
        )
        order = counts if self.fault == "exact order" else noisy
        items = np.sort(eligible[np.argsort(-order[eligible], kind="stable")][: self.most_items])
        exact = self.exact(ratings, items)
        quiet = self.fault.removesuffix(" without noise")
        values = {
            name: exact[name] + (0 if name == quiet else draw.normal(0, sd[name], len(exact[name])))
            for name in ("total", "gram", "sums")
        }
        return Noisy(items, {"choice": noisy[items], **values}, self.deviations())

    def _counts(self, ratings: sp.csr_array) -> np.ndarray:
        """Return each item's raters, each person spreading one unit of length over the items rated."""
        lengths = np.diff(ratings.indptr)
        weight = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths)
        return np.bincount(ratings.indices, weights=weight, minlength=ratings.shape[1])
