"""Test the posting advisor on six people whose ranks are worked out by hand."""

import json

import made_releases as made
import numpy as np
import pytest

from checks.evidence.views.raw import raw_view
from checks.linkage.advice import advise
from tasks.errors import UsageError

# Items rated by each person, of twelve. Person 5 rated more than a third of all items: Scoring leaves them out.
RATED = ((2, 3), (0, 3), (0, 1), (0, 1), (0,), (1, 6, 7, 8, 9))
NAMES = ["anna", "bo", "cleo", "dan", "eve", "finn"]


@pytest.fixture
def case(tmp_path):
    rows = np.repeat(np.arange(6), [len(items) for items in RATED])
    columns = np.concatenate(RATED)
    ratings = made.csr(rows, columns, np.full(len(rows), 4), (6, 12))
    values = np.full((2, 12), np.nan, np.float32)
    for group in (0, 1):
        values[group, np.concatenate(RATED[3 * group : 3 * group + 3])] = 4
    release = made.Made(ratings, np.array([0, 0, 0, 1, 1, 1]), values, k=3, c=1, method="predictive-simple")
    return made.case(release.but(user_ids=NAMES), tmp_path / "release")


def test_ranks_by_hand(case):
    # Sub-scores over the floor, as logs: item 0 (four of six raters) ln 10 = 2.303, item 1 (three) ln 13.3 = 2.590,
    # item 3 (two) ln 16.7 = 2.813. Anna and Bo tie at 2.813.
    # With item 0: Bo 5.116, Anna 2.813, the other three 2.303: Anna is second, and no longer among the best.
    # With item 1 instead she would still tie for the first place. With both: Bo 5.116, Cleo and Dan 4.893, Anna.
    answer = advise(raw_view(case), ["item 3"], "anna", 2)
    assert answer == {
        "people": 5,
        "mentioned": 1,
        "rank": 2,
        "fit_best": 2,
        "lead": 0.0,
        "identified_within": {"1": False, "5": True, "10": True, "100": True},
        "advice": [
            {"item": "item 0", "raters": 4, "rank_after": 2},
            {"item": "item 1", "raters": 3, "rank_after": 4},
        ],
    }
    json.dumps(answer, allow_nan=False)


def test_rated_or_mentioned_items_are_not_advised(case):
    answer = advise(raw_view(case), ["item 3", "item 3"], "bo", 20)
    assert answer["mentioned"] == 1
    assert {line["item"] for line in answer["advice"]} == {f"item {i}" for i in (1, 2, 6, 7, 8, 9)}
    assert advise(raw_view(case), ["item 3"], "bo", 0)["advice"] == []


def test_unnamed_person_is_the_best_fit(case):
    # Anna alone has both: ln 20 + ln 16.7 = 5.809, Bo 2.813, the others 0; standard deviation 2.324.
    answer = advise(raw_view(case), ["item 2", "item 3"], None, 2)
    assert (answer["rank"], answer["fit_best"]) == (1, 1)
    scores = np.array([np.log(20) + np.log(50 / 3), np.log(50 / 3), 0, 0, 0])
    assert answer["lead"] == pytest.approx((scores[0] - scores[1]) / scores.std(), abs=1e-4)
    # Both items together: Bo 5.116 and Cleo, Dan 4.893 come near Anna's 5.809 but do not pass her.
    assert [line["rank_after"] for line in answer["advice"]] == [1, 1]
    assert answer == advise(raw_view(case), ["item 2", "item 3"], "anna", 2)


def test_an_advised_mention_never_makes_things_worse(case):
    for user in (*NAMES[:5], None):
        answer = advise(raw_view(case), ["item 0"], user, 12)
        ranks = [answer["rank"], *(line["rank_after"] for line in answer["advice"])]
        assert ranks == sorted(ranks)


def test_heavy_raters_get_no_advice(case):
    answer = advise(raw_view(case), ["item 6"], "finn", 3)
    assert (answer["rank"], answer["advice"]) == (None, [])
    assert not any(answer["identified_within"].values())


def test_in_a_grouped_release_people_are_counted(case):
    answer = advise(case, ["item 3"], "anna", 1)
    assert (answer["people"], answer["rank"], answer["fit_best"]) == (6, 3, 3)
    assert answer["identified_within"] == {"1": False, "5": True, "10": True, "100": True}


def test_unknown_items_are_named_but_unknown_people_not(case):
    with pytest.raises(UsageError, match="item 99"):
        advise(raw_view(case), ["item 3", "item 99"], "anna", 1)
    with pytest.raises(UsageError, match="nothing was mentioned"):
        advise(raw_view(case), [], "anna", 1)
    with pytest.raises(UsageError) as error:
        advise(raw_view(case), ["item 3"], "zoë the unknown", 1)
    assert "zoë" not in str(error.value)
    answer = json.dumps([advise(raw_view(case), ["item 3"], user, 3) for user in ("anna", None)])
    assert not any(name in answer for name in NAMES)
