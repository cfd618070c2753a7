"""Test every linkage attack on six people, worked out by hand, and the kernel against plain NumPy.

Six people, nine items (a third of them is 3: who rated more is a heavy rater, here person 4):

    item       0   1   2   3   4   5   6   7   8      group
    person 0   5   4   3                              0
    person 1   5   2                                  0
    person 2   4   4       1                          0
    person 3   3       5       2                      1
    person 4   1                   2   2   2   2      1
    person 5   5           5                          1
    raters     6   3   2   2   1   1   1   1   1

    group 0   4.7 3.3  3   1            the members' means, rounded to 0.1
    group 1    3       5   5   2   2   2   2   2
"""

import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import made_releases as made
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import gate
from checks.attacks import exact_rating, fuzzy_rating, scoreboard_rh, scoring, set_intersection, tf_idf
from checks.evidence.profiles import Profiles
from checks.evidence.release import Release
from checks.evidence.views.raw import raw_view
from checks.linkage import attack
from checks.linkage.kernel import FIELDS
from checks.linkage.knowledge import Knowledge
from checks.linkage.postings import COARSE_LEVELS, Postings, postings_of
from checks.linkage.ranking import rank
from checks.linkage.rules import Rule, World, world_of
from checks.registry import registered

NO, NEVER = np.nan, math.inf
PEOPLE = np.array(
    [
        [5, 4, 3, NO, NO, NO, NO, NO, NO],
        [5, 2, NO, NO, NO, NO, NO, NO, NO],
        [4, 4, NO, 1, NO, NO, NO, NO, NO],
        [3, NO, 5, NO, 2, NO, NO, NO, NO],
        [1, NO, NO, NO, NO, 2, 2, 2, 2],
        [5, NO, NO, 5, NO, NO, NO, NO, NO],
    ]
)
GROUPS = np.array(
    [[14 / 3, 10 / 3, 3, 1, NO, NO, NO, NO, NO], [3, NO, 5, 5, 2, 2, 2, 2, 2]], dtype=np.float32
)
DAYS = {(0, 0): 10, (1, 0): 40, (5, 0): 10}  # person 0 and 5 rated item 0 on day 10, person 1 on day 40


def blocks(dated):
    rows, columns = np.nonzero(~np.isnan(PEOPLE))
    days = [DAYS.get((r, c), 1000 * r) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)]
    return [
        SimpleNamespace(
            users=pa.array([f"person {r}" for r in rows]),
            items=pa.array([f"item {c}" for c in columns]),
            ratings=PEOPLE[rows, columns].astype(np.float32),
            timestamps=np.array(days) * 86_400 + 3_600 if dated else None,
        )
    ]


def build(root, dated=False):
    rows, columns = np.nonzero(~np.isnan(PEOPLE))
    ratings = made.csr(rows, columns, PEOPLE[rows, columns], PEOPLE.shape)
    release = made.Made(ratings, np.array([0, 0, 0, 1, 1, 1]), GROUPS, k=3, method="predictive-simple")
    published, private = made.write(release, root)
    opened = made.Release(published)
    truth = made.Truth.build(opened, made.Membership.read(private), blocks(dated))
    return made.Case(opened, truth, private)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    return build(tmp_path_factory.mktemp("hand") / "x")


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dated") / "x", dated=True)


def rows(case):
    """The truth's row of each person (the membership is in the order of the pseudonyms)."""
    return np.array([case.truth.membership.users.to_pylist().index(f"person {who}") for who in range(6)])


def knows(case, *people, days=None):
    """Knowledge by hand: (person, {item: rating}) per target."""
    items = np.array([item for _, what in people for item in what])
    ratings = np.array([rating for _, what in people for rating in what.values()], np.float32)
    indptr = np.concatenate([[0], np.cumsum([len(what) for _, what in people])])
    when = None if days is None else np.array(days, np.float32)
    return Knowledge("by hand", rows(case)[[who for who, _ in people]], indptr, items, ratings, when)


def found(case, rule_of, *people, days=None, **how):
    known = knows(case, *people, days=days)
    return rank(postings_of(case), rule_of(world_of(case)), known, case.record_of(known.targets), **how)


