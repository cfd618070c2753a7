"""Test the mechanism: what it spends, what it measures with little noise, the choice of items, and its noise."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.engine import single_threaded
from tasks.kernels import bounded_sums as bounded
from tasks.kernels.discrete_gaussian import discrete_gaussian
from tasks.kernels.noisy_statistics import (
    NothingChosenError,
    Settings,
    Words,
    _Sampler,
    measure,
    noisy_statistics,
    shares,
    unseen_threshold,
    variance_for,
)
from tasks.kernels.privacy_accounting import allowance
from tasks.keys import OwnerKey

PRECISE = Settings(rho=1e9, failure=1e-3, epsilon=1.0, scale=(1.0, 5.0), items=20)


def words(*names: object) -> Words:
    """Return a keyed stream."""
    return OwnerKey(b"n" * 32).noise("noisy statistics", *names).words


def budgeted(epsilon: float, releases: int = 1, **more) -> Settings:
    """Return settings that keep a budget."""
    one = allowance(epsilon, 1e-5, releases)
    return Settings(rho=one.rho, failure=one.failure, epsilon=epsilon, scale=(1.0, 5.0), **more)


@pytest.fixture(autouse=True)
def _one_thread():
    """Compute as the engine does: many BLAS threads on a busy machine are far slower."""
    with single_threaded():
        yield


@pytest.fixture(scope="module")
def many_people() -> sp.csr_array:
    """Make 4,000 people with about 12 of 60 items each, some items far more popular."""
    rng = np.random.default_rng(0)
    popularity = np.linspace(0.02, 0.4, 60)
    rated = rng.random((4000, 60)) < popularity
    return sp.csr_array(np.where(rated, rng.integers(1, 6, rated.shape), 0).astype(np.float32))


class TestMeasurement:
    def test_with_little_noise_the_sums_come_out(self, taste_matrix):
        matrix = taste_matrix(60, 20)
        found = noisy_statistics(matrix, PRECISE, words())
        exact = bounded.sums(matrix, found.columns, found.limits)
        assert found.columns.tolist() == list(range(20))
        for name, units in (("pairs", found.limits.pairs), ("ratings", found.limits.ratings)):
            assert np.abs(getattr(found, name) - getattr(exact, name)).max() < 0.05 * units
        # Units of one person: the smallest noise has a variance of 1.
        assert abs(found.users - 60) <= 3
        assert np.abs(found.lengths - exact.lengths).max() <= 4
        assert np.array_equal(found.pairs, found.pairs.T)

    def test_noise_has_the_variance_that_was_accounted_for(self, many_people):
        found = noisy_statistics(many_people, budgeted(3), words())
        exact = bounded.sums(many_people, found.columns, found.limits)
        upper = np.triu_indices(len(found.columns))
        noise = (found.pairs - exact.pairs)[upper]
        assert np.var(noise) / found.noise["pairs"].variance == pytest.approx(1, abs=0.12)
        assert abs(np.mean(noise)) < 4 * math.sqrt(found.noise["pairs"].variance / len(noise))

    def test_ρ_of_each_part_follows_from_bound_and_variance(self, many_people):
        found = noisy_statistics(many_people, budgeted(3), words())
        limits, items = found.limits, len(found.columns)
        bounds = {
            "users": 1,
            "choice": bounded.CHOICE_RESOLUTION**2,
            "lengths": 1,
            "means": 1,
            "levels": limits.levels**2,
            "pairs": bounded.pairs_bound(items, limits.pairs, limits.row_weight),
            "ratings": bounded.ratings_bound(items, limits.ratings, limits.row_weight),
        }
        assert {name: bound / (2 * found.noise[name].variance) for name, bound in bounds.items()} == {
            name: part.rho for name, part in found.noise.items()
        }

    @pytest.mark.parametrize(("epsilon", "releases"), [(3, 1), (6, 12), (20, 1)])
    def test_never_more_than_the_budget(self, many_people, epsilon, releases):
        chosen = budgeted(epsilon, releases)
        found = noisy_statistics(many_people, chosen, words())
        assert 0.95 * chosen.rho < found.rho <= chosen.rho
        assert found.failure <= chosen.failure
        spent = found.spent(1e-5)
        assert spent["epsilon"] <= epsilon
        assert sum(spent["parts"].values()) == pytest.approx(spent["rho"])

    def test_shares_add_up(self):
        assert sum(shares(PRECISE).values()) == pytest.approx(1, abs=1e-12)

    def test_least_variance(self):
        """σ² = ⌈Δ²/2ρ⌉: 50/(2·0.3) = 83.3."""
        assert variance_for(50, 0.3) == 84
        assert variance_for(1, 100.0) == 1
        assert 50 / (2 * 84) <= 0.3 < 50 / (2 * 83)

    def test_a_part_is_measured_once(self):
        sampler = _Sampler(PRECISE, words())
        sampler.noisy("users", np.array([5]), 1)
        with pytest.raises(ValueError, match="measured before"):
            sampler.noisy("users", np.array([5]), 1)

    def test_the_sampler_has_its_price(self):
        """δ must cover the distance of every draw; where it cannot, the mechanism refuses."""
        with pytest.raises(ValueError, match="delta is too small"):
            _Sampler(replace(PRECISE, failure=1e-25), words()).failure()
        sampler = _Sampler(PRECISE, words())
        sampler.draws = 2**33
        with pytest.raises(ValueError, match="draws of noise"):
            sampler.failure()

    def test_the_account_does_not_follow_from_the_data(self, many_people):
        """What was spent is published: people and items that change nothing else must not change it."""
        wider = sp.csr_array((many_people.data, many_people.indices, many_people.indptr), shape=(4000, 90))
        rare = sp.csr_array((np.ones(30), (np.arange(30), np.arange(60, 90))), shape=(4000, 90))
        chosen = budgeted(20, items=20)
        one, other = (
            noisy_statistics(data, chosen, words()) for data in (many_people, sp.csr_array(wider + rare))
        )
        assert one.spent(1e-5) == other.spent(1e-5)


class TestChoice:
    @pytest.mark.parametrize("probability", [1e-6, 1e-12])
    @pytest.mark.parametrize("variance", [30_000, 10_000_000])
    def test_items_of_one_person_alone_stay_below_the_threshold(self, variance, probability):
        """For every number n of such items: n · P[noise > threshold − weight] is at most the probability (Lemma 2)."""
        table = discrete_gaussian(variance)
        threshold = unseen_threshold(table, probability)
        counts = np.unique(np.geomspace(1, 65_536, 300).astype(int))
        for n, weight in zip(counts, bounded.choice_weight(counts), strict=True):
            assert n * table.tail(threshold - int(weight) + 1) <= probability

    def test_a_lower_threshold_would_not_do(self):
        table = discrete_gaussian(30_000)
        lower = unseen_threshold(table, 1e-6) - 2
        counts = np.arange(1, 65_537)
        worst = max(
            n * table.tail(lower - int(weight) + 1)
            for n, weight in zip(counts, bounded.choice_weight(counts), strict=True)
        )
        assert worst > 1e-6

    def test_items_of_few_people_are_not_released(self, many_people):
        """One newcomer brings 40 items of their own; in no draw does one of them come out."""
        alone = sp.csr_array(np.concatenate([np.zeros((1, 60)), np.ones((1, 40))], axis=1))
        wider = sp.csr_array((many_people.data, many_people.indices, many_people.indptr), shape=(4000, 100))
        data = sp.csr_array(sp.vstack([wider, alone], format="csr"))
        for draw in range(10):
            found = noisy_statistics(data, budgeted(3), words(draw))
            assert found.columns.max() < 60

    def test_most_popular_items_come_first(self, many_people):
        found = noisy_statistics(many_people, replace(PRECISE, items=20), words())
        sums = bounded.choice_sums(many_people)
        assert set(found.columns) == set(np.argsort(-sums)[:20])

    def test_too_little_data(self):
        with pytest.raises(NothingChosenError):
            noisy_statistics(sp.csr_array(np.ones((5, 4))), budgeted(1), words())

    def test_nobody(self):
        with pytest.raises(NothingChosenError):
            noisy_statistics(sp.csr_array((0, 4)), budgeted(1), words())


class TestStreams:
    def test_same_stream_same_bytes(self, many_people):
        one, other = (noisy_statistics(many_people, budgeted(3), words(1)) for _ in range(2))
        assert np.array_equal(one.pairs, other.pairs)

    def test_parts_and_streams_have_noise_of_their_own(self, many_people):
        used: dict[str, np.ndarray] = {}

        def recorded(part: str, count: int) -> np.ndarray:
            used[part] = words(1)(part, count)
            return used[part]

        noisy_statistics(many_people, budgeted(3), recorded)
        parts = {part.partition(" ")[0] for part in used}
        assert parts == {"users", "choice", "lengths", "means", "levels", "pairs", "ratings"}
        assert len(parts) == len(used)
        beginnings = {stream[:2].tobytes() for stream in used.values()}
        assert len(beginnings) == len(used)

    def test_noise_of_another_variance_is_other_noise(self, many_people):
        """Twice the budget gives other words: the same ones, scaled, would give the sums away by subtraction."""
        named: list[set[str]] = []
        for epsilon in (3, 6):
            names: set[str] = set()

            def recorded(part: str, count: int, names: set[str] = names) -> np.ndarray:
                names.add(part)
                return words(1)(part, count)

            noisy_statistics(many_people, budgeted(epsilon), recorded)
            named.append(names)
        assert not named[0] & named[1]

    def test_blocks_are_added_before_noise(self, many_people):
        """Data that give their sums in parts are measured as if they were one matrix."""

        class InTwo:
            users = many_people.shape[0]
            halves = (sp.csr_array(many_people[:1500]), sp.csr_array(many_people[1500:]))

            def choice_sums(self) -> np.ndarray:
                return sum(bounded.choice_sums(half) for half in self.halves)

            def sums(self, columns: np.ndarray, limits: bounded.Limits) -> bounded.Sums:
                one, other = (bounded.sums(half, columns, limits) for half in self.halves)
                return one + other

        whole, parts = (
            noisy_statistics(many_people, budgeted(3), words()),
            measure(InTwo(), budgeted(3), words()),
        )
        for name in ("columns", "counts", "lengths", "means", "levels", "pairs", "ratings"):
            assert np.array_equal(getattr(whole, name), getattr(parts, name)), name
