"""Test suppression: which items and users are left out, by hand, and the search for the smallest passing share."""

import itertools
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.registry import registered
from checks.result import CheckResult
from tasks import methods, pipeline
from tasks.config import parse
from tasks.data import item_removal as suppressed
from tasks.data import profiles
from tasks.data.ratings import Ratings, write_attributes, write_ids, write_matrix
from tasks.engine import Engine, engine
from tasks.errors import Refused, UsageError
from tasks.keys import OwnerKey
from tasks.steps import suppression
from tasks.store import Store, files_below, read_json
from tests.conftest import SNAPSHOT

KEY = OwnerKey(b"k" * 32)
# Items a b c d have 1 2 3 4 ratings; the first person rated a alone.
BY_HAND = np.array([[5, 0, 0, 0], [0, 4, 0, 3], [0, 2, 1, 4], [0, 0, 2, 5], [0, 0, 3, 1]], np.float32)


def described(**tables):
    base = {
        "release": {"name": "t"},
        "source": {"format": "csv", "path": "-", "scale": [1, 5]},
        "privacy": {"method": "suppression"},
    }
    return parse(base | {name: base.get(name, {}) | table for name, table in tables.items()})


@pytest.fixture
def released(tmp_path):
    """Run the method's steps on a matrix: (matrix, tables) → directories by step."""
    numbers = itertools.count()

    def run(matrix, *, upto=("clustering", "homogenization"), workers=None, times=None, **tables):
        place = tmp_path / f"given{next(numbers)}"
        place.mkdir()
        matrix = sp.csr_array(matrix)
        write_ids(place, "user", [f"person {n:03}" for n in range(matrix.shape[0])])
        write_ids(place, "item", [f"i{n:03}" for n in range(matrix.shape[1])])
        write_attributes(
            place, {"gender": pa.array([None if n % 3 else "F" for n in range(matrix.shape[0])])}
        )
        write_matrix(place, matrix, times)
        store = Store(tmp_path / f"store{next(numbers)}")
        opened = pipeline.open_run(described(**tables), SNAPSHOT, store, workers or Engine(), lambda *_: None)
        opened = replace(opened, key=KEY, given={"ingest": {"path": str(place), "digest": "", "counts": {}}})
        run.opened, run.private = opened, store.private("t", SNAPSHOT)
        made = {name: Path(pipeline.execute(name, opened)["path"]) for name in ("suppression", *upto)}
        return {"ingest": place, **made}

    return run


def dense(directory):
    return Ratings(directory).by_user.whole().toarray()


@pytest.mark.parametrize(
    ("share", "fewest"), [(0.0, 0), (0.2, 2), (0.25, 2), (0.26, 3), (0.5, 3), (0.51, 4), (0.75, 4)]
)
def test_threshold_is_smallest_that_removes_share(share, fewest):
    assert suppressed.fewest_ratings(np.array([3, 1, 4, 2]), share) == fewest


def test_equally_rare_items_go_together():
    assert suppressed.fewest_ratings(np.array([1, 1, 1, 4]), 0.25) == 2


def test_by_hand_items_and_emptied_users_go(released):
    made = released(BY_HAND, suppression={"share": 0.25})
    left = Ratings(made["suppression"])
    assert left.item_ids() == ["i001", "i002", "i003"]
    assert left.user_ids().to_pylist() == [f"person {n:03}" for n in range(1, 5)]
    np.testing.assert_array_equal(dense(made["suppression"]), BY_HAND[1:, 1:])
    np.testing.assert_array_equal(left.by_item.whole().toarray(), BY_HAND[1:, 1:].T)
    assert left.attributes()["gender"].to_pylist() == [None, None, "F", None]
    withheld = read_json(made["suppression"] / "withheld.json")
    assert (withheld["users"], withheld["items"]) == (1, 1)
    assert not any(sign.isdigit() for sign in withheld["why"])  # a number could be somebody's id
    counts = read_json(made["suppression"] / "step.json")["counts"]
    assert counts["ratings"] == 9
    assert counts["source_ratings"] == 10
    assert (counts["fewest_ratings"], counts["searched"]) == (2, False)


def test_share_zero_leaves_nothing_out(released):
    made = released(BY_HAND, suppression={"share": 0.0})
    np.testing.assert_array_equal(dense(made["suppression"]), BY_HAND)
    assert read_json(made["suppression"] / "withheld.json") == {"users": 0, "items": 0, "why": ""}


def test_timestamps_stay_with_their_ratings(released):
    made = released(BY_HAND, times=np.arange(10, 20), suppression={"share": 0.5})
    # In the order of people and items the ratings are a | b d | b c d | c d | c d; a and b go.
    assert Ratings(made["suppression"]).timestamps.tolist() == [12, 14, 15, 16, 17, 18, 19]


