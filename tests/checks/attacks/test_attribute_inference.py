"""Test attribute inference: the measure by hand, planted violations, and which inferrers are misled."""

import math
from dataclasses import replace

import made_releases as made
import numpy as np
import pyarrow as pa
import pytest
from test_bad_releases import single, table

from checks import gate
from checks.evidence.views.raw import raw_view
from checks.inference import attack, boosting, controls, labelled_people
from checks.inference.attack import MEAN, VOTES, WEIGHTED
from checks.inference.balanced_precision import (
    area_under_curve,
    call_at_equal_recalls,
    call_by_other_folds,
    equal_recall_cut,
    measure_balanced_precision,
    rarity_weight,
)
from checks.inference.inferrers import INFERRERS, Inferrer
from checks.inference.records import records_of
from checks.registry import registered
from checks.stats import weighted_sum, wilson
from tasks.engine import engine

USERS, ITEMS, HIS, HERS = 1200, 120, slice(0, 20), slice(20, 40)


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch, request):
    """A sixth of the trees is enough here; worker processes have all of them."""
    if "workers" not in request.node.name:
        monkeypatch.setattr(boosting, "TREES", 25)


def result(case, name="attribute-inference", threshold=0.6):
    return gate.run_check(registered()[name], case, threshold)


def figures(found):
    """Balanced precision by inferrer and training."""
    return {o.knowledge.partition(": ")[2]: o.risk.rate for o in found.outcomes}


def world(share=0.4, users=USERS, seed=3, lean=0.5):
    """Ratings of people some of whom are women, and who they are: half of what the other gender likes is not rated."""
    draw = np.random.default_rng(seed)
    ratings = made.synthetic(users=users, items=ITEMS, density=0.2, seed=seed)
    woman = draw.random(users) < share
    dense = table(ratings)
    for who, items in ((woman, HIS), (~woman, HERS)):
        part = dense[:, items]
        part[who[:, None] & (draw.random(part.shape) < lean)] = np.nan
        dense[:, items] = part
    dense[np.arange(users), ITEMS - 1] = 3.0  # every person has a rating
    return sparse(dense), woman


def sparse(dense):
    rows, columns = np.nonzero(~np.isnan(dense))
    return made.csr(rows, columns, dense[rows, columns], dense.shape)


def knowing(case, protect=("gender",), **attributes):
    """The case with what the source knows of its people (values by person)."""
    number = [int(name.removeprefix("person ")) for name in case.truth.membership.users.to_pylist()]
    known = {
        name: pa.array([values[n] for n in number], pa.string()).dictionary_encode()
        for name, values in attributes.items()
    }
    return replace(case, given_truth=replace(case.truth, attributes=known), protect=protect)


def genders(woman):
    return np.where(woman, "F", "M").tolist()


def in_groups(ratings, group_of, k, method="predictive-padded"):
    """Groups as asked, published with the mean of their members' ratings, and 3 where no member has one."""
    dense = table(ratings)
    groups = int(group_of.max()) + 1
    total, count = np.zeros((groups, dense.shape[1])), np.zeros((groups, dense.shape[1]))
    np.add.at(total, group_of, np.nan_to_num(dense))
    np.add.at(count, group_of, ~np.isnan(dense))
    values = np.where(count > 0, total / np.maximum(count, 1), 3).astype(np.float32)
    return made.Made(ratings, group_of, values, k=k, method=method)


# The measure


def test_the_weight_of_a_class_is_its_rarity():
    assert rarity_weight(0.5) == 0.5
    assert rarity_weight(0.25) == pytest.approx(2 / (2 - math.log2(0.75)))
    assert rarity_weight(0.2829) == pytest.approx(0.7915, abs=1e-4)  # the women of MovieLens 1M
    assert rarity_weight(0.2829) + rarity_weight(0.7171) == pytest.approx(1)