def figures(ranks):
    """Per target: rank among records, rank among people, chance of being named."""
    return list(zip(ranks.group_rank, ranks.user_rank, ranks.identification, strict=True))


def test_example_case_has_the_expected_figures(grouped):
    assert grouped.truth.raters.tolist() == [6, 3, 2, 2, 1, 1, 1, 1, 1]
    assert grouped.truth.half_level == 0.5
    assert grouped.people.tolist() == [3, 3]
    assert (world_of(grouped).star, world_of(grouped).users) == (1, 6)
    assert (world_of(grouped).most_items(), world_of(raw_view(grouped)).most_items()) == (NEVER, 3)


SOME = [(0, {0: 5, 1: 4}), (0, {0: 5, 1: 4, 2: 3}), (3, {0: 3, 1: 4}), (5, {0: 5})]


def test_set_intersection(grouped):
    # Raw: 0 and 1 were rated by 0, 1, 2; 0, 1 and 2 by 0 alone; 3 never rated 1; 0 by all.
    raw = found(raw_view(grouped), set_intersection.rule, *SOME)
    assert figures(raw) == [(3, 3, 1 / 3), (1, 1, 1), (NEVER, NEVER, 0), (6, 6, 1 / 6)]
    assert raw.candidates.tolist() == [3, 1, 3, 6]
    # Groups: only group 0 has item 1; item 0 is in both.
    ranks = found(grouped, set_intersection.rule, *SOME)
    assert figures(ranks) == [(1, 3, 1 / 3), (1, 3, 1 / 3), (NEVER, NEVER, 0), (2, 6, 1 / 6)]
    assert ranks.people.tolist() == [3, 3, 3, 6]


def test_tf_idf(grouped):
    # w = log2(6 / raters): 0, 1, log2 3 (items 2 and 3), log2 6 (the rest). Score: Σ w² / length.
    # Knowing 0 and 1: person 1 has 1/1; persons 0 and 2 have 1/√(1 + log2² 3), and tie behind.
    # Knowing 3: person 5 has log2² 3 / log2 3 = 1.58, person 2 log2² 3 / √(1 + log2² 3) = 1.34.
    some = [(0, {0: 5, 1: 4}), (1, {0: 5, 1: 2}), (5, {3: 5}), (2, {3: 1})]
    raw = found(raw_view(grouped), tf_idf.rule, *some)
    assert figures(raw) == [(3, 3, 0), (1, 1, 1), (1, 1, 1), (2, 2, 0)]
    # Groups: 1 is in group 0 alone. 3 is in both, and group 0 is the shorter: √(1 + 2·log2² 3) = 2.45 against
    # √(2·log2² 3 + 5·log2² 6) = 6.2. So person 5's group comes second.
    assert figures(found(grouped, tf_idf.rule, *some)) == [
        (1, 3, 1 / 3),
        (1, 3, 1 / 3),
        (2, 6, 0),
        (1, 3, 1 / 3),
    ]


def test_scoring(grouped):
    # Sub-scores over the floor, 20·(1 − (raters − 1)/6): item 0 20/6, 1 40/3, 2 and 3 50/3, the others 20.
    expected = np.log([20 / 6, 40 / 3, 50 / 3, 50 / 3, 20, 20, 20, 20, 20])
    assert np.allclose(world_of(grouped).log_sub_scores(), expected)
    some = [
        (0, {0: 5, 1: 4, 2: 3}),
        (1, {0: 5, 1: 2}),
        (5, {0: 5}),
        (3, {0: 3, 1: 4, 2: 5}),
        (4, {0: 1, 5: 2}),
    ]
    # Raw, without person 4 who is a heavy rater: person 0 has all three; 0, 1 and 2 tie; all five tie; person 3 has
    # two of three, person 0 all; and person 4 is no candidate, whatever is known.
    raw = found(raw_view(grouped), scoring.rule, *some)
    assert figures(raw) == [(1, 1, 1), (3, 3, 1 / 3), (5, 5, 1 / 5), (2, 2, 0), (NEVER, NEVER, 0)]
    assert raw.candidates.tolist() == [5] * 5
    # Groups, none left out: 0, 1, 2 → group 0; 0 ties; 0, 1, 2 of person 3 → group 0 has all; 5 → group 1.
    assert figures(found(grouped, scoring.rule, *some)) == [
        (1, 3, 1 / 3),
        (1, 3, 1 / 3),
        (2, 6, 1 / 6),
        (2, 6, 0),
        (1, 3, 1 / 3),
    ]


