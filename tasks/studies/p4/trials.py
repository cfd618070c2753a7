"""Run one trial of [RFPP]: add ratings, then measure the loss of recommendations and the inference of attributes.

Ratings are added to four fifths of the ratings, which models learn from; one fifth is held out (section 6.2).
*dRMSE*: how much worse a factorization with biases (equation 4) predicts the held-out ratings when it has learnt from
the additions as well. *Naive*: an inferrer trained on the original ratings is applied to released users; the paper
knows only this one. *Adaptive*: an inferrer trained on labelled released users. Both learn from four fifths of the
users and are applied to the others, in five folds. *Area*: under the ROC curve, which depends on no threshold;
balanced precision does depend on one, and so the plain mean of the recalls stands beside it, too
(docs/decisions/0014-rfpp.md).
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tasks import obfuscators
from tasks.data.ratings import Ratings
from tasks.kernels import candidate_items, item_similarity
from tasks.kernels.factitious_ratings import merge_ratings
from tasks.kernels.inferrer import Inferrer, balanced_precision
from tasks.kernels.inferrer import fit as fit_inferrer
from tasks.obfuscators import THRESHOLD, TOP, Quotient, Rating, Request, Similarity, opposite_lists, rfpp
from tasks.recommenders import als
from tasks.studies.sparse_cells import cell_coordinates, replace_values, select_cells

HELD_OUT = 0.2
FOLDS = 5
PASSED_PAIRS = 0.05  # share of item pairs above the threshold where none is given

Measures = dict[str, float]


@dataclass(frozen=True)
class Setting:
    """Describe what is added: the strategy (None: nothing), how much, and which of the options of [RFPP] apply."""

    attribute: str
    strategy: str | None
    percent: float  # p₀
    similarity: Similarity = "compound"
    quotient: Quotient = "exp(-n)"
    threshold: float | None = THRESHOLD  # None: the one that 5 % of all pairs of items exceed
    rating: Rating = "opposite"
    real: bool = False  # an addition that is among the user's held-out ratings gets the real rating

    @property
    def row(self) -> str:
        """Return the setting's row in Figure 2."""
        name = "" if self.strategy in (None, "rfpp") else f", {self.strategy}"
        return f"{self.attribute} p0={self.percent:g}{name}"


@dataclass(frozen=True)
class World:
    """Hold the ratings of a seed in two parts, and everything about them that no addition changes."""

    train: sp.csr_array
    held_out: sp.csr_array
    labels: np.ndarray
    folds: np.ndarray  # the fold in which each user is tested
    inferrers: list[Inferrer]  # by fold, from the other users' original ratings
    errors: np.ndarray  # of the held-out ratings, predicted from `train`


@functools.lru_cache(maxsize=2)  # trials come in the order of seeds and attributes
def load_world(ingest: Path, attribute: str, seed: int) -> World:
    """Split the ratings and the users; learn from the original ratings."""
    ratings = Ratings(ingest)
    known = ratings.attributes()[attribute]
    people = np.flatnonzero(~known.is_null().to_numpy(zero_copy_only=False))
    labels = known.indices.to_numpy(zero_copy_only=False)[people].astype(np.int64)
    matrix = ratings.by_user.take(people)
    rng = np.random.default_rng([seed, 4])
    hidden = rng.random(matrix.nnz) < HELD_OUT
    train, held_out = select_cells(matrix, ~hidden), select_cells(matrix, hidden)
    folds = np.empty(len(people), np.int64)  # every fold has its share of every class
    mixed = rng.permutation(len(people))
    folds[mixed[np.argsort(labels[mixed], kind="stable")]] = np.arange(len(people)) % FOLDS
    return World(
        train,
        held_out,
        labels,
        folds,
        [_fit_inferrer(train, labels, folds != fold) for fold in range(FOLDS)],
        prediction_errors(train, held_out),
    )


def run_trial(block: tuple[Setting, int], *, ingest: Path, scale: tuple[float, float]) -> Measures:
    """Return all measures of one setting and seed."""
    setting, seed = block
    here = load_world(ingest, setting.attribute, seed)
    added = make_additions(here, setting, seed, scale)
    return measure(here, added)


def make_additions(here: World, setting: Setting, seed: int, scale: tuple[float, float]) -> sp.csr_array:
    """Return the additions of a setting."""
    if setting.strategy is None:
        nothing = np.zeros(len(here.labels) + 1, np.int64)
        return sp.csr_array((np.empty(0, np.float32), np.empty(0, np.int32), nothing), shape=here.train.shape)
    request = Request(
        share=setting.percent / 100,
        classes=_class_count(here.labels),
        scale=scale,
        chance=obfuscators.seeded_chance(seed),
        similarity=setting.similarity,
        quotient=setting.quotient,
        threshold=_similarity_threshold(here, setting) if setting.threshold is None else setting.threshold,
        rating=setting.rating,
    )
    added = obfuscators.load_strategy(setting.strategy).add(here.train, here.labels, request)
    return _with_real_ratings(added, here.held_out) if setting.real else added


