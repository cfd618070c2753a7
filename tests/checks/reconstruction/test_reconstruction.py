"""Test the reconstruction kernels of [Zhang2006]: by hand, against plain versions, and against its tables
on MovieLens.
"""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from checks.reconstruction import detection, kmeans, measures, pca, svd_em
from checks.reconstruction.zscores import zscores

FIVE = np.arange(1.0, 6.0)


def row(*values):
    """One person's values, all of them taken as rated."""
    return sp.csr_array(np.array([values], dtype=float) + 0.0)


def plain_kmeans(values, k):
    """The paper's words, step by step: the rank of every value's cluster."""
    values = np.asarray(values, float)
    if np.ptp(values) == 0:
        return [k // 2] * len(values)
    edge = int(np.ceil(0.03 * len(values)))
    ascending = np.sort(values)
    centroids = dict(enumerate(np.linspace(ascending[:edge].mean(), ascending[-edge:].mean(), k)))
    before = None
    while True:
        ranks = sorted(centroids)
        nearest = [ranks[int(np.argmin([abs(v - centroids[r]) for r in ranks]))] for v in values]
        if nearest == before:
            return nearest
        before = nearest
        centroids = {r: values[[n == r for n in nearest]].mean() for r in sorted(set(nearest))}


# k-means


def test_values_near_five_points_are_the_five_levels():
    assert kmeans.reconstruct(row(-2, -1.1, 0.1, 0.9, 2, -2.1), FIVE).data.tolist() == [1, 2, 3, 4, 5, 1]


def test_empty_cluster_is_dropped_and_others_keep_their_rank():
    # Centroids start at −2, −1, 0, 1, 2; no value is near −1 and 0, and what is at 1 stays the fourth.
    assert kmeans.reconstruct(row(-2, -2, 1.1, 0.9, 2, 2), FIVE).data.tolist() == [1, 1, 4, 4, 5, 5]


def test_a_cluster_that_moves_takes_its_neighbours_values():
    # Two levels, start at 0 and 10, the border at 5: {0, 4, 4.9 | 10}; means 2.97 and 10, the border at 6.48.
    assert kmeans.reconstruct(row(0.001, 4, 4.9, 10), np.array([1.0, 2.0])).data.tolist() == [1, 1, 1, 2]
    # 6 starts above the border; then means 1.33 and 8, border 4.67, nothing moves.
    assert kmeans.reconstruct(row(0.001, 4, 6, 10), np.array([1.0, 2.0])).data.tolist() == [1, 1, 2, 2]


def test_the_outer_centroids_are_means_of_three_percent():
    # Of 100 values 3 at either end: one far outlier moves the start to its mean, (−31 − 1 − 1) / 3 = −11.
    values = np.concatenate([[-31.0], np.full(49, -1.0), np.full(50, 1.0)])
    assert plain_kmeans(values, 2) == kmeans.cluster_ranks(np.array([0, 100]), values, 2).tolist()
    assert kmeans.reconstruct(row(*values), np.array([1.0, 5.0])).data.tolist() == [1] + [5] * 99


def test_values_that_do_not_differ_get_the_middle_level():
    assert kmeans.reconstruct(row(0.5), FIVE).data.tolist() == [3]
    assert kmeans.reconstruct(row(0.5, 0.5, 0.5), FIVE).data.tolist() == [3, 3, 3]


def test_rows_are_independent_and_may_be_empty():
    data, indptr = np.array([5.0, -5, 0.1, 0.2]), np.array([0, 2, 2, 4])
    found = kmeans.reconstruct(sp.csr_array((data, [1, 3, 0, 2], indptr), shape=(3, 4)), FIVE)
    assert found.toarray().tolist() == [[0, 5, 0, 1], [0] * 4, [1, 0, 5, 0]]


def test_continuous_ratings_are_the_middles_of_segments():
    assert kmeans.segment_middles(-10, 10, 4).tolist() == [-7.5, -2.5, 2.5, 7.5]
    found = kmeans.reconstruct_continuous(row(-3, -1, 1, 3), -10, 10, 4)
    assert found.data.tolist() == [-7.5, -2.5, 2.5, 7.5]


@given(st.lists(st.floats(-5, 5).map(lambda v: round(v, 3)), min_size=1, max_size=60), st.integers(2, 7))
def test_kmeans_matches_the_plain_version(values, k):
    own = kmeans.cluster_ranks(np.array([0, len(values)]), np.array(values), k)
    assert own.tolist() == plain_kmeans(values, k) or at_rest(values, own)


def at_rest(values, ranks):
    """A value just halfway between two centroids may fall on either side by rounding: then none may be nearer."""
    centroids = {r: np.mean([v for v, n in zip(values, ranks, strict=True) if n == r]) for r in set(ranks)}
    return all(
        abs(value - centroids[rank]) <= min(abs(value - c) for c in centroids.values()) + 1e-9
        for value, rank in zip(values, ranks, strict=True)
    )


@given(st.lists(st.integers(1, 5), min_size=5, max_size=40).filter(lambda r: {1, 2, 3, 4, 5} <= set(r)))
def test_undisguised_scores_over_the_whole_scale_are_recovered(given_ratings):
    ratings = row(*given_ratings)
    assert kmeans.reconstruct(zscores(ratings).matrix, FIVE).data.tolist() == given_ratings


# Detection


def test_entries_beyond_the_noise_are_rated():
    values = np.array([[2.9, -3.1, 0.0], [1.4, -1.6, 5.0]])
    assert detection.rated_entries(values, "gaussian", 1.0).tolist() == [
        [False, True, False],
        [False, False, True],
    ]
    assert detection.rated_entries(values, "uniform", 3.0).tolist() == [
        [False, True, False],
        [False, False, True],
    ]
    per_row = np.array([1.0, 0.5])
    assert detection.rated_entries(values, "gaussian", per_row).tolist() == [
        [False, True, False],
        [False, True, True],
    ]


def test_variance_above_one_is_noise():
    # Squares of 2, −2, 1, 1 add up to 10 of 4: 2.5 − 1; less than 1 is none.
    assert detection.noise_variance(np.array([10.0, 3.0]), np.array([4, 4])).tolist() == [1.5, 0]
    assert detection.amount_of(3.0, "uniform") == pytest.approx(3)
    for kind in ("gaussian", "uniform"):
        assert detection.amount_of(detection.variance_of(0.7, kind), kind) == pytest.approx(0.7)


# z-scores and measures


def test_scores_by_hand():
    # 1, 3, 5: mean 3, variance 8/3. Filled with 3 to six entries the variance is 8/6.
    ratings = sp.csr_array(np.array([[1.0, 3, 5, 0, 0, 0], [2, 2, 0, 0, 0, 0]]))
    own = zscores(ratings)
    assert own.matrix.data == pytest.approx([-np.sqrt(1.5), 0, np.sqrt(1.5), 0, 0])
    assert (own.means.tolist(), own.deviations.tolist()) == ([3, 2], [np.sqrt(8 / 3), 0])
    assert zscores(ratings, all_entries=True).matrix.data == pytest.approx([-np.sqrt(3), 0, np.sqrt(3), 0, 0])


def test_measures_by_hand():
    truth = np.array([1.0, 2, 3, 4])
    estimated = np.array([1.0, 3, 3, 2])
    assert measures.r_mae(estimated, truth) == 0.75
    assert measures.accuracy(estimated, truth, 0.5) == 0.5
    assert measures.zscore_mae(np.array([0.0, 1]), np.array([0.5, 1])) == 0.25
    means, deviations = np.full(4, 3.0), np.full(4, 2.0)
    assert measures.p_mae(np.array([-1, 0, 0, 1.0]), means, deviations, truth) == (0 + 1 + 0 + 1) / 4
    marked, rated = np.array([True, True, False, True]), np.array([True, False, True, True])
    assert measures.precision(marked, rated) == pytest.approx(2 / 3)
    assert measures.recall(marked, rated) == pytest.approx(2 / 3)
    assert (measures.precision(~rated & rated, rated), measures.recall(marked, ~marked & marked)) == (1, 0)


# SVD with EM, and PCA


def low_rank(rows=60, columns=40, rank=3, seed=0):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(rows, rank)) @ draw.normal(size=(rank, columns))


