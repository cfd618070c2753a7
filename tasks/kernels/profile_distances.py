"""Compute distances from full rating vectors to profiles that rate only some items ([Chang2009], section 7.4).

The mean runs over the items a profile has; items it does not rate do not enter the comparison.
"""

import numpy as np
import scipy.sparse as sp
from numba import njit

from tasks.kernels.metrics import METRICS


def profile_distances(
    rows: np.ndarray, profiles: sp.csr_array, *, metric: str, max_diff: float
) -> np.ndarray:
    """Return (rows, profiles) distances; a profile without items is infinitely far."""
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {METRICS}, got {metric!r}")
    return _distances(
        np.ascontiguousarray(rows, np.float32),
        profiles.indptr.astype(np.int64),
        profiles.indices.astype(np.int32),
        profiles.data.astype(np.float32),
        METRICS.index(metric),
        np.float32(max_diff),
    )


# Only some flags of fastmath, because all of it would assume that there are no infinities.
@njit(cache=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, nogil=True)
def _distances(rows, indptr, indices, data, metric, max_diff):  # type: ignore[no-untyped-def]
    out = np.empty((len(rows), len(indptr) - 1), np.float32)
    scale = np.float32(1) / max_diff
    for u in range(len(rows)):
        x = rows[u]
        for g in range(len(indptr) - 1):
            items = indices[indptr[g] : indptr[g + 1]]
            values = data[indptr[g] : indptr[g + 1]]
            total = np.float32(0)
            for j in range(len(items)):
                apart = abs(x[items[j]] - values[j])
                d = apart * scale
                if metric == 4:
                    total += d * d
                elif metric == 3:
                    total += np.float32(apart > 1.0)
                elif metric == 2:
                    total += np.float32(apart > 0.5)
                else:
                    d = min(d, np.float32(1))
                    total += d if metric == 1 else 2 * d - d * d
            mean = total / max(len(items), 1)
            out[u, g] = np.inf if len(items) == 0 else (np.sqrt(mean) if metric == 4 else mean)
    return out
