"""Test obfuscation: what is added to which user and what stays, by hand and for generated ratings."""

import datetime
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks import methods, obfuscators, pipeline
from tasks.config import parse
from tasks.data import imputation, profiles
from tasks.data.factors import open_model
from tasks.data.ratings import Ratings, write_attributes, write_ids, write_matrix
from tasks.engine import Engine, engine
from tasks.errors import UsageError
from tasks.keys import OwnerKey
from tasks.steps import obfuscation
from tasks.store import Store, files_below, read_json
from tests.conftest import SNAPSHOT

KEY = OwnerKey(b"k" * 32)
LATER = SNAPSHOT + datetime.timedelta(days=31)
STRATEGIES = ("rfpp", "random", "greedy", "weinsberg")
# Three of each group; everybody rated the first item, each group two of its own, which alone distinguish the groups.
GROUPS = ["F", "F", "F", "M", "M", "M"]
BY_HAND = np.array(
    [
        [3, 5, 4, 0, 0],
        [3, 5, 4, 0, 0],
        [3, 5, 0, 0, 0],
        [3, 0, 0, 2, 1],
        [3, 0, 0, 2, 1],
        [3, 0, 0, 2, 0],
    ],
    np.float32,
)
SOURCE = {"format": "csv", "path": "-", "scale": [1, 5], "attributes": {"path": "-", "columns": ["gender"]}}


def described(**tables):
    base = {
        "release": {"name": "t"},
        "source": SOURCE,
        "privacy": {"method": "obfuscation"},
        "obfuscation": {"attribute": "gender"},
    }
    return parse(base | {name: base.get(name, {}) | table for name, table in tables.items()})


@pytest.fixture
def obfuscated(tmp_path):
    """Run the step on a matrix: → its directory."""
    numbers = itertools.count()

    def run(
        matrix,
        groups,
        *,
        people=None,
        upto="obfuscation",
        snapshot=SNAPSHOT,
        key=KEY,
        purpose="release",
        workers=None,
        **tables,
    ):
        place = tmp_path / f"given{next(numbers)}"
        place.mkdir()
        matrix = sp.csr_array(matrix)
        write_ids(place, "user", people or [f"person {n:03}" for n in range(matrix.shape[0])])
        write_ids(place, "item", [f"i{n:03}" for n in range(matrix.shape[1])])
        write_attributes(place, {"gender": pa.array(groups, pa.string())})
        write_matrix(place, matrix)
        store = Store(tmp_path / f"store{next(numbers)}")
        opened = pipeline.open_run(described(**tables), snapshot, store, workers or Engine(), lambda *_: None)
        given = {"ingest": {"path": str(place), "digest": "", "counts": {}}}
        opened = replace(opened, key=key, given=given, purpose=purpose)
        return Path(pipeline.execute(upto, opened)["path"])

    return run


def added_cells(directory):
    return pq.read_table(directory / "added.parquet").to_pandas()