def some(matrix, share=0.6, seed=1):
    there = np.random.default_rng(seed).random(matrix.shape) < share
    rows, columns = np.nonzero(there)
    return sp.csr_array((matrix[rows, columns], (rows, columns)), shape=matrix.shape)


def plain_em(disguised, rank, iterations, per_entry=None, weights=None):
    """Section 5.2 with full decompositions; `per_entry` is the variance of uniform noise."""
    known = np.zeros(disguised.shape, bool)
    known[np.repeat(np.arange(disguised.shape[0]), np.diff(disguised.indptr)), disguised.indices] = True
    dense, x = disguised.toarray(), np.zeros(disguised.shape)
    weights = np.ones(len(dense)) if weights is None else weights
    for _ in range(iterations):
        filled = np.where(known, dense, x)
        gram = filled.T @ (weights[:, None] * filled)
        if per_entry is not None:
            gram -= np.diag((known * weights[:, None]).sum(axis=0) * per_entry)
        main = scipy.linalg.eigh(gram)[1][:, -rank:]
        x = filled @ main @ main.T
    return x


def test_two_people_in_one_direction_by_hand():
    # Everything lies on (1, 2): the projection changes nothing. Of (1, 2) and (2, −1), rank 1, the longer one stays.
    along = np.array([[1.0, 2], [2, 4], [-1, -2]])
    assert svd_em.reconstruct(along, rank=1) == pytest.approx(along, abs=1e-5)
    across = np.array([[3.0, 6], [2, -1]])
    assert svd_em.reconstruct(across, rank=1) == pytest.approx(np.array([[3, 6], [0, 0]]), abs=1e-5)