def test_equal_recalls_by_hand():
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    inside = np.array([False, False, True, False, False, True, True])
    cut = equal_recall_cut(scores, inside)
    # Above 4 are two of three of the class, up to 4 three of four others: a third of whoever has 4 must be called.
    assert (cut.value, cut.at) == (4.0, pytest.approx(1 / 3))
    called = cut.called(scores)
    assert called[inside].mean() == pytest.approx(2 / 3)
    assert (1 - called[~inside]).mean() == pytest.approx(2 / 3)


def test_ties_at_the_cut_are_shared_out():
    """Of the class 3 have 1 and 1 has 0; of the others 1 and 3: whoever has 1 is called in full."""
    scores = np.array([1, 1, 1, 0, 1, 0, 0, 0], float)
    inside = np.array([True] * 4 + [False] * 4)
    cut = equal_recall_cut(scores, inside)
    assert cut.called(np.array([1.0])) == pytest.approx(1.0)
    assert cut.called(np.array([0.0])) == pytest.approx(0.0)
    flat = equal_recall_cut(np.zeros(8), inside)
    assert (flat.value, flat.at) == (0.0, 0.5)


def test_always_predicting_the_rare_class_scores_half():
    """BPre of "every person is a woman" is c = 0.79; at the cut-off of equal recalls it is 0.5."""
    draw = np.random.default_rng(0)
    inside = draw.random(4000) < 0.28
    folds, all_people = np.arange(4000) % 5, np.arange(4000)
    always = measure_balanced_precision(np.ones(4000), inside, all_people, np.ones(4000), share=0.28, z=1.96)
    assert always.rate == pytest.approx(rarity_weight(0.28)) == pytest.approx(0.795, abs=1e-3)
    for scores in (np.ones(4000), np.zeros(4000), draw.normal(size=4000)):
        for cut in (call_by_other_folds, call_at_equal_recalls):
            measured = measure_balanced_precision(
                cut(scores, inside, folds), inside, all_people, np.ones(4000), share=0.28, z=1.96
            )
            assert measured.rate == pytest.approx(0.5, abs=0.03)
            assert measured.interval[0] < 0.5 < measured.interval[1]
    half = measure_balanced_precision(
        call_at_equal_recalls(np.ones(4000), inside, folds), inside, all_people, np.ones(4000), share=0.28
    )
    assert half.rate == pytest.approx(0.5)


def test_balanced_precision_and_its_interval_by_hand():
    """8 of 10 of the class and 30 of 40 others are classified correctly, independently; one in five is of the class."""
    inside = np.array([True] * 10 + [False] * 40)
    called = np.array([1.0] * 8 + [0.0] * 2 + [1.0] * 10 + [0.0] * 30)
    found = measure_balanced_precision(
        called, inside, np.arange(50), np.ones(50), share=0.2, z=1.96, found_elsewhere=True
    )
    c = rarity_weight(0.2)
    assert (found.successes, found.n) == (38, 50)
    assert found.rate == pytest.approx(c * 0.8 + (1 - c) * 0.75)
    # Wilson at z = 1.96: 8 of 10 is 0.4902 to 0.9433, 30 of 40 is 0.5981 to 0.8581 (Newcombe 1998, method 3).
    (low_1, high_1), (low_0, high_0) = (0.490157, 0.943323), (0.598069, 0.858114)
    low, high = found.interval
    assert low == pytest.approx(
        found.rate - math.hypot(c * (0.8 - low_1), (1 - c) * (0.75 - low_0)), abs=1e-5
    )
    assert high == pytest.approx(
        found.rate + math.hypot(c * (high_1 - 0.8), (1 - c) * (high_0 - 0.75)), abs=1e-5
    )