def measure(here: World, added: sp.csr_array) -> Measures:
    """Measure the loss and the inference with these additions."""
    released = merge_ratings(here.train, added)
    if added.nnz:
        errors = prediction_errors(released, here.held_out)
        retrained = [_fit_inferrer(released, here.labels, here.folds != fold) for fold in range(FOLDS)]
    else:
        errors, retrained = here.errors, here.inferrers
    untouched = ~np.isin(_cell_keys(here.held_out), _cell_keys(added))
    found = {
        "p0 %": 100 * added.nnz / here.train.nnz,
        "dRMSE": _rmse(errors) - _rmse(here.errors),
        "dRMSE, additions left out": _rmse(errors[untouched]) - _rmse(here.errors[untouched]),
        "additions held out %": 100 * np.count_nonzero(~untouched) / max(added.nnz, 1),
        "RMSE": _rmse(errors),
    }
    for name, inferrers in (("naive", here.inferrers), ("adaptive", retrained)):
        known = inference_measures(released, here.labels, here.folds, inferrers)
        found |= {f"{what} {name}": value for what, value in known.items()}
    return found


def inference_measures(
    released: sp.csr_array, labels: np.ndarray, folds: np.ndarray, inferrers: list[Inferrer]
) -> Measures:
    """Return balanced precision, the plain mean of the classes' recalls and the area under the ROC curve.

    Each inferrer is applied to users it did not learn from.
    """
    classes = _class_count(labels)
    scores = np.empty((len(labels), classes))
    for fold, inferrer in enumerate(inferrers):
        tested = np.flatnonzero(folds == fold)
        scores[tested] = inferrer.scores(sp.csr_array(released[tested]))
    guessed = scores.argmax(axis=1)
    recalls = np.bincount(labels[guessed == labels], minlength=classes) / np.bincount(labels)
    return {
        "BPre": balanced_precision(labels, guessed, classes),
        "mean recall": float(recalls.mean()),
        "area": _roc_area(labels == classes - 1, scores[:, -1]),
    }


def shares_by_rank(
    block: tuple[str, int], *, ingest: Path, scale: tuple[float, float], ks: tuple[int, ...]
) -> dict:
    """Return Figure 2 (d): p₀ in per cent for given k, by two interpretations of rank-k.

    In the text's, additions are among the k most popular of *all* items. In the other, every user gets the k most
    popular of the items that are eligible for this user.
    """
    attribute, seed = block
    here = load_world(ingest, attribute, seed)
    request = Request(0.0, _class_count(here.labels), scale, obfuscators.seeded_chance(seed))
    choice, _ = rfpp.choices(here.train, here.labels, request)
    possible = candidate_items.count_eligible(choice.bits)
    person, place = candidate_items.list_eligible(choice.bits)
    items = np.empty(len(person), np.int64)
    for c, list_ in enumerate(choice.lists):
        mine = here.labels[person] == c
        items[mine] = list_[place[mine]]
    popularity = np.bincount(here.train.indices, minlength=here.train.shape[1])
    rank = np.empty(len(popularity), np.int64)
    rank[np.lexsort((np.arange(len(popularity)), -popularity))] = np.arange(len(popularity))
    of_all = np.cumsum(np.bincount(rank[items], minlength=len(popularity)))
    share = 100 / here.train.nnz
    return {k: (share * of_all[min(k, len(rank)) - 1], share * np.minimum(k, possible).sum()) for k in ks}


def prediction_errors(train: sp.csr_array, held_out: sp.csr_array) -> np.ndarray:
    """Return predicted less real value of every held-out rating."""
    return np.asarray(als.fit(train).predict(*cell_coordinates(held_out)) - held_out.data, np.float64)


def _similarity_threshold(here: World, setting: Setting) -> float:
    lists = opposite_lists(here.train, here.labels, _class_count(here.labels), TOP)
    candidates = np.unique(np.concatenate([found.items for found in lists]))
    blocks = item_similarity.similarities(here.train, candidates, setting.similarity, setting.quotient)
    found = np.concatenate([block[np.isfinite(block)] for block in blocks])
    return float(np.quantile(found, 1 - PASSED_PAIRS)) if len(found) else np.inf


def _with_real_ratings(added: sp.csr_array, held_out: sp.csr_array) -> sp.csr_array:
    """Replace additions that are in the user's held-out ratings by the real rating ([RFPP], section 6.4)."""
    cells, known = _cell_keys(added), _cell_keys(held_out)
    place = np.minimum(np.searchsorted(known, cells), len(known) - 1)
    values = np.where(known[place] == cells, held_out.data[place], added.data)
    return replace_values(added, values)


def _fit_inferrer(ratings: sp.csr_array, labels: np.ndarray, people: np.ndarray) -> Inferrer:
    return fit_inferrer(sp.csr_array(ratings[people]), labels[people], _class_count(labels))


def _roc_area(mine: np.ndarray, scores: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(mine, scores))


def _class_count(labels: np.ndarray) -> int:
    return int(labels.max()) + 1


def _cell_keys(matrix: sp.csr_array) -> np.ndarray:
    """Return a number for every stored cell, rising."""
    row, column = cell_coordinates(matrix)
    return row.astype(np.int64) * matrix.shape[1] + column


def _rmse(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))
