"""One trial of paper 001: split the ratings, disguise four fifths of them, reconstruct these, predict the others.

Readings of the paper that its figures depend on (docs/decisions/0012-p1.md): everybody turns predictions into ratings
with her own mean and standard deviation, unclipped; attacks are measured on the training ratings, and where all
entries are disguised on those of them that were found to be rated.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from checks.reconstruction import detection, kmeans, measures, pca, svd_em
from tasks.kernels.perturb import Noise, moments, noise, z_scores
from tasks.kernels.roc import roc_area
from tasks.ratings import Ratings
from tasks.recommenders import Model, averages, pearson, svd_cf
from tasks.recommenders import svd_em as svd_em_predictor

TRAINING_SHARE = 0.8
GOOD_FROM = 4.0  # ROC-4: on Jester's scale too, as the paper calls it so there
SEGMENTS = 10  # of a continuous scale (section 6.2)
RECONSTRUCTION_ROUNDS, PREDICTION_ROUNDS = 50, 10  # of EM: SCIENCE P1

Entries = Literal["rated", "all"]
Measures = dict[str, float | None]


@dataclass(frozen=True)
class Setting:
    """How ratings are disguised: one row of a table. An amount of 0 is no noise."""

    row: str
    entries: Entries = "rated"
    noise: Noise = "gaussian"
    amount: float = 0.0
    flexible: bool = False


@dataclass(frozen=True)
class Scale:
    """Which ratings there are; no levels: any between the ends."""

    low: float
    high: float
    levels: tuple[float, ...] | None


def trial(block: tuple[Setting | None, int], *, ratings: Path, people: np.ndarray, scale: Scale) -> Measures:
    """All measures of one setting with one seed; those of the averages where there is no setting."""
    setting, seed = block
    train, test = split(Ratings(ratings).by_user.take(people), np.random.default_rng([seed, 0]))
    # The same seed means the same split and the same noise up to its amount: rows of a table differ by nothing else.
    rng = np.random.default_rng([seed, 1])
    if setting is None:
        return of_averages(train, test)
    measured = rated_entries if setting.entries == "rated" else all_entries
    return measured(setting, train, test, scale, rng)


def split(ratings: sp.csr_array, rng: np.random.Generator) -> tuple[sp.csr_array, sp.csr_array]:
    """Four fifths of all ratings to learn from, the others to test with."""
    train = np.zeros(ratings.nnz, dtype=bool)
    train[rng.permutation(ratings.nnz)[: round(TRAINING_SHARE * ratings.nnz)]] = True
    return _only(ratings, train), _only(ratings, ~train)


def of_averages(train: sp.csr_array, test: sp.csr_array) -> Measures:
    """Tables 3 and 5. Ranking by a person's own average says nothing, so that has no ROC-4."""
    users, items = _cells(test)
    by_item, by_user = (averages.fit(train, of=of).predict(users, items) for of in ("items", "users"))
    return {
        "Item averages MAE": measures.r_mae(by_item, test.data),
        "Item averages ROC-4": roc_area(users, by_item, test.data >= GOOD_FROM),
        "User averages MAE": measures.r_mae(by_user, test.data),
    }


def rated_entries(
    setting: Setting, train: sp.csr_array, test: sp.csr_array, scale: Scale, rng: np.random.Generator
) -> Measures:
    """Tables 2 and 6, figures 4, 5 and 7: what was rated is known, how is disguised."""
    means, spreads = _own(train)
    owners, items = _cells(train)
    scores = z_scores(train, means, spreads)
    amounts = _amounts(setting, train.shape[0], rng)
    disguised = _with(train, scores + noise(_uniforms(len(scores), rng), setting.noise, amounts[owners]))
    known = _estimated(disguised, setting) if setting.flexible else setting.amount
    variance = float(np.mean(detection.variance_of(known, setting.noise)))
    models: dict[str, Model] = {
        "SVD": svd_em_predictor.fit(
            disguised,
            iterations=PREDICTION_ROUNDS,
            noise_variance=variance if setting.noise == "uniform" else 0.0,
        ),
        "Pearson": pearson.fit(disguised, own=_with(train, scores)),
        "SVD-CF": svd_cf.fit(disguised, noise_variance=variance),
    }
    found: Measures = {}
    for name, model in models.items():
        found |= _predicted(name, model, test, means, spreads)
    found |= _told(_levels_of(disguised, scale).data, train.data, scale)
    if not setting.amount:
        return found
    ways = {
        "": svd_em.reconstruct(disguised, noise=setting.noise, amount=known, iterations=RECONSTRUCTION_ROUNDS)
    }
    if setting.flexible:
        ways["(weighted)"] = svd_em.reconstruct(
            disguised, noise=setting.noise, amount=known, iterations=RECONSTRUCTION_ROUNDS, kind="weighted"
        )
    ways["(PCA)"] = pca.reconstruct(disguised, noise=setting.noise, amount=known)
    for way, model_of_all in ways.items():
        guess = model_of_all[owners, items]
        found[f"zscore-MAE{way}"] = measures.zscore_mae(guess, scores)
        found[f"P-MAE{way}"] = measures.p_mae(guess, means[owners], spreads[owners], train.data)
    return found


