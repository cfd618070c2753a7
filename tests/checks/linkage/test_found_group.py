"""Test what the profile of the right group reveals of its members, and of heavy raters, on releases and raw data."""

import warnings

import made_releases as made
import numpy as np
import pytest

from checks.attacks import link_existence
from checks.evidence.views.raw import raw_view
from checks.recovery.person_baseline import Activity, published_ratings
from checks.recovery.real_cells import RealCells
from checks.registry import registered

GROUP_ATTACKS = ("homogeneity", "link-existence", "rare-items", "recovery")


def result(case, name):
    check = registered()[name]
    return check.run(case, check.threshold)


def agreeing(ratings, which):
    """A simple release (c = 3) in which the members of some groups of five have identical ratings."""
    source = np.arange(300)
    first = source // 5 * 5
    source = np.where(np.isin(source // 5, which), first, source)
    same = ratings[source]
    pattern = same.copy()
    pattern.data = np.ones_like(pattern.data)
    counts = pattern.toarray().reshape(60, 5, -1).sum(axis=1)
    sums = same.toarray().reshape(60, 5, -1).sum(axis=1)
    values = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    values[(counts > 0) & (counts < 3)] = 3.5  # predictions of a very plain model
    return made.Made(
        same, np.arange(300) // 5, values.astype(np.float32), k=5, c=3, method="predictive-simple"
    )


@pytest.mark.parametrize("which", [range(60), [17]], ids=["all groups", "one group"])
def test_groups_that_agree_in_everything_are_refused(ratings, tmp_path, which):
    found = result(made.case(agreeing(ratings, list(which)), tmp_path / "same"), "homogeneity")
    assert (found.passed, found.observed) == (False, 1.0)
    different = result(made.case(agreeing(ratings, []), tmp_path / "different"), "homogeneity")
    assert different.passed


@pytest.mark.parametrize("name", GROUP_ATTACKS)
def test_group_attacks_report_on_releases_and_raw_data(case, name):
    opened = case("simple")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for target in (opened, case("padded"), raw_view(opened)):
            found = result(target, name)
            assert found.outcomes
            for outcome in found.outcomes:
                line = outcome.to_json()
                assert None not in line.values()
                assert 0 <= line["ci_low"] <= line["risk"] <= line["ci_high"] <= 1


@pytest.mark.parametrize("name", ["homogeneity", "link-existence", "recovery"])
def test_raw_data_reveal_everything(case, name):
    found = result(raw_view(case("padded")), name)
    assert not found.passed
    assert found.outcomes[0].risk.rate == 1.0
    assert found.outcomes[0].risk.gain == 1.0


def test_rare_items_of_raw_data_reveal_opinions(tmp_path):
    """Three items with one rater each; who liked it more than the own others stands above the own others."""
    table = np.array(
        [
            [5, 3, 3, np.nan, np.nan],
            [np.nan, 3, 4, 1, np.nan],
            [np.nan, 2, 2, np.nan, 4],
            *[[np.nan, 3, 3, np.nan, np.nan]] * 18,  # the two other items are not rare
        ]
    )
    rows, columns = np.nonzero(~np.isnan(table))
    ratings = made.csr(rows, columns, table[rows, columns], table.shape)
    values = np.where(np.isnan(table), np.nan, 3).astype(np.float32)
    group_of = np.array([0, 0, *[1] * 19])
    opened = made.case(made.Made(ratings, group_of, values[[0, 2]], k=2), tmp_path / "rare")
    (outcome,) = result(raw_view(opened), "rare-items").outcomes
    # Opinions +2, −2.5 and +2, columns +4/3, −5/3 and +4/3: the first and the third are not above the median (+2).
    assert (outcome.risk.successes, outcome.risk.n, outcome.risk.baseline) == (3, 3, 1.0)
    assert outcome.more["correlation"] == pytest.approx(1)


def test_activity_explains_each_number_of_ratings(case):
    opened = case("padded")
    people = np.arange(opened.truth.users)
    cells, alone, knowing = Activity.fitted(opened).expected(people)
    assert cells.tolist() == [200] * 300
    assert alone == pytest.approx(np.diff(opened.truth.ratings.indptr), abs=0.1)
    assert knowing.tolist() == alone.tolist()  # every item is there: that reveals nothing
    assert published_ratings(opened, people).tolist() == np.diff(opened.truth.ratings.indptr).tolist()


def test_activity_by_hand(tmp_path):
    """Two people in one group, two items both rate half of: a = 1 for who rated one of them."""
    ratings = made.csr(np.array([0, 1, 2, 3]), np.array([0, 1, 0, 1]), np.array([5, 4, 5, 4]), (4, 2))
    values = np.array([[5, 4], [5, np.nan]], np.float32)
    release = made.Made(ratings, np.array([0, 0, 1, 1]), values, k=2, method="predictive-simple")
    opened = made.case(release, tmp_path / "two")
    activity = Activity.fitted(opened)
    assert activity.person == pytest.approx([1] * 4, abs=1e-3)
    cells, alone, knowing = activity.expected(np.arange(4))
    rows = opened.truth.row_of_user
    assert cells.tolist() == np.where(rows == 0, 2, 1).tolist()
    assert alone == pytest.approx(np.where(rows == 0, 1, 0.5), abs=1e-3)
    # One of the two rated it with chance 3/4: one of them with (1/2)/(3/4).
    assert knowing == pytest.approx(np.where(rows == 0, 4 / 3, 2 / 3), abs=1e-3)
    # In the second group item 1 is not published, which one of its two people rated.
    second = opened.truth.ratings[np.arange(4)].toarray()[:, 1] > 0
    expected = np.where((rows == 1) & second, 0, 1)
    assert published_ratings(opened, np.arange(4)).tolist() == expected.tolist()
    raw = Activity.fitted(raw_view(opened)).expected(np.arange(4))
    assert raw[2].tolist() == pytest.approx(raw[0].tolist())  # a record of one person: the item is theirs


def test_activity_explains_heavy_raters_links(case):
    all_people, heavy, *by_popularity = result(case("simple"), "link-existence").outcomes
    assert sum(one.risk.n for one in by_popularity) == result(case("simple"), "link-existence").n
    edges = [one.more["popularity"] for one in by_popularity]
    assert edges == sorted(edges)
    assert heavy.knowledge == "the right group, heavy raters"
    assert heavy.risk.rate > all_people.risk.rate + 0.1
    for outcome in (all_people, heavy):
        assert outcome.risk.rate == pytest.approx(outcome.more["explained"], abs=0.03)
        assert outcome.risk.rate > outcome.risk.baseline + 0.05


def test_a_group_without_members_is_no_division_by_zero(ratings, tmp_path):
    release = made.grouped(ratings, 5, shape="simple", rank=4)
    values = np.vstack([release.values, release.values[:1]])
    opened = made.case(release.but(values=values), tmp_path / "empty")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = result(opened, "link-existence")
    assert np.isfinite(found.observed)
    assert "nan" not in found.detail


def test_groups_of_similar_people_exceed_what_chance_allows(ratings, tmp_path):
    """Members who rated exactly the same items: every published link is real."""
    found = result(made.case(agreeing(ratings, list(range(60))), tmp_path / "same"), "link-existence")
    assert not found.passed
    assert found.observed > 0.5


def outlier_figures(release, where):
    """Real share of the links in cells that stand out, and what the formula expects of them."""
    said = link_existence._outlier_links(made.case(release, where))
    real, formula = said.split("such cells ")[1].removesuffix(").").split(" are real (formula ")
    return float(real), float(formula)


def test_means_of_real_ratings_deviate_from_predictions(case, releases, tmp_path, monkeypatch):
    """Cells of at least three raters in five moved out of a flat pattern are seen; uninformative noise is not."""
    monkeypatch.setattr(link_existence, "FEWEST_FLAGS", 5)
    release, opened = releases["simple"], case("simple")
    flat = np.where(np.isnan(release.values), np.nan, 3).astype(np.float32)
    cells = RealCells.of(opened)
    means = flat.copy()
    means[cells.groups, cells.items] += 2 * (cells.number >= 3)
    real, formula = outlier_figures(release.but(values=means), tmp_path / "means")
    assert real >= 3 / 5
    assert real > formula + 0.25
    noise = np.random.default_rng(0).normal(0, 0.3, flat.shape).astype(np.float32)
    real, formula = outlier_figures(release.but(values=flat + noise), tmp_path / "noise")
    assert real < formula + 0.15
    assert link_existence._outlier_links(raw_view(opened)) == ""
