"""Test the utility floor."""

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.evidence.own_error import own_errors
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
    assert figures.pop("ranking") is None
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
        # Of few ratings random groups themselves may be as good as the model, so the share has no interval.
        assert found.ci_low is None if n == 400 else found.ci_low < found.observed < found.ci_high
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


# The release's own values


def edited(release, values, tmp_path):
    """The release with other values, beside the shadow it was measured with."""
    published, private = made.write(release, tmp_path / "honest")
    made_again, _ = made.write(release.but(values=values.astype(np.float32)), tmp_path / "edited")
    found = result(made.reopen(release, made_again, private))
    assert result(made.reopen(release, published, private)).passed
    return found


EDITS = {
    "random codes": lambda values, draw: np.where(np.isnan(values), values, draw.uniform(1, 5, values.shape)),
    "rows permuted": lambda values, draw: values[draw.permutation(len(values))],
    "columns permuted": lambda values, draw: values[:, draw.permutation(values.shape[1])],
    "constant": lambda values, draw: np.where(np.isnan(values), values, 3.5),
    "item means": lambda values, draw: np.where(
        np.isnan(values), values, np.nanmean(values, axis=0)[None, :]
    ),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ["padded", "simple"])
def test_values_that_are_not_the_releases_are_refused(releases, tmp_path, name, edit):
    release = releases[name]
    found = edited(release, EDITS[edit](release.values, np.random.default_rng(5)), tmp_path)
    assert not found.passed, found.detail
    assert (found.threshold, found.applicable) == (0.25, True)
    assert found.ci_low > 0.25
    assert found.ci_low <= found.observed <= found.ci_high


@pytest.mark.parametrize("noise", [0.5, 40.0])
def test_random_values_of_single_people_are_refused(tmp_path, noise):
    """Also where noise leaves nothing to measure a way on: values of another size are not the release's."""
    release = made.perturbed(made.synthetic(150, 100, 0.2), noise)
    random = np.random.default_rng(5).normal(0, 3 * max(noise, 1), release.values.shape)
    found = edited(release, np.where(np.isnan(release.values), np.nan, random), tmp_path)
    assert not found.passed
    assert ("too near to each other" in found.detail) is (noise > 1)


def test_own_errors_by_hand(tmp_path):
    """Two groups of two; one rating is in no published cell."""
    ratings = made.csr([0, 0, 1, 2, 3, 3], [0, 1, 0, 1, 0, 2], [4, 2, 5, 1, 3, 5], (4, 3))
    values = np.array([[4.0, 2.0, np.nan], [3.0, 3.0, np.nan]], np.float32)
    release = made.Made(ratings, np.array([0, 0, 1, 1]), values, k=2, c=1, method="predictive-simple")
    opened = made.case(release, tmp_path)
    found = own_errors(opened)
    person = np.argsort(opened.truth.membership.users.to_pylist())
    assert found.own[person].tolist() == pytest.approx([0, 1, 4, 0], abs=1e-5)
    assert found.own_count[person].tolist() == [2, 1, 1, 1]
    assert found.own_rmse() == pytest.approx(1.0)
    assert found.drawn_count.sum() == 5


def test_z_scores_are_compared_with_z_scores(tmp_path):
    """Noise of half a standard deviation is an error of one half, with all entries and with rated ones."""
    for every in (False, True):
        release = made.perturbed(made.synthetic(150, 100, 0.2), 0.5, every_item=every)
        found = own_errors(made.case(release, tmp_path / str(every)))
        assert found.own_rmse() == pytest.approx(0.5, abs=0.03)
        assert found.drawn_rmse() > 1


def test_large_releases_are_sampled(case, monkeypatch):
    monkeypatch.setattr("checks.evidence.own_error.MOST_PEOPLE", 60)
    opened = case()
    found = own_errors(opened)
    assert (found.own_count > 0).sum() == 60
    assert np.array_equal(found.own, own_errors(opened).own)


def test_a_missing_shadow_is_no_pass(case):
    opened = case()
    (opened.private / "utility" / "shadow-release" / "groups.parquet").unlink()
    with pytest.raises(Refused, match="shadow release cannot be used"):
        result(opened)
