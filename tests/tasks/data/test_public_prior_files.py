"""Test the prior beside ratings: read from published files, each group once, copied along, and used by the model."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from tasks.data import profiles
from tasks.data.factors import fit_factors, open_model
from tasks.data.item_removal import write_without
from tasks.data.public_prior import copy_prior, read_prior, save_prior, write_prior
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.engine import Engine
from tasks.errors import MurmurError
from tasks.kernels import als, phantom_raters
from tasks.kernels.padded import LowRank
from tasks.kernels.public_prior import Prior
from tasks.shadow import split, sybils
from tasks.steps import padding


def publish(place, items, codes, sizes, unit="rating"):
    place.mkdir(parents=True)
    profiles.write_dense_blocks(
        place / "groups.parquet", [(0, np.asarray(sizes), np.asarray(codes, np.uint8))]
    )
    write_ids(place, "item", items)
    facts = {"unit": unit, "rating_encoding": "uint8", "rating_scale": [1.0, 5.0], "rating_step": 0.5}
    (place / "manifest.json").write_text(json.dumps(facts))
    return place


@pytest.fixture
def ratings(tmp_path, taste_matrix):
    """Write ratings of 120 people for 30 items, the last two of them rare."""
    place = tmp_path / "ratings"
    place.mkdir()
    matrix = taste_matrix(users=120, items=30).tolil()
    matrix[2:, 28] = 0
    matrix[2:, 29] = 0
    write_ids(place, "user", [str(n) for n in range(120)])
    write_ids(place, "item", [f"i{n:02}" for n in range(30)])
    write_matrix(place, matrix.tocsr())
    return Ratings(place)


@pytest.fixture
def fit(tmp_path, config, ratings):
    """Fit a model with a prior or without: (predictor, prior) → model."""

    def make(name, prior=None, **table):
        out = tmp_path / f"out-{name}"
        out.mkdir()
        context = SimpleNamespace(
            params=padding.params(config(padding={"rank": 4, "level_only_below": 20, **table})),
            out=out,
            engine=Engine(),
            rng=lambda *_: np.random.default_rng(0),
            progress=lambda *_: None,
        )
        fit_factors(context, ratings, prior)
        return open_model(out)

    return make


def nothing(items=30, rank=4):
    return Prior(np.zeros(items, np.float32), np.zeros((items, rank), np.float32), np.zeros(items, bool))


def test_levels_follow_published_ratings_by_item_id(tmp_path):
    one = publish(tmp_path / "one", ["b", "a"], [[2, 4], [2, 4]], [5, 5])
    prior = write_prior(tmp_path, ["a", "b", "c"], [one], 2)
    assert prior.levels == pytest.approx([0.5, -0.5, 0])
    assert prior.known.tolist() == [True, True, False]


def test_a_group_counts_once_and_the_newest_groups_say_most(tmp_path):
    older = publish(tmp_path / "1", ["a", "b"], [[2, 4]], [5])
    newer = publish(tmp_path / "2", ["a", "b"], [[2, 4], [4, 2]], [5, 6])
    twice = write_prior(tmp_path, ["a", "b"], [older, newer], 1)
    assert twice.levels == pytest.approx([0.5, -0.5])  # of the second group alone
    assert twice.cohorts == (5, 6)
    once = write_prior(tmp_path, ["a", "b"], [newer], 1)
    assert once.cohorts == (11,)
    assert once.levels == pytest.approx([0.5 / 11, -0.5 / 11], abs=1e-6)


def test_a_release_without_new_groups_changes_nothing(tmp_path):
    older = publish(tmp_path / "1", ["a", "b"], [[2, 4]], [5])
    again = publish(tmp_path / "2", ["a", "b"], [[2, 4]], [5])
    assert write_prior(tmp_path, ["a", "b"], [older, again], 1).cohorts == (5,)


def test_values_that_are_no_ratings_are_refused(tmp_path):
    odd = publish(tmp_path / "odd", ["a"], [[2]], [5], unit="z-score")
    with pytest.raises(MurmurError, match="z-score"):
        write_prior(tmp_path, ["a"], [odd], 1)


def test_copied_to_other_columns(tmp_path, ratings):
    copy_prior(ratings, tmp_path)  # there is none
    assert not (tmp_path / "prior.npz").exists()
    save_prior(
        ratings.directory,
        Prior(*(np.arange(30, dtype=np.float32), np.ones((30, 2), np.float32), np.ones(30, bool))),
    )
    copy_prior(ratings, tmp_path, np.array([3, -1]))
    with np.load(tmp_path / "prior.npz") as held:
        assert held["levels"].tolist() == [3, 0]
    save_prior(ratings.directory, nothing(items=7))
    with pytest.raises(MurmurError, match="7 items"):
        read_prior(ratings)


@pytest.mark.parametrize("predictor", ["als", "biases"])
def test_a_prior_that_knows_nothing_changes_nothing(fit, predictor):
    one, other = fit("none", predictor=predictor), fit("empty", nothing(), predictor=predictor)
    assert np.allclose(one.rows(slice(None)), other.rows(slice(None)), atol=1e-5)


@pytest.mark.parametrize("predictor", ["als", "biases"])
def test_items_outside_the_fit_show_the_prior_alone(fit, predictor):
    levels, known = np.zeros(30, np.float32), np.zeros(30, bool)
    levels[28], known[28] = 0.75, True
    model = fit("known", Prior(levels, np.zeros((30, 4), np.float32), known), predictor=predictor).rows(
        slice(None)
    )
    assert model[:, 28] - model[:, 29] == pytest.approx(0.75, abs=1e-5)


def test_rare_items_keep_the_factors_of_the_prior(fit):
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((30, 4)).astype(np.float32)
    model = fit("rare", Prior(np.zeros(30, np.float32), factors, np.ones(30, bool)), level_only_below=10_000)
    shown = np.asarray(model.items[:, :4])  # each direction in the length that suits the cohort
    assert shown / factors == pytest.approx(np.broadcast_to(shown[:1] / factors[:1], (30, 4)), rel=1e-4)


@pytest.mark.parametrize("people", [(), (1_000_000,)])
def test_the_more_people_stand_behind_a_prior_the_less_items_leave_it(fit, people):
    rng = np.random.default_rng(3)
    prior = Prior(
        np.linspace(-1, 1, 30, dtype=np.float32),
        rng.standard_normal((30, 4)).astype(np.float32),
        np.ones(30, bool),
        people,
    )
    model = fit("worth", prior)
    shown = np.asarray(model.items[:28, :4])
    stretch = (shown * prior.factors[:28]).sum(axis=0) / (prior.factors[:28] ** 2).sum(axis=0)
    apart = np.abs(shown - prior.factors[:28] * stretch).max() / np.abs(shown).max()
    moved = np.abs(np.asarray(model.items[:28, -1]) - prior.levels[:28]).max()
    assert (apart < 0.02 and moved < 0.02) if people else (apart > 0.1 and moved > 0.1)


def test_the_prior_beside_the_ratings_is_used(fit, ratings):
    prior = Prior(np.full(30, 0.1, np.float32), np.ones((30, 4), np.float32), np.ones(30, bool))
    given = fit("given", prior).rows(slice(None))
    save_prior(ratings.directory, prior)
    assert np.array_equal(fit("beside").rows(slice(None)), given)


def test_without_a_prior_the_model_is_the_usual_one_to_the_byte(fit, ratings):
    """Alternate by hand, with the kernels alone, and hide the raters as decision 18 says."""
    rank, few, by_user, by_item = 4, 20, ratings.by_user.whole(), ratings.by_item.whole()
    counts = np.diff(by_item.indptr)
    fitted, ridge = counts >= 3, 0.04
    seen = als.keep_items(by_user, fitted)
    sums = np.asarray(by_item.sum(axis=1, dtype=np.float64)).ravel()
    mean = float(sums[fitted].sum() / counts[fitted].sum())
    items = als.start(sums, counts, mean, rank, np.random.default_rng(0))
    items[~fitted] = 0

    def step(part, other):
        offsets = other[:, -1] + np.float32(mean)
        return als.half_step(part.indptr, part.indices, part.data, als.regressors(other), offsets, ridge)

    for _ in range(10):
        users = step(seen, items)
        items = step(by_item, users)
        items[~fitted] = 0
    users = step(seen, items)
    model = LowRank(als.users_matrix(users), als.items_matrix(items), mean)
    errors = seen.data - model.cells(np.repeat(np.arange(120), np.diff(seen.indptr)), seen.indices)
    covariance = phantom_raters.rater_covariance(users[:, :-1], np.diff(by_user.indptr))
    tastes = phantom_raters.draw_tastes(covariance, 40, np.random.default_rng(0))
    error = float(np.sqrt((errors.astype(np.float64) ** 2).sum() / len(errors)))
    given = phantom_raters.draw_ratings(items[:, -1], 40, error, np.random.default_rng(0)) + np.float32(mean)
    raters = np.vstack([users, np.column_stack([tastes, np.zeros(40, np.float32)])])
    items = step(phantom_raters.add_phantoms(by_item, given, fitted), raters)
    items[~fitted] = 0
    items[counts < few, :-1] = 0
    items[fitted, -1] = phantom_raters.hide_levels(
        items[fitted, -1], counts[fitted], ridge * als.BIAS_PRIOR, 4.0, np.random.default_rng(0)
    )
    ours = fit("usual")
    assert np.array_equal(ours.items, als.items_matrix(items))
    assert np.array_equal(ours.users, als.users_matrix(step(seen, items)))


def test_runs_inside_the_gate_see_the_same_prior(tmp_path, ratings):
    """The shadow has the same columns, a run with sybils further ones, and a run without some items fewer."""
    prior = Prior(np.arange(30, dtype=np.float32), np.ones((30, 2), np.float32), np.ones(30, bool))
    save_prior(ratings.directory, prior)
    split.split_ratings(
        ratings,
        tmp_path / "shadow",
        lambda *_: np.random.default_rng(0),
        fewest_present=20,
        leave_users_out=False,
    )
    copied = read_prior(Ratings(tmp_path / "shadow"))
    assert copied is not None
    assert np.array_equal(copied.levels, prior.levels)
    people = sybils.People.sample(ratings, 50, np.random.default_rng(0))
    wider = sp.csr_array(sp.hstack([people.ratings, people.ratings[:, :2]]))
    sybils._write_ratings(tmp_path / "sybil", people, wider, np.array([3]))
    copied = read_prior(Ratings(tmp_path / "sybil"))
    assert copied is not None
    # Further columns, and the one on which an opinion is planted, have no prior.
    assert copied.levels.tolist() == [0 if item == 3 else item for item in range(30)] + [0, 0]
    assert copied.known.tolist() == [item != 3 for item in range(30)] + [False] * 2
    (tmp_path / "fewer").mkdir()
    write_without(ratings, np.arange(30) % 2 == 0, tmp_path / "fewer")
    copied = read_prior(Ratings(tmp_path / "fewer"))
    assert copied is not None
    assert copied.levels.tolist() == list(range(0, 30, 2))
