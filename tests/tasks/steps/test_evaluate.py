"""Test the shadow run: who and what is held out, and what is kept of it for the gate."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.evidence import shadow_ranking
from checks.evidence.release import Release
from checks.report import facts
from tasks import pipeline
from tasks.config import parse
from tasks.data.ratings import Ratings, write_attributes, write_ids, write_matrix
from tasks.engine import Engine
from tasks.keys import OwnerKey
from tasks.shadow import ranking, split, summary
from tasks.steps import evaluate
from tasks.store import Store, digest, files_below, read_json
from tests.conftest import SNAPSHOT

KEY = OwnerKey(b"k" * 32)


@pytest.fixture
def evaluated(tmp_path, taste_matrix, monkeypatch):
    """Run the step on a matrix: (matrix, store, tables of the configuration) → its directory."""

    def run(matrix, store="store", progress=lambda *_: None, draws=1, **tables):
        monkeypatch.setattr(split, "MOST_DRAWS", draws)
        place = tmp_path / "given"
        if not place.exists():
            place.mkdir()
            write_ids(place, "user", [f"person {n:04}" for n in range(matrix.shape[0])])
            write_ids(place, "item", [f"i{n:04}" for n in range(matrix.shape[1])])
            write_matrix(place, matrix)
        source = {"format": "csv", "path": "-", "scale": [1, 5]}
        config = parse({"release": {"name": "t"}, "source": source, **tables})
        opened = pipeline.open_run(config, SNAPSHOT, Store(tmp_path / store), Engine(), progress)
        given = {"ingest": {"path": str(place), "digest": "given", "counts": {}}}
        reference = pipeline.execute("evaluate", replace(opened, key=KEY, given=given))
        return tmp_path / store / "private" / "t" / SNAPSHOT.isoformat() / "work" / "evaluate", reference

    return run


def test_one_tenth_is_held_out_including_absent_users(evaluated, taste_matrix):
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


def test_ranks_of_what_was_held_out_and_liked(evaluated, taste_matrix):
    """Everybody in these data chooses at random: nobody's list is better than another's, and all are measured."""
    matrix = taste_matrix(users=500, items=40)
    out, _ = evaluated(matrix)
    ranking = pq.read_table(out / "ranking.parquet").to_pandas()
    truth = pq.read_table(out / "heldout.parquet").column("truth").to_numpy()
    assert len(ranking) == (truth >= 4).sum()
    assert ranking[["original", "own", "group", "popularity"]].notna().all(axis=None)
    left = 40 - ranking["history"]
    for name in ("original", "own", "group", "popularity"):
        assert ranking[name].between(1, left).all()
    assert not (out / "asked.parquet").exists()
    found = shadow_ranking.summary(out)
    assert found["people"] == ranking["number"].nunique()
    assert all(0.05 < found[f"{source}_ndcg"] < 0.5 for source in shadow_ranking.SOURCES)


def test_further_draws_leave_out_others(evaluated, taste_matrix):
    """Four shadows of 475 of 500 people each; pseudonyms of one say nothing about those of another."""
    out, reference = evaluated(taste_matrix(users=500, items=40), draws=4)
    assert reference["counts"]["absent"] == 100
    places = [out / "shadow-release", *(out / f"shadow-release-{number}" for number in (2, 3, 4))]
    assert not (out / "shadow-release-5").exists()
    tables = [pq.read_table(place / "membership.parquet").to_pandas() for place in places]
    absent = [set(table.loc[table["group"] == -1, "user"]) for table in tables]
    assert [len(people) for people in absent] == [25] * 4
    assert len(set.union(*absent)) == 100
    assert all(len(table) == 500 for table in tables)
    assert len(set.union(*(set(table["pseudonym"]) for table in tables))) == 2000
    assert len({digest(place / "groups.parquet") for place in places}) == 4


def test_shadow_release_lists_no_absent_user(evaluated, taste_matrix):
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


def test_source_ids_only_in_membership(evaluated, taste_matrix):
    out, _ = evaluated(taste_matrix(users=500, items=20))
    holding = [file.name for file in out.rglob("*") if file.is_file() and b"person" in file.read_bytes()]
    assert holding == ["membership.parquet"]
    names = pq.read_table(out / "shadow-release" / "members.parquet").column("user").to_pylist()
    assert not set(names) & set(
        KEY.pseudonyms("t", SNAPSHOT.isoformat(), [f"person {n:04}" for n in range(500)])
    )
    assert not (out / "shadow").exists()


def test_shadow_ratings_keep_attributes(evaluated, taste_matrix, tmp_path, monkeypatch):
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


def test_same_bytes_again(evaluated, taste_matrix):
    matrix = taste_matrix(users=500, items=20)
    one, other = (evaluated(matrix, store)[0] for store in ("store", "another"))
    assert files_below(one) == files_below(other)


def test_no_user_is_absent_in_small_data(evaluated, taste_matrix):
    out, reference = evaluated(taste_matrix(users=30, items=20))
    assert reference["counts"]["absent"] == 0
    assert read_json(out / "summary.json")["absent_users"] == 0
    assert read_json(out / "summary.json")["users"] == 30


def test_report_states_whether_users_were_sampled(evaluated, taste_matrix, monkeypatch):
    matrix = taste_matrix(users=500, items=20)
    whole = evaluated(matrix)[0]
    assert (
        facts._shadow_run(whole)["Shadow run"]
        == "475 of 500 people (all but 25 left out on purpose), 475 of them ranked"
    )
    monkeypatch.setattr(split, "MOST_USERS", 300)
    sample = evaluated(matrix, "another")[0]
    assert (
        facts._shadow_run(sample)["Shadow run"] == "300 of 500 people (a seeded sample), 300 of them ranked"
    )


def test_split_does_not_depend_on_blocks(evaluated, taste_matrix, monkeypatch):
    matrix = taste_matrix(users=500, items=20)
    one, _ = evaluated(matrix)
    monkeypatch.setattr(split, "RATINGS_PER_BLOCK", 7)
    monkeypatch.setattr(ranking, "CELLS_PER_BLOCK", 50)
    monkeypatch.setattr(summary, "CELLS_PER_BLOCK", 50)
    other, _ = evaluated(matrix, "another")
    assert files_below(one) == files_below(other)


def test_progress_restarts_when_ranking_begins(evaluated, taste_matrix):
    reported = []
    evaluated(taste_matrix(users=500, items=20), progress=lambda *step: reported.append(step))
    assert [step[1:] for step in reported if step[0] == "evaluate"] == [(0, 1), (0, 2), (1, 2), (2, 2)]
    assert reported.index(("evaluate", 0, 2)) > max(
        n for n, step in enumerate(reported) if "shadow" in step[0]
    )


def test_fewer_users_are_ranked_where_profiles_are_many(evaluated, taste_matrix, monkeypatch):
    monkeypatch.setattr(ranking, "CELLS_RANKED", 1)
    monkeypatch.setattr(ranking, "FEWEST_RANKED", 30)
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
def test_single_records_have_all_predictions(evaluated, taste_matrix, chosen):
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
    ranking = pq.read_table(out / "ranking.parquet").to_pandas()
    assert ranking["own"].notna().all()
    # Whoever has nothing left when a tenth is held out has a record or not, with nothing in it.
    assert ranking.loc[ranking["history"] > 0, "group"].notna().all()
    again, _ = evaluated(matrix, "another", **tables)
    assert files_below(out) == files_below(again)


def test_recommender_on_hardly_disguised_records(evaluated, taste_matrix):
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