def test_the_interval_of_a_weighted_sum_by_hand():
    """Wilson at z = 2: (x + 2 ± 2√(x(n − x)/n + 1)) / (n + 4), so 10 ± 2√2.6 of 14 and 52 ± 2√26 of 104."""
    wide = ((10 - 2 * math.sqrt(2.6)) / 14, (10 + 2 * math.sqrt(2.6)) / 14)
    narrow = ((52 - 2 * math.sqrt(26)) / 104, (52 + 2 * math.sqrt(26)) / 104)
    low, high = weighted_sum([(8, 10), (50, 100)], (0.25, 0.75), 2)
    centre = 0.25 * 0.8 + 0.75 * 0.5
    assert low == pytest.approx(centre - math.hypot(0.25 * (0.8 - wide[0]), 0.75 * (0.5 - narrow[0])))
    assert high == pytest.approx(centre + math.hypot(0.25 * (wide[1] - 0.8), 0.75 * (narrow[1] - 0.5)))
    assert weighted_sum([(3, 10)], (1.0,), 2) == pytest.approx(wilson(3, 10, 2))


def test_at_equal_recalls_the_interval_is_that_of_their_mean():
    """8 of 10 and 32 of 40 classified correctly, independently: as uncertain as 4 / (1/10 + 1/40) = 32 people."""
    inside = np.array([True] * 10 + [False] * 40)
    called = np.array([1.0] * 8 + [0.0] * 2 + [1.0] * 8 + [0.0] * 32)
    found = measure_balanced_precision(called, inside, np.arange(50), np.ones(50), share=0.2, z=1.96)
    assert found.rate == pytest.approx(0.8)
    assert found.effective in (31, 32)  # Kish's estimate of it, rounded down
    assert found.interval == pytest.approx(wilson(0.8 * found.effective, found.effective, 1.96))
    assert found.guess_upper_bound == pytest.approx(wilson(found.effective / 2, found.effective, 1.96)[1])


def test_intervals_cover_chance():
    """Uninformative scores of groups of ten, four hundred times: the figure leaves its interval in about one of
    twenty, and is 0.5 on average."""
    draw = np.random.default_rng(1)
    groups, folds = np.arange(600) // 10, np.arange(600) % 5
    outside, rates = 0, []
    for _ in range(400):
        inside = draw.random(600) < 0.28
        scores = draw.normal(size=60)[groups]
        called = call_at_equal_recalls(scores, inside, folds)
        found = measure_balanced_precision(called, inside, groups, np.ones(600), share=0.28)
        rates.append(found.rate)
        outside += not found.interval[0] <= 0.5 <= found.interval[1]
    assert np.mean(rates) == pytest.approx(0.5, abs=0.005)
    assert outside / 400 < 0.09


def test_people_of_one_group_are_not_independent():
    """Ten groups of twenty, classified right or wrong together, are nearer to ten people than to two hundred."""
    inside = np.arange(200) % 2 == 0
    group = np.arange(200) // 20
    called = np.where((group < 7) == inside, 1.0, 0.0)  # seven groups right, three wrong
    alone = measure_balanced_precision(called, inside, np.arange(200), np.ones(200), share=0.5, z=1.96)
    together = measure_balanced_precision(called, inside, group, np.ones(200), share=0.5, z=1.96)
    assert alone.rate == together.rate == pytest.approx(0.7)
    assert all(recall.n <= 10 for recall in together.recalls)
    assert together.effective <= 10 < alone.effective == 200
    assert together.interval[1] - together.interval[0] > 2.5 * (alone.interval[1] - alone.interval[0])


def test_the_area_under_the_curve_by_hand():
    inside = np.array([True, True, False, False])
    assert area_under_curve(np.array([4.0, 2.0, 3.0, 1.0]), inside) == 0.75
    assert area_under_curve(np.ones(4), inside) == 0.5


# Planted violations


@pytest.mark.slow
def test_raw_records_are_refused(tmp_path):
    ratings, woman = world()
    found = result(knowing(made.case(single(ratings, table(ratings)), tmp_path), gender=genders(woman)))
    assert not found.passed
    assert not found.void
    assert found.ci_low > 0.75
    assert found.n == USERS
    assert figures(found)["logistic regression, retrained"] > 0.8
    assert figures(found)["gradient boosting, retrained"] > 0.75