def test_sub_scores_end_at_the_floor():
    # Of 20 people 1, 11, 20 and 40 (people left out of the release included) rated the item.
    world = World(np.array([1, 11, 20, 40]), 20, single=False, half_level=0.5, low=1, high=5)
    assert np.allclose(world.log_sub_scores(), [math.log(20), math.log(10), 0, 0])


def test_exact_rating(grouped):
    some = [(0, {0: 5, 1: 4}), (1, {0: 5}), (5, {0: 5}), (4, {0: 1}), (2, {0: 4, 1: NO})]
    # Raw (person 4 left out): 5 and 4 were given by person 0 alone; a 5 for item 0 by 0, 1 and 5; person 2 alone
    # gave it a 4, and an item known without a rating agrees with none.
    raw = found(raw_view(grouped), exact_rating.rule, *some)
    assert figures(raw) == [(1, 1, 1), (3, 3, 1 / 3), (3, 3, 1 / 3), (NEVER, NEVER, 0), (1, 1, 1)]
    # Groups: 4.7 rounds to 5 and 3.3 not to 4: group 0 leads by item 0 alone, also before person 5's own group.
    # No label for item 0 rounds to 1, and none to 4 (4.7, 3): all tie at nothing.
    assert figures(found(grouped, exact_rating.rule, *some)) == [
        (1, 3, 1 / 3),
        (1, 3, 1 / 3),
        (2, 6, 0),
        (2, 6, 1 / 6),
        (2, 6, 1 / 6),
    ]


def test_fuzzy_rating(grouped):
    some = [(0, {0: 5, 1: 4}), (1, {0: 4, 1: 2}), (3, {0: 4})]
    # Raw, within one star: 5 and 4 fit persons 0 and 2 (4 and 4); person 1 alone is near 4 and 2; 4 fits 0, 1, 2, 3
    # and 5 (5, 5, 4, 3, 5).
    raw = found(raw_view(grouped), fuzzy_rating.rule, *some)
    assert figures(raw) == [(2, 2, 1 / 2), (1, 1, 1), (5, 5, 1 / 5)]
    # Groups: 4.7 and 3.3 are near 5 and 4; 3.3 is not near 2, but 4.7 is near 4, as 3 is: the groups tie.
    assert figures(found(grouped, fuzzy_rating.rule, *some)) == [(1, 3, 1 / 3), (2, 6, 1 / 6), (2, 6, 1 / 6)]


W0, W1, W2 = (
    1 / math.log(6),
    1 / math.log(3),
    1 / math.log(2),
)  # of items 0; 1; all others (one rater counts as 2)


def near(apart):
    return math.exp(-apart / 1.5)


def test_scoreboard_rh(grouped):
    some = [(0, {0: 5, 1: 4}), (1, {0: 5}), (2, {0: 5, 1: 4}), (4, {0: 1, 5: 2})]
    raw = found(raw_view(grouped), scoreboard_rh.rule, *some, entropic=True)
    # 5 and 4 known: person 0 agrees; person 2 is one off on item 0 and comes second (1.20), also as the target.
    # A 5 for item 0: persons 0, 1, 5. No record is left out, so person 4 is found by item 5.
    assert figures(raw) == [(1, 1, 1), (3, 3, 1 / 3), (2, 2, 0), (1, 1, 1)]
    scores = np.array(
        [W0 + W1, W0 + W1 * near(2), W0 * near(1) + W1, W0 * near(2), W0 * near(4), W0]
    )  # 1.47, 0.80, 1.20, 0.15, 0.04, 0.56
    spread = scores.std()
    assert raw.eccentricity[0] == pytest.approx((scores[0] - scores[2]) / spread, rel=1e-5)
    assert raw.eccentricity[1] == 0  # the best two tie
    chance = np.exp(scores / spread) / np.exp(scores / spread).sum()
    assert raw.own_probability[[0, 2]] == pytest.approx(chance[[0, 2]], rel=1e-5)
    assert raw.entropy_bits[0] == pytest.approx(-(chance * np.log2(chance)).sum(), rel=1e-5)


