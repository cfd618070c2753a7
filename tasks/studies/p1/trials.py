"""Run one trial of [Zhang2006]: split the ratings, disguise four fifths, reconstruct these, predict the others.

Interpretations of the paper that its figures depend on (docs/decisions/0012-p1.md): every user converts predictions
to ratings with her own mean and standard deviation, unclipped; attacks are measured on the training ratings, and
where all entries are disguised on those of them that were detected as rated.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from checks.reconstruction import detection, kmeans, measures, pca, svd_em
from tasks.data.ratings import Ratings
from tasks.kernels.rating_noise import Noise, moments, noise, z_scores
from tasks.kernels.roc import roc_area
from tasks.recommenders import Model, averages, pearson, svd_cf
from tasks.recommenders import svd_em as svd_em_predictor
from tasks.studies.sparse_cells import cell_coordinates, replace_values, select_cells

TRAINING_SHARE = 0.8
GOOD_FROM = 4.0  # ROC-4: on Jester's scale too, as in the paper
SEGMENTS = 10  # of a continuous scale ([Zhang2006], section 6.2)
RECONSTRUCTION_ROUNDS, PREDICTION_ROUNDS = 50, 10  # of EM (docs/leaks-and-bars.md)

Entries = Literal["rated", "all"]
Measures = dict[str, float | None]


@dataclass(frozen=True)
class Setting:
    """Describe how ratings are disguised: one row of a table. An amount of 0 is no noise."""

    row: str
    entries: Entries = "rated"
    noise: Noise = "gaussian"
    amount: float = 0.0
    flexible: bool = False


@dataclass(frozen=True)
class Scale:
    """Describe the possible ratings; without levels any value between the ends is possible."""

    low: float
    high: float
    levels: tuple[float, ...] | None


def run_trial(
    block: tuple[Setting | None, int], *, ratings: Path, people: np.ndarray, scale: Scale
) -> Measures:
    """Return all measures of one setting with one seed; those of the averages where there is no setting."""
    setting, seed = block
    train, test = split(Ratings(ratings).by_user.take(people), np.random.default_rng([seed, 0]))
    # The same seed means the same split and the same noise up to its amount: rows of a table differ by nothing else.
    rng = np.random.default_rng([seed, 1])
    if setting is None:
        return measure_averages(train, test)
    measured = measure_rated_entries if setting.entries == "rated" else measure_all_entries
    return measured(setting, train, test, scale, rng)


def split(ratings: sp.csr_array, rng: np.random.Generator) -> tuple[sp.csr_array, sp.csr_array]:
    """Split the ratings: four fifths to learn from, the others to test with."""
    train = np.zeros(ratings.nnz, dtype=bool)
    train[rng.permutation(ratings.nnz)[: round(TRAINING_SHARE * ratings.nnz)]] = True
    values = ratings.astype(np.float64)
    return select_cells(values, train), select_cells(values, ~train)


def measure_averages(train: sp.csr_array, test: sp.csr_array) -> Measures:
    """Measure Tables 3 and 5. A user's own average ranks all items equally, so it has no ROC-4."""
    users, items = cell_coordinates(test)
    by_item, by_user = (averages.fit(train, of=of).predict(users, items) for of in ("items", "users"))
    return {
        "Item averages MAE": measures.r_mae(by_item, test.data),
        "Item averages ROC-4": roc_area(users, by_item, test.data >= GOOD_FROM),
        "User averages MAE": measures.r_mae(by_user, test.data),
    }


def measure_rated_entries(
    setting: Setting, train: sp.csr_array, test: sp.csr_array, scale: Scale, rng: np.random.Generator
) -> Measures:
    """Measure Tables 2 and 6, Figures 4, 5 and 7: the rated items are visible, the ratings are disguised."""
    means, deviations = _own_moments(train)
    owners, items = cell_coordinates(train)
    scores = z_scores(train, means, deviations)
    amounts = _noise_amounts(setting, train.shape[0], rng)
    disguised = replace_values(
        train, scores + noise(_uniforms(len(scores), rng), setting.noise, amounts[owners])
    )
    known = _estimate_amounts(disguised, setting) if setting.flexible else setting.amount
    variance = float(np.mean(detection.variance_of(known, setting.noise)))
    models: dict[str, Model] = {
        "SVD": svd_em_predictor.fit(
            disguised,
            iterations=PREDICTION_ROUNDS,
            noise_variance=variance if setting.noise == "uniform" else 0.0,
        ),
        "Pearson": pearson.fit(disguised, own=replace_values(train, scores)),
        "SVD-CF": svd_cf.fit(disguised, noise_variance=variance),
    }
    found: Measures = {}
    for name, model in models.items():
        found |= _prediction_measures(name, model, test, means, deviations)
    found |= _reconstruction_measures(_reconstruct_ratings(disguised, scale).data, train.data, scale)
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
        found[f"P-MAE{way}"] = measures.p_mae(guess, means[owners], deviations[owners], train.data)
    return found