@pytest.mark.slow
def test_groups_by_gender_fail_by_member_votes(tmp_path):
    """The profiles reveal nothing (equal except for noise): who is listed with whom does."""
    ratings, woman = world()
    order = np.argsort(woman, kind="stable")
    group_of = np.empty(USERS, np.int64)
    group_of[order] = np.arange(USERS) // 5
    release = in_groups(ratings, group_of, 5)
    noise = np.random.default_rng(8).integers(20, 30, release.values.shape) / 10
    case = knowing(made.case(release.but(values=noise.astype(np.float32)), tmp_path), gender=genders(woman))
    found = result(case)
    assert not found.passed
    assert figures(found)[f"{VOTES}, retrained"] > 0.95
    assert figures(found)["logistic regression, retrained"] < 0.75


def test_balanced_groups_reveal_the_remaining_member(tmp_path):
    """Two women and two men in every group: who knows three knows the fourth. The votes must be read upside down."""
    ratings, woman = world(share=0.5)
    pairs = min(woman.sum(), (~woman).sum()) // 2
    kept = np.sort(np.concatenate([np.flatnonzero(woman)[: 2 * pairs], np.flatnonzero(~woman)[: 2 * pairs]]))
    ratings, woman = sparse(table(ratings)[kept]), woman[kept]
    group_of = np.empty(len(kept), np.int64)
    group_of[np.flatnonzero(woman)] = np.arange(2 * pairs) // 2
    group_of[np.flatnonzero(~woman)] = np.arange(2 * pairs) // 2
    release = in_groups(ratings, group_of, 4)
    values = np.full_like(release.values, 3.0)
    values[:, 0] = 1 + np.arange(len(values)) % 41 / 10
    found = result(knowing(made.case(release.but(values=values), tmp_path), gender=genders(woman)))
    assert figures(found)[f"{VOTES}, retrained"] > 0.65
    assert not found.passed


def test_known_members_are_subtracted_from_the_group(tmp_path):
    """Random groups of five whose profile reveals how many women there are, and nothing else.

    Their votes reveal nothing of the fifth, the profile something; both together nearly all."""
    ratings, woman = world(lean=0.0)
    group_of = np.random.default_rng(1).permutation(USERS) // 5
    release = in_groups(ratings, group_of, 5)
    values = np.full_like(release.values, 3.0)
    values[:, 0] = 1 + 4 * np.bincount(group_of, woman) / 5
    found = figures(result(knowing(made.case(release.but(values=values), tmp_path), gender=genders(woman))))
    assert found[f"{VOTES}, retrained"] < 0.56
    assert found["logistic regression, retrained"] < 0.75
    assert found[f"{WEIGHTED}, retrained"] > 0.85


@pytest.mark.slow
def test_large_random_groups_pass(tmp_path):
    ratings, woman = world(users=2400)
    group_of = np.random.default_rng(1).permutation(2400) // 60
    found = result(knowing(made.case(in_groups(ratings, group_of, 60), tmp_path), gender=genders(woman)))
    assert found.passed, found.detail
    assert 0.45 < found.observed < found.ci_high <= 0.6
    assert "This concerns the group in which a person is listed" in found.detail
    assert "raw data 0.8" in found.detail or "raw data 0.9" in found.detail


@pytest.mark.slow
def test_unrelated_attribute_is_not_inferred(tmp_path):
    """Raw records, and a gender drawn by lot: about 0.5, and the planted control shows that the attack works."""
    ratings, _ = world(users=2400)
    lot = np.random.default_rng(5).random(2400) < 0.4
    found = result(knowing(made.case(single(ratings, table(ratings)), tmp_path), gender=genders(lot)))
    assert found.passed, found.detail
    assert found.observed == pytest.approx(0.5, abs=0.05)
    assert "planted items 0.7" in found.detail or "planted items 0.8" in found.detail


