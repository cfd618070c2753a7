"""Test the drawing of rows: cleaning of noisy statistics, latent correlations, and what the drawn rows look like."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal, norm

from tasks.engine import single_threaded
from tasks.kernels import synthetic_rows as rows
from tasks.kernels.noisy_statistics import Settings, Statistics, noisy_statistics
from tasks.kernels.synthetic_rows import RowModel
from tasks.keys import OwnerKey

PRECISE = Settings(rho=1e9, failure=1e-3, epsilon=1.0, scale=(1.0, 5.0), items=30)
PEOPLE, ITEMS = 6000, 30


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Compute as the engine does: many BLAS threads on a busy machine are far slower."""
    with single_threaded():
        yield


@pytest.fixture(scope="module")
def data() -> sp.csr_array:
    """Make people with one of two tastes: items of the own taste are rated four times as often, and liked more."""
    rng = np.random.default_rng(3)
    taste = rng.random(PEOPLE) < 0.5
    own = taste[:, None] == (np.arange(ITEMS) % 2 == 0)
    rated = rng.random((PEOPLE, ITEMS)) < np.where(own, 0.32, 0.08)
    rating = np.clip(np.rint(2.5 + np.arange(ITEMS) / ITEMS * 2 + rng.normal(0, 0.7, rated.shape)), 1, 5)
    return sp.csr_array(np.where(rated, rating, 0).astype(np.float32))


@pytest.fixture(scope="module")
def found(data) -> Statistics:
    """Measure them with hardly any noise."""
    return noisy_statistics(data, PRECISE, OwnerKey(b"n" * 32).noise("rows").words)


@pytest.fixture(scope="module")
def drawn(found) -> tuple[sp.csr_array, np.ndarray]:
    """Draw rows."""
    return rows.draw(rows.fit(found), 20_000, np.random.default_rng(1))


class TestCleaning:
    def test_simplex_by_hand(self):
        assert rows.on_simplex(np.array([3.0, -1.0, 1.0]), 3.0).tolist() == [2.5, 0, 0.5]
        assert rows.on_simplex(np.array([2.0, 1.0]), 3.0).tolist() == [2, 1]
        assert rows.on_simplex(np.array([-5.0, -6.0]), 2.0).tolist() == [1.5, 0.5]

    def test_noise_alone_leaves_nothing(self):
        rng = np.random.default_rng(0)
        upper = np.triu(rng.normal(0, 2.0, (200, 200)))
        noise = upper + np.triu(upper, 1).T
        # The largest eigenvalue may lie a little above the edge; what is left of it is small.
        assert np.abs(rows.denoised(noise, 2.0)).max() < 0.5

    def test_a_strong_direction_stays(self):
        rng = np.random.default_rng(0)
        upper = np.triu(rng.normal(0, 1.0, (200, 200)))
        signal = np.outer(*[rng.choice([-1.0, 1.0], 200)] * 2)
        noisy = signal + upper + np.triu(upper, 1).T
        before, after = (np.linalg.norm(one - signal) for one in (noisy, rows.denoised(noisy, 1.0)))
        assert after < 0.2 * before

    @pytest.mark.parametrize("correlation", [-0.3, 0.0, 0.25, 0.6])
    @pytest.mark.parametrize("frequencies", [(0.5, 0.5), (0.1, 0.3), (0.05, 0.05)])
    def test_latent_correlation(self, correlation, frequencies):
        """The inverse of the covariance that the bivariate normal distribution function gives."""
        thresholds = norm.isf(frequencies)
        both = multivariate_normal([0, 0], [[1, correlation], [correlation, 1]]).cdf(-thresholds)
        covariance = np.full((2, 2), both - frequencies[0] * frequencies[1])
        assert rows.latent_correlation(covariance, thresholds)[0, 1] == pytest.approx(correlation, abs=0.02)

    def test_factors_have_unit_variance(self):
        rng = np.random.default_rng(0)
        points = rng.normal(size=(40, 3)) + 0.5 * rng.normal(size=(40, 1))
        wanted = np.corrcoef(points)
        loadings, own = rows.factors(wanted)
        made = loadings @ loadings.T + np.diag(own**2)
        assert np.diag(made) == pytest.approx(1)
        assert np.abs(made - wanted).max() < 0.1