def measure_all_entries(
    setting: Setting, train: sp.csr_array, test: sp.csr_array, scale: Scale, rng: np.random.Generator
) -> Measures:
    """Measure Tables 4 and 7, Figures 6 and 8: the rated items are hidden too.

    Nothing is missing then, so predictions need no EM.
    """
    means, deviations = _own_moments(train, entries=train.shape[1])
    owners, items = cell_coordinates(train)
    scores = z_scores(train, means, deviations)
    amounts = _noise_amounts(setting, train.shape[0], rng)
    disguised = noise(_uniforms(train.shape, rng), setting.noise, amounts[:, None])
    disguised[owners, items] += scores
    found = _prediction_measures("SVD", svd_em_predictor.fit(disguised), test, means, deviations)
    if not setting.amount:
        return found
    known = _estimate_amounts(disguised, setting) if setting.flexible else setting.amount
    marked = detection.rated_entries(disguised, setting.noise, known)
    rated = np.zeros(train.shape, dtype=bool)
    rated[owners, items] = True
    recalled = marked[owners, items]
    seen = sp.csr_array(np.where(marked, disguised, 0))
    ratings = _reconstruct_ratings(seen, scale).toarray()[owners, items][recalled]
    guess = svd_em.reconstruct(seen, noise=setting.noise, amount=known, iterations=RECONSTRUCTION_ROUNDS)
    guess = guess[owners, items][recalled]
    owners, true, scores = owners[recalled], train.data[recalled], scores[recalled]
    return {
        **found,
        "Precision": measures.precision(marked, rated),
        "Recall": measures.recall(marked, rated),
        **_reconstruction_measures(ratings, true, scale),
        "zscore-MAE": measures.zscore_mae(guess, scores),
        "P-MAE": measures.p_mae(guess, means[owners], deviations[owners], true),
    }


def _own_moments(train: sp.csr_array, entries: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return every user's mean and standard deviation; the overall mean for users without training ratings."""
    means, deviations = moments(train, entries)
    return np.where(np.diff(train.indptr) > 0, means, train.data.mean()), deviations


def _prediction_measures(
    name: str, model: Model, test: sp.csr_array, means: np.ndarray, deviations: np.ndarray
) -> Measures:
    users, items = cell_coordinates(test)
    ratings = means[users] + deviations[users] * model.predict(users, items)
    return {
        f"MAE({name})": measures.r_mae(ratings, test.data),
        f"ROC-4({name})": roc_area(users, ratings, test.data >= GOOD_FROM),
    }


def _reconstruct_ratings(disguised: sp.csr_array, scale: Scale) -> sp.csr_array:
    """Reconstruct ratings by k-means ([Zhang2006], section 4)."""
    if scale.levels is None:
        return kmeans.reconstruct_continuous(disguised, scale.low, scale.high, SEGMENTS)
    return kmeans.reconstruct(disguised, np.array(scale.levels))


def _reconstruction_measures(reconstructed: np.ndarray, ratings: np.ndarray, scale: Scale) -> Measures:
    found: Measures = {"R-MAE": measures.r_mae(reconstructed, ratings)}
    if scale.levels is not None:
        found["Accuracy"] = measures.accuracy(reconstructed, ratings, 0.0)
    return found


def _noise_amounts(setting: Setting, users: int, rng: np.random.Generator) -> np.ndarray:
    """Return σ or α of every user: the same, or drawn by each below the bound ([Zhang2006], section 6.3)."""
    drawn = rng.random(users)
    return setting.amount * (drawn if setting.flexible else np.ones(users))


def _estimate_amounts(disguised: sp.csr_array | np.ndarray, setting: Setting) -> np.ndarray:
    """Estimate the amount of noise from a row's variance, which would be 1 without noise ([Zhang2006], section 6.3)."""
    if isinstance(disguised, np.ndarray):
        squares, counts = (disguised**2).sum(axis=1), np.full(len(disguised), disguised.shape[1])
    else:
        counts = np.diff(disguised.indptr)
        squares = np.bincount(
            cell_coordinates(disguised)[0], weights=disguised.data**2, minlength=len(counts)
        )
    return detection.amount_of(detection.noise_variance(squares, counts), setting.noise)


def _uniforms(size: int | tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(np.nextafter(0, 1), 1, size)
