"""Ratings that nobody gave, made to look like those people give: on the levels of the scale, their mean unchanged."""

import numpy as np
import numpy.typing as npt

COMMON = 0.005  # share of all ratings from which a value counts as a level: a stray 3.33 is none
MOST = 21  # with more levels than that the scale is continuous, and every value that was given is one


def common_levels(values: np.ndarray, counts: np.ndarray) -> npt.NDArray[np.float32]:
    """The levels people give ratings on, ascending, from the different ratings and how often each was given."""
    order = np.argsort(values)
    values, counts = values[order].astype(np.float32), counts[order]
    usual = counts >= COMMON * counts.sum()
    if not 2 <= usual.sum() <= MOST or 2 * counts[usual].sum() < counts.sum():
        return values
    return values[usual]


def on_levels(values: np.ndarray, levels: np.ndarray, uniforms: np.ndarray) -> npt.NDArray[np.float32]:
    """Each value on one of the two levels around it, the nearer the more likely, so that the mean stays; `uniforms` are
    numbers of the open interval (0, 1), one a value. Beyond the outermost levels these are taken."""
    inside = np.clip(values.astype(np.float64), levels[0], levels[-1])
    above = np.clip(np.searchsorted(levels, inside, side="left"), min(1, len(levels) - 1), None)
    low, high = levels[np.maximum(above - 1, 0)].astype(np.float64), levels[above].astype(np.float64)
    share = np.where(high > low, (inside - low) / np.where(high > low, high - low, 1), 0)
    return np.where(uniforms < share, high, low).astype(np.float32)