def test_a_missing_entry_is_filled_from_the_model():
    # (1, 2), (2, 4), (3, ·): the last is 6 if all lie on one line.
    known = sp.csr_array(([1.0, 2, 2, 4, 3], ([0, 0, 1, 1, 2], [0, 1, 0, 1, 0])), shape=(3, 2))
    assert svd_em.reconstruct(known, rank=1, iterations=400)[2, 1] == pytest.approx(6, abs=0.05)


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
def test_em_follows_full_decompositions(noise):
    disguised = some(low_rank() + np.random.default_rng(2).uniform(-1, 1, (60, 40)))
    per_entry = 1 / 3 if noise == "uniform" else None
    own = svd_em.reconstruct(disguised, rank=3, iterations=30, noise=noise, amount=1.0)
    assert own == pytest.approx(plain_em(disguised, 3, 30, per_entry), abs=2e-3)


def test_more_noise_weighs_less():
    """Half of the people have ten times the noise; taking that into account reduces every error."""
    truth, draw = low_rank(200, 60), np.random.default_rng(3)
    amount = np.where(np.arange(200) % 2, 4.0, 0.4)
    disguised = some(truth + amount[:, None] * draw.normal(size=truth.shape), 0.5)
    errors = {
        kind: np.abs(svd_em.reconstruct(disguised, rank=3, amount=amount, kind=kind) - truth)[::2].mean()
        for kind in ("plain", "weighted")
    }
    assert errors["weighted"] < 0.7 * errors["plain"]


def test_equal_noise_has_equal_weight():
    disguised = some(low_rank())
    plain, weighted = (
        svd_em.reconstruct(disguised, rank=3, amount=np.full(60, 0.5), kind=kind)
        for kind in ("plain", "weighted")
    )
    assert weighted == pytest.approx(plain, abs=1e-4)


