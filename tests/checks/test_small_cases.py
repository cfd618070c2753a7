"""Test checks on cases small enough to work out by hand, with exact figures."""

import made_releases as made
import numpy as np
import pytest

from checks.attacks import label_based, structure_based
from checks.linkage.knowledge import Knowledge
from checks.linkage.postings import postings_of
from checks.linkage.ranking import rank
from checks.linkage.rules import world_of
from checks.privacy import diversity
from checks.registry import registered
from checks.stats import Risk, correlation, residual, wilson
from tasks.errors import Refused

NO = np.nan

# Six people, two groups of three, four items. No one rated item 3 in group 0, no one item 0 in group 1.
RATINGS = np.array(
    [
        [5, 4, NO, NO],
        [5, NO, 3, NO],
        [4, 4, NO, NO],
        [NO, 1, NO, 2],
        [NO, NO, 3, 2],
        [NO, 2, 4, NO],
    ]
)


def matrix(table):
    rows, columns = np.nonzero(~np.isnan(table))
    return made.csr(rows, columns, table[rows, columns], table.shape)


def simple(c: int = 1, **changes):
    """The union of each group's items with the mean of its members' ratings."""
    values = np.array([[14 / 3, 4, 3, NO], [NO, 1.5, 3.5, 2]], dtype=np.float32)
    release = made.Made(matrix(RATINGS), np.array([0, 0, 0, 1, 1, 1]), values, k=3, l=1, c=c)
    return release.but(method="predictive-simple", **changes)


@pytest.fixture
def opened(tmp_path):
    return lambda release: made.case(release, tmp_path / "release")


def result(case, name):
    check = registered()[name]
    return check.run(case, check.threshold)


def test_contributors_and_sums(opened):
    case = opened(simple())
    (block,) = case.group_blocks()
    assert block.contributors.toarray().tolist() == [[3, 2, 1, 0], [0, 2, 2, 2]]
    assert block.rating_sums.toarray().tolist() == [[14, 8, 3, 0], [0, 3, 7, 4]]
    assert case.members.tolist() == [3, 3]


def test_two_groups_of_three(opened):
    found = result(opened(simple()), "k-anonymity")
    assert (found.passed, found.observed, found.n, found.threshold) == (True, 3, 6, 3)


def test_identical_profiles_differ_by_group_number(opened):
    values = np.array([[3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2]], dtype=np.float32)
    release = simple().but(values=values, group_of=np.array([0, 0, 1, 1, 2, 2]), k=2)
    found = result(opened(release), "k-anonymity")
    assert (found.passed, found.observed) == (True, 2)
    assert "2 different profiles over 6 people" in found.detail


def test_diversity_counts_groups_around_items_and_rated_pairs(opened):
    # Items 0 and 3 lie in one group each. Rated pairs: 01 and 02 lie in group 0; 13, 23 and 12 in group 1
    # (12 in both groups). Only 12 lies in two.
    found = result(opened(simple(b=2, l=1)), "diversity")
    assert (found.passed, found.observed, found.n) == (True, 1, 5)


def test_pairs_that_fall_short(opened):
    found = result(opened(simple(b=2, l=2)), "diversity")
    assert (found.passed, found.observed) == (False, 1)
    assert "4 of 5 sets" in found.detail


