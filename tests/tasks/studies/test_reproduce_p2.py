"""Test `murmur reproduce P2`: exact figures on six users, the whole run on a small file, the bars on MovieLens 1M."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.membership import Membership
from checks.evidence.truth import Truth
from checks.evidence.views.raw import RawRelease
from checks.linkage.kernel import FIELDS
from checks.linkage.knowledge import Knowledge
from checks.linkage.ranking import Ranks
from tasks.engine import Engine
from tasks.errors import UsageError
from tasks.studies.p2 import tables as p2
from tasks.studies.p2 import trials
from tasks.studies.printed_cells import printed_cell

NO = np.nan
# Six people, twelve items of which five are rated; raters 4, 3, 1, 2, 1.
RATED = {0: {2: 5, 3: 4}, 1: {0: 3, 3: 2}, 2: {0: 4, 1: 4}, 3: {0: 4, 1: 2}, 4: {0: 1}, 5: {1: 5, 4: 5}}
# What five of them say: one item, a pair only the first rated, a pair the third shares with the fourth, a pair
# no user rated, and one the fifth has not rated while others have.
SAID = {4: {0: 1}, 0: {2: 5, 3: 4}, 2: {0: 4, 1: 4}, 5: {1: 5, 2: NO}, 1: {1: NO}}


@pytest.fixture
def study():
    rows = np.concatenate([np.full(len(items), who) for who, items in RATED.items()])
    columns = np.concatenate([list(items) for items in RATED.values()])
    values = np.concatenate([list(items.values()) for items in RATED.values()])
    ratings = sp.csr_array((values.astype(np.float32), (rows, columns)), shape=(6, 12))
    names = pa.array([str(row) for row in range(6)])
    users = np.arange(6, dtype=np.int32)
    raters = np.bincount(columns, minlength=12)
    truth = Truth(Membership(names, names, users), ratings, users, raters, np.ones(6, dtype=bool), 0, 0)
    known = Knowledge(
        "by hand",
        np.array(list(SAID)),
        np.concatenate([[0], np.cumsum([len(what) for what in SAID.values()])]),
        np.concatenate([list(what) for what in SAID.values()]).astype(np.int64),
        np.concatenate([list(what.values()) for what in SAID.values()]).astype(np.float32),
    )
    return trials.Study(Case(RawRelease(truth, low=1, high=5), truth), known, 1, lambda *_: None)


def test_ranks_of_the_five_algorithms(study):
    found = {name: study.ranks(study.rule(name)).user_rank.tolist() for name in trials.ATTACKS}
    inf = np.inf
    # 4 mentions item 0, which four rated; 0's pair is unique; 2 and 3 rated the same two; no user rated 5's pair;
    # 1 has not rated the mentioned item, so all users without item 1 are as likely: the last of six.
    assert found["set-intersection"] == [4, 1, 2, inf, inf]
    # 5 mentions item 2 without having rated it: the weights are ln 20 for item 2 (user 0), ln 13.3 for item 1 (three).
    assert found["scoring"] == [4, 1, 2, 4, 6]
    # Known ratings: item 0 got a 1 only from 4; 0's pair agrees; only 2 gave 4 and 4; only 5 gave item 1 a 5.
    assert found["exact-rating"] == [1, 1, 1, 1, 6]
    # Within a star: no other user is near 1 for item 0; 3's 2 is not near 2's 4; 2's 4 for item 1 is near 5's 5.
    assert found["fuzzy-rating"] == [1, 1, 1, 2, 6]
    table = trials.identification_rates({name: study.ranks(study.rule(name)) for name in trials.ATTACKS}, 1)
    assert table["set-intersection"]["k=1"] == 20
    assert table["set-intersection"]["k=5"] == 60
    assert table["exact-rating"]["k=1"] == 80
    # Set intersection and Scoring find the same one of five here: only two of the three steps are steps.
    assert table[trials.ORDER] == {trials.STEPS: 2}


def test_reasons_of_set_intersection_misses(study):
    table = trials.miss_reasons(study.known, study.ranks(study.rule("set-intersection")))
    parts = ("1-identified", "not narrow", "no one possible", "misdirected")
    assert [table["all"][part] for part in parts] == [20, 40, 20, 20]
    assert [table["1 mentions"][part] for part in parts] == [0, 50, 0, 50]
    assert [round(table["2-3 mentions"][part], 1) for part in parts] == [33.3, 33.3, 33.3, 0]
    assert set(table["64+ mentions"].values()) == {0}


def test_rates_by_mentions_and_among_100_candidates(study):
    ranks = study.ranks(study.rule("scoring"))
    assert trials.rates_by_mentions(study.known, {"scoring": ranks})["scoring"][
        "2-3 mentions"
    ] == pytest.approx(100 / 3)
    table = np.zeros((4, len(FIELDS)))
    table[:, FIELDS.index("listed")] = [1, 1, 1, 0]
    table[:, FIELDS.index("better_people")] = [0, 9, 99, 0]
    table[:, FIELDS.index("tied_people")] = 1
    near = trials.conditional_rates(Ranks(table))["scoring"]
    assert near["10-identified of the 100-identified"] == pytest.approx(200 / 3)
    assert near["1-identified of the 100-identified"] == pytest.approx(100 / 3)


def test_owner_suppression_of_rare_items(study):
    table = trials.owner_suppression(study)
    assert table["fewer than 0 ratings"]["k=1"] == 20
    last = table["fewer than 4 ratings"]  # item 0 alone is left
    assert last["items dropped"] == pytest.approx(100 * 11 / 12)
    assert last["ratings dropped"] == pytest.approx(100 * 7 / 11)
    assert (last["k=1"], last["k=5"], last["exact-rating k=1"]) == (0, 40, 20)
    assert table[trials.FIRST_SAFE]["items dropped"] <= last["items dropped"]


def test_self_suppression_of_rarest_items(study):
    table = trials.self_suppression(study)
    assert table["0% suppressed"]["k=1"] == 20
    assert table["50% suppressed"]["k=1"] == 0  # the first one's item 2 is gone: a tie with the second


def test_misdirection_and_ignoring_popular_items(study):
    table = trials.misdirection(study, most=5, thresholds=(1, 4, 8))
    # The first (items 2 and 3, 5.81) adds items 0 and 1: the second 5.12, the third and fourth 4.89: still first.
    assert [table[trials.POPULAR][f"{step} added"] for step in (0, 1, 2)] == [20, 20, 20]
    assert table["at least 4 raters, rarest first"]["5 added"] == 20
    assert set(table["at least 8 raters, rarest first"].values()) == {None}
    assert table[trials.POPULAR][trials.KEPT] == 1
    ignoring = trials.ignoring_popular(study)
    assert ignoring["scoring, 0% of items ignored"]["k=1, nothing added"] == 20
    # Without items 0 and 1 only the first one's pair is heard.
    assert set(ignoring["scoring, 50% of items ignored"].values()) == {20}


@pytest.mark.slow
def test_popular_mentions_hide_until_they_are_ignored(study):
    # Person 0 says item 2 alone (ln 20 = 3.00). Item 0 gives four people 2.30, items 0 and 1 give two of them 4.89.
    # Of the rare items, 4 is person 5's alone: a tie.
    alone = replace(
        study, known=Knowledge("one", np.array([0]), np.array([0, 1]), np.array([2]), np.array([5.0]))
    )
    table = trials.misdirection(alone, most=5, thresholds=(1,))
    assert [table[trials.POPULAR][f"{step} added"] for step in (0, 1, 2, 5)] == [100, 100, 0, 0]
    assert [table[trials.RARE][f"{step} added"] for step in (0, 1)] == [100, 0]
    assert table[trials.POPULAR][trials.KEPT] == 0
    rows = trials.ignoring_popular(alone)
    assert list(rows["scoring, 20% of items ignored"].values()) == [100, 0, 0]  # item 0 is, item 1 is not
    assert list(rows["scoring, 50% of items ignored"].values()) == [100, 0, 0]  # both are; item 4 still ties
    misdirected = trials.misdirect(alone.known, np.array([[0, 1]]))
    assert alone.first_rank_rates(alone.rule("scoring"), [alone.known, misdirected]) == [100, 0]
    deaf = np.arange(12) > 1
    assert alone.first_rank_rates(
        trials._restrict_rule(alone.rule("scoring"), deaf), [alone.known, misdirected]
    ) == [100, 100]


def test_bar_is_a_limit_or_a_distance():
    def within(ours, **bar):
        return printed_cell("t", "r", "c", ours, other_data=20, **bar)["within"]

    assert [within(x, tolerance=10) for x in (9.9, 10, 30, 30.1)] == [False, True, True, False]
    assert [within(x, at_least=3) for x in (2, 3)] == [False, True]
    assert [within(x, at_most=0.5) for x in (0.5, 0.51)] == [True, False]
    assert within(1.0) is None
    assert within(None, at_most=1) is None
    assert (
        printed_cell("t", "r", "c", 1.0, tolerance=10)["within"] is None
    )  # the paper printed nothing to compare with
    assert printed_cell("t", "r", "c", 1.0, other_data=2, tolerance=10)["paper"] is None


def test_whole_run_on_a_small_file(tmp_path, taste_matrix):
    ratings = taste_matrix(users=80, items=60).tocoo()
    rows = zip(ratings.row, ratings.col, ratings.data, strict=True)
    data = tmp_path / "data"
    data.mkdir()
    lines = (f"{user + 1}\t{item + 1}\t{int(value)}\t880000000\n" for user, item, value in rows)
    (data / "u.data").write_text("".join(lines))
    steps = []
    answer = p2.reproduce(data, plots=tmp_path / "plots", progress=lambda *step: steps.append(step))
    assert (answer["paper"], answer["dataset"], answer["draws"]) == ("P2", "movielens-100k", trials.DRAWS)
    places = [(c["table"], c["row"], c["column"]) for c in answer["cells"]]
    assert len(set(places)) == len(places)
    assert set(p2.PAPER) | set(p2.BARS) <= set(places)  # every value the paper printed has one of ours
    assert all(c["paper"] is None and c["within"] is None for c in answer["cells"])
    assert {c["table"] for c in answer["cells"]} == {"4.3", "4.5", "6.3", *(f"fig{n}" for n in range(3, 10))}
    assert {file.name for file in (tmp_path / "plots").iterdir()} == {f"fig{n}.svg" for n in range(3, 10)}
    assert steps[-1] == ("6.3", len(trials.IGNORED_SHARES), len(trials.IGNORED_SHARES))
    json.dumps(answer, allow_nan=False)
    again = p2.reproduce(data)
    assert again["cells"] == answer["cells"]


def test_directory_without_ratings_is_refused(tmp_path):
    with pytest.raises(UsageError, match="none of"):
        p2.reproduce(tmp_path)


@pytest.mark.data
def test_frankowski2006_bars_on_movielens_1m(real_data):
    study = trials.Study.open(real_data("ml-1m"), Engine(), draws=2)
    found = {name: study.ranks(study.rule(name)) for name in trials.ATTACKS}
    tables = {
        "fig4": trials.identification_rates(found, 2),
        "fig9": trials.misdirection(study, most=5, thresholds=(1,)),
    }
    barred = {
        (c["table"], c["row"]): c["within"] for c in p2.cells(tables, p2.BARS) if c["tolerance"] is not None
    }
    assert len(barred) == len(p2.BARS) == 8
    assert [place for place, within in barred.items() if not within] == []
    # Fig 3's shares are nearly the paper's: 31 % no one possible, 20 % misdirected.
    reasons = trials.miss_reasons(study.known, found["set-intersection"])["all"]
    assert reasons["no one possible"] == pytest.approx(31, abs=5)
    assert reasons["misdirected"] == pytest.approx(20, abs=5)
