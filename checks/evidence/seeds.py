"""Provide the judge's own random numbers: fixed, so that an audit attacks the same people in the same way."""

import numpy as np


def seeded(*names: object) -> np.random.Generator:
    """Return the random stream of this combination of names."""
    digest = np.frombuffer("/".join(map(str, names)).encode(), dtype=np.uint8)
    return np.random.default_rng([20100, *digest.tolist()])
