"""Re-estimate the profiles of old groups with what newer groups of the same series say about items.

A profile never changes, but the items' levels and factors of the newest cohort sum up what all cohorts said, and those
of an early one are poor. Every reader can put them in the place of the old ones: this is post-processing of public
files. A group's profile is taken apart,

    value(g, i) = own level of g + level of i + coordinates of g · factors of i        (in the group's own cohort),

and put together again with the levels and factors of all cohorts. The coordinates are turned into the newer directions:
with both sides' factors V and Q of common items whitened, the turn is the orthogonal one nearest to their product. A
regression of V on Q instead would shorten coordinates by the errors of V, although they are shortened by these already:
they were fitted to ratings with V as regressors.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasks.kernels.public_prior import Prior

Float32 = npt.NDArray[np.float32]

_LEAST_STRENGTH = 1e-9  # of the strongest direction: weaker ones are rounding errors


def turn(older: Float32, newer: Float32) -> np.ndarray:
    """Return the matrix T (older rank × newer rank) for which older coordinates · T go with the newer factors.

    `older` and `newer` are factors of the same items.
    """
    v, q = np.asarray(older, np.float64), np.asarray(newer, np.float64)
    left, right = _power(v.T @ v, -0.5), _power(q.T @ q, -0.5)
    u, s, vt = np.linalg.svd(left @ (v.T @ q) @ right, full_matrices=False)
    kept = s > _LEAST_STRENGTH
    return _power(v.T @ v, 0.5) @ (u[:, kept] @ vt[kept]) @ right


def _power(moments: np.ndarray, exponent: float) -> np.ndarray:
    """Return a power of a symmetric matrix in the space that it spans."""
    strength, axes = np.linalg.eigh(moments)
    there = strength > _LEAST_STRENGTH * max(float(strength[-1]), 1e-30)
    return (axes[:, there] * strength[there] ** exponent) @ axes[:, there].T


@dataclass(frozen=True)
class Refinement:
    """Re-estimate profiles of one cohort, given what it and what all cohorts say about the items."""

    own: Prior
    everybody: Prior
    turned: np.ndarray

    @classmethod
    def between(cls, own: Prior, everybody: Prior) -> "Refinement":
        """Find how the cohort's directions are to be turned."""
        both = own.known & everybody.known
        return cls(own, everybody, turn(own.factors[both], everybody.factors[both]))

    def values(self, profiles: Float32) -> Float32:
        """Return new values for all items of some groups (groups, items; NaN: not held); NaN where nothing is known.

        The mean of a profile over the items that it holds stays.
        """
        held = ~np.isnan(profiles) & self.own.known
        count = np.maximum(held.sum(axis=1, keepdims=True), 1)
        rest = np.where(held, profiles - self.own.levels, 0)
        rest = np.where(held, rest - rest.sum(axis=1, keepdims=True) / count, 0)
        factors = self.own.factors.astype(np.float64)
        coordinates = rest @ factors @ np.linalg.pinv(factors.T @ factors, hermitian=True, rcond=1e-9)
        new = self.everybody.levels + coordinates @ self.turned @ self.everybody.factors.T
        level = np.where(held, profiles - new, 0).sum(axis=1, keepdims=True) / count
        return np.where(self.everybody.known, new + level, np.nan).astype(np.float32)
