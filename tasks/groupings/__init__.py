"""Hold the ways to form groups of users who share a profile: one file each, named by a method in tasks/methods.

A grouping has `Params`, `params(config)` and `group(context, inputs) -> labels`, groups numbered 0..n−1 in any order:
the step `clustering` shuffles the numbers. Modules whose names begin with an underscore are shared parts.
May import config, data, kernels, errors, and of pipeline the context of a step; no step and no method.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Inputs:
    """Hold the directories a grouping may read; which of them there are follows from the method's steps."""

    ratings: Path
    factors: Path | None = None
    bins: Path | None = None

    @property
    def model(self) -> Path:
        """Return the directory of the fitted model; only where the method has the step `padding`."""
        assert self.factors is not None
        return self.factors

    @property
    def bin_file(self) -> Path:
        """Return the file with the bin of every user; only where the method has the step `binning`."""
        assert self.bins is not None
        return self.bins / "bins.npy"
