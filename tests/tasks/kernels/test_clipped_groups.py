"""Test that outlying groups are moved towards the mean taste, and nothing else."""

import numpy as np
import pytest

from tasks.kernels.group_profiles import clip_outlying_groups
from tasks.kernels.padded import LowRank


def means(tastes, levels):
    """Groups with a taste in two dimensions and a level, as the padder's factors are: [taste, level, 1]."""
    users = np.column_stack([tastes, levels, np.ones(len(tastes))]).astype(np.float32)
    items = np.array([[1, 0, 1, 0.2], [0, 1, 1, 0.1], [1, 1, 1, -0.3]], np.float32)
    return LowRank(users, items, 3.0)


def test_the_outlier_is_moved_and_keeps_its_level():
    tastes = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [6, 6]], float)
    given = means(tastes, [0.1, 0.2, 0.3, 0.4, 2.0])
    clipped = clip_outlying_groups(given, 0.75)
    centre = tastes.mean(axis=0)
    moved = clipped.users[:, :2] - centre
    # Along its own direction, to the distance that three of four groups do not exceed.
    assert np.cross(moved[4], tastes[4] - centre) == pytest.approx(0, abs=1e-4)
    assert np.linalg.norm(moved[4]) < np.linalg.norm(tastes[4] - centre)
    assert (clipped.users[:, 2:] == given.users[:, 2:]).all()


def test_most_groups_stay_where_they_are():
    rng = np.random.default_rng(0)
    given = means(rng.normal(size=(100, 2)), rng.normal(size=100))
    same = (clip_outlying_groups(given, 0.8).users == given.users).all(axis=1)
    assert 78 <= same.sum() <= 82
    assert clip_outlying_groups(given, 1.0) is given


def test_groups_without_taste_are_left_alone():
    users = np.column_stack([np.arange(5.0), np.ones(5)]).astype(np.float32)
    given = LowRank(users, np.array([[1, 0.5], [1, -0.5]], np.float32), 3.0)
    assert (clip_outlying_groups(given, 0.5).users == users).all()
