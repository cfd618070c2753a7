"""Test `murmur reproduce P4`: measures by hand on six users, a miniature of the whole, the bars on real ratings."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from tasks.data.ratings import write_attributes, write_ids, write_matrix
from tasks.engine import engine
from tasks.errors import UsageError
from tasks.kernels.inferrer import Inferrer
from tasks.studies.p4 import figures as figures_p4
from tasks.studies.p4 import tables as p4
from tasks.studies.p4 import trials
from tasks.studies.p4.trials import Setting, World
from tasks.studies.study_data import SNAPSHOT
from tests.tasks.two_class_ratings import LABELS, RATINGS


def csr(dense):
    return sp.csr_array(np.array(dense, np.float32))


def test_tested_users_are_not_training_users():
    """Two inferrers who look at one item each; who is asked in which turn decides who is right."""
    looks_at_first = Inferrer(np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([2.0, -2.0]))
    looks_at_second = Inferrer(np.array([[0.0, -1.0], [0.0, 1.0]]), np.array([2.0, -2.0]))
    people, labels = csr([[5, 1], [1, 5], [5, 1], [1, 5]]), np.array([1, 1, 0, 0])
    inferrers = [looks_at_first, looks_at_second]

    def known(*folds):
        return tuple(trials.inference_measures(people, labels, np.array(folds), inferrers).values())

    assert known(0, 1, 1, 0) == (1.0, 1.0, 1.0)
    assert known(1, 0, 0, 1) == (0.0, 0.0, 0.0)
    assert known(0, 0, 0, 0) == (0.5, 0.5, 0.5)


def test_rarer_class_weighs_more_in_balanced_precision():
    """One of four users is of the rarer class; all are classified as such."""
    always = Inferrer(np.zeros((2, 1)), np.array([-1.0, 1.0]))
    found = trials.inference_measures(
        csr([[1], [1], [1], [1]]), np.array([1, 0, 0, 0]), np.zeros(4, int), [always]
    )
    assert found["BPre"] == pytest.approx(2 / (2 + np.log2(4 / 3)))
    assert found["mean recall"] == found["area"] == 0.5


def test_real_ratings_replace_factitious_ones():
    added = csr([[0, 2.5, 3.5], [4.5, 0, 0]])
    held_out = csr([[0, 0, 5], [0, 1, 0]])
    assert trials._with_real_ratings(added, held_out).toarray().tolist() == [[0, 2.5, 5], [4.5, 0, 0]]


def test_rank_k_by_both_interpretations(monkeypatch):
    """Only item 2 is similar enough to anything (to item 4), for two people; it is the second most popular item."""
    here = World(RATINGS, RATINGS, LABELS, LABELS, [], np.zeros(1))
    monkeypatch.setattr(trials, "load_world", lambda *_: here)
    found = trials.shares_by_rank(("gender", 0), ingest=None, scale=(1.0, 5.0), ks=(1, 2, 9))
    two = 100 * 2 / 18
    assert found == {1: (0, pytest.approx(two)), 2: (pytest.approx(two),) * 2, 9: (pytest.approx(two),) * 2}


def test_errors_can_exclude_added_cells(monkeypatch):
    """Two held-out ratings, predicted 1 too high before, 2 and 3 too high after; the second cell was added."""
    train, held_out = csr([[3, 0, 0], [3, 0, 0]]), csr([[0, 4, 0], [0, 0, 2]])
    added = csr([[0, 0, 0], [0, 0, 2]])
    never = Inferrer(np.zeros((2, 3)), np.array([1.0, -1.0]))
    here = World(train, held_out, np.array([0, 1]), np.array([0, 0]), [never] * trials.FOLDS, np.ones(2))
    monkeypatch.setattr(trials, "prediction_errors", lambda *_: np.array([2.0, 3.0]))
    monkeypatch.setattr(trials, "_fit_inferrer", lambda *_: never)
    found = trials.measure(here, added)
    assert found["p0 %"] == 50
    assert found["dRMSE"] == pytest.approx(np.sqrt(6.5) - 1)
    assert found["dRMSE, additions left out"] == 1
    assert found["additions held out %"] == 100
    assert found["BPre naive"] == 0.5  # the first class is always guessed, and each is one of two


# --- a miniature


@pytest.fixture
def miniature(tmp_path):
    """People whose gender and age show in what they rate."""
    rng = np.random.default_rng(4)
    people, items = 120, 40
    gender, age = rng.random(people) < 0.3, rng.random(people) < 0.7
    likes = 0.25 + 0.15 * np.outer(gender - 0.5, np.arange(items) % 3 - 1)
    likes += 0.15 * np.outer(age - 0.5, np.arange(items) % 5 - 2)
    rated = rng.random((people, items)) < likes
    rated[:, 0] = True
    matrix = sp.csr_array(np.where(rated, rng.integers(1, 6, (people, items)), 0).astype(np.float32))
    place = tmp_path / "ingest"
    place.mkdir()
    write_ids(place, "user", [f"{n:03}" for n in range(people)])
    write_ids(place, "item", [f"{n:02}" for n in range(items)])
    write_matrix(place, matrix)
    known = {
        "gender": pa.array(
            [*np.where(gender, "F", "M").tolist()[:-1], None]
        ),  # of one person nothing is known
        "age": pa.array(np.where(age, "youth", "other").tolist()),
    }
    write_attributes(place, known)
    yield place
    trials.load_world.cache_clear()


def test_ratings_and_users_are_split(miniature):
    here = trials.load_world(miniature, "gender", 0)
    assert here.train.shape == (119, 40)
    assert not np.isin(trials._cell_keys(here.train), trials._cell_keys(here.held_out)).any()
    assert here.held_out.nnz / (here.train.nnz + here.held_out.nnz) == pytest.approx(0.2, abs=0.03)
    for label in (0, 1):
        sizes = np.bincount(here.folds[here.labels == label], minlength=trials.FOLDS)
        assert sizes.max() - sizes.min() <= 1
    assert (trials.load_world(miniature, "gender", 1).train != here.train).nnz


def measured(place, settings, workers=0, seeds=1):
    with engine(workers) as here:
        return p4.Study(place, (1.0, 5.0), seeds, here, lambda *_: None).measure(settings)


def test_no_additions_lose_nothing(miniature):
    nothing = p4.rfpp_setting("gender", 0)
    found = measured(miniature, [nothing])[nothing]
    assert found["dRMSE"] == found["p0 %"] == 0
    assert found["BPre naive"] == found["BPre adaptive"]
    assert found["area naive"] == found["area adaptive"]


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_make_no_difference(miniature):
    settings = [p4.rfpp_setting("gender", 8.12), Setting("age", "random", 3.89)]
    assert measured(miniature, settings, seeds=2) == measured(miniature, settings, workers=2, seeds=2)


@pytest.mark.slow
def test_tables_of_a_miniature(miniature, tmp_path):
    with engine(0) as here:
        study = p4.Study(miniature, (1.0, 5.0), 1, here, lambda *_: None)
        found, ranked = study.measure(p4.all_settings()), study.measure_ranks()
    cells = p4.build_cells(found, ranked, p4.DATA_SETS["movielens-1m"])
    json.dumps(cells, allow_nan=False)
    by_key = {(c["table"], c["row"], c["column"]): c for c in cells}
    assert len(by_key) == len(cells)
    for percent in p4.PAPER_PERCENTS:  # the cells that readers of the JSON rely on
        for column in ("dRMSE", "BPre naive", "BPre adaptive"):
            assert by_key["fig2", f"gender p0={percent:g}", column]["ours"] is not None
    assert by_key["fig2", "gender p0=3.89", "dRMSE"]["paper"] == -0.002
    assert by_key["fig2", "gender p0=3.89", "dRMSE"]["tolerance"] == 0.01
    assert by_key["fig2", "gender p0=3.89", "BPre adaptive"]["within"] is None
    assert by_key["fig2", "age p0=3.89", "dRMSE"]["tolerance"] is None
    assert by_key["fig2", "gender p0=8.12, greedy", "p0 %"]["within"] is True
    assert by_key["fig2", "gender p0=10, weinsberg", "dRMSE"]["paper"] == 0.058
    for table, row in (
        ("1", "compound"),
        ("2", "exp(-n)"),
        ("3", "opposite"),
        ("section 6", "ratings made up"),
    ):
        same = by_key["fig2", "gender p0=3.89", "BPre naive"]["ours"]
        assert by_key[table, row, "BPre naive"]["ours"] == same
    printed = {key for key in p4.PRINTED if key not in by_key}
    assert printed == set(), "every value of the paper has its cell"
    naive = [by_key["fig2", f"gender p0={p:g}, greedy", "BPre naive"]["ours"] for p in (0.5, 3.89, 10)]
    assert naive[0] > naive[1] > naive[2]
    figures_p4.plot(found, ranked, tmp_path / "plots")
    names = {file.name for file in (tmp_path / "plots").iterdir()}
    assert names == {"fig2a.svg", "fig2c.svg", "fig2d.svg", "strategies.svg"}


def test_every_strategy_has_its_curve(monkeypatch):
    monkeypatch.setattr(p4.obfuscators, "registered", lambda: ["rfpp", "matched"])
    rows = {setting.row for setting in p4.curve_settings()}
    assert {"gender p0=0.5, matched", "gender p0=8.12", "age p0=3.89, matched"} <= rows
    assert "gender p0=0, matched" not in rows


def test_bars():
    exact, other = p4.DATA_SETS["movielens-1m"], p4.DATA_SETS["movielens-100k"]
    setting = p4.rfpp_setting("gender", 8.12)
    assert p4._bar(setting, "dRMSE", -0.016, exact) == {"tolerance": 0.015, "within": False}
    assert p4._bar(setting, "dRMSE", 0.015, exact)["within"] is True
    assert p4._bar(setting, "dRMSE", 0.5, other) == {}
    assert p4._bar(replace(setting, strategy="greedy"), "dRMSE", 0.5, exact) == {}
    assert p4._bar(setting, "p0 %", 8.0, other) == {"tolerance": 0.1, "within": False}
    assert p4._bar(setting, "p0 %", 8.2, other)["within"] is True
    assert p4._cell("fig2", "gender p0=8.12", "dRMSE", 0.0, other)["paper"] is None


def test_other_data_are_refused(tmp_path):
    (tmp_path / "jester-data-1.zip").write_text("")
    with pytest.raises(UsageError, match="not on Jester"):
        p4.reproduce(tmp_path)


# --- real ratings


@pytest.mark.data
def test_rfpp_bars_on_movielens_1m(real_data, tmp_path):
    from tasks import pipeline
    from tasks.store import Store

    with engine(0) as here:
        run = pipeline.open_run(
            p4.configuration("movielens-1m", real_data("ml-1m")),
            SNAPSHOT,
            Store(tmp_path),
            here,
            lambda *_: None,
        )
        ingest = pipeline.execute("ingest", run)["path"]
    shares = np.bincount(trials.load_world(ingest, "age", 0).labels) / 6040
    assert shares.max() == pytest.approx(0.727, abs=5e-4)  # youth (docs/leaks-and-bars.md)
    settings = [p4.rfpp_setting("gender", percent) for percent in (0, *p4.PAPER_PERCENTS)]
    found = measured(ingest, settings)
    data_set = p4.DATA_SETS["movielens-1m"]
    for setting in settings[1:]:
        assert p4._bar(setting, "p0 %", found[setting]["p0 %"], data_set)["within"]
        assert p4._bar(setting, "dRMSE", found[setting]["dRMSE"], data_set)["within"]
        # docs/leaks-and-bars.md: a retrained inferrer recovers gender.
        assert found[setting]["BPre adaptive"] > 0.9
    naive = [found[setting]["BPre naive"] for setting in settings]
    assert naive[0] > naive[1] > naive[2]
    trials.load_world.cache_clear()


@pytest.mark.data
def test_movielens_100k_from_its_files(real_data, tmp_path, monkeypatch):
    monkeypatch.setitem(p4.DATA_SETS, "movielens-100k", replace(p4.DATA_SETS["movielens-100k"], seeds=1))
    monkeypatch.setattr(p4, "PERCENTS", (0.0, 3.89, 10.0))
    monkeypatch.setattr(p4, "PAPER_PERCENTS", (3.89, 8.12))
    monkeypatch.setattr(p4.obfuscators, "registered", lambda: ["rfpp", "weinsberg"])
    answer = p4.reproduce(real_data("ml-100k"), plots=tmp_path)
    assert (answer["paper"], answer["dataset"]) == ("P4", "movielens-100k")
    cells = {(c["table"], c["row"], c["column"]): c for c in answer["cells"]}
    assert [key for key, cell in cells.items() if cell["within"] is False] == []
    assert cells["fig2", "gender p0=3.89", "BPre adaptive"]["ours"] > 0.9
    assert cells["fig2", "gender p0=3.89", "dRMSE"]["paper"] is None
    trials.load_world.cache_clear()
