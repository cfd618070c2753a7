"""Write and read noisy statistics (statistics.npz), and the exact sums of blocks on their way to becoming noisy.

The positions of the chosen items among all of the source are not written: they depend on items that few people rated.
What is read back numbers the chosen items as items.parquet does.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tasks.kernels.bounded_sums import Limits, Sums
from tasks.kernels.noisy_statistics import Noise, Statistics
from tasks.keys import NoiseKey
from tasks.store import digest_of, dumps

STATISTICS = "statistics.npz"
ARRAYS = ("counts", "lengths", "means", "levels", "pairs", "ratings")


class Keys(Protocol):
    """Describe what gives keys: a job of this release and snapshot."""

    @property
    def rng(self) -> Callable[..., np.random.Generator]:
        """Return a random stream of the release and snapshot."""

    @property
    def noise(self) -> Callable[..., NoiseKey]:
        """Return a key of noise."""


def noise_key(keys: Keys, settings: Any, *data: object) -> NoiseKey:
    """Return the key of the noise for these settings and data, which are named by digests: the same noise under other
    data or another variance could be subtracted."""
    of_release = keys.rng("noise").bytes(32).hex()  # belongs to the release and snapshot
    return keys.noise("statistics", of_release, digest_of(settings), *data)


def write(path: Path, found: Statistics) -> None:
    """Write statistics: arrays, and everything else as JSON."""
    rest = {
        "users": found.users,
        "limits": asdict(found.limits),
        "noise": {name: asdict(part) for name, part in found.noise.items()},
        "failure": found.failure,
    }
    write_arrays(path, {"rest": np.array(dumps(rest)), **{name: getattr(found, name) for name in ARRAYS}})


def read(path: Path) -> Statistics:
    """Read statistics."""
    with np.load(path) as stored:
        rest = json.loads(str(stored["rest"]))
        arrays = {name: stored[name] for name in ARRAYS}
    limits = rest.pop("limits")
    limits = Limits(**{**limits, "scale": tuple(limits["scale"]), "edges": tuple(limits["edges"])})
    noise = {name: Noise(**part) for name, part in rest.pop("noise").items()}
    columns = np.arange(len(arrays["counts"]))
    return Statistics(columns=columns, **arrays, **rest, limits=limits, noise=noise)


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write named arrays."""
    np.savez(path, **arrays)


def write_sums(path: Path, found: Sums) -> None:
    """Write the exact sums of a block."""
    write_arrays(path, vars(found))


def read_sums(path: Path) -> Sums:
    """Read the exact sums of a block."""
    with np.load(path) as stored:
        return Sums(**dict(stored))