def test_scoreboard_rh_on_groups(grouped):
    # 5 and 4: group 0 (4.7, 3.3) W0·e^−0.2 + W1·e^−0.47 = 1.03, group 1 (3) W0·e^−1.33 = 0.15.
    # 5 and 5 for items 0 and 3: group 0 W0·e^−0.2 + W2·e^−2.67 = 0.56, group 1 0.15 + W2 = 1.59.
    # 5 for item 0 alone: group 0, though it is person 5's.
    ranks = found(
        grouped, scoreboard_rh.rule, (0, {0: 5, 1: 4}), (5, {0: 5, 3: 5}), (5, {0: 5}), entropic=True
    )
    assert figures(ranks) == [(1, 3, 1 / 3), (1, 3, 1 / 3), (2, 6, 0)]
    # Of two records the best stands out by 2 standard deviations, always: e² to 1.
    assert ranks.eccentricity == pytest.approx([2, 2, 2], rel=1e-4)
    p = 1 / (1 + math.exp(-2))
    assert ranks.own_probability == pytest.approx([p, p, 1 - p], rel=1e-4)
    assert ranks.entropy_bits == pytest.approx([-p * math.log2(p) - (1 - p) * math.log2(1 - p)] * 3, rel=1e-4)


def test_scoreboard_rh_with_days(dated):
    # A 5 for item 0: persons 0, 1 and 5 tie, until it is known that it was given on day 40 (person 1; the others on
    # day 10, e^−1 as near) or on day 10 (0 and 5).
    assert raw_view(dated).release.dated
    some = [(1, {0: 5}), (1, {0: 5}), (5, {0: 5}), (1, {0: 5})]
    ranks = found(raw_view(dated), scoreboard_rh.rule, *some, days=[NO, 40, 10, 25])
    assert figures(ranks) == [(3, 3, 1 / 3), (1, 1, 1), (2, 2, 1 / 2), (3, 3, 1 / 3)]  # day 25: 15 from both
    # 2 W0 against W0·(1 + e^−1); all others are years away and score their ratings only.
    scores = W0 * np.array([1 + 1 / math.e, 2, near(1), near(2), near(4), 1 + 1 / math.e])
    assert ranks.eccentricity[1] == pytest.approx((scores[1] - scores[0]) / scores.std(), rel=1e-5)
    # What is published has no days, so knowing them helps no attacker.
    with_days = found(dated, scoreboard_rh.rule, *some, days=[NO, 40, 10, 25])
    assert np.array_equal(with_days.table, found(dated, scoreboard_rh.rule, *some).table)


def test_a_record_can_be_left_out(grouped):
    raw = raw_view(grouped)
    who, no_record = rows(raw), np.array([-1])
    known = knows(raw, (1, {0: 5, 1: 2}))
    rule = set_intersection.rule(world_of(raw))
    for left_out, expected in (
        (who[[0]], (2, 2, 1 / 2)),
        (who[[1]], (NEVER, NEVER, 0)),
        (no_record, (3, 3, 1 / 3)),
    ):
        ranks = rank(postings_of(raw), rule, known, who[[1]], leave_out=left_out)
        assert figures(ranks) == [expected]
    stranger = rank(
        postings_of(raw), rule, known, no_record
    )  # a target without a record: never found, others still are
    assert figures(stranger) == [(NEVER, NEVER, 0)]
    assert stranger.candidates.tolist() == [3]


def test_tf_idf_divides_by_the_length_of_the_vector():
    """Known: item 0. Record A has items 0 and 1, record B items 0, 2 and 3; w² = 1, 4, 1, 1. A scores 1/√5, B 1/√3."""
    weight = np.array([1.0, 4.0, 1.0, 1.0])
    table = np.array([[3, 3, np.nan, np.nan], [3, np.nan, 3, 3]], np.float32)
    with TemporaryDirectory() as place:
        postings = Records(table, dense=False, continuous=False).postings(np.ones(2, int), Path(place) / "p")
        norms = postings.inverse_norms(weight)
    assert norms.tolist() == pytest.approx([1 / math.sqrt(5), 1 / math.sqrt(3)])


