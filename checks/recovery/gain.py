"""Hold a success rate of the recovery attack beside its baseline, and the bound of its gain that is judged."""

from dataclasses import dataclass

import numpy as np

from checks.stats import Risk, clustered

SMALL_HEADS = (50, 100)  # flags: fewer than a hundred verbatim cells move no average
MOST_EXPECTED = (
    0.5  # of a small head: where more is right anyway, few flags only show the baseline's own errors
)


@dataclass(frozen=True)
class Gain:
    """Hold a success rate of the attack beside the baseline's.

    `few` marks heads whose interval is wider than what they may gain: these are refused where they contradict the
    threshold, at the lower bound, and all others must keep it at the upper one.
    """

    kind: str
    how: str
    risk: Risk
    few: bool = False

    @property
    def decisive(self) -> float:
        """Return the bound that is compared with the threshold; a lower one is not widened for attempts."""
        return self.risk.uncorrected.gain_interval[0] if self.few else self.risk.gain_interval[1]

    def __str__(self) -> str:
        figures = f"{self.risk.rate:.3f} against {self.risk.baseline:.3f}, gain {self.risk.gain:+.3f}"
        return f"{self.kind} ({self.how}) {figures}"


def gain_of_few(
    kind: str, how: str, groups: np.ndarray, right: np.ndarray, expected: np.ndarray
) -> Gain | None:
    """Return the gain of a small head, given per flag its group, whether it is right and the baseline's chance. None
    where the baseline leaves less than half in doubt.

    Flags of one group are one cluster, and count as one flag: a head that lies in one group says something about that
    group, which is judged for itself, and nothing about the release.
    """
    baseline = float(expected.mean()) if len(expected) else 1.0
    if baseline > MOST_EXPECTED:
        return None
    _, cluster = np.unique(groups, return_inverse=True)
    flags = np.bincount(cluster)
    risk = clustered(np.bincount(cluster, right), flags, baseline)
    effective = max(1, min(risk.n, int(flags.sum() ** 2 / (flags**2).sum())))
    risk = Risk(risk.rate * effective, effective, baseline)
    return Gain(kind, f"{how}, {len(right):,} flags", risk, few=True)