def genders(matrix, seed=0):
    """Two groups that differ in what they rate: by the sum of the first half of a person's items."""
    half = matrix.toarray()[:, : matrix.shape[1] // 2]
    score = (half > 0).sum(axis=1) + np.random.default_rng(seed).random(matrix.shape[0])
    return np.where(score > np.median(score), "F", "M").tolist()


def test_by_hand_additions_are_of_the_other_class(obfuscated):
    """16 ratings and a share of .375: six additions, one for each. F can get the fourth and fifth item (rated 2 and 1
    by M), M the second and third (5 and 4 by F)."""
    out = obfuscated(BY_HAND, GROUPS, obfuscation={"share": 0.375, "strategy": "random"})
    added = added_cells(out)
    assert added["user"].tolist() == [0, 1, 2, 3, 4, 5]
    assert set(added["item"][:3]) <= {3, 4}
    assert set(added["item"][3:]) <= {1, 2}
    assert added["rating"].tolist() == [{1: 5, 2: 4, 3: 2, 4: 1}[item] for item in added["item"]]
    whole = Ratings(out).by_user.whole().toarray()
    expected = BY_HAND.copy()
    expected[added["user"], added["item"]] = added["rating"]
    np.testing.assert_array_equal(whole, expected)
    np.testing.assert_array_equal(Ratings(out).by_item.whole().toarray(), expected.T)
    assert Ratings(out).timestamps is None
    assert Ratings(out).user_ids().to_pylist() == [f"person {n:03}" for n in range(6)]
    assert Ratings(out).attributes()["gender"].to_pylist() == GROUPS
    assert read_json(out / "step.json")["counts"] == {
        "classes": 2,
        "guessed": 0,
        "added": 6,
        "asked": 6,
        "source_ratings": 16,
    }


def test_unknown_classes_are_predicted(obfuscated):
    """The class of the last user of each group is unknown; their ratings reveal it."""
    known = ["F", "F", None, "M", "M", None]
    complete, guessed = (
        obfuscated(BY_HAND, groups, obfuscation={"share": 0.375, "strategy": "greedy"})
        for groups in (GROUPS, known)
    )
    assert read_json(guessed / "step.json")["counts"]["guessed"] == 2
    assert set(added_cells(guessed)["item"][lambda items: added_cells(guessed)["user"] == 2]) <= {3, 4}
    assert set(added_cells(guessed)["item"][lambda items: added_cells(guessed)["user"] == 5]) <= {1, 2}
    assert len(added_cells(complete)) == len(added_cells(guessed))


def test_additions_are_on_used_levels_and_keep_the_mean(obfuscated, taste_matrix):
    matrix = taste_matrix(users=300, items=60)
    out = obfuscated(
        matrix, genders(matrix), obfuscation={"share": 0.3, "strategy": "random", "rating": "all"}
    )
    added = added_cells(out)
    assert set(added["rating"]) <= {1, 2, 3, 4, 5}
    means = matrix.sum(axis=0) / np.bincount(matrix.indices, minlength=60)
    apart = added["rating"] - means[added["item"]]
    assert abs(apart.mean()) < 4 * apart.std() / np.sqrt(len(added))
    assert apart.std() > 0.1  # rounded, not the mean itself


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(STRATEGIES), st.integers(0, 999), st.floats(0.01, 0.15))
def test_real_ratings_stay_and_share_is_exact(obfuscated, taste_matrix, strategy, seed, share):
    matrix = taste_matrix(users=40, items=50, seed=seed)
    chosen = {"share": share, "strategy": strategy, "threshold": -1.0}
    out = obfuscated(matrix, genders(matrix, seed), obfuscation=chosen)
    whole, rated = Ratings(out).by_user.whole().toarray(), matrix.toarray()
    added = added_cells(out)
    np.testing.assert_array_equal(whole[rated > 0], rated[rated > 0])
    assert (rated[added["user"], added["item"]] == 0).all()
    assert np.count_nonzero(whole) == matrix.nnz + len(added)
    assert len(added) == round(share * matrix.nnz)
    assert not added.duplicated(["user", "item"]).any()


def test_a_rating_of_zero_stays_a_rating(obfuscated):
    """Jester's scale has a 0 in the middle."""
    matrix = sp.csr_array(BY_HAND)
    matrix.data -= 3
    source = {**SOURCE, "scale": [-2, 2]}
    out = obfuscated(matrix, GROUPS, source=source, obfuscation={"share": 0.375, "strategy": "random"})
    assert Ratings(out).by_user.whole().nnz == 16 + 6
    assert (Ratings(out).by_user.whole()[:, [0]].data == 0).sum() == 6


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_same_ratings_have_same_additions_in_all_releases(obfuscated, taste_matrix, strategy):
    matrix = taste_matrix(users=60, items=40)
    chosen = {"obfuscation": {"share": 0.1, "strategy": strategy}, "series": {"population": "p"}}
    groups = genders(matrix)
    first = added_cells(obfuscated(matrix, groups, **chosen))
    later = added_cells(obfuscated(matrix, groups, snapshot=LATER, release={"name": "other"}, **chosen))
    assert first.equals(later)


def test_additions_depend_on_secret_and_population(obfuscated, taste_matrix):
    matrix = taste_matrix(users=60, items=40)
    groups, chosen = genders(matrix), {"obfuscation": {"share": 0.1, "strategy": "random"}}
    first = added_cells(obfuscated(matrix, groups, **chosen))
    others = [
        obfuscated(matrix, groups, key=OwnerKey(b"x" * 32), **chosen),
        obfuscated(matrix, groups, series={"population": "others"}, **chosen),
        obfuscated(matrix, groups, purpose="shadow", **chosen),
    ]
    for other in map(added_cells, others):
        both = first.merge(other, on=["user", "item"])
        assert len(both) < 0.5 * len(first)