class TestRows:
    def test_lengths(self, drawn, data):
        cells, _ = drawn
        length = np.diff(cells.indptr)
        assert length.min() >= 1
        assert length.mean() == pytest.approx(np.diff(data.indptr).mean(), rel=0.1)
        assert cells.has_sorted_indices

    def test_tastes_are_kept(self, drawn):
        """Items of one taste occur together, those of two tastes avoid each other."""
        correlation = np.corrcoef(drawn[0].toarray().T)
        same = np.arange(ITEMS) % 2
        same = same[:, None] == same
        np.fill_diagonal(correlation, np.nan)
        assert np.nanmean(correlation[same]) > 0.05
        assert np.nanmean(correlation[~same]) < -0.05

    def test_popularity_is_kept(self, found, data):
        """Items that three times as many people have, as many rows have."""
        rng = np.random.default_rng(0)
        rated = rng.random((PEOPLE, ITEMS)) < np.where(np.arange(ITEMS) < 10, 0.4, 0.1)
        uneven = sp.csr_array(rated.astype(np.float32))
        measured = noisy_statistics(uneven, PRECISE, OwnerKey(b"n" * 32).noise("rows").words)
        cells, _ = rows.draw(rows.fit(measured), 20_000, np.random.default_rng(1))
        share = cells.sum(axis=0) / 20_000
        assert share[:10].mean() == pytest.approx(0.4, abs=0.04)
        assert share[10:].mean() == pytest.approx(0.1, abs=0.02)

    def test_ratings(self, drawn, data):
        """Levels are those that occur; items keep the order of their means, the whole its mean and spread."""
        cells, levels = drawn
        assert set(np.unique(levels)) == {-8, -4, 0, 4, 8}
        real = data.data * 4.0 - 12
        assert levels.mean() == pytest.approx(real.mean(), abs=0.3)
        assert levels.std() == pytest.approx(real.std(), rel=0.1)
        means = np.bincount(cells.indices, weights=levels) / np.bincount(cells.indices)
        true = np.asarray(data.sum(axis=0)) / np.diff(data.tocsc().indptr)
        assert np.corrcoef(means, true)[0, 1] > 0.95

    def test_codes_by_hand(self):
        assert rows.codes_of(np.array([-8, -4, 0, 4, 8]), (1.0, 5.0), 0.5).tolist() == [0, 2, 4, 6, 8]
        assert rows.codes_of(np.array([-8, 1, 8]), (-10.0, 10.0), 1.0).tolist() == [0, 11, 20]

    def test_same_stream_same_rows(self, found):
        one, other = (rows.draw(rows.fit(found), 50, np.random.default_rng(4)) for _ in range(2))
        assert np.array_equal(one[0].indices, other[0].indices)
        assert np.array_equal(one[1], other[1])

    def test_arrays_hold_everything(self, found):
        model = rows.fit(found)
        again = RowModel.of_arrays(model.arrays())
        assert all(np.array_equal(getattr(again, name), value) for name, value in model.arrays().items())

    @pytest.mark.parametrize("rho", [1e-4, 1e-2])
    def test_noise_without_signal_gives_valid_rows(self, found, rho):
        """Statistics that are noise alone still give rows: nothing divides by zero, no row is empty."""
        rng = np.random.default_rng(0)
        variance = int(1 / rho)
        noisy = {
            name: rng.normal(0, variance**0.5, getattr(found, name).shape).astype(np.int64)
            for name in ("lengths", "means", "levels", "ratings")
        }
        upper = np.triu(rng.normal(0, 1024 / rho, found.pairs.shape)).astype(np.int64)
        statistics = Statistics(
            **{
                **{name: getattr(found, name) for name in found.__dataclass_fields__},
                **noisy,
                "pairs": upper + np.triu(upper, 1).T,
            }
        )
        cells, levels = rows.draw(rows.fit(statistics), 100, np.random.default_rng(1))
        assert np.diff(cells.indptr).min() >= 1
        assert np.abs(levels).max() <= 8
