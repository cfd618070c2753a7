"""Test that moved factors do not reveal a class: means and covariances by hand, and what small samples keep."""

import numpy as np
import pytest

from tasks.kernels import neutral_factors as kernel

ITEMS = np.random.default_rng(7).standard_normal((40, 3)).astype(np.float32)


def neutralize_factors(users, items, classes):
    return kernel.neutralize_factors(users, items, classes, np.random.default_rng(0))


def people(many=(400, 1000), apart=(1.0, 0.0, -0.5), stretched=2.0, seed=0):
    """Generate two classes of users whose factors differ in mean and covariance."""
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((many[0], 3)) * [stretched, 1, 1] + apart
    second = rng.standard_normal((many[1], 3))
    labels = np.repeat([0, 1], many)
    return np.vstack([first, second]).astype(np.float32), labels


def class_distance(points, labels):
    """Return how far the classes' means are apart, in units of the pooled deviation (squared)."""
    one, other = points[labels == 0], points[labels == 1]
    pooled = (np.cov(one.T) * len(one) + np.cov(other.T) * len(other)) / len(points)
    away = one.mean(axis=0) - other.mean(axis=0)
    return float(away @ np.linalg.solve(pooled, away))


def test_one_dimension_by_hand():
    """Class 0 at 1, 3 and class 1 at 5, 7, a hundred of each: both end around the mean 4, off by 1."""
    users = np.repeat([[1.0], [3.0], [5.0], [7.0]], 100, axis=0)
    labels = np.repeat([0, 0, 1, 1], 100)
    moved = neutralize_factors(users, np.array([[2.0], [2.0]]), [labels])[:, 0]
    # Distance² of a class's mean from all: (2 − 4)² / 1 = 4; chance accounts for 1/200 − 1/400 of it.
    kept = ((1 / 200 - 1 / 400) / 4) ** 0.5
    low, high = 4 - 2 * kept, 4 + 2 * kept
    expected = np.repeat([low - 1, low + 1, high - 1, high + 1], 100)
    assert moved == pytest.approx(expected, abs=1e-5)


def test_classes_get_equal_means_and_covariances():
    users, labels = people()
    moved = neutralize_factors(users, ITEMS, [labels])
    assert class_distance(users, labels) > 0.5
    assert class_distance(moved, labels) < 0.02
    first, second = (np.cov(moved[labels == number].T) for number in (0, 1))
    assert first == pytest.approx(second, rel=0.1, abs=0.1)
    before = np.cov(users[labels == 0].T)
    assert before != pytest.approx(np.cov(users[labels == 1].T), rel=0.1, abs=0.1)


def test_differences_by_chance_stay():
    """Two samples of one distribution hardly move: else an attacker who knows most classes could infer the rest."""
    users, labels = people(apart=(0, 0, 0), stretched=1.0)
    moved = neutralize_factors(users, ITEMS, [labels])
    expected = 3 * (1 / 400 + 1 / 1000)
    assert class_distance(moved, labels) > 0.3 * min(class_distance(users, labels), expected)


def test_order_within_a_class_is_kept():
    users, labels = people(stretched=1.0)
    moved = neutralize_factors(users, ITEMS, [labels])
    for number in (0, 1):
        mine = labels == number
        predicted = [factors[mine] @ ITEMS.T for factors in (users, moved)]
        centred = [(some - some.mean(axis=0)).ravel() for some in predicted]
        assert np.corrcoef(*centred)[0, 1] > 0.98


def test_constant_column_stays_constant():
    """Item biases are factors with a 1 for every user: rounding there must not become a sign of the class."""
    users, labels = people()
    users = np.column_stack([users, np.ones(len(users), np.float32)])
    items = np.column_stack([ITEMS, np.linspace(-1, 1, len(ITEMS))])
    moved = neutralize_factors(users, items, [labels])
    assert np.ptp(moved[:, 3]) < 1e-5
    assert moved[:, 3] == pytest.approx(1, abs=1e-5)


def test_users_of_unknown_class_do_not_reveal_it():
    users, labels = people(many=(2000, 3000), apart=(2.0, 0, -1.0), stretched=1.0)
    known = labels.copy()
    hidden = np.arange(len(labels)) % 4 == 0
    known[hidden] = -1
    moved = neutralize_factors(users, ITEMS, [known])
    assert class_distance(users[hidden], labels[hidden]) > 3
    assert class_distance(moved[hidden], labels[hidden]) < 0.03
    assert class_distance(moved[~hidden], labels[~hidden]) < 0.02
    across = users[hidden] @ np.array([1.0, 0, 2.0])  # a direction in which the classes do not differ stays
    assert np.corrcoef(across, moved[hidden] @ np.array([1.0, 0, 2.0]))[0, 1] > 0.95


def test_classes_are_no_closer_than_chance_allows():
    """Learnt on half of the users, the direction that separates the classes must not be wrong about the other half."""
    areas = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        labels = (rng.random(900) < 0.3).astype(int)
        users = rng.standard_normal((900, 16)) + 0.4 * labels[:, None] * (np.arange(16) < 3)
        moved = neutralize_factors(users, rng.standard_normal((60, 16)), [labels])
        learn = np.arange(900) % 2 == 0
        means = [moved[learn & (labels == number)].mean(axis=0) for number in (0, 1)]
        scores = moved[~learn] @ np.linalg.solve(np.cov(moved[learn].T), means[1] - means[0])
        asked = labels[~learn]
        ranks = np.argsort(np.argsort(scores)) + 1
        ones = asked.sum()
        areas.append((ranks[asked == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(asked) - ones)))
    assert np.mean(areas) == pytest.approx(0.5, abs=0.03)


def test_several_attributes_and_several_classes():
    rng = np.random.default_rng(3)
    many = 3000
    gender, age = rng.integers(0, 2, many), rng.integers(0, 4, many)
    users = rng.standard_normal((many, 3)) + np.column_stack([gender, age, gender * 0.5 - age * 0.2])
    moved = neutralize_factors(users, ITEMS, [gender, age])
    assert class_distance(moved, gender) < 0.02
    for number in range(4):
        assert class_distance(moved, (age == number).astype(int)) < 0.02
        assert number == 1 or class_distance(users, (age == number).astype(int)) > 0.1


def test_overall_mean_is_kept_and_result_is_deterministic():
    users, labels = people(stretched=1.0)
    moved = neutralize_factors(users, ITEMS, [labels])
    assert moved.mean(axis=0) == pytest.approx(users.mean(axis=0), abs=1e-4)
    assert np.array_equal(moved, neutralize_factors(users, ITEMS, [labels]))
    assert moved.dtype == np.float32


def test_class_of_one_user_gives_finite_factors():
    users, labels = people(many=(1, 50))
    assert np.isfinite(neutralize_factors(users, ITEMS, [labels])).all()