def test_new_ratings_keep_additions_of_other_users(obfuscated, taste_matrix):
    """Drawn anew, the additions of the earlier snapshot could be detected: they are missing in the later one."""
    matrix = taste_matrix(users=200, items=40)
    groups, chosen = genders(matrix), {"obfuscation": {"share": 0.1, "strategy": "random"}}
    more = matrix.toarray()
    more[0, np.flatnonzero(more[0] == 0)[:2]] = 4
    first, later = (added_cells(obfuscated(m, groups, **chosen)) for m in (matrix, more))
    both = first[first["user"] > 0].merge(later, on=["user", "item", "rating"])
    assert len(both) > 0.9 * len(first)


def test_smaller_share_is_part_of_larger(obfuscated, taste_matrix):
    """Two releases with other additions would both be stripped by comparing them."""
    matrix = taste_matrix(users=100, items=60)
    few, many = (
        added_cells(obfuscated(matrix, genders(matrix), obfuscation={"share": share, "strategy": "random"}))
        for share in (0.05, 0.15)
    )
    assert len(few.merge(many, on=["user", "item"])) >= 0.95 * len(few)


def test_classes_do_not_depend_on_row_order(obfuscated, taste_matrix):
    """Somebody of another class in the first row must not turn the classes round: chance would be another."""
    matrix = taste_matrix(users=30, items=30)
    groups = genders(matrix)
    people = [f"p{n:02}" for n in range(30)]
    chosen = {"obfuscation": {"share": 0.1, "strategy": "random"}}
    one = added_cells(obfuscated(matrix, groups, people=people, **chosen))
    back = np.arange(30)[::-1]
    turned = obfuscated(matrix[back], [groups[n] for n in back], people=[people[n] for n in back], **chosen)
    other = added_cells(turned)
    other["user"] = back[other["user"]].astype(np.int32)
    key = ["user", "item"]
    assert one.sort_values(key).reset_index(drop=True).equals(other.sort_values(key).reset_index(drop=True))


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_and_reruns_write_the_same_bytes(obfuscated, taste_matrix):
    matrix = taste_matrix(users=80, items=40)
    chosen = {"upto": "homogenization", "obfuscation": {"share": 0.1}}
    made = [obfuscated(matrix, genders(matrix), **chosen) for _ in range(2)]
    with engine(workers=2) as workers:
        made.append(obfuscated(matrix, genders(matrix), workers=workers, **chosen))
    for place in (Path(), Path("..") / "obfuscation"):
        content = [{n: d for n, d in files_below(m / place).items() if n != "step.json"} for m in made]
        assert content[0] == content[1] == content[2]
        assert content[0]


def test_records_hold_real_and_added_ratings(obfuscated, taste_matrix):
    matrix = taste_matrix(users=50, items=30)
    out = obfuscated(
        matrix, genders(matrix), upto="homogenization", obfuscation={"share": 0.1, "strategy": "greedy"}
    )
    labels = np.load(out.with_name("clustering") / "labels.npy")
    expected = Ratings(out.with_name("obfuscation")).by_user.whole().toarray()
    table = np.zeros_like(expected)
    for block in profiles.blocks(out / "groups.parquet", np.dtype("u1")):
        table[np.repeat(block.groups, block.lengths), block.items] = 1 + block.codes * np.float32(0.1)
    np.testing.assert_allclose(table[labels], expected, atol=1e-5)


def test_unreachable_share_is_refused_except_in_shadow(obfuscated):
    chosen = {"obfuscation": {"share": 1.0, "strategy": "random"}}
    with pytest.raises(UsageError, match=r"obfuscation\.share") as refusal:
        obfuscated(BY_HAND, GROUPS, **chosen)
    assert "75.00% made-up ratings can be added, not 100.00%" in refusal.value.what
    assert len(added_cells(obfuscated(BY_HAND, GROUPS, purpose="shadow", **chosen))) == 12


def test_one_class_is_refused(obfuscated):
    with pytest.raises(UsageError, match="do not differ in 'gender'"):
        obfuscated(BY_HAND, ["F"] * 6)