def test_removing_all_items_is_refused(released):
    with pytest.raises(UsageError, match="no item remains"):
        released(np.full((4, 3), 3, np.float32), suppression={"share": 0.5})


def test_records_hold_exactly_the_kept_ratings(released):
    made = released(BY_HAND, suppression={"share": 0.25})
    labels = np.load(made["clustering"] / "labels.npy")
    table = np.zeros((4, 3), np.float32)
    for block in profiles.blocks(made["homogenization"] / "groups.parquet", np.dtype("u1")):
        table[np.repeat(block.groups, block.lengths), block.items] = 1 + block.codes * np.float32(0.1)
        assert (block.sizes == 1).all()
    np.testing.assert_allclose(table[labels], BY_HAND[1:, 1:], atol=1e-6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 999), st.floats(0, 0.9), st.integers(1, 200))
def test_kept_ratings_are_unchanged_and_removed_items_rarer(tmp_path, taste_matrix, seed, share, block):
    matrix = taste_matrix(users=30, items=25, share=0.2, seed=seed)
    place = tmp_path / f"{seed} {share} {block}"
    shutil.rmtree(place, ignore_errors=True)  # where an example is tried again
    (place / "out").mkdir(parents=True)
    write_ids(place, "user", [str(n) for n in range(30)])
    write_ids(place, "item", [str(n) for n in range(25)])
    write_matrix(place, matrix)
    counts = np.bincount(matrix.indices, minlength=25)
    stay = counts >= suppressed.fewest_ratings(counts, share)
    if not stay.any():
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suppressed, "RATINGS_PER_BLOCK", block)
        counted = suppressed.write_without(Ratings(place), stay, place / "out")
    expected = matrix.toarray()[:, stay]
    people = expected.any(axis=1)
    np.testing.assert_array_equal(dense(place / "out"), expected[people])
    np.testing.assert_array_equal(Ratings(place / "out").by_item.whole().toarray(), expected[people].T)
    assert (~stay).mean() >= share - 1e-9
    assert stay.all() or counts[~stay].max() < counts[stay].min()
    assert counted["ratings"] == np.count_nonzero(expected)
    assert (counted["withheld_users"], counted["withheld_items"]) == ((~people).sum(), (~stay).sum())


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_and_reruns_write_the_same_bytes(released, taste_matrix):
    matrix = taste_matrix(users=60, items=30)
    first = released(matrix, suppression={"share": 0.3})
    second = released(matrix, suppression={"share": 0.3})
    with engine(workers=2) as workers:
        third = released(matrix, workers=workers, suppression={"share": 0.3})
    for step in ("suppression", "homogenization"):
        without = [
            {n: d for n, d in files_below(m[step]).items() if n != "step.json"}
            for m in (first, second, third)
        ]
        assert without[0] == without[1] == without[2]


def test_graph_with_suppression():
    assert methods.graph(described()) == {
        "ingest": (),
        "suppression": ("ingest",),
        "clustering": ("suppression",),
        "homogenization": ("suppression", "clustering"),
        "evaluate": ("ingest", "suppression"),
        "validate": ("ingest", "suppression", "clustering", "homogenization", "evaluate"),
        "publish": ("validate",),
    }


# The search


@given(st.integers(1, 40), st.integers(0, 40))
def test_bisection_finds_the_first_that_passes(count, first):
    tried = []

    def passes(place):
        tried.append(place)
        return place >= first

    found = suppression.smallest(count, passes)
    assert found == (first if first < count else None)
    assert len(tried) == len(set(tried))
    if found is not None:
        assert len(tried) <= 2 + np.ceil(np.log2(count))


def test_all_shares_are_tried_where_the_largest_fails():
    """Risk need not fall evenly: that the last fails does not show that another does."""
    assert suppression.smallest(5, lambda place: place == 2) == 2
    tried = []
    assert suppression.smallest(4, lambda place: tried.append(place)) is None
    assert sorted(tried) == [0, 1, 2, 3]


def test_search_runs_all_gating_checks_without_shadow():
    asked = [check.name for check in suppression._checks()]
    gating = {name for name, check in registered().items() if check.severity == "gate"}
    assert set(asked) == gating - {"membership-inference", "utility"}
    assert set(asked[:2]) == set(suppression.CURVE)


def result(name, passed, high):
    return CheckResult(name, passed, high / 2, 0.2, 0.0, high, 9, "gate", "")


