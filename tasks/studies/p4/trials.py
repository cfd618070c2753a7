"""One trial of paper 004: add ratings, then see what recommendations lose and who is still recognised.

Four fifths of the ratings are there to be added to and to learn from, one fifth is held out (section 6.2). *dRMSE*: how
much worse the held-out ratings are predicted by a factorization with biases (equation 4) when it has learnt from the
additions as well. *Naive*: an inferrer that learnt from ratings as they were is asked about people as they are let
out; the paper knows only this one. *Adaptive*: an inferrer that learnt from labelled people as they are let out. Both
learn from four fifths of the people and are asked about the others, in five turns. *Area*: under the curve of true
against false alarms, which depends on no cut-off; balanced precision does, and so the plain mean of the recalls stands
beside it, too (docs/decisions/0014-rfpp.md).
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tasks import obfuscators
from tasks.kernels import additions, item_similarity
from tasks.kernels.inferrer import Inferrer, balanced_precision
from tasks.kernels.inferrer import fit as fit_inferrer
from tasks.obfuscators import THRESHOLD, TOP, Quotient, Rating, Similarity, Wanted, opposite_lists, rfpp
from tasks.ratings import Ratings
from tasks.recommenders import als

HELD_OUT = 0.2
FOLDS = 5
PASSED_PAIRS = 0.05  # by a threshold that is not given

Measures = dict[str, float]


@dataclass(frozen=True)
class Setting:
    """What is added: the strategy (None: nothing), how much, and by which of the paper's choices."""

    attribute: str
    strategy: str | None
    percent: float  # p₀
    similarity: Similarity = "compound"
    quotient: Quotient = "exp(-n)"
    threshold: float | None = THRESHOLD  # None: the one that a twentieth of all pairs of items pass
    rating: Rating = "opposite"
    real: bool = False  # an addition that is among somebody's held-out ratings gets the real rating

    @property
    def row(self) -> str:
        """The setting as figure 2 names it."""
        name = "" if self.strategy in (None, "rfpp") else f", {self.strategy}"
        return f"{self.attribute} p0={self.percent:g}{name}"


@dataclass(frozen=True)
class World:
    """The ratings of a seed in two parts, and everything about them that no addition changes."""

    train: sp.csr_array
    held_out: sp.csr_array
    labels: np.ndarray
    folds: np.ndarray  # which turn each person is asked about in
    inferrers: list[Inferrer]  # by turn, from the other people's ratings as they were
    errors: np.ndarray  # of the held-out ratings, predicted from `train`


@functools.lru_cache(maxsize=2)  # trials come in the order of seeds and attributes
def world(ingest: Path, attribute: str, seed: int) -> World:
    """Split the ratings and the people; learn from ratings as they are."""
    ratings = Ratings(ingest)
    known = ratings.attributes()[attribute]
    people = np.flatnonzero(~known.is_null().to_numpy(zero_copy_only=False))
    labels = known.indices.to_numpy(zero_copy_only=False)[people].astype(np.int64)
    matrix = ratings.by_user.take(people)
    rng = np.random.default_rng([seed, 4])
    hidden = rng.random(matrix.nnz) < HELD_OUT
    train, held_out = _some(matrix, ~hidden), _some(matrix, hidden)
    folds = np.empty(len(people), np.int64)  # every turn has its share of every class
    mixed = rng.permutation(len(people))
    folds[mixed[np.argsort(labels[mixed], kind="stable")]] = np.arange(len(people)) % FOLDS
    return World(
        train,
        held_out,
        labels,
        folds,
        [_learn(train, labels, folds != turn) for turn in range(FOLDS)],
        prediction_errors(train, held_out),
    )


def trial(block: tuple[Setting, int], *, ingest: Path, scale: tuple[float, float]) -> Measures:
    """All measures of one setting and seed."""
    setting, seed = block
    here = world(ingest, setting.attribute, seed)
    added = add(here, setting, seed, scale)
    return measure(here, added)


def add(here: World, setting: Setting, seed: int, scale: tuple[float, float]) -> sp.csr_array:
    """The additions of a setting."""
    if setting.strategy is None:
        nothing = np.zeros(len(here.labels) + 1, np.int64)
        return sp.csr_array((np.empty(0, np.float32), np.empty(0, np.int32), nothing), shape=here.train.shape)
    wanted = Wanted(
        share=setting.percent / 100,
        classes=_classes(here.labels),
        scale=scale,
        chance=obfuscators.seeded_chance(seed),
        similarity=setting.similarity,
        quotient=setting.quotient,
        threshold=_threshold(here, setting) if setting.threshold is None else setting.threshold,
        rating=setting.rating,
    )
    added = obfuscators.strategy(setting.strategy).add(here.train, here.labels, wanted)
    return _with_real_ratings(added, here.held_out) if setting.real else added


