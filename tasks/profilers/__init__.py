"""Hold the ways to make the profile published of a group: one file each, named by a method in tasks/methods.

A profiler has `Params`, `params(config)` and `make(context, inputs) -> cells`: it writes groups.parquet
(tasks/data/profiles.py) to `context.out`, in parts on the workers (`_parts.write_parts`) or at once, and returns the
number of cells. It may have `coding(config)`, where it does not publish steps of the rating scale.
May import config, data, kernels, keys, store, and of pipeline the context of a step; no step and no method.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Inputs:
    """Hold the directories a profiler may read; whether there are factors follows from the method's steps."""

    ratings: Path
    groups: Path
    factors: Path | None = None

    @property
    def model(self) -> Path:
        """Return the directory of the fitted model; only where the method has the step `padding`."""
        assert self.factors is not None
        return self.factors

    @property
    def label_file(self) -> Path:
        """Return the file with the group number of every user."""
        return self.groups / "labels.npy"