def test_too_many_pairs_are_refused_unless_groups_are_complete(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(diversity, "MAX_PAIRS", 10)
    with pytest.raises(Refused, match="too many pairs of items") as refused:
        result(opened(simple(b=2, l=2)), "diversity")
    assert "predictive-padded" in refused.value.remedy
    complete = simple(b=2, l=2).but(values=np.full((2, 4), 3, np.float32), method="predictive-padded")
    found = result(made.case(complete, tmp_path / "complete"), "diversity")
    assert (found.passed, found.observed) == (True, 2)
    assert "every set lies in all 2" in found.detail
    more = result(made.case(complete.but(l=3), tmp_path / "more"), "diversity")
    assert not more.passed


def test_larger_sets_are_listed_or_refused(opened):
    table = np.array([[5, 4, 3, NO], [5, 4, NO, 2], [1, 1, 1, 1], [2, 2, 2, 2]])
    values = np.array([[5, 4, 3, 2], [1.5, 1.5, 1.5, NO]], dtype=np.float32)
    release = simple(b=3).but(ratings=matrix(table), group_of=np.array([0, 0, 1, 1]), values=values, k=2)
    found = result(opened(release), "diversity")
    # 012, 013, 023, 123 are rated by a person; all lie in group 0, only 012 in group 1 as well.
    assert (found.passed, found.observed, found.n) == (True, 1, 4)
    assert "0 of 4 sets" in found.detail


def knows(case, *people):
    """Knowledge by hand: (row of the truth, {item: rating}) per target."""
    items = [item for _, what in people for item in what]
    ratings = [rating for _, what in people for rating in what.values()]
    indptr = np.concatenate([[0], np.cumsum([len(what) for _, what in people])])
    targets = np.array([who for who, _ in people])
    return Knowledge("by hand", targets, indptr, np.array(items), np.array(ratings, np.float32))


def test_structure_based_candidates(opened):
    case = opened(simple())
    first = int(np.flatnonzero(case.truth.ratings.toarray()[:, 0] == 4)[0])  # the third person: items 0 and 1
    known = knows(case, (first, {1: 4}), (first, {1: 4, 0: 4}))
    found = rank(
        postings_of(case), structure_based.rule(world_of(case)), known, case.record_of(known.targets)
    )
    assert found.people.tolist() == [6, 3]
    assert found.identification.tolist() == [1 / 6, 1 / 3]
    assert found.candidates.tolist() == [2, 1]


def test_label_based_candidates(opened):
    case = opened(simple())
    first = int(np.flatnonzero(case.truth.ratings.toarray()[:, 0] == 4)[0])
    known = knows(case, (first, {1: 4, 0: 4}))

    def found(tolerance):
        rule = label_based.rule(world_of(case), tolerance=tolerance)
        return rank(postings_of(case), rule, known, case.record_of(known.targets))

    assert found(0.05).listed.tolist() == [0]  # 4.7 is not 4: no candidate, no one named
    assert found(0.05).identification.tolist() == [0]
    assert found(1.0).people.tolist() == [3]


def test_attacks_allow_one_in_k_and_no_more(opened):
    case = opened(simple())
    for name in ("structure-based", "label-based"):
        found = result(case, name)
        assert found.passed
        assert found.observed == pytest.approx(1 / 3)
        assert found.planned == found.n
    case.release.k = 4
    assert not result(case, "structure-based").passed


def test_link_existence_in_one_bin(opened):
    # Item 0: 3 of 6 people (p = 1/2), 3 pairs published, all real. Formula: .5/(1 − .5³) = 4/7.
    # Item 3: p = 1/3, 3 pairs, 2 real. Items 1 and 2 lie in the highest bin too.
    found = result(opened(simple()), "link-existence")
    share = {"0.4–1": (3 + 2 + 2 + 1 + 2) / 15, "0.2–0.4": 2 / 3}
    formula = {p: p / (1 - (1 - p) ** 3) for p in (1 / 2, 2 / 3, 1 / 3)}
    high = (3 * formula[1 / 2] + 6 * formula[2 / 3] + 6 * formula[1 / 2]) / 15
    excess = max(share["0.4–1"] - high, share["0.2–0.4"] - formula[1 / 3])
    assert found.observed == pytest.approx(excess)
    assert "100.0% of published links have a real rater" in found.detail
    assert "Absence is certain for 100.0% of 6 absent" in found.detail


def test_link_existence_reports_complete_releases(opened):
    found = result(opened(simple().but(values=np.full((2, 4), 3, np.float32))), "link-existence")
    assert (found.passed, found.n) == (True, 0)
    assert "recovery" in found.detail


def test_homogeneity_counts_true_cells(opened):
    # Group 0, labels 4.7, 4, 3: person 0 has 5≈4.7 and 4; person 1 has 5≈4.7 and 3; person 2 has 4 (4.7 is no 4)
    # and 4 → 5 of 9. Group 1, labels 1.5, 3.5, 2: halves round to both sides → 1, 2; 3, 2; 2, 4 → 6 of 9.
    found = result(opened(simple()), "homogeneity")
    assert found.observed == pytest.approx(6 / 9)
    assert found.n == 9
    assert not found.passed


def test_unanimous_group_is_revealed(opened):
    table = np.array([[5, 4, 1, NO]] * 20 + [[1, 2, NO, 5]] * 20)
    values = np.array([[5, 4, 1, NO], [1, 2, NO, 5]], dtype=np.float32)
    release = simple().but(ratings=matrix(table), group_of=np.repeat([0, 1], 20), values=values, k=20)
    found = result(opened(release), "homogeneity")
    assert (found.passed, found.observed) == (False, 1.0)
    assert found.ci_low > 0.9


def test_single_rating_published_verbatim_fails(opened):
    found = result(opened(simple()), "contributors")
    # One cell has one contributor (group 0, item 2: 3, published as 3.0).
    assert found.n == 1
    assert "100.0% to the digit" in found.detail


def test_intervals():
    low, high = wilson(5, 10)
    assert (low, high) == (pytest.approx(0.23659, abs=1e-4), pytest.approx(0.76341, abs=1e-4))
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(10, 10)[1] == pytest.approx(1)
    assert residual(0.6, 0.2) == pytest.approx(0.5)
    assert residual(0.6, 1.0) == 0.0
    risk = Risk(30, 50, 0.5)
    assert risk.gain == pytest.approx(0.2)
    assert risk.gain_interval[0] < 0.2 < risk.gain_interval[1]
    assert Risk(0, 0).rate == 0.0


def test_correlations():
    x = np.arange(30.0)
    assert correlation(x, x)[0] == pytest.approx(1)
    assert correlation(x, np.ones(30)) == (0.0, 0.0, 0.0)
    r, low, high = correlation(x, np.sin(x))
    assert -1 < low < r < high < 1
    assert correlation(x[:3], np.array([1.0, 0, 1]))[1:] == (-1.0, 1.0)