def measure(here: World, added: sp.csr_array) -> Measures:
    """What is lost and who is recognised with these additions."""
    let_out = additions.together(here.train, added)
    if added.nnz:
        errors = prediction_errors(let_out, here.held_out)
        retrained = [_learn(let_out, here.labels, here.folds != turn) for turn in range(FOLDS)]
    else:
        errors, retrained = here.errors, here.inferrers
    untouched = ~np.isin(_cells(here.held_out), _cells(added))
    found = {
        "p0 %": 100 * added.nnz / here.train.nnz,
        "dRMSE": _rmse(errors) - _rmse(here.errors),
        "dRMSE, additions left out": _rmse(errors[untouched]) - _rmse(here.errors[untouched]),
        "additions held out %": 100 * np.count_nonzero(~untouched) / max(added.nnz, 1),
        "RMSE": _rmse(errors),
    }
    for name, inferrers in (("naive", here.inferrers), ("adaptive", retrained)):
        known = recognised(let_out, here.labels, here.folds, inferrers)
        found |= {f"{what} {name}": value for what, value in known.items()}
    return found


def recognised(
    let_out: sp.csr_array, labels: np.ndarray, folds: np.ndarray, inferrers: list[Inferrer]
) -> Measures:
    """Balanced precision, the plain mean of the classes' recalls and the area under the curve, of inferrers asked about
    people they did not learn from."""
    classes = _classes(labels)
    scores = np.empty((len(labels), classes))
    for turn, inferrer in enumerate(inferrers):
        asked = np.flatnonzero(folds == turn)
        scores[asked] = inferrer.scores(sp.csr_array(let_out[asked]))
    guessed = scores.argmax(axis=1)
    recalls = np.bincount(labels[guessed == labels], minlength=classes) / np.bincount(labels)
    return {
        "BPre": balanced_precision(labels, guessed, classes),
        "mean recall": float(recalls.mean()),
        "area": _area(labels == classes - 1, scores[:, -1]),
    }


def ranks(block: tuple[str, int], *, ingest: Path, scale: tuple[float, float], ks: tuple[int, ...]) -> dict:
    """Figure 2 (d): p₀ in per cent when k is given, by two readings of rank-k.

    The text's: additions are among the k most popular of *all* items. The other: everybody gets the k most popular of
    the items there are for this person.
    """
    attribute, seed = block
    here = world(ingest, attribute, seed)
    wanted = Wanted(0.0, _classes(here.labels), scale, obfuscators.seeded_chance(seed))
    choice, _ = rfpp.choices(here.train, here.labels, wanted)
    possible = additions.count(choice.bits)
    person, place = additions.cells(choice.bits)
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
    """Predicted less real, of every held-out rating."""
    row = np.repeat(np.arange(held_out.shape[0]), np.diff(held_out.indptr))
    return np.asarray(als.fit(train).predict(row, held_out.indices) - held_out.data, np.float64)


def _threshold(here: World, setting: Setting) -> float:
    lists = opposite_lists(here.train, here.labels, _classes(here.labels), TOP)
    candidates = np.unique(np.concatenate([found.items for found in lists]))
    blocks = item_similarity.similarities(here.train, candidates, setting.similarity, setting.quotient)
    found = np.concatenate([block[np.isfinite(block)] for block in blocks])
    return float(np.quantile(found, 1 - PASSED_PAIRS)) if len(found) else np.inf


def _with_real_ratings(added: sp.csr_array, held_out: sp.csr_array) -> sp.csr_array:
    """Section 6.4: if the item to be added belongs to the person's test ratings, the realistic rating is added."""
    cells, known = _cells(added), _cells(held_out)
    place = np.minimum(np.searchsorted(known, cells), len(known) - 1)
    values = np.where(known[place] == cells, held_out.data[place], added.data)
    return sp.csr_array((values, added.indices, added.indptr), shape=added.shape)


def _learn(ratings: sp.csr_array, labels: np.ndarray, people: np.ndarray) -> Inferrer:
    return fit_inferrer(sp.csr_array(ratings[people]), labels[people], _classes(labels))


def _area(mine: np.ndarray, scores: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(mine, scores))


def _classes(labels: np.ndarray) -> int:
    return int(labels.max()) + 1


def _some(matrix: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
    indptr = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
    return sp.csr_array((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)


def _cells(matrix: sp.csr_array) -> np.ndarray:
    """A number for every stored cell, rising."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return row.astype(np.int64) * matrix.shape[1] + matrix.indices


def _rmse(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))
