"""Test how groups are cut into the row groups of the published file."""

import numpy as np
import pytest

from tasks.profilers._parts import equal_ranges


@pytest.mark.parametrize(
    ("fill", "ranges"),
    [
        ([0.1] * 6, [(0, 6)]),
        ([0.4] * 6, [(0, 2), (2, 4), (4, 6)]),
        ([1.5, 0.1, 0.1, 0.1], [(0, 2), (2, 4)]),  # where the first would fill a block of its own
        ([9.0, 9.0], [(0, 1), (1, 2)]),
    ],
)
def test_ranges_by_hand(fill, ranges):
    assert equal_ranges(np.array(fill)) == ranges


def test_sizes_do_not_follow_what_members_rated():
    """The same number of ratings in another order gives the same ranges."""
    rated = np.random.default_rng(0).lognormal(0, 1, 1000) / 20
    assert equal_ranges(rated) == equal_ranges(np.sort(rated))
    sizes = {stop - start for start, stop in equal_ranges(rated)}
    assert max(sizes) - min(sizes) <= 1