@pytest.mark.slow
def test_additions_mislead_naive_but_not_retrained_inferrers(tmp_path):
    """Every woman gets what men rate and every man what women rate, and each of them one item that the others do not
    get. An inferrer trained on raw data is wrong about every person; a retrained one is right about every person."""
    ratings, woman = world()
    values = table(ratings)
    for who, items, marker in ((woman, HIS, 100), (~woman, HERS, 101)):
        values[np.ix_(who, np.r_[items])] = np.nan_to_num(values[np.ix_(who, np.r_[items])], nan=4.0)
        values[who, marker] = 4.0
        values[~who, marker] = np.nan
    for who, items in ((woman, HERS), (~woman, HIS)):  # and its own look is gone
        part = values[:, items]
        part[who[:, None] & (np.random.default_rng(2).random(part.shape) < 0.7)] = np.nan
        values[:, items] = part
    case = knowing(made.case(single(ratings, values, "obfuscation"), tmp_path), gender=genders(woman))
    judged = result(case)
    found = figures(judged)
    assert found["logistic regression, naive"] < 0.2
    assert found["gradient boosting, naive"] < 0.5
    assert found["logistic regression, retrained"] > 0.95
    assert found["gradient boosting, retrained"] > 0.95
    assert not judged.passed
    assert "|BPre − 0.5|" in judged.detail
    (fooled,) = (o for o in judged.outcomes if o.knowledge == "gender: logistic regression, naive")
    assert fooled.to_json()["from_half"] > 0.3


@pytest.mark.slow
def test_additions_with_foreign_values_are_recognized(tmp_path):
    """Every woman gets some items of one list and every man some of another, at 3.7: which are foreign reveals all."""
    ratings, woman = world(lean=0.0)
    values = table(ratings)
    draw = np.random.default_rng(4)
    for who, items in ((woman, np.arange(40, 80)), (~woman, np.arange(80, 119))):
        chosen = who[:, None] & (draw.random((USERS, len(items))) < 0.3) & np.isnan(values[:, items])
        values[:, items] = np.where(chosen, 3.7, values[:, items])
    release = single(ratings, values, "obfuscation", step=0.1)
    found = figures(result(knowing(made.case(release, tmp_path), gender=genders(woman))))
    assert found["logistic regression on foreign values, retrained"] > 0.95
    assert found["logistic regression without foreign values, retrained"] < 0.6


