"""Evaluate: who and what is held out of the shadow run, and what is left of it for the judge."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from checks.release import Release
from checks.report import page
from tasks import pipeline, profiles
from tasks.config import parse
from tasks.engine import Engine
from tasks.keys import OwnerKey
from tasks.learnt import OwnScales, own_scales
from tasks.ratings import Ratings, write_attributes, write_ids, write_matrix
from tasks.steps import evaluate
from tasks.store import Store, files_below, read_json, write_json
from tests.conftest import SNAPSHOT

KEY = OwnerKey(b"k" * 32)


@pytest.fixture
def evaluated(tmp_path, taste_matrix):
    """Run the step on a matrix: (matrix, store, tables of the configuration) → its directory."""

    def run(matrix, store="store", tell=lambda *_: None, **tables):
        place = tmp_path / "given"
        if not place.exists():
            place.mkdir()
            write_ids(place, "user", [f"person {n:04}" for n in range(matrix.shape[0])])
            write_ids(place, "item", [f"i{n:04}" for n in range(matrix.shape[1])])
            write_matrix(place, matrix)
        source = {"format": "csv", "path": "-", "scale": [1, 5]}
        config = parse({"release": {"name": "t"}, "source": source, **tables})
        opened = pipeline.open_run(config, SNAPSHOT, Store(tmp_path / store), Engine(), tell)
        given = {"ingest": {"path": str(place), "digest": "given", "counts": {}}}
        reference = pipeline.execute("evaluate", replace(opened, key=KEY, given=given))
        return tmp_path / store / "private" / "t" / SNAPSHOT.isoformat() / "work" / "evaluate", reference

    return run


def job(k=5, l=2, purpose="release"):  # noqa: E741
    config, run = SimpleNamespace(privacy=SimpleNamespace(k=k, l=l)), SimpleNamespace(purpose=purpose)
    return SimpleNamespace(config=config, run=run, rng=lambda name: np.random.default_rng(len(name)))


def test_a_tenth_of_the_ratings_is_held_out_of_which_whole_people(evaluated, taste_matrix):
    matrix = taste_matrix(users=500, items=40)
    out, reference = evaluated(matrix)
    assert reference["counts"]["absent"] == 25
    assert reference["counts"]["users"] == 475
    membership = pq.read_table(out / "shadow-release" / "membership.parquet").to_pandas()
    absent = membership[membership["group"] == -1]
    assert len(membership) == 500
    assert len(absent) == 25
    rows = absent["user"].str.slice(7).astype(int).to_numpy()
    gone = int(np.diff(matrix.indptr)[rows].sum())
    apart = pq.read_table(out / "heldout.parquet").num_rows
    assert gone + apart == pytest.approx(0.1 * matrix.nnz, rel=0.2)
    assert apart >= 0.025 * matrix.nnz - 30


def test_the_shadow_release_can_be_read_and_holds_nobody_absent(evaluated, taste_matrix):
    matrix = taste_matrix(users=500, items=40)
    out, _ = evaluated(matrix)
    release = Release(out / "shadow-release")
    membership = pq.read_table(out / "shadow-release" / "membership.parquet").to_pandas()
    listed = membership[membership["group"] >= 0]
    assert set(release.pseudonyms.to_pylist()) == set(listed["pseudonym"])
    assert release.manifest["counts"]["users"] == 475
    assert (release.listed >= 5).all()
    held_out = pq.read_table(out / "shadow-release" / "held_out.parquet").to_pandas()
    assert len(held_out) == pq.read_table(out / "heldout.parquet").num_rows
    assert set(held_out["pseudonym"]) <= set(listed["pseudonym"])
    source = membership.set_index("pseudonym")["user"].str.slice(7).astype(int)
    dense = matrix.toarray()
    truth = pq.read_table(out / "heldout.parquet").column("truth").to_numpy()
    assert np.array_equal(dense[source[held_out["pseudonym"]], held_out["item"]], truth)


def test_ids_are_in_the_private_membership_only(evaluated, taste_matrix):
    out, _ = evaluated(taste_matrix(users=500, items=20))
    holding = [file.name for file in out.rglob("*") if file.is_file() and b"person" in file.read_bytes()]
    assert holding == ["membership.parquet"]
    names = pq.read_table(out / "shadow-release" / "members.parquet").column("user").to_pylist()
    assert not set(names) & set(
        KEY.pseudonyms("t", SNAPSHOT.isoformat(), [f"person {n:04}" for n in range(500)])
    )
    assert not (out / "shadow").exists()


def test_attributes_go_with_people_into_the_shadow_run(evaluated, taste_matrix, tmp_path, monkeypatch):
    matrix = taste_matrix(users=500, items=20)
    evaluated(matrix)  # writes what is given
    named = pa.array([None if n % 7 == 0 else f"side {n}" for n in range(500)])
    write_attributes(tmp_path / "given", {"side": named})
    monkeypatch.setattr(evaluate, "remove", lambda place: None)  # the shadow's intermediates stay
    out, _ = evaluated(matrix, "another")
    membership = pq.read_table(out / "shadow-release" / "membership.parquet").to_pandas()
    present = sorted(int(user[7:]) for user in membership.loc[membership["group"] >= 0, "user"])
    assert len(present) == 475
    kept = Ratings(out / "shadow" / "ingest").attributes()
    assert kept["side"].to_pylist() == named.take(pa.array(present)).to_pylist()


def test_the_same_bytes_again(evaluated, taste_matrix):
    matrix = taste_matrix(users=500, items=20)
    one, other = (evaluated(matrix, store)[0] for store in ("store", "another"))
    assert files_below(one) == files_below(other)


def test_small_data_spare_nobody_and_say_so(evaluated, taste_matrix):
    out, reference = evaluated(taste_matrix(users=30, items=20))
    assert reference["counts"]["absent"] == 0
    assert read_json(out / "summary.json")["absent_users"] == 0
    assert read_json(out / "summary.json")["users"] == 30


def test_the_report_learns_whether_a_sample_was_drawn(evaluated, taste_matrix, monkeypatch):
    matrix = taste_matrix(users=500, items=20)
    whole = evaluated(matrix)[0]
    assert (
        page._shadow_run(whole)["Shadow run"]
        == "475 of 500 people (all but 25 left out on purpose), 475 of them ranked"
    )
    monkeypatch.setattr(evaluate, "MOST_USERS", 300)
    sample = evaluated(matrix, "another")[0]
    assert page._shadow_run(sample)["Shadow run"] == "300 of 500 people (a seeded sample), 300 of them ranked"


def test_nobody_is_spared_where_groups_would_not_suffice():
    rated = np.full(600, 10)
    assert len(evaluate._people(job(k=5, l=2), rated)[1]) == 30
    assert len(evaluate._people(job(k=150, l=2), rated)[1]) == 0


def test_a_study_of_utility_leaves_nobody_out():
    present, absent, share = evaluate._people(job(purpose=evaluate.EVERYBODY), np.full(600, 10))
    assert (len(present), len(absent), share) == (600, 0, 0.1)


def test_beyond_the_sample_people_are_absent_anyway(monkeypatch):
    monkeypatch.setattr(evaluate, "MOST_USERS", 60)
    monkeypatch.setattr(evaluate, "MOST_ABSENT", 25)
    present, absent, share = evaluate._people(job(), np.full(100, 10))
    assert (len(present), len(absent), share) == (60, 25, evaluate.HELD_OUT_SHARE)
    assert not set(present) & set(absent)


@given(st.integers(500, 900), st.integers(0, 10**6))
def test_whoever_is_absent_a_tenth_is_held_out(users, seed):
    rated = np.random.default_rng(seed).pareto(0.7, users).astype(int) + 1  # a few gave most ratings
    present, absent, share = evaluate._people(job(), rated)
    assert sorted([*present, *absent]) == list(range(users))
    assert 0 < len(absent) <= users // 20
    assert rated[absent].sum() <= 0.075 * rated.sum()
    assert rated[absent].sum() + share * rated[present].sum() == pytest.approx(0.1 * rated.sum())


@pytest.mark.parametrize("method", ["predictive-padded", "predictive-simple"])
def test_ranks_and_neighbours_are_those_of_the_definition_whatever_the_blocks(tmp_path, taste_matrix, method):
    rng = np.random.default_rng(4)
    matrix, groups = taste_matrix(users=40, items=30), 8
    labels = (np.arange(40) % groups).astype(np.int32)
    for name in ("ingest", "padding", "made"):
        (tmp_path / name).mkdir()
    write_ids(tmp_path / "ingest", "user", [str(n) for n in range(40)])
    write_ids(tmp_path / "ingest", "item", [str(n) for n in range(30)])
    write_matrix(tmp_path / "ingest", matrix)
    factors = {
        side: rng.standard_normal((n, 2)).astype(np.float32) for side, n in (("users", 40), ("items", 30))
    }
    for side, values in factors.items():
        np.save(tmp_path / "padding" / f"{side}.npy", values)
    write_json(tmp_path / "padding" / "model.json", {"mean": 3.3})
    config = parse({"release": {"name": "t"}, "source": {"format": "csv", "path": "-", "scale": [1, 5]}})
    codes, held = rng.integers(0, 41, (groups, 30)).astype(np.uint8), rng.random((groups, 30)) < 0.6
    part = tmp_path / "made" / "part.arrow"
    if method == "predictive-padded":
        held[:] = True
        profiles.write_dense(part, 0, np.full(groups, 5), codes)
    else:
        row, column = np.nonzero(held)
        ends = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
        listed = sp.csr_array((codes[row, column], column, ends), shape=codes.shape)
        profiles.write_sparse(part, 0, np.full(groups, 5), listed)
    profiles.join([part], tmp_path / "groups.parquet")
    profiles.unpack(tmp_path / "groups.parquet", tmp_path / "unpacked", codes.dtype)

    rows = 3.3 + factors["users"].astype(float) @ factors["items"].astype(float).T
    dense = matrix.toarray()
    rows[dense > 0] = dense[dense > 0]
    apart = np.minimum(np.abs(rows[:, None, :] - (1 + codes * 0.1)[None, :, :]) / 4, 1)
    apart = np.where(held, 2 * apart - apart**2, 0).sum(axis=2) / held.sum(axis=1)
    expected_rank = 1 + (apart < apart[np.arange(40), labels][:, None]).sum(axis=1)
    for cells in (1, 100, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(evaluate, "CELLS_PER_BLOCK", cells)
            places = {name: tmp_path / name for name in ("ingest", "padding", "unpacked")}
            scales = OwnScales(np.zeros(40, np.float32), np.ones(40, np.float32))
            nearest, rank = evaluate._rank_block(
                (np.arange(40), labels, scales), **places, columns=None, config=config
            )
        assert nearest.tolist() == apart.argmin(axis=1).tolist()
        assert rank.tolist() == expected_rank.tolist()


def test_the_split_does_not_depend_on_the_blocks(evaluated, taste_matrix, monkeypatch):
    matrix = taste_matrix(users=500, items=20)
    one, _ = evaluated(matrix)
    monkeypatch.setattr(evaluate, "RATINGS_PER_BLOCK", 7)
    monkeypatch.setattr(evaluate, "CELLS_PER_BLOCK", 50)
    other, _ = evaluated(matrix, "another")
    assert files_below(one) == files_below(other)


def test_the_clock_starts_anew_when_ranking_begins(evaluated, taste_matrix):
    told = []
    evaluated(taste_matrix(users=500, items=20), tell=lambda *step: told.append(step))
    assert [step[1:] for step in told if step[0] == "evaluate"] == [(0, 1), (0, 2), (1, 2), (2, 2)]
    assert told.index(("evaluate", 0, 2)) > max(n for n, step in enumerate(told) if "shadow" in step[0])


def test_fewer_people_are_ranked_where_each_is_compared_with_much(evaluated, taste_matrix, monkeypatch):
    monkeypatch.setattr(evaluate, "CELLS_RANKED", 1)
    monkeypatch.setattr(evaluate, "FEWEST_RANKED", 30)
    out, reference = evaluated(taste_matrix(users=500, items=20))
    assert reference["counts"]["ranked"] == read_json(out / "summary.json")["ranked_users"] == 30


SINGLE = [
    {},
    {"noise": "uniform", "flexible": True},
    {"entries": "all"},
    {"scheme": "gna"},
    {"scheme": "gna", "clip": False, "amount": 2.0},
]


@pytest.mark.parametrize("chosen", SINGLE)
def test_single_records_are_scored_in_every_cell_and_left_to_the_judge(evaluated, taste_matrix, chosen):
    matrix = taste_matrix(users=500, items=30, share=0.1)  # some have nothing left when a tenth is held out
    tables = {"privacy": {"method": "perturbation"}, "perturbation": chosen}
    out, reference = evaluated(matrix, **tables)
    held_out = pq.read_table(out / "heldout.parquet").to_pandas()
    assert np.isfinite(held_out.to_numpy()).all()
    assert ((held_out >= 1) & (held_out <= 5)).all(axis=None)
    assert not (held_out["random_group"] == held_out["original"]).mean() > 0.1
    ranks = pq.read_table(out / "ranks.parquet").to_pandas()
    assert ranks["self_rank"].between(1, 475).all()
    release = Release(out / "shadow-release")
    assert (release.sizes == 1).all()
    assert release.manifest["counts"]["groups"] == reference["counts"]["users"] == 475
    assert release.complete == ("scheme" in chosen or chosen.get("entries") == "all")
    again, _ = evaluated(matrix, "another", **tables)
    assert files_below(out) == files_below(again)


def test_what_is_learnt_of_hardly_disguised_records_is_nearly_the_model(evaluated, taste_matrix):
    """Without noise only the standardising is left; with much noise nothing is."""
    matrix = taste_matrix(users=400, items=60, share=0.6)
    loss = {}
    for amount in (1e-6, 20.0):
        out, _ = evaluated(
            matrix, f"{amount}", privacy={"method": "perturbation"}, perturbation={"amount": amount}
        )
        table = pq.read_table(out / "heldout.parquet").to_pandas()
        errors = (
            table[["original", "target", "random_group"]].sub(table["truth"], axis=0).pow(2).mean() ** 0.5
        )
        loss[amount] = (errors["target"] - errors["original"]) / (errors["random_group"] - errors["original"])
        ranks = pq.read_table(out / "ranks.parquet").column("self_rank").to_numpy()
        assert ((ranks == 1).mean() > 0.95) == (amount < 1)
    assert loss[1e-6] < 0.3 < 1 < loss[20.0]


def test_own_scales_turn_z_scores_into_ratings_and_back(tmp_path):
    """Ratings 2 4 | 5 5 | none: mean and deviation 3, 1; 5, 0; and the mean of all, 4."""
    matrix = sp.csr_array((np.array([2, 4, 5, 5], np.float32), [0, 2, 0, 1], [0, 2, 4, 4]), shape=(3, 3))
    write_ids(tmp_path, "user", ["a", "b", "c"])
    write_ids(tmp_path, "item", ["x", "y", "z"])
    write_matrix(tmp_path, matrix)
    scales = own_scales(Ratings(tmp_path), profiles.Coding("float32", unit="z-score"), every_item=False)
    assert scales.level.tolist() == [3, 5, 4]
    assert scales.spread.tolist() == [1, 0, 0]
    assert scales.typical == 1
    assert scales.ratings(np.array([2.0, 2.0, 2.0])).tolist() == [5, 5, 4]
    assert scales.comparable(np.array([[2, 3], [5, 1], [4, 4]], np.float32)).tolist() == [
        [-1, 0],
        [0, 0],
        [0, 0],
    ]
    filled = own_scales(Ratings(tmp_path), profiles.Coding("float32", unit="z-score"), every_item=True)
    assert filled.spread == pytest.approx([np.sqrt(2 / 3), 0, 0])
    assert filled.comparable(np.full((3, 1), 4, np.float32))[0] == pytest.approx(
        [1]
    )  # in ratings of a typical person
    ratings = own_scales(Ratings(tmp_path), profiles.Coding.in_steps((1, 5), 0.1), every_item=True)
    assert (ratings.level.tolist(), ratings.spread.tolist(), ratings.typical) == ([0, 0, 0], [1, 1, 1], 1)
