"""Compute what is predicted for a group on average: what is published where no, or too few, real ratings are."""

from pathlib import Path

import numpy as np

from tasks.data.factors import open_model
from tasks.kernels.group_profiles import clip_outlying_groups
from tasks.kernels.padded import LowRank


def mean_predictions(factors: Path, label_file: Path, clip_groups: float) -> LowRank:
    """Return the mean prediction of every group, with outlying groups moved towards the mean taste."""
    model, labels = open_model(factors), np.load(label_file)
    return clip_outlying_groups(model.group_means(labels, int(labels.max()) + 1), clip_groups)