# The controls


LINKAGE = ("exact-rating", "scoreboard-rh", "scoring", "set-intersection", "tf-idf", "fuzzy-rating")


@pytest.fixture
def alike(tmp_path):
    """Forty people who all gave the same ratings: no attack can distinguish them, not even in the raw data."""
    ratings = made.csr(*np.indices((40, 20)).reshape(2, -1), np.tile([5, 4, 3, 2], 200), (40, 20))
    release = made.Made(ratings, np.arange(40) // 5, np.full((8, 20), 3.5, np.float32), k=5)
    return made.case(release, tmp_path / "x")


@pytest.mark.parametrize("name", LINKAGE)
def test_resistant_raw_data_are_controlled_by_planted_items(alike, name):
    result = gate.run_check(registered()[name], alike, 1.0)
    assert result.passed
    assert "finds 2.5% in the raw data" in result.detail  # one of forty, by chance
    assert "planted item of their own it finds 100.0%" in result.detail


@pytest.mark.parametrize("name", LINKAGE)
def test_attack_that_finds_no_target_is_void(alike, monkeypatch, name):
    """What it knows is another person's: neither the raw data nor planted items are found."""
    whole = attack.knowledge_of

    def confused(case, targets, model):
        return replace(whole(case, np.roll(targets, 1), model), targets=targets)

    monkeypatch.setattr(attack, "knowledge_of", confused)
    check = registered()[name]
    assert check.run(alike, check.threshold).passed  # by its own figure it would
    result = gate.run_check(check, alike, check.threshold)
    assert not result.passed
    assert result.void


def test_attack_that_finds_removed_people_is_void(case, monkeypatch):
    """It calls whatever it is asked about the best: strangers, too."""
    whole = attack.rank

    def boasting(*arguments, **options):
        ranks = whole(*arguments, **options)
        ranks.table[:, FIELDS.index("top")] = 1
        return ranks

    monkeypatch.setattr(attack, "rank", boasting)
    result = gate.run_check(registered()["scoreboard-rh"], case("padded"), 1.0)
    assert not result.passed
    assert result.void
    assert "finds 100.0% in the raw data" in result.detail


def test_attack_that_loses_a_target_fails(grouped, monkeypatch):
    """Planned and run are counted apart: a block that comes back short is no pass."""
    whole = attack.knowledge_of

    def short(case, targets, model):
        return whole(case, targets, model).part(0, len(targets) - 1)

    check = registered()["set-intersection"]
    assert "planned" not in gate.run_check(check, grouped, check.threshold).detail
    monkeypatch.setattr(attack, "knowledge_of", short)
    result = gate.run_check(check, grouped, check.threshold)
    assert not result.passed
    assert "trials were planned" in result.detail


# The kernel against plain NumPy


class Records:
    """A release made of a table (NaN: not published), as far as postings read one."""

    low, step, dated = 1.0, 0.5, False

    def __init__(self, table, *, dense, continuous):
        self.table, self.complete, self.continuous = table, dense, continuous
        self.n_groups, self.n_items = table.shape
        self.dtype = np.dtype("<f4" if continuous else "<u1")
        self.levels = 0 if continuous else 9

    def blocks(self):
        there = ~np.isnan(self.table)
        values = self.table[there].astype(np.float32)
        codes = values if self.continuous else np.rint((values - self.low) / self.step).astype(np.uint8)
        indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        items = None if self.complete else np.nonzero(there)[1].astype(np.int32)
        yield Profiles(0, indptr, items, codes, self.n_items, self.low, self.step)

    long_blocks = blocks
    distinct_values = Release.distinct_values

    def postings(self, people, directory):
        return Postings.build(self, np.arange(self.n_groups), people, directory)


def plain(table, people, rule, known, own, leave_out):
    """The formulas as they stand: one target, one row per record."""
    scores = np.zeros(len(table), np.float32)
    for item, rating in zip(known.items, known.ratings, strict=True):
        there, apart = ~np.isnan(table[:, item]), np.abs(table[:, item].astype(np.float32) - rating)
        weight = np.float32(rule.weight[item])
        if rule.kind == "presence":
            scores += np.where(there, weight, 0)
        elif rule.kind == "within":
            scores += np.where(there & (apart <= rule.width + 1e-4), weight, 0)
        else:
            decay = [
                weight * math.exp(-float(a) / rule.width) if t else 0
                for a, t in zip(apart, there, strict=True)
            ]
            scores += np.array(decay, np.float32)
    if rule.cosine:
        length = np.where(np.isnan(table), 0, rule.weight).sum(axis=1)
        scores *= (1 / np.sqrt(np.maximum(length, 1e-12))).astype(np.float32)
    fits = (~np.isnan(table)).sum(axis=1) <= rule.most_items
    fits &= (scores == len(known.items)) | (not rule.all_needed)
    fits[leave_out] &= leave_out < 0
    best = scores[fits].max() if fits.any() else None
    if not fits[own]:
        return NEVER, NEVER, 0.0, fits.sum()
    ahead = fits & (scores >= scores[own])
    named = 1 / people[fits & (scores == best)].sum() if scores[own] == best else 0.0
    return ahead.sum(), people[ahead].sum(), named, fits.sum()


RULES = {
    "presence": {},
    "all needed": {"all_needed": True},
    "cosine": {"cosine": True},
    "without heavy raters": {"most_items": 3},
    "within": {"kind": "within", "width": 0.5},
    "within, all needed": {"kind": "within", "width": 1.0, "all_needed": True},
    "decay": {"kind": "decay", "width": 1.5},
}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    records=st.integers(1, 300),
    items=st.integers(1, 6),
    name=st.sampled_from(sorted(RULES)),
    dense=st.booleans(),
    continuous=st.booleans(),
)
def test_kernel_matches_plain_formulas(tmp_path_factory, seed, records, items, name, dense, continuous):
    draw = np.random.default_rng(seed)
    table = draw.normal(3, 1, (records, items)) if continuous else draw.integers(2, 11, (records, items)) / 2
    table = table.astype(np.float32)
    if not dense:
        table[draw.random(table.shape) < 0.4] = np.nan
    needed = RULES[name].get("all_needed", False)
    weight = np.ones(items) if needed else draw.integers(1, 9, items) / 4  # sums of quarters are exact
    rule, people = Rule(weight, **RULES[name]), draw.integers(1, 9, records)
    size = int(draw.integers(1, items + 1))
    targets = draw.integers(0, records, 3)
    chosen = [draw.choice(items, size, replace=False) for _ in targets]
    ratings = [np.nan_to_num(table[t, c], nan=3) for t, c in zip(targets, chosen, strict=True)]
    known = Knowledge("", targets, np.arange(4) * size, np.concatenate(chosen), np.concatenate(ratings))
    leave_out = draw.integers(-1, records, 3)
    expected = [plain(table, people, rule, known.part(n, n + 1), targets[n], leave_out[n]) for n in range(3)]
    for stored_dense in {dense, False}:  # the same complete table, stored both ways
        postings = Records(table, dense=stored_dense, continuous=continuous).postings(
            people, tmp_path_factory.mktemp("postings") / "x"
        )
        assert postings.facts["dense"] is stored_dense
        ranks = rank(postings, rule, known, targets, leave_out=leave_out)
        got = zip(ranks.group_rank, ranks.user_rank, ranks.identification, ranks.candidates, strict=True)
        assert list(got) == expected


def test_many_continuous_ratings_are_compared_on_a_grid(tmp_path):
    """More different ratings than codes: none is further from its level than half a step of the grid."""
    values = np.random.default_rng(0).normal(0, 1, (70_000, 1)).astype(np.float32)
    postings = Records(values, dense=True, continuous=True).postings(np.ones(70_000, int), tmp_path / "x")
    assert len(postings.levels) == COARSE_LEVELS
    stored = postings.levels[np.asarray(postings.array("codes"))]
    assert np.abs(stored - values[:, 0]).max() <= np.ptp(values) / (COARSE_LEVELS - 1) / 2 * 1.01
