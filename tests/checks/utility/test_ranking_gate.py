"""Test the figures of ranking, and the gate on releases that claim to say what goes together."""

import made_releases
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.evidence import shadow_ranking
from checks.evidence.shadow_ranking import Ranks
from checks.gate import run_check
from checks.registry import registered
from tasks.errors import Refused
from tests import made_choices as made

# Figures


def write(directory, **columns):
    """Ranks by hand; persons 0 and 1 with three and one relevant items."""
    plain = {"number": [0, 0, 0, 1], "history": [5, 5, 5, 2], "head": [True, False, False, True]}
    ranks = {name: [1, 1, 1, 1] for name in ("original", "own", "group", "popularity")}
    kinds = {"head": pa.bool_()}
    table = {
        name: pa.array(values, kinds.get(name, pa.int32()))
        for name, values in (plain | ranks | columns).items()
    }
    pq.write_table(pa.table(table), directory / "ranking.parquet")


def test_ndcg_and_recall_by_hand(tmp_path):
    write(tmp_path, own=[1, 3, 11, None], popularity=[2, None, None, 10])
    ranks = Ranks.read(tmp_path)
    best = 1 + 1 / np.log2(3) + 1 / np.log2(4)
    assert ranks.ndcg("own_history").tolist() == pytest.approx([(1 + 1 / np.log2(4)) / best, 0])
    assert ranks.recall("own_history").tolist() == pytest.approx([2 / 3, 0])
    assert ranks.ndcg("popularity").tolist() == pytest.approx([1 / np.log2(3) / best, 1 / np.log2(11)])
    assert ranks.recall("popularity").tolist() == pytest.approx([1 / 3, 1])


def test_more_relevant_items_than_places(tmp_path):
    """Twelve items: ten in the first places are the best possible."""
    twelve = {"number": [0] * 12, "history": [5] * 12, "head": [True] * 12}
    places = {name: list(range(1, 13)) for name in ("original", "own", "group", "popularity")}
    write(tmp_path, **twelve, **places)
    assert Ranks.read(tmp_path).ndcg("original").tolist() == pytest.approx([1])
    assert Ranks.read(tmp_path).recall("original").tolist() == pytest.approx([10 / 12])


def test_parts_by_hand(tmp_path):
    write(tmp_path, own=[1, 3, 11, None])
    parts = Ranks.read(tmp_path).parts()
    assert {name: part.people.tolist() for name, part in parts.items()} == {
        "head": [0, 1],
        "tail": [0],
        "light": [1],
        "heavy": [0],
    }
    best = 1 + 1 / np.log2(3)
    assert parts["tail"].ndcg("own_history").tolist() == pytest.approx([1 / np.log2(4) / best])


def many(people=40):
    """Every second person's only item is first by the release and second by popularity."""
    half = np.arange(people) % 2 == 0
    return {
        "number": np.arange(people),
        "history": np.arange(people),
        "head": np.arange(people) < 35,
        "original": np.ones(people, int),
        "own": np.where(half, 1, 11),
        "group": pa.nulls(people, pa.int32()),
        "popularity": np.where(half, 2, 11),
    }


def test_summary(tmp_path):
    write(tmp_path, **many())
    found = shadow_ranking.summary(tmp_path)
    assert found["people"] == 40
    assert (found["original_ndcg"], found["own_history_ndcg"]) == (1, 0.5)
    assert found["own_history_recall"] == 0.5
    assert found["popularity_ndcg"] == pytest.approx(0.5 / np.log2(3))
    spread = 1.959964 * 0.5 * np.sqrt(40 / 39) / np.sqrt(40)
    assert found["own_history_ndcg_low"] == pytest.approx(0.5 - spread)
    assert found["own_history_ndcg_high"] == pytest.approx(0.5 + spread)
    assert found["group_history_ndcg"] is None
    assert found["group_history_recall"] is None
    above = found["above_popularity"]
    assert above["value"] == pytest.approx(0.5 - 0.5 / np.log2(3))
    assert above["low"] > 0
    assert found["parts"]["head"]["people"] == 35
    # Five people are too few for a figure: it would be about them.
    assert found["parts"]["tail"]["own_history_ndcg"] is None
    assert "tail" not in shadow_ranking.words(found, single=False)
    assert "head items" in shadow_ranking.words(found, single=False)


def test_few_people_are_not_measured(tmp_path):
    write(tmp_path)
    assert shadow_ranking.summary(tmp_path) is None
    assert "not measured" in shadow_ranking.words(None, single=False)


def test_older_releases_have_no_ranks(tmp_path):
    assert shadow_ranking.summary(tmp_path) is None


@pytest.mark.parametrize("change", [{"own": [0, 1, 1, -2]}, {"number": [0, 0, None, 1]}])
def test_damaged_ranks_are_refused(tmp_path, change):
    write(tmp_path, **change)
    with pytest.raises(Refused):
        Ranks.read(tmp_path)


# The gate

NOBODY = np.full(made.PEOPLE, -1)
GROUPS = np.arange(made.PEOPLE) // 40 * 4 + made.taste_of()