@pytest.mark.slow
def test_a_mark_in_one_item_of_full_profiles_is_found(tmp_path):
    """Every group has every item; of women's groups one item of many is half a star higher: no component shows it."""
    draw = np.random.default_rng(6)
    ratings, woman = world(lean=0.0)
    order = np.argsort(woman, kind="stable")
    group_of = np.empty(USERS, np.int64)
    group_of[order] = np.arange(USERS) // 4
    values = np.clip(np.rint(10 * (3 + draw.normal(0, 0.7, (300, ITEMS)))) / 10, 1, 5).astype(np.float32)
    mixed = draw.permutation(300)  # who is listed with whom is known; here only the profile may reveal it
    women = np.bincount(group_of, woman) == 4
    values[:, 7] = np.where(women, 3.5, 3.0) + draw.integers(-1, 2, 300) / 10
    release = in_groups(ratings, mixed[group_of], 4).but(values=values[np.argsort(mixed)])
    found = figures(result(knowing(made.case(release, tmp_path), gender=genders(woman))))
    assert found["logistic regression, standardised, retrained"] > 0.9
    assert found["gradient boosting, retrained"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("every_item", [False, True])
def test_z_scores_are_attacked_as_published(tmp_path, every_item):
    """Noise does not hide which items are there; on all items, noise of a standard deviation hides little."""
    ratings, woman = world()
    release = made.perturbed(ratings, 1.0, every_item=every_item)
    found = result(knowing(made.case(release, tmp_path), gender=genders(woman)))
    assert not found.passed
    assert not found.void
    assert found.ci_low > 0.6
    assert "logistic regression, naive" in figures(found)  # on the ratings that are read in them


# Several classes, few people, nothing known


@pytest.mark.slow
def test_worst_of_several_classes_counts(tmp_path):
    """One of three ages is inferred (it equals gender), the other two cannot be distinguished."""
    ratings, woman = world(users=900)
    ages = np.where(woman, "youth", np.where(np.arange(900) % 2, "middle", "old")).tolist()
    found = result(knowing(made.case(single(ratings, table(ratings)), tmp_path), ("age",), age=ages))
    assert not found.passed
    assert "(class 3 of 3)" in found.detail  # in the order of their names, which are not published
    assert not {"youth", "middle", "old"} & set(found.detail.replace(",", " ").split())
    worst = max(found.outcomes, key=lambda o: o.risk.interval[1])
    assert worst.knowledge.endswith("(class 3 of 3)")
    assert worst.risk.z == pytest.approx(2.394, abs=1e-3)  # 2.5 % over three classes
    assert worst.risk.rate > 0.8


def test_no_attribute_protected_and_none_known(tmp_path):
    ratings, _ = world(users=200)
    case = made.case(single(ratings, table(ratings)), tmp_path)
    found = result(case)
    assert (found.passed, found.n, found.detail) == (True, 0, "no attribute is protected.")
    assert not found.applicable
    other = result(case, "unprotected-attributes")
    assert (other.passed, other.n, other.severity) == (True, 0, "advisory")
    assert not other.applicable
    assert "has no attribute" in other.detail


def test_unknown_protected_attribute_fails(tmp_path):
    ratings, woman = world(users=200)
    case = made.case(single(ratings, table(ratings)), tmp_path)
    found = result(knowing(case, ("gender", "age"), gender=genders(woman)))
    assert not found.passed
    assert "the source has no attribute age, so nothing can be tested" in found.detail


def test_too_few_people_are_inconclusive(tmp_path):
    ratings, _ = world(users=100)
    lot = np.random.default_rng(5).random(100) < 0.3
    case = made.case(single(ratings, table(ratings)), tmp_path)
    found = result(knowing(case, gender=genders(lot)))
    assert not found.passed
    assert "Cannot be shown: with 100 people" in found.detail
    assert "source.attributes.groups" in found.detail
    measured = result(knowing(case, (), gender=genders(lot)), "unprotected-attributes")
    assert measured.passed
    assert "Not judged" in measured.detail
    fewer = ["F"] * 3 + ["M"] * 97
    found = result(knowing(case, gender=fewer))
    assert not found.passed
    assert "a class has fewer than 10 people" in found.detail
    assert result(knowing(case, (), gender=fewer), "unprotected-attributes").passed
    assert not result(knowing(case, gender=["F"] * 100)).passed


def test_unprotected_attributes_are_only_reported(tmp_path):
    ratings, woman = world()
    case = knowing(made.case(single(ratings, table(ratings)), tmp_path), (), gender=genders(woman))
    found = result(case, "unprotected-attributes")
    assert (found.passed, found.severity) == (False, "advisory")
    assert found.ci_low > 0.7
    assert not any("boosting" in name or "naive" in name for name in figures(found))
    assert result(replace(case, protect=("gender",)), "unprotected-attributes").n == 0


# The attack itself


def test_people_without_a_value_are_not_tested(tmp_path):
    ratings, woman = world()
    known = [value if n % 3 else None for n, value in enumerate(genders(woman))]
    case = knowing(made.case(single(ratings, table(ratings)), tmp_path), gender=known)
    who = labelled_people.label_people(case, "gender", 5)
    assert len(who.people) == len(who.tested) == 800
    assert result(case).n == 800


def test_every_person_is_tested_once_in_similar_folds(tmp_path):
    ratings, woman = world()
    case = knowing(made.case(single(ratings, table(ratings)), tmp_path), gender=genders(woman))
    who = labelled_people.label_people(case, "gender", 5)
    assert np.array_equal(who.people, np.arange(USERS))
    shares = [who.labels[who.folds == fold].mean() for fold in range(5)]
    assert max(shares) - min(shares) < 0.01
    again = labelled_people.label_people(
        replace(case, given_truth=replace(case.truth, salt="other")), "gender", 5
    )
    assert not np.array_equal(who.folds, again.folds)  # by what is published


def test_large_data_are_sampled_with_rare_classes_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(labelled_people, "MOST_TESTED", 400)
    ratings, woman = world(share=0.05)
    case = knowing(made.case(single(ratings, table(ratings)), tmp_path), gender=genders(woman))
    who = labelled_people.label_people(case, "gender", 5)
    tested = np.bincount(who.labels[who.tested])
    assert tested[0] == who.counts[0]  # F: all of the few, up to a quarter of 400
    assert tested[1] == 400 * who.counts[1] // USERS
    assert who.weights[who.labels[who.tested] == 0] == pytest.approx(1.0)
    assert (who.weights.sum()) == pytest.approx(USERS)
    assert who.share(0) == who.counts[0] / USERS
    assert result(case).n == len(who.tested)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_give_the_same_inference(tmp_path):
    ratings, woman = world(users=300)
    release = in_groups(ratings, np.random.default_rng(1).permutation(300) // 5, 5)
    published, private = made.write(release, tmp_path)

    def answer(on):
        case = replace(made.reopen(release, published, private), engine=on)
        found = [
            result(knowing(case, gender=genders(woman))),
            result(knowing(case, (), gender=genders(woman)), "unprotected-attributes"),
        ]
        case.close()
        return [(one.to_json(), [outcome.to_json() for outcome in one.outcomes]) for one in found]

    here = answer(None)
    assert here[0][0]["n"] == 300
    for count in (1, 2):
        with engine(count) as some:
            assert answer(some) == here


def test_attack_that_sees_the_answers_is_void(tmp_path, monkeypatch):
    """Votes that count the tested person as well: with shuffled values they still predict."""
    ratings, woman = world()
    release = in_groups(ratings, np.random.default_rng(1).permutation(USERS) // 5, 5)
    case = knowing(made.case(release, tmp_path), gender=genders(woman))

    def peeping(case, who, question):
        group = case.truth.row_of_user[who.people]
        yes = np.bincount(group, who.labels == question, case.release.n_groups)
        return np.column_stack([yes[group[who.tested]]] * 3)

    monkeypatch.setattr(attack, "vote_features", peeping)
    found = result(case)
    assert not found.passed
    assert found.void


def test_attack_that_infers_nothing_is_void(tmp_path, monkeypatch):
    ratings, woman = world()
    case = knowing(made.case(single(ratings, table(ratings)), tmp_path), gender=genders(woman))

    def blind(records, training):
        return lambda some: np.arange(some.matrix.shape[0]) * 7919 % 1009 * 1.0

    useless = tuple(replace(one, learn=blind) for one in INFERRERS)
    monkeypatch.setattr("checks.inference.inferrers.INFERRERS", useless)
    found = result(case)
    assert found.observed == pytest.approx(0.5, abs=0.06)
    assert not found.passed
    assert found.void


def test_inferrer_is_added_with_one_line(tmp_path, monkeypatch):
    """What is listed runs, is mixed with the others and has its line."""
    ratings, woman = world(users=400)
    case = knowing(made.case(single(ratings, table(ratings)), tmp_path), gender=genders(woman))

    def by_count(records, training):
        return lambda some: some.summaries[:, 0].astype(float)

    monkeypatch.setattr(
        "checks.inference.inferrers.INFERRERS", (*INFERRERS, Inferrer("number of items", by_count))
    )
    names = figures(result(case))
    assert {"number of items, retrained", f"{MEAN}, retrained", f"{WEIGHTED}, retrained"} <= set(names)


def test_planted_items_follow_the_class_for_four_in_five(tmp_path):
    ratings, woman = world()
    case = knowing(made.case(single(ratings, table(ratings)), tmp_path), gender=genders(woman))
    who = labelled_people.label_people(case, "gender", 2)
    raw = records_of(raw_view(case), who.people[who.tested])
    marked = controls._planted(raw_view(case), raw, who, tmp_path / "planted").matrix
    added = marked[:, ITEMS:].toarray()
    assert (np.count_nonzero(added, axis=1) == 1).all()
    right = added.nonzero()[1] // controls.MARKERS == who.labels
    assert right.mean() == pytest.approx(0.8, abs=0.04)
    assert np.array_equal(marked[:, :ITEMS].toarray(), case.truth.ratings.toarray())
