"""Test the ranks that are written about recommendations."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from checks.evidence import shadow_ranking
from tasks.engine import engine
from tasks.shadow import recommendation
from tasks.shadow.recommendation import Asked, _ranks, head_items, relevant_from
from tasks.store import digest
from tests import made_choices as made

NOBODY = np.full(made.PEOPLE, -1)


def test_relevant_from_three_quarters_of_the_scale():
    assert relevant_from((1.0, 5.0)) == 4
    assert relevant_from((-10.0, 10.0)) == 5


def test_head_items_have_half_of_all_ratings():
    assert head_items(np.array([1, 6, 3, 2])).tolist() == [False, True, False, False]
    assert head_items(np.array([1, 5, 4, 2])).tolist() == [False, True, True, False]
    assert head_items(np.array([2, 2])).tolist() == [True, False]


def test_ranks_by_hand():
    """Two people, five items; what is known does not count, ties count as lost, what takes no part has no rank."""
    scores = np.array([[5, 4, 3, 2, 1], [1, 1, 1, 1, 1]], np.float32)
    known = sp.csr_array(np.array([[1, 0, 1, 0, 0], [0, 0, 0, 0, 1]], np.float32))
    person, item = np.array([0, 0, 0, 1]), np.array([1, 4, -1, 0])
    asked = Asked(known, person, item, np.arange(5), np.ones(5, int), np.zeros(2, int))
    assert _ranks(scores, known, asked, slice(0, 512), slice(0, 4)).tolist() == [1, 3, 0, 4]
    nothing = np.full((2, 5), np.nan, np.float32)
    assert not _ranks(nothing, known, asked, slice(0, 512), slice(0, 4)).any()


def figures(directory):
    found = shadow_ranking.summary(directory)
    return {source: found[f"{source}_ndcg"] for source in shadow_ranking.SOURCES}


@pytest.fixture(scope="module")
def ratings():
    return made.choices()


def test_each_source_has_its_value(tmp_path, ratings):
    """Synthetic rows with the tastes of the people are worth more than popularity, and nobody has a group."""
    assert made.write_evidence(tmp_path, ratings, made.choices(seed=5), NOBODY) == "lists"
    found = figures(tmp_path)
    assert found["group_history"] is None
    assert found["original"] == pytest.approx(found["own_history"], abs=0.05)
    assert found["popularity"] < found["own_history"] - 0.1
    table = pd.read_parquet(tmp_path / "ranking.parquet")
    assert (table.groupby("number")["history"].nunique() == 1).all()
    assert table["group"].isna().all()
    assert table[["original", "own", "popularity"]].notna().all().all()


@pytest.mark.parametrize("kind", ["values", "raters"])
def test_groups_are_asked_with_what_is_said_of_them(tmp_path, ratings, kind):
    """Groups of ten of one taste, whose profiles or counts show it; other people's groups are worth nothing."""
    group_of = np.arange(made.PEOPLE) // 40 * 4 + made.taste_of()
    sizes = np.bincount(group_of).astype(np.int32)
    fits = np.arange(made.ITEMS)[None, :] % made.TASTES == (np.arange(len(sizes)) % made.TASTES)[:, None]
    values = np.where(fits, 5.0, 2.9) - 0.1 * (np.arange(made.ITEMS) // made.TASTES)
    counts = made.counted(made.split(ratings)[0], group_of, c=1) if kind == "raters" else None
    found = {}
    for whose, records in (("own", group_of), ("other", (group_of + 1) % len(sizes))):
        (tmp_path / whose).mkdir()
        given = {"sizes": sizes, "counts": counts}
        assert made.write_evidence(tmp_path / whose, ratings, values, records, **given) == kind
        found[whose] = figures(tmp_path / whose)
    assert found["own"]["group_history"] > found["other"]["group_history"] + 0.05
    assert found["own"]["own_history"] == found["other"]["own_history"]
    # Items of a taste have the same deviations here: by values alone they tie, and ties are lost.
    assert kind == "values" or found["own"]["own_history"] > found["own"]["popularity"] + 0.05


def test_items_that_are_left_out_are_missed(tmp_path, ratings):
    columns = np.arange(0, made.ITEMS, 2)
    made.write_evidence(tmp_path, ratings, ratings[:, columns], NOBODY, columns=columns)
    table = pd.read_parquet(tmp_path / "ranking.parquet")
    assert table["own"].isna().mean() == pytest.approx(0.5, abs=0.1)
    assert table["original"].notna().all()


def test_unpopular_items_take_no_part_in_large_data(tmp_path, ratings, monkeypatch):
    monkeypatch.setattr(recommendation, "MOST_ITEMS", 40)
    made.write_evidence(tmp_path, ratings, ratings, NOBODY)
    table = pd.read_parquet(tmp_path / "ranking.parquet")
    assert table[["original", "own", "popularity"]].isna().nunique(axis=1).eq(1).all()
    assert 0 < table["own"].isna().sum() < len(table) / 2
    assert table["own"].max() <= 40


def test_a_sample_of_people_in_large_data(tmp_path, ratings, monkeypatch):
    monkeypatch.setattr(recommendation, "MOST_PEOPLE", 50)
    made.write_evidence(tmp_path, ratings, ratings, NOBODY)
    assert pd.read_parquet(tmp_path / "ranking.parquet")["number"].nunique() == 50
    asked = pd.read_parquet(tmp_path / "asked.parquet")
    assert asked.groupby("number")["user"].nunique().eq(1).all()
    assert asked["number"].nunique() == 50
    liked = asked[asked["liked"]].sort_values("number", kind="stable")
    dense = ratings.toarray()
    rows, items = (liked[name].str.split().str[1].astype(int) for name in ("user", "item"))
    assert (dense[rows, items] >= 4).all()
    assert len(liked) == len(pd.read_parquet(tmp_path / "ranking.parquet"))


def test_blocks_change_nothing(tmp_path, ratings, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        made.write_evidence(tmp_path / name, ratings, made.choices(seed=5), NOBODY)
        monkeypatch.setattr(recommendation, "PEOPLE_AT_ONCE", 512)
        monkeypatch.setattr(recommendation, "CELLS_AT_ONCE", 1_000)
    assert digest(tmp_path / "one" / "ranking.parquet") == digest(tmp_path / "other" / "ranking.parquet")


def test_nobody_liked_anything(tmp_path):
    ratings = made.choices(60)
    ratings.data[:] = 2
    made.write_evidence(tmp_path, ratings, ratings, NOBODY[:60])
    assert len(pd.read_parquet(tmp_path / "ranking.parquet")) == 0
    assert shadow_ranking.summary(tmp_path) is None


@pytest.mark.slow
def test_parallel_equals_serial(tmp_path, ratings):
    for name in ("serial", "parallel"):
        (tmp_path / name).mkdir()
    with engine(0) as here, engine(1) as there:
        made.write_evidence(tmp_path / "serial", ratings, made.choices(seed=5), NOBODY, engine=here)
        made.write_evidence(tmp_path / "parallel", ratings, made.choices(seed=5), NOBODY, engine=there)
    assert digest(tmp_path / "serial" / "ranking.parquet") == digest(
        tmp_path / "parallel" / "ranking.parquet"
    )
