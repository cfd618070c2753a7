"""Test the kernel against a plain version of its definition: any knowledge, any posting lists, every rule."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.linkage.kernel import FIELDS, KINDS, SLACK, _likelihoods, rank_block
from checks.linkage.postings import Postings

RECORDS = 7


def plainly(known, own, left_out, lists, levels, rule, people, lengths, most_items, needed_all):
    """Rank one target with dictionaries: (listed, better, tied, people of both, candidates, people, best's)."""
    weight, kind, width = rule
    score = np.zeros(RECORDS, np.float32)
    for item, rating in known:
        for record, code in lists[item]:
            apart = abs(levels[code] - rating)
            agrees = {
                "presence": 1.0,
                "within": float(apart <= width + SLACK),
                "decay": math.exp(-float(apart) / width),
            }[kind]
            score[record] += np.float32(np.float32(weight[item]) * agrees)
    able = [
        r for r in range(RECORDS)
        if r != left_out and lengths[r] <= most_items and (not needed_all or score[r] == np.float32(len(known)))
    ]  # fmt: skip
    listed = own in able
    better = [r for r in able if not listed or score[r] > score[own]]
    tied = [r for r in able if listed and score[r] == score[own]]
    best = [r for r in able if score[r] == max(score[able])]
    crowd = [int(people[some].sum()) for some in (better, tied, able, best)]
    return {
        "listed": listed, "better": len(better), "tied": len(tied), "better_people": crowd[0],
        "tied_people": crowd[1], "candidates": len(able), "people": crowd[2],
        "best_at": best[0] if best else -1, "best_people": crowd[3], "top": listed and own in best,
    }  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_ranks_match_the_definition(data):
    dense = data.draw(st.booleans())
    levels = np.linspace(1, 5, data.draw(st.sampled_from([2, 5, 40]))).astype(
        np.float32
    )  # 40: more than records
    code, record = st.integers(0, len(levels) - 1), st.integers(0, RECORDS - 1)
    raters = st.just(list(range(RECORDS))) if dense else st.lists(record, unique=True).map(sorted)
    lists = [[(r, data.draw(code)) for r in data.draw(raters)] for _ in range(4)]
    indptr = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    rows, codes = (
        np.array([pair[side] for one in lists for pair in one] + [0], kind)
        for side, kind in ((0, np.int32), (1, np.uint16))
    )
    known = [
        [(item, levels[data.draw(code)]) for item in data.draw(st.lists(st.integers(0, 3), unique=True))]
        for _ in range(2)
    ]
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    weight = np.array(data.draw(st.lists(st.sampled_from([1.0, 0.3]), min_size=4, max_size=4)), np.float32)
    needed = kind != "decay" and bool((weight == 1).all()) and data.draw(st.booleans())
    people = np.array(data.draw(st.lists(st.integers(0, 3), min_size=RECORDS, max_size=RECORDS)), np.int32)
    lengths = np.array([sum(r in dict(one) for one in lists) for r in range(RECORDS)], np.int32)
    most_items = data.draw(st.sampled_from([2.0, np.inf]))
    own = np.array(data.draw(st.lists(st.integers(-1, RECORDS - 1), min_size=2, max_size=2)))
    left_out = np.array(data.draw(st.lists(st.integers(-1, RECORDS - 1), min_size=2, max_size=2)))
    starts = np.array([0, len(known[0]), len(known[0]) + len(known[1])])
    items = np.array([item for one in known for item, _ in one], np.int64)
    ratings = np.array([rating for one in known for _, rating in one], np.float32)
    nothing, out = np.zeros(0, np.float32), np.zeros((2, len(FIELDS)))
    rank_block(
        starts, items, ratings, nothing, own, left_out, (indptr, rows, codes, nothing, dense, levels, len(levels)),
        (weight, KINDS[kind], 1.0, 0.0), (nothing, lengths, people, most_items), needed, False, out,
    )  # fmt: skip
    for t in range(2):
        expected = plainly(
            known[t],
            own[t],
            left_out[t],
            lists,
            levels,
            (weight, kind, 1.0),
            people,
            lengths,
            most_items,
            needed,
        )
        found = dict(zip(FIELDS, out[t], strict=True))
        assert {name: found[name] for name in expected} == expected


def test_equal_matches_tie_exactly_in_any_order_of_addition():
    """Two lists, one longer and one shorter than the table of levels: both ways must give the same number."""
    levels = np.linspace(-10, 10, 41).astype(np.float32)
    many = 60
    # Every record has item 0 (by table), item 1 by the first ten only (level by level), all with one code.
    rows = np.concatenate([np.arange(many), np.arange(10)]).astype(np.int32)
    indptr = np.array([0, many, many + 10])
    codes = np.full(len(rows), 17, np.uint8)
    nothing, out = np.zeros(0, np.float32), np.zeros((2, len(FIELDS)))
    rank_block(
        np.array([0, 1, 2]), np.array([0, 1]), np.array([3.3, 3.3], np.float32), nothing, np.array([3, 3]),
        np.array([-1, -1]), (indptr, rows, codes, nothing, False, levels, len(levels)),
        (np.full(2, 0.7, np.float32), KINDS["decay"], 1.7, 0.0),
        (nothing, np.ones(many, np.int32), np.ones(many, np.int32), np.inf), False, True, out,
    )  # fmt: skip
    tied, entropy = out[:, FIELDS.index("tied")], out[:, FIELDS.index("entropy_bits")]
    assert tied.tolist() == [many, 10]
    assert entropy[0] == pytest.approx(np.log2(many))
    assert 0 < entropy[1] < np.log2(many)


def test_eccentricity_of_the_best_record():
    """Scores 3, 2, 1, 0: Narayanan & Shmatikov's eccentricity is (3 − 2) / σ."""
    indptr, rows = np.array([0, 3, 5, 6]), np.array([0, 1, 2, 0, 1, 0], np.int32)
    nothing, ones, out = np.zeros(0, np.float32), np.ones(4, np.int32), np.zeros((1, len(FIELDS)))
    rank_block(
        np.array([0, 3]), np.arange(3), np.ones(3, np.float32), nothing, np.array([1]), np.array([-1]),
        (indptr, rows, np.zeros(6, np.uint8), nothing, False, np.ones(1, np.float32), 1),
        (np.ones(3, np.float32), KINDS["presence"], 0.0, 0.0), (nothing, ones, ones, np.inf), False, False, out,
    )  # fmt: skip
    found = dict(zip(FIELDS, out[0], strict=True))
    assert (found["better"], found["tied"], found["best_at"], found["candidates"]) == (1, 1, 0, 4)
    assert found["eccentricity"] == pytest.approx(1 / np.std([3, 2, 1, 0]))


@pytest.fixture
def postings(tmp_path):
    """Three records: {0, 1}, {0}, {} of two items."""
    facts = {"records": 3, "items": 2, "dense": False, "dated": False}
    arrays = {
        "indptr": np.array([0, 2, 3]), "rows": np.array([0, 1, 0], np.int32),
        "codes": np.array([1, 0, 2], np.uint8), "days": np.zeros(0, np.float32),
    }  # fmt: skip
    files = Postings.create(
        tmp_path, facts, **{name: (array.dtype.type, len(array)) for name, array in arrays.items()}
    )
    for name, array in arrays.items():
        files[name][:] = array
    return arrays, Postings(tmp_path)


def test_arrays_are_read_back_as_written(postings):
    written, opened = postings
    for name, array in written.items():
        assert opened.array(name).dtype == array.dtype
        assert opened.array(name).tolist() == array.tolist()
        assert opened.array(name).flags.aligned
        assert not opened.array(name).flags.writeable
    assert json.loads((opened.directory / "facts.json").read_text())["records"] == opened.records == 3


def test_norms_are_computed_once_per_set_of_weights(postings, monkeypatch):
    _, opened = postings
    first = opened.inverse_norms(np.array([9.0, 16.0]))
    assert first.tolist() == pytest.approx([1 / 5, 1 / 3, 1e6])
    assert opened.inverse_norms(np.array([1.0, 1.0])).tolist() == pytest.approx([1 / math.sqrt(2), 1, 1e6])
    monkeypatch.setattr(Postings, "_inverse_norms", lambda self, weight: pytest.fail("computed again"))
    again = Postings(opened.directory).inverse_norms(np.array([9.0, 16.0]))
    assert again.tobytes() == first.tobytes()
    assert len(list(opened.directory.glob("*.npy"))) == 2


@settings(max_examples=100, deadline=None)
@given(
    scores=st.lists(st.floats(-50, 50, width=32) | st.just(-math.inf), min_size=1, max_size=300),
    scale=st.sampled_from([0.01, 1.0, 7.0]),
)
def test_likelihoods_are_those_of_the_exponential_function(scores, scale):
    score = np.array(scores, np.float32)
    score[0] = 50
    weight, moment = _likelihoods(score, np.float32(50), np.float32(1 / scale))
    z = (score[np.isfinite(score)].astype(float) - 50) / scale
    assert weight == pytest.approx(np.exp(z).sum(), rel=1e-5)
    assert moment == pytest.approx((z * np.exp(z)).sum(), rel=1e-4, abs=1e-5)