@pytest.mark.parametrize("attack", [svd_em, pca])
def test_noise_is_projected_away(attack):
    truth = low_rank(300, 80)
    disguised = truth + np.random.default_rng(4).normal(0, 1, truth.shape)
    found = attack.reconstruct(disguised, rank=3, amount=1.0)
    assert np.abs(found - truth).mean() < 0.3 * np.abs(disguised - truth).mean()
    assert np.array_equal(found, attack.reconstruct(disguised, rank=3, amount=1.0))


def test_components_by_hand():
    # Columns have means 1 and 0; what is left, ±(1, 2), lies on one line, and the one component keeps it.
    values = np.array([[2.0, 2], [0, -2]])
    assert pca.reconstruct(values, rank=1) == pytest.approx(values, abs=1e-6)
    # Of four points at (±2, 0) and (0, ±1) the first axis stays.
    cross = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    expected = np.array([[2.0, 0], [-2, 0], [0, 0], [0, 0]])
    assert pca.reconstruct(cross, rank=1) == pytest.approx(expected, abs=1e-6)


def test_what_is_not_rated_counts_as_the_mean_in_pca():
    values = low_rank(30, 12)
    there = some(values, 0.5)
    assert pca.reconstruct(there, rank=12) == pytest.approx(there.toarray(), abs=1e-4)


@pytest.mark.parametrize("attack", [svd_em, pca])
def test_fewer_rows_or_columns_than_directions(attack):
    for shape in ((4, 30), (30, 4)):
        values = low_rank(*shape)
        assert attack.reconstruct(values, rank=10) == pytest.approx(values, abs=1e-4)


# Against the paper's tables (docs/leaks-and-bars.md has the bars)


@pytest.fixture
def training(real_data):
    lines = np.loadtxt(real_data("ml-100k") / "u.data", dtype=np.int64)
    users, items = (np.unique(lines[:, n], return_inverse=True)[1] for n in (0, 1))
    draw = np.random.default_rng(0)
    kept = draw.permutation(len(lines))[:80_000]
    return sp.csr_array((lines[kept, 2].astype(float), (users[kept], items[kept]))), draw


@pytest.mark.data
@pytest.mark.parametrize(
    ("noise", "amount", "mae", "accuracy", "score_mae"),
    [
        ("gaussian", 1 / 3, 0.3393, 0.6712, 0.5601),
        ("gaussian", 1, 0.7850, 0.3776, 0.6875),
        ("uniform", np.sqrt(3) / 3, 0.4167, 0.5898, 0.5603),
    ],
)
def test_table_2(training, noise, amount, mae, accuracy, score_mae):
    ratings, draw = training
    own = zscores(ratings)
    drawn = (
        draw.normal(0, amount, ratings.nnz)
        if noise == "gaussian"
        else draw.uniform(-amount, amount, ratings.nnz)
    )
    disguised = sp.csr_array((own.matrix.data + drawn, ratings.indices, ratings.indptr), shape=ratings.shape)
    estimated = kmeans.reconstruct(disguised, FIVE).data
    assert measures.r_mae(estimated, ratings.data) == pytest.approx(mae, abs=0.015)
    assert measures.accuracy(estimated, ratings.data, 0.5) == pytest.approx(accuracy, abs=0.015)
    owners = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))
    scores = svd_em.reconstruct(disguised, noise=noise, amount=amount)[owners, ratings.indices]
    assert measures.zscore_mae(scores, own.matrix.data) == pytest.approx(score_mae, abs=0.01)
    plain = pca.reconstruct(disguised, noise=noise, amount=amount)[owners, ratings.indices]
    assert measures.zscore_mae(plain, own.matrix.data) > measures.zscore_mae(
        scores, own.matrix.data
    )  # figure 4