def all_entries(
    setting: Setting, train: sp.csr_array, test: sp.csr_array, scale: Scale, rng: np.random.Generator
) -> Measures:
    """Tables 4 and 7, figures 6 and 8: nobody shows what they rated. Nothing is missing, so predictions need no EM."""
    means, spreads = _own(train, entries=train.shape[1])
    owners, items = _cells(train)
    scores = z_scores(train, means, spreads)
    amounts = _amounts(setting, train.shape[0], rng)
    disguised = noise(_uniforms(train.shape, rng), setting.noise, amounts[:, None])
    disguised[owners, items] += scores
    found = _predicted("SVD", svd_em_predictor.fit(disguised), test, means, spreads)
    if not setting.amount:
        return found
    known = _estimated(disguised, setting) if setting.flexible else setting.amount
    marked = detection.rated_entries(disguised, setting.noise, known)
    rated = np.zeros(train.shape, dtype=bool)
    rated[owners, items] = True
    recalled = marked[owners, items]
    seen = sp.csr_array(np.where(marked, disguised, 0))
    ratings = _levels_of(seen, scale).toarray()[owners, items][recalled]
    guess = svd_em.reconstruct(seen, noise=setting.noise, amount=known, iterations=RECONSTRUCTION_ROUNDS)
    guess = guess[owners, items][recalled]
    owners, true, scores = owners[recalled], train.data[recalled], scores[recalled]
    return {
        **found,
        "Precision": measures.precision(marked, rated),
        "Recall": measures.recall(marked, rated),
        **_told(ratings, true, scale),
        "zscore-MAE": measures.zscore_mae(guess, scores),
        "P-MAE": measures.p_mae(guess, means[owners], spreads[owners], true),
    }


def _own(train: sp.csr_array, entries: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Everybody's mean and standard deviation; the mean of all for those who have nothing to learn from."""
    means, spreads = moments(train, entries)
    return np.where(np.diff(train.indptr) > 0, means, train.data.mean()), spreads


def _predicted(
    name: str, model: Model, test: sp.csr_array, means: np.ndarray, spreads: np.ndarray
) -> Measures:
    users, items = _cells(test)
    ratings = means[users] + spreads[users] * model.predict(users, items)
    return {
        f"MAE({name})": measures.r_mae(ratings, test.data),
        f"ROC-4({name})": roc_area(users, ratings, test.data >= GOOD_FROM),
    }


def _levels_of(disguised: sp.csr_array, scale: Scale) -> sp.csr_array:
    """Ratings by k-means (section 4)."""
    if scale.levels is None:
        return kmeans.reconstruct_continuous(disguised, scale.low, scale.high, SEGMENTS)
    return kmeans.reconstruct(disguised, np.array(scale.levels))


def _told(reconstructed: np.ndarray, ratings: np.ndarray, scale: Scale) -> Measures:
    found: Measures = {"R-MAE": measures.r_mae(reconstructed, ratings)}
    if scale.levels is not None:
        found["Accuracy"] = measures.accuracy(reconstructed, ratings, 0.0)
    return found


def _amounts(setting: Setting, users: int, rng: np.random.Generator) -> np.ndarray:
    """σ or α of everybody: the same, or drawn by each below the bound (section 6.3)."""
    drawn = rng.random(users)
    return setting.amount * (drawn if setting.flexible else np.ones(users))


def _estimated(disguised: sp.csr_array | np.ndarray, setting: Setting) -> np.ndarray:
    """The amount that a row's spread gives away: without noise it would be 1 (section 6.3)."""
    if isinstance(disguised, np.ndarray):
        squares, counts = (disguised**2).sum(axis=1), np.full(len(disguised), disguised.shape[1])
    else:
        counts = np.diff(disguised.indptr)
        squares = np.bincount(_cells(disguised)[0], weights=disguised.data**2, minlength=len(counts))
    return detection.amount_of(detection.noise_variance(squares, counts), setting.noise)


def _uniforms(size: int | tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(np.nextafter(0, 1), 1, size)


def _cells(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of every stored value."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices


def _with(matrix: sp.csr_array, values: np.ndarray) -> sp.csr_array:
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _only(matrix: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
    """Some of the stored values; a 0 among them stays a value."""
    edges = np.concatenate([[0], np.cumsum(kept)])
    values = matrix.data[kept].astype(np.float64)
    return sp.csr_array((values, matrix.indices[kept], edges[matrix.indptr]), shape=matrix.shape)