@pytest.fixture
def judged(monkeypatch):
    """A judge who looks at the published items alone: (most items that pass) → what was asked."""

    def judge(most):
        seen = []

        def look(job, search, made):
            items = pq.read_table(made.public / "items.parquet").column("item").to_pylist()
            manifest = read_json(made.public / "manifest.json")
            owner = pq.read_table(made.private / "membership.parquet").column("user").to_pylist()
            seen.append((items, manifest, owner))
            passed = len(items) <= most
            yield result("exact-rating", passed, 0.9 * len(items) / 4)
            yield result("scoreboard-rh", passed, 0.95 * len(items) / 4)

        monkeypatch.setattr(suppression, "_judge", look)
        monkeypatch.setattr(suppression, "SHARES", (0.0, 0.25, 0.5, 0.75, 0.9, 0.99))
        return seen

    return judge


def test_by_hand_smallest_passing_share(released, judged):
    seen = judged(most=2)
    made = released(BY_HAND)
    assert Ratings(made["suppression"]).item_ids() == ["i002", "i003"]
    counts = read_json(made["suppression"] / "step.json")["counts"]
    assert (counts["share"], counts["searched"], counts["items"]) == (0.5, True, 2)
    curve = read_json(made["suppression"] / "curve.json")
    assert curve["chosen"] == 0.5
    assert [(t["share"], t["items"], t["ratings"], t["refused_by"]) for t in curve["trials"]] == [
        (0.25, 3, 9, ["exact-rating", "scoreboard-rh"]),
        (0.5, 2, 7, []),
        (0.75, 1, 4, []),
    ]
    assert read_json(released.private / "curve.json") == curve
    assert stat.S_IMODE((released.private / "curve.json").stat().st_mode) == 0o600
    # Every trial is the release there would be.
    for items, manifest, owner in seen:
        assert manifest["method"] == "suppression"
        assert manifest["counts"]["users"] == len(owner) == (5 if len(items) == 4 else 4)
        assert manifest["withheld"]["items"] == 4 - len(items)
    assert not (made["suppression"] / "trial").exists()


def test_refusal_shows_the_whole_curve(released, judged):
    judged(most=0)
    with pytest.raises(Refused) as refusal:
        released(BY_HAND)
    message = str(refusal.value)
    assert "no suppression passes: at k = 5 each of the 4 shares" in message
    assert (
        "0.0% left out, 4 items with 10 ratings remain: exact-rating 0.900, scoreboard-rh 0.950; refused by"
        in message
    )
    assert "75.0% left out, 1 items with 4 ratings remain: exact-rating 0.225, scoreboard-rh 0.237" in message
    assert "person" not in message
    curve = read_json(released.private / "curve.json")
    assert curve["chosen"] is None
    assert [trial["share"] for trial in curve["trials"]] == [0.0, 0.25, 0.5, 0.75]
    assert str(released.private / "curve.json") in message


def test_a_trial_ends_with_the_first_failure(monkeypatch, tmp_path):
    asked = []

    def run_check(check, case, threshold):
        asked.append(check.name)
        return result(check.name, check.name != "scoreboard-rh", 0.5)

    class Case:
        forget = close = lambda self: None

    monkeypatch.setattr(suppression, "released_case", lambda *_: Case())
    monkeypatch.setattr(suppression, "run_check", run_check)
    job = make_job(described(), tmp_path)
    found = list(suppression._judge(job, job.params.search, suppression.Candidate(Path(), Path())))
    assert sorted(asked) == ["exact-rating", "scoreboard-rh"]
    assert [f.name for f in found if not f.passed] == ["scoreboard-rh"]


def test_void_checks_are_marked_in_the_curve():
    dead = CheckResult("nearest-record", False, 0.1, 0.2, 0.0, 0.1, 9, "gate", "", void=True)
    trial = suppression.Trial(0.98, {"items": 1, "ratings": 9}, [result("exact-rating", True, 0.1), dead])
    assert str(trial).endswith("exact-rating 0.100; refused by nearest-record (nothing shown)")
    assert trial.refused_by == ["nearest-record"]


def make_job(config, tmp_path):
    run = pipeline.Run(config, SNAPSHOT, Store(tmp_path), KEY, Engine(), tmp_path, lambda *_: None)
    return pipeline.job_of(
        run, "suppression", suppression.params(config), {"ingest": tmp_path}, tmp_path, lambda *_: None
    )


def test_a_configured_share_is_not_judged(released, monkeypatch):
    monkeypatch.setattr(suppression, "_judge", lambda *_: pytest.fail("nothing is to be searched for"))
    assert not (released(BY_HAND, suppression={"share": 0.5})["suppression"] / "curve.json").exists()
