"""Represent the padded rating matrix without materialising it: low rank plus a sparse residual ([Chang2009], section
4.1).

A padded cell is the observed rating where there is one, and the prediction elsewhere. A row is built when it is
needed; group means and variances of the predictions are computed in the small space of the factors.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit


@dataclass(frozen=True)
class LowRank:
    """Hold predictions mean + users @ items.T. Biases are factors too, so this is all a predictor has to return."""

    users: np.ndarray  # (m, F) float32
    items: np.ndarray  # (n, F) float32
    mean: float

    @property
    def shape(self) -> tuple[int, int]:
        """Return (users, items)."""
        return len(self.users), len(self.items)

    def rows(self, users: np.ndarray | slice) -> np.ndarray:
        """Return the predictions of some users for every item, dense."""
        return _product(self.users[users], self.items) + np.float32(self.mean)

    def padded_rows(self, users: np.ndarray | slice, observed: sp.csr_array) -> np.ndarray:
        """Return the predictions with the observed ratings of these users in their places."""
        dense = self.rows(users)
        row = np.repeat(np.arange(observed.shape[0]), np.diff(observed.indptr))
        dense[row, observed.indices] = observed.data
        return dense

    def cells(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return the predictions of single (user, item) cells."""
        return np.einsum("cf,cf->c", self.users[users], self.items[items]) + np.float32(self.mean)

    def group_means(self, labels: np.ndarray, groups: int) -> "LowRank":
        """Return the mean prediction of each group: the mean of the members' factors, so low rank again."""
        sizes = np.bincount(labels, minlength=groups)
        order = np.argsort(labels, kind="stable")
        belongs = sp.csr_array(
            (np.ones(len(labels)), order, np.concatenate([[0], np.cumsum(sizes)])),
            shape=(groups, len(labels)),
        )
        return LowRank((belongs @ self.users / sizes[:, None]).astype(np.float32), self.items, self.mean)

    def group_variances(self, labels: np.ndarray, groups: int, items: np.ndarray) -> np.ndarray:
        """Return the variance of the members' predictions, (groups, items): bᵀ Cov b in the space of the factors."""
        covariance = _covariances(np.asarray(self.users, np.float64), labels, groups)
        factors = self.items[items]
        outer = np.einsum("if,ih->ifh", factors, factors).reshape(len(items), factors.shape[1] ** 2)
        return np.maximum(_product(covariance.reshape(groups, -1), outer), 0)


def _covariances(factors: np.ndarray, labels: np.ndarray, groups: int, block: int = 16_384) -> np.ndarray:
    """Return the covariance of the members' factors in each group, (groups, F, F)."""
    width = factors.shape[1]
    sizes = np.bincount(labels, minlength=groups)[:, None]
    means = np.zeros((groups, width))
    np.add.at(means, labels, factors)
    means /= sizes
    sums = np.zeros((groups, width * width))
    for start in range(0, len(labels), block):
        part = slice(start, start + block)
        centred = factors[part] - means[labels[part]]
        np.add.at(sums, labels[part], np.einsum("uf,uh->ufh", centred, centred).reshape(len(centred), -1))
    return (sums / sizes).reshape(groups, width, width).astype(np.float32)


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(left, np.float32) @ np.asarray(right, np.float32).T


def encode(
    values: np.ndarray,
    scale: tuple[float, float],
    step: float,
    *,
    shift: float = 0.0,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return published codes of the ratings values + shift: clipped to the scale, rounded to the step, in one pass."""
    codes = np.empty(values.shape, code_type(scale, step)) if out is None else out
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    low, width, highest = (np.float32(number) for number in (scale[0], step, _highest_code(scale, step)))
    _encode(flat, np.float32(shift), low, width, highest, codes.reshape(-1))
    return codes


@njit(cache=True, nogil=True)
def _encode(values, shift, low, step, highest, codes):  # type: ignore[no-untyped-def]
    for cell in range(len(values)):
        code = np.rint((values[cell] + shift - low) / step)
        codes[cell] = np.int32(min(max(code, np.float32(0)), highest))


def code_type(scale: tuple[float, float], step: float) -> np.dtype:
    """Return the smallest little-endian type that holds every code."""
    return np.dtype("u1") if _highest_code(scale, step) < 256 else np.dtype("<u2")


def _highest_code(scale: tuple[float, float], step: float) -> int:
    return int(np.floor((scale[1] - scale[0]) / step + 1e-6))
