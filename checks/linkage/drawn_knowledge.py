"""Draw what an attacker knows about each target, from fixed seeds: the same for every attack with the same model."""

import numpy as np

from checks.evidence.case import Case
from checks.evidence.seeds import seeded
from checks.evidence.truth import Truth
from checks.linkage.knowledge import Choice, Knowledge, Model, off_by_one
from checks.linkage.mentions import mentions

WRONG_SHARE = 0.25
DAY_ERROR = {"exact": 3, "±1": 14, "some wrong": 14}


def knowledge_of(case: Case, targets: np.ndarray, model: Model) -> Knowledge:
    """Return what is known about these people of a case; drawn once for all attacks."""
    key = ("knowledge", model, targets.tobytes())
    return case.cached(key, lambda: draw_knowledge(case.truth, targets, model))


def draw_knowledge(truth: Truth, targets: np.ndarray, model: Model) -> Knowledge:
    """Draw what the attacker knows about each target."""
    if model.choice == "forum":
        return mentions(truth, targets, model)
    draw = seeded(truth.salt, "knowledge", model.name)
    owner, places = _ratings_of(truth, targets)
    if model.choice != "all":
        order = _order(truth, places, model.choice, draw)
        ranked = np.lexsort((order, owner))
        starts = np.searchsorted(owner[ranked], np.arange(len(targets)))
        nth = np.arange(len(owner)) - starts[owner[ranked]]
        chosen = np.sort(ranked[nth < model.size])
        owner, places = owner[chosen], places[chosen]
    items, ratings = truth.ratings.indices[places].astype(np.int64), truth.ratings.data[places].copy()
    days = None
    if model.days and truth.days is not None:
        error = DAY_ERROR[model.error]
        days = (truth.days[places] + draw.integers(-error, error + 1, len(places))).astype(np.float32)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(targets)))])
    if model.error == "±1":
        ratings = off_by_one(truth, ratings, draw)
    elif model.error == "some wrong":
        items, ratings = _some_wrong(truth, items, ratings, draw)
    return Knowledge(model.name, targets, indptr, items, ratings.astype(np.float32), days)


def _ratings_of(truth: Truth, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return every rating of every target: whose it is (position in `targets`) and its position in the truth."""
    starts = truth.ratings.indptr[targets].astype(np.int64)
    counts = truth.ratings.indptr[targets + 1] - starts
    owner = np.repeat(np.arange(len(targets)), counts)
    return owner, np.arange(len(owner)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)


def _order(truth: Truth, places: np.ndarray, choice: Choice, draw: np.random.Generator) -> np.ndarray:
    chance = draw.random(len(places))
    raters = truth.raters[truth.ratings.indices[places]]
    return {"random": 0, "rare": raters, "popular": -raters}[choice] + chance


def _some_wrong(
    truth: Truth, items: np.ndarray, ratings: np.ndarray, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Replace a quarter of the known items by popular ones with a rating of any person."""
    wrong = draw.random(len(items)) < WRONG_SHARE
    any_rating = draw.integers(0, truth.ratings.nnz, len(items))
    return (
        np.where(wrong, truth.ratings.indices[any_rating], items),
        np.where(wrong, truth.ratings.data[any_rating], ratings),
    )
