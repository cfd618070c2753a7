"""Present the mechanism of method dp-synthetic to the audit: the kernel that the step `statistics` runs, on a matrix.

The audited settings are those of the release, except for the number of items: so few that a canary decides which are
chosen. The noise of a run is keyed as the release's is, by the owner's secret and the digest of the data.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from tasks.kernels import bounded_sums as bounded
from tasks.kernels.noisy_statistics import NothingChosenError, Settings, Statistics, noisy_statistics
from tasks.keys import NoiseKey
from tasks.shadow.canaries import Noisy

KeyOf = Callable[..., NoiseKey]
LEAST_MOST_ITEMS = 12
BEYOND_THE_LIMIT = 2.5  # items for each rating that counts in full: a canary can exceed the limit by far


@dataclass(frozen=True)
class AuditedMechanism:
    """Run the mechanism with settings of a release; `key_of` derives its noise as the release's is derived."""

    settings: Settings
    key_of: KeyOf
    limits: dict[int, bounded.Limits] = field(default_factory=dict)  # by number of chosen items

    @classmethod
    def of(cls, settings: Settings, key_of: KeyOf) -> "AuditedMechanism":
        """Return the mechanism with few items, and everything else as it is."""
        items = max(LEAST_MOST_ITEMS, round(BEYOND_THE_LIMIT * settings.row_weight))
        return cls(replace(settings, items=items), key_of)

    @property
    def rho(self) -> float:
        """All parts together, in zero-concentrated differential privacy."""
        return self.settings.rho

    @property
    def row_limit(self) -> int:
        """Ratings of one person that count in full."""
        return self.settings.row_weight

    @property
    def most_items(self) -> int:
        """Items chosen at most."""
        return self.settings.items or LEAST_MOST_ITEMS

    def release(self, ratings: sp.csr_array, key: int) -> Noisy:
        """Run the mechanism on these ratings with the noise of this key; nothing is seen where it chose nothing."""
        words = self.key_of(key, _digest(ratings)).words
        try:
            found = noisy_statistics(ratings, self.settings, words)
        except NothingChosenError:
            return Noisy(np.zeros(0, np.int64), {}, {})
        self.limits[len(found.columns)] = found.limits
        noise = {name: float(part.variance) ** 0.5 for name, part in found.noise.items()}
        return Noisy(found.columns, _values(found), noise)

    def exact(self, ratings: sp.csr_array, items: np.ndarray) -> dict[str, np.ndarray]:
        """Return the same statistics without noise."""
        if not len(items):
            return {}
        sums = bounded.sums(ratings, items, self.limits[len(items)])
        return {
            "choice": bounded.choice_sums(ratings)[items],
            "users": np.array([ratings.shape[0]]),
            "lengths": sums.lengths,
            "means": sums.means,
            "levels": sums.levels,
            "pairs": sums.pairs[np.triu_indices(len(items))],
            "ratings": sums.ratings,
        }

    def halved(self) -> "AuditedMechanism":
        """Return the mechanism with half of the noise: four times rho."""
        return AuditedMechanism(replace(self.settings, rho=4 * self.settings.rho), self.key_of)


def _values(found: Statistics) -> dict[str, np.ndarray]:
    return {
        "choice": found.counts,
        "users": np.array([found.users]),
        "lengths": found.lengths,
        "means": found.means,
        "levels": found.levels,
        "pairs": found.pairs[np.triu_indices(len(found.columns))],
        "ratings": found.ratings,
    }


def _digest(ratings: sp.csr_array) -> str:
    digest = hashlib.sha256(str(ratings.shape).encode())
    for part in (ratings.indptr, ratings.indices, ratings.data):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