def test_unknown_strategy_is_refused(obfuscated, monkeypatch):
    monkeypatch.setattr(obfuscators, "registered", lambda: ["random", "rfpp"])
    with pytest.raises(UsageError, match=r"obfuscation\.strategy: 'greedy' is not available"):
        obfuscated(BY_HAND, GROUPS, obfuscation={"strategy": "greedy"})


def test_rated_items_cannot_be_added(obfuscated, monkeypatch):
    class Wrong:
        @staticmethod
        def add(ratings, labels, wanted):
            return ratings[:, :]

    monkeypatch.setattr(obfuscation, "_strategy", lambda name: Wrong)
    with pytest.raises(AssertionError, match="rated already"):
        obfuscated(BY_HAND, GROUPS)


def test_additions_do_not_count_as_raters(obfuscated):
    """The third and the fifth item have two raters; with the made-up ones of the others they have more."""
    out = obfuscated(BY_HAND, GROUPS, obfuscation={"share": 0.75, "strategy": "random"})
    ratings = Ratings(out)
    assert ratings.by_item.counts().tolist() == [6, 6, 5, 6, 5]
    assert ratings.real_raters().tolist() == [6, 3, 2, 3, 2]
    real = ratings.by_user.whole() - ratings.added.whole()
    np.testing.assert_array_equal(real.toarray(), BY_HAND)
    np.testing.assert_array_equal(
        ratings.made_up_of(np.array([5, 0])).toarray(), ratings.added.whole()[[5, 0]].toarray()
    )
    model = imputation._impute(ratings, "item-mean", (1.0, 5.0), 3)
    assert model.rows(np.arange(1))[0, [1, 3]] == pytest.approx([5, 2])  # means of what people gave
    assert (
        model.rows(np.arange(1))[0, 2] == model.rows(np.arange(1))[0, 4]
    )  # too few did: nothing of the item
    people = imputation._impute(ratings, "user-mean", (1.0, 5.0), 3)
    assert people.rows(np.arange(6))[:, 0] == pytest.approx(
        np.full(6, people.mean)
    )  # two real ratings each that count


def test_few_real_ratings_show_predictions(obfuscated, taste_matrix):
    """Simple groups of what was obfuscated: wherever fewer than three members rated, the members' predictions stand."""
    matrix = taste_matrix(users=60, items=30, share=0.15)
    chosen = {"privacy": {"method": "predictive-simple"}, "obfuscation": {"share": 0.5, "strategy": "random"}}
    out = obfuscated(matrix, genders(matrix), upto="homogenization", **chosen)
    labels = np.load(out.with_name("clustering") / "labels.npy")
    model = open_model(out.with_name("padding"))
    groups = int(labels.max()) + 1
    predicted = model.group_means(labels, groups)
    belongs = np.eye(groups)[labels].T
    real = belongs @ (matrix.toarray() > 0)
    whole = belongs @ (Ratings(out.with_name("obfuscation")).by_user.whole().toarray() > 0)
    seen = 0
    for block in profiles.blocks(out / "groups.parquet", np.dtype("u1")):
        group = np.repeat(block.groups, block.lengths)
        few = (real[group, block.items] < 3) & (whole[group, block.items] >= 3)
        expected = np.clip(predicted.cells(group[few], block.items[few]), 1, 5)
        assert np.abs(1 + block.codes[few] * 0.1 - expected).max() <= 0.051
        seen += int(few.sum())
    assert seen > 20  # the case is in these data


def test_graphs_with_obfuscation():
    assert methods.graph(described()) == {
        "ingest": (),
        "obfuscation": ("ingest",),
        "clustering": ("obfuscation",),
        "homogenization": ("obfuscation", "clustering"),
        "evaluate": ("ingest",),
        "validate": ("ingest", "obfuscation", "clustering", "homogenization", "evaluate"),
        "publish": ("validate",),
    }
    both = methods.graph(described(privacy={"method": "predictive-padded"}))
    assert list(both)[:3] == ["ingest", "obfuscation", "padding"]
    assert [name for name, needed in both.items() if "ingest" in needed] == [
        "obfuscation",
        "evaluate",
        "validate",
    ]
    assert both["centers"] == ("obfuscation", "padding", "sampling")
    assert methods.inputs("padding", described()) == ("ingest",)  # the model that utility is compared with
