"""Test the utility floor."""

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.registry import registered
from checks.utility.utility import summary
from tasks.errors import Refused


def write(directory, **columns):
    """Held-out figures by hand; four ratings of 3."""
    plain = {
        name: [3.0] * 4 for name in ("truth", "original", "target", "similar", "random_group", "item_mean")
    }
    table = {name: pa.array(values, pa.float32()) for name, values in (plain | columns).items()}
    pq.write_table(pa.table(table), directory / "heldout.parquet")


def result(case):
    check = registered()["utility"]
    return check.run(case, check.threshold)


def test_the_figures_by_hand(case):
    opened = case()
    write(
        opened.private / "utility",
        original=[4, 2, 4, 2],
        target=[4.5, 1.5, None, None],
        similar=[5, 1, 5, None],
        random_group=[5, 1, 5, 1],
        item_mean=[6, 0, 6, 0],
    )
    figures = summary(opened.private / "utility")
    expected = {
        "original_rmse": 1,
        "original_mae": 1,
        "target_deviation_rmse": 1.5,
        "null_share": 0.5,
        "similar_user_rmse": 2,
        "random_group_rmse": 2,
        "item_mean_rmse": 3,
        "self_rank_1_share": 1,
        "heldout": 4,
    }
    assert figures == pytest.approx(expected)
    found = result(opened)
    assert (found.passed, found.observed) == (True, pytest.approx(0.5))


def test_as_bad_as_random_groups_is_refused(case):
    opened = case()
    made.write_utility(opened.private / "utility", worse=0.95)
    found = result(opened)
    assert (found.passed, found.observed) == (False, pytest.approx(0.95, abs=1e-3))


def test_shown_loss_is_refused(case):
    """The same loss of about 1: of few ratings it may be chance, of many it is not."""
    opened = case()
    passed = {}
    for n in (400, 40_000):
        draw = np.random.default_rng(5)
        noise = {name: draw.normal(0, 1, n) for name in ("original", "target", "random_group")}
        truth = np.full(n, 3.0)
        columns = {"truth": truth, "similar": truth, "item_mean": truth}
        columns |= {"original": truth + 0.9 * noise["original"]}
        columns |= {name: truth + noise[name] for name in ("target", "random_group")}
        write(opened.private / "utility", **columns)
        found = result(opened)
        assert found.ci_low < found.observed < found.ci_high
        passed[n] = found.passed
    assert passed == {400: True, 40_000: False}


def test_no_scale_to_judge_on(case):
    opened = case()
    write(opened.private / "utility", original=[4] * 4, random_group=[4] * 4, target=[5] * 4)
    found = result(opened)
    assert (found.passed, found.observed) == (False, None)
    write(opened.private / "utility", original=[4] * 4, random_group=[4] * 4, target=[3.5] * 4)
    assert result(opened).passed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: (d / "heldout.parquet").unlink(), "left no heldout.parquet"),
        (lambda d: (d / "ranks.parquet").unlink(), "left no ranks.parquet"),
        (lambda d: pq.write_table(pa.table({"truth": [1.0]}), d / "heldout.parquet"), "has no item_mean"),
        (lambda d: write(d, target=pa.nulls(4, pa.float32())), "no held-out rating lies in a published cell"),
        (lambda d: write(d, similar=pa.nulls(4, pa.float32())), "no value at all"),
        (lambda d: write(d, original=[np.nan, 1, 1, 1]), "not a number"),
    ],
)
def test_unmeasured_utility_fails(case, change, words):
    opened = case()
    change(opened.private / "utility")
    with pytest.raises(Refused, match=words):
        summary(opened.private / "utility")
    from checks.gate import judge_case

    assert judge_case(opened, {}).failed == ["utility"]