def opened(root, rows, method="predictive-simple"):
    """A release of these rows, one per person, with nothing else to find in it."""
    values = np.where(rows.toarray() > 0, rows.toarray(), np.nan).astype(np.float32)
    release = made_releases.Made(rows, np.arange(rows.shape[0]), values, k=2, c=1, method="obfuscation")
    case = made_releases.case(release, root)
    case.release.manifest["method"] = method
    return case


def judge(case):
    check = registered()["utility"]
    return check.run(case, check.threshold)


@pytest.fixture(scope="module")
def chosen():
    return made.choices()


SYNTHETIC = {
    "the tastes of people": lambda: made.choices(seed=5),
    "random items": lambda: made.uniform(seed=5),
    "popular items": lambda: made.choices(seed=5, tastes=False),
    "the most popular items": lambda: made.choices(seed=5, tastes=False)[np.zeros(made.PEOPLE, int)],
}


@pytest.mark.parametrize("measured", SYNTHETIC)
def test_synthetic_rows_must_rank_above_popularity(tmp_path, chosen, measured):
    """Rows that say nothing of what goes together are refused, whichever of the two runs had them."""
    good = made.choices(seed=6)
    honest = measured == "the tastes of people"
    runs = (("shadow", SYNTHETIC[measured](), good), ("rows", good, SYNTHETIC[measured]()))
    for where, of_shadow, of_release in runs:
        case = opened(tmp_path / where, of_release, "dp-synthetic")
        utility = case.private / "utility"
        (utility / "heldout.parquet").unlink()
        made.write_evidence(utility, chosen, of_shadow, NOBODY)
        found = judge(case)
        assert found.passed is honest, found.detail
        assert found.threshold == 0
        assert (found.ci_high < 0) is honest
        assert found.ci_low < found.observed < found.ci_high


def test_no_evidence_is_no_pass(tmp_path, chosen):
    case = opened(tmp_path, made.choices(seed=6), "dp-synthetic")
    check = registered()["utility"]
    assert not run_check(check, case, check.threshold).passed
    made.write_evidence(case.private / "utility", chosen, made.choices(seed=5), NOBODY)
    (case.private / "utility" / "asked.parquet").unlink()
    result = run_check(check, case, check.threshold)
    assert not result.passed
    assert "no histories" in result.detail


def test_few_people_show_nothing(tmp_path):
    case = opened(tmp_path, made.choices(60), "dp-synthetic")
    made.write_evidence(case.private / "utility", made.choices(20), made.choices(20), NOBODY[:20])
    found = judge(case)
    assert (found.passed, found.observed) == (False, None)


def grouped(root, counts, ratings):
    """A padded release of groups with the same tastes, which publishes these counts, and its utility figures."""
    sizes = np.bincount(GROUPS)
    values = np.full((len(sizes), made.ITEMS), 3.0, np.float32)
    values += 0.5 * (
        np.arange(made.ITEMS)[None, :] % made.TASTES == np.arange(len(sizes))[:, None] % made.TASTES
    )
    release = made_releases.Made(ratings, GROUPS, values, k=10)
    published, private = made_releases.write(release, root)
    made.write_support(published / "support.parquet", counts)
    case = made_releases.reopen(release, published, private)
    return case, values, sizes.astype(np.int32)


def scrambled(counts):
    return np.random.default_rng(2).permuted(counts, axis=1)


def popular(counts):
    """Every group has the same counts."""
    return np.repeat(np.rint(counts.mean(axis=0, keepdims=True)).astype(int), len(counts), axis=0)


@pytest.mark.parametrize("planted", [None, scrambled, popular], ids=["as counted", "scrambled", "popular"])
@pytest.mark.parametrize("where", ["shadow", "rows"])
def test_counts_must_rank_above_popularity(tmp_path, chosen, planted, where, monkeypatch):
    # What the RMSE decides is tested elsewhere; here it passes.
    monkeypatch.setattr("checks.utility.utility._rmse_loss", lambda *_: _passed())
    counts = made.counted(chosen, GROUPS, c=1)
    bad = planted(counts) if planted else counts
    case, values, sizes = grouped(tmp_path, bad if where == "rows" else counts, chosen)
    shadow = {"sizes": sizes, "counts": bad if where == "shadow" else counts}
    made.write_evidence(case.private / "utility", chosen, values, GROUPS, **shadow)
    found = judge(case)
    assert found.passed is (planted is None), found.detail
    assert (found.threshold == 0) is (planted is not None)


def _passed():
    from checks.result import Finding

    return Finding(True, 0.1, 100, "close enough")


def test_other_releases_are_not_refused_for_ranking(case, chosen):
    """Padded profiles do not say what anybody chose; that is reported and refuses nothing."""
    judged = case()
    made.write_evidence(judged.private / "utility", chosen, made.uniform(seed=5), NOBODY)
    found = judge(judged)
    assert found.passed, found.detail
    assert "Lists of ten" in found.detail
