"""Test distances from full vectors to profiles that rate only some items."""

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.kernels.metrics import METRICS, distances
from tasks.kernels.profile_distances import profile_distances

ROWS = np.array([[1, 5, 3], [2, 2, 2]], np.float32)


def test_only_the_items_of_a_profile_count():
    profiles = sp.csr_array(np.array([[0, 5, 0], [2, 0, 4]], np.float32))
    found = profile_distances(ROWS, profiles, metric="weighted", max_diff=4.0)
    np.testing.assert_allclose(found, [[0, (0.25 + 0.25) / 2], [0.75, (0 + 0.5) / 2]])


def test_empty_profile_is_infinitely_far():
    assert np.isinf(
        profile_distances(ROWS, sp.csr_array((1, 3), dtype=np.float32), metric="weighted", max_diff=4.0)
    ).all()


@pytest.mark.parametrize("metric", METRICS)
def test_full_profiles_equal_full_vectors(metric):
    rng = np.random.default_rng(1)
    rows, profiles = (rng.uniform(0.5, 6, (n, 50)).astype(np.float32) for n in (7, 4))
    found = profile_distances(rows, sp.csr_array(profiles), metric=metric, max_diff=4.0)
    np.testing.assert_allclose(found, distances(rows, profiles, metric=metric, max_diff=4.0), atol=1e-5)


def test_an_unknown_metric_is_refused():
    with pytest.raises(ValueError, match="metric must be one of"):
        profile_distances(ROWS, sp.csr_array((1, 3), dtype=np.float32), metric="cosine", max_diff=4.0)
