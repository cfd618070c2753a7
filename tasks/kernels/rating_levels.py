"""Draw factitious ratings on the levels that real ratings use, with their mean unchanged."""

import numpy as np
import numpy.typing as npt

COMMON = 0.005  # share of all ratings from which a value counts as a level: a stray 3.33 does not
MOST = 21  # with more levels the scale counts as continuous, and every value given is a level


def common_levels(values: np.ndarray, counts: np.ndarray) -> npt.NDArray[np.float32]:
    """Return the levels that ratings are given on, ascending, from the different ratings and their frequencies."""
    order = np.argsort(values)
    values, counts = values[order].astype(np.float32), counts[order]
    usual = counts >= COMMON * counts.sum()
    if not 2 <= usual.sum() <= MOST or 2 * counts[usual].sum() < counts.sum():
        return values
    return values[usual]


def draw_levels(values: np.ndarray, levels: np.ndarray, uniforms: np.ndarray) -> npt.NDArray[np.float32]:
    """Draw for each value one of the two levels around it, the nearer the more likely, so that the mean stays.

    `uniforms` are numbers of the open interval (0, 1), one per value. Values beyond the outermost levels get these.
    """
    inside = np.clip(values.astype(np.float64), levels[0], levels[-1])
    above = np.clip(np.searchsorted(levels, inside, side="left"), min(1, len(levels) - 1), None)
    low, high = levels[np.maximum(above - 1, 0)].astype(np.float64), levels[above].astype(np.float64)
    share = np.where(high > low, (inside - low) / np.where(high > low, high - low, 1), 0)
    return np.where(uniforms < share, high, low).astype(np.float32)
