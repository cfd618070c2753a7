"""Test the releases the gate must refuse, each by the expected check, and the good ones it must not refuse."""

import made_releases as made
import numpy as np
import pyarrow as pa
import pytest
from test_real_data import World

from checks import gate
from checks.attacks import exact_rating, fuzzy_rating, scoreboard_rh, scoring, set_intersection, tf_idf
from checks.gate import judge_case, verify
from checks.linkage.attack import trial
from checks.linkage.knowledge import USUAL
from checks.linkage.rules import world_of
from checks.registry import registered

K = 5
LINKAGE = {
    "exact-rating": (exact_rating.rule, USUAL),
    "fuzzy-rating": (fuzzy_rating.rule, fuzzy_rating.MODELS),
    "scoreboard-rh": (scoreboard_rh.rule, scoreboard_rh.GRID),
    "scoring": (scoring.rule, USUAL),
    "set-intersection": (set_intersection.rule, USUAL),
    "tf-idf": (tf_idf.rule, USUAL),
}
REIDENTIFY = {*LINKAGE, "structure-based", "label-based"}


def table(ratings):
    """Users × items, NaN where nothing is rated."""
    dense = np.full(ratings.shape, np.nan, np.float32)
    dense[np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr)), ratings.indices] = ratings.data
    return dense


def sparse(dense):
    rows, columns = np.nonzero(~np.isnan(dense))
    return made.csr(rows, columns, dense[rows, columns], dense.shape)


def single(ratings, values, method="suppression", **changes):
    """One record per person, in no order that leads back."""
    place = np.random.default_rng(5).permutation(len(values))
    shuffled = np.empty_like(values)
    shuffled[place] = values
    release = made.Made(ratings, place, shuffled, k=K, c=1, step=1.0, method=method)
    return release.but(**changes)


def names_removed(ratings, **changes):
    """The raw data; it calls itself a suppression that suppresses nothing."""
    return single(ratings, table(ratings), **changes)


def noisy(ratings, **changes):
    """Every rating one star up or down."""
    values = table(ratings)
    moved = values + np.random.default_rng(6).choice(np.float32([-1, 1]), values.shape)
    moved = np.where(moved < 1, 2, np.where(moved > 5, 4, moved)).astype(np.float32)  # nothing left as it was
    return single(ratings, moved, "perturbation", **changes)


def suppressed(ratings, share=0.88, user_ids=None, item_ids=None):
    """Without the rarest items, and without the people who have nothing left."""
    raters = np.bincount(ratings.indices, minlength=ratings.shape[1])
    items = np.sort(np.argsort(-raters, kind="stable")[: round((1 - share) * len(raters))])
    left = table(ratings)[:, items]
    people = np.flatnonzero((~np.isnan(left)).any(axis=1))
    gone = {"users": len(left) - len(people), "items": ratings.shape[1] - len(items), "why": "rare items"}
    whole = made.Made(ratings, np.zeros(0), np.zeros((0, 0)), K, user_ids=user_ids, item_ids=item_ids)
    names = {"user_ids": whole.users[people].tolist(), "item_ids": whole.items[items].tolist()}
    return single(sparse(left[people]), left[people], withheld=gone, **names)


def alike(groups=60, items=200, core=20, own=2):
    """Groups whose members rated the same items with the same ratings, but for two items each."""
    draw = np.random.default_rng(7)
    chosen = np.argsort(draw.random((groups, items)), axis=1)
    rated = draw.integers(1, 6, (groups, items)).astype(np.float32)
    people = np.full((groups * K, items), np.nan, np.float32)
    values = np.full((groups, items), np.nan, np.float32)
    for group in range(groups):
        values[group, chosen[group, : core + own * K]] = rated[group, chosen[group, : core + own * K]]
        for member in range(K):
            extra = slice(core + own * member, core + own * (member + 1))
            mine = np.concatenate([chosen[group, :core], chosen[group, extra]])
            people[group * K + member, mine] = rated[group, mine]
            values[group, chosen[group, extra]] = 3.4  # one contributor each: an uninformative prediction
    return made.Made(
        sparse(people), np.repeat(np.arange(groups), K), values, k=K, c=3, method="predictive-simple"
    )


def opened(release, root, source=None):
    """On disk, judged against all ratings of `source` (people and items left out included)."""
    published, private = made.write(release, root)
    files = made.Release(published)
    blocks = made.blocks(source if source is not None else release)
    return made.Case(files, made.Truth.build(files, made.Membership.read(private), blocks), private)


@pytest.fixture(scope="module")
def bad(ratings, releases, tmp_path_factory):
    """A bad release by name, and its verdict; judged once."""
    # Large enough that people can still be found when nine tenths of the items are gone.
    many = made.synthetic(items=800, density=0.05)
    make = {
        "names removed": lambda: names_removed(ratings),
        "±1 noise": lambda: noisy(ratings),
        "88 % suppressed": lambda: suppressed(many),
        "homogeneous": alike,
        "single contributors": lambda: releases["single contributors"],
        "observed kept": lambda: releases["observed kept"],
    }
    judged = {}

    def get(name):
        if name not in judged:
            source = made.Made(many, np.zeros(0), np.zeros((0, 0)), K) if name == "88 % suppressed" else None
            case = opened(make[name](), tmp_path_factory.mktemp("bad") / "x", source)
            judged[name] = case, {result.name: result for result in judge_case(case, {}).checks}
        return judged[name]

    return get


CAUGHT_BY = {
    "names removed": REIDENTIFY,
    "±1 noise": {"scoreboard-rh", "fuzzy-rating"},
    "88 % suppressed": {"exact-rating", "scoreboard-rh"},
    "homogeneous": {"homogeneity"},
    "single contributors": {"contributors", "recovery"},
    "observed kept": {"recovery"},
}


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_bad_release_fails_the_expected_check(bad, name):
    _, results = bad(name)
    failed = {check.name for check in results.values() if not check.passed and check.severity == "gate"}
    assert CAUGHT_BY[name] <= failed
    for check in CAUGHT_BY[name]:  # by what it measured, not because it could not measure
        assert not results[check].void
        assert "crashed" not in results[check].detail
    assert results["integrity"].passed, results["integrity"].detail  # nothing else is wrong with it


@pytest.mark.parametrize("name", ["names removed", "±1 noise", "88 % suppressed"])
def test_single_people_are_judged_by_their_risk_instead_of_k(bad, name):
    case, results = bad(name)
    assert results["k-anonymity"].passed
    assert not results["k-anonymity"].applicable
    assert not results["contributors"].applicable
    for attack in CAUGHT_BY[name] & set(LINKAGE):
        assert results[attack].threshold == 1 / K
        assert results[attack].ci_high > 1 / K
        assert 1 / K < results[attack].observed <= results[attack].ci_high + 1e-9
    offline = {check.name: check for check in verify(case.release.directory).checks}
    assert not offline["k-anonymity"].passed  # the files alone cannot show it
    assert offline["k-anonymity"].applicable
    assert "not verified" in offline["k-anonymity"].detail
    assert (offline["k-anonymity"].observed, offline["k-anonymity"].threshold) == (1, K)


def test_suppressed_items_make_no_heavy_raters(tmp_path):
    """Most people have over a third of the few popular items that are left; they are found all the same."""
    many = made.synthetic(items=400, density=0.2)
    release = suppressed(many)
    case = opened(release, tmp_path / "x", made.Made(many, np.zeros(0), np.zeros((0, 0)), K))
    assert (np.diff(release.ratings.indptr) > release.ratings.shape[1] / 3).mean() > 0.5
    assert world_of(case).most_items() == pytest.approx(400 / 3)
    exact = registered()["exact-rating"].run(case, 1.0)
    assert (exact.passed, exact.control) == (False, True)
    assert exact.observed > 0.9


def test_single_people_in_pure_noise_pass(ratings, tmp_path):
    """Single people who are hidden well enough pass: the records reveal nothing about any person."""
    values = np.random.default_rng(8).integers(1, 6, ratings.shape).astype(np.float32)
    case = opened(single(ratings, values, "perturbation"), tmp_path / "x")
    assert case.single
    for name in {*REIDENTIFY, "k-anonymity", "contributors", "pseudonyms", "integrity", "diversity"}:
        found = registered()[name].run(case, registered()[name].threshold)
        assert found.passed, found.detail
        assert found.control is not False


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_good_release_hides_every_target_among_k(case, name):
    """That good releases pass everything is in test_gate.py; here, the figure that must be exactly 0."""
    good = case(name)
    for rule, models in LINKAGE.values():
        for model in models:
            done = trial(good, rule, model)
            assert done.count_below(K) == 0
            assert len(done.ranks) > 0
            assert done.ranks.identification.max() <= 1 / K


# Ways around the k-anonymity check by way of the exception for single people


def kanon(case):
    check = registered()["k-anonymity"]
    return check.run(case, check.threshold)


@pytest.mark.parametrize("method", ["predictive-padded", "a-plug-in"])
def test_groups_of_one_are_refused_unless_the_rules_allow_them(ratings, tmp_path, method):
    """Of a method that the judge's table does not have, groups are demanded."""
    case = opened(names_removed(ratings, method=method), tmp_path / "x")
    for seen in (case, made.Case(case.release)):
        found = kanon(seen)
        assert (found.passed, found.observed, found.threshold) == (False, 1, K)


def test_single_people_beside_groups_are_refused(ratings, tmp_path):
    """One group of five, all other people alone."""
    place = np.concatenate([np.zeros(K, int), np.arange(1, ratings.shape[0] - K + 1)])
    values = table(ratings)[np.unique(place, return_index=True)[1]]
    release = single(ratings, table(ratings)).but(group_of=place, values=values)
    found = kanon(opened(release, tmp_path / "x"))
    assert (found.passed, found.observed) == (False, 1)
    assert f"{ratings.shape[0] - K:,} people are in groups that are too small" in found.detail


def test_sizes_that_are_claimed_do_not_count(ratings, tmp_path):
    """One person per record, each said to be five."""
    from test_planted import rewrite

    case = opened(names_removed(ratings), tmp_path / "x")
    rewrite(case.release.directory / "groups.parquet", lambda rows: [{**r, "size": K} for r in rows])
    case = made.Case(made.Release(case.release.directory), case.truth, case.private)
    for seen in (case, made.Case(case.release)):
        assert (kanon(seen).passed, kanon(seen).observed) == (False, 1)


@pytest.mark.parametrize("known", [True, False], ids=["in the membership", "in the published files only"])
def test_invented_members_do_not_count(ratings, tmp_path, known):
    """Each person in a group with four who are not in the source: k on paper, one in truth."""
    from test_planted import rewrite

    people = ratings.shape[0]
    no_people = made.csr([], [], [], (people * K - people, ratings.shape[1]))
    all_people = made.sp.csr_array(made.sp.vstack([ratings, no_people]))
    release = names_removed(ratings, method="predictive-simple")
    crowded = release.but(
        ratings=all_people, group_of=np.concatenate([release.group_of, np.repeat(np.arange(people), K - 1)])
    )
    published, private = made.write(crowded, tmp_path / "x")
    if not known:
        invented = {f"person {number}" for number in range(people, people * K)}
        rewrite(private / "membership.parquet", lambda rows: [r for r in rows if r["user"] not in invented])
    case = made.reopen(crowded, published, private)
    assert verify(published).passed  # the public cannot see it
    found = kanon(case)
    assert (found.passed, found.observed, found.threshold) == (False, 1, K)
    assert f"{people * (K - 1):,} people are listed who are not in the source" in found.detail
    scoreboard = registered()["scoreboard-rh"].run(case, 1.0)
    assert not scoreboard.passed  # nor do they dilute the risk
    assert scoreboard.observed > 0.9


def test_copies_of_records_do_not_count(ratings, tmp_path):
    """Every record five times, four of them under invented pseudonyms: still one person behind each profile."""
    people = ratings.shape[0]
    no_people = made.csr([], [], [], (people * K - people, ratings.shape[1]))
    release = names_removed(ratings)
    copies = release.but(
        ratings=made.sp.csr_array(made.sp.vstack([ratings, no_people])),
        group_of=np.concatenate([release.group_of, np.arange(people, people * K)]),
        values=np.tile(release.values, (K, 1)),
    )
    case = opened(copies, tmp_path / "x")
    assert case.people.tolist() == [1] * people
    exact = registered()["exact-rating"].run(case, 1.0)
    assert (exact.passed, exact.control) == (False, True)
    assert exact.observed > 0.9
    assert not registered()["integrity"].run(case, 0).passed
    assert not verify(case.release.directory).passed


def test_records_in_the_order_of_the_ids_are_names(ratings, tmp_path):
    """Shuffled pseudonyms do not help when the records themselves stand in the order of the ids."""
    sorted_ids = [f"{number:05d}" for number in range(ratings.shape[0])]
    in_order = made.Made(
        ratings, np.arange(ratings.shape[0]), table(ratings), k=K, step=1.0, method="suppression"
    )
    for release, passed in ((in_order, False), (names_removed(ratings), True)):
        case = opened(release.but(user_ids=sorted_ids), tmp_path / str(passed))
        assert registered()["pseudonyms"].run(case, 0).passed is passed


def test_records_in_the_order_of_a_class_are_names(ratings, tmp_path):
    """Neither pseudonyms nor ids have to do with the class here; who comes first in the file belongs to it."""
    case = opened(names_removed(ratings), tmp_path / "x")
    place = case.truth.row_of_user
    for sides, passed in ((place < 60, False), (np.random.default_rng(0).permutation(place) < 60, True)):
        case.truth.attributes["side"] = pa.array(np.where(sides, "left", "right")).dictionary_encode()
        assert registered()["pseudonyms"].run(case, 0).passed is passed


# The same on real data


@pytest.mark.data
@pytest.mark.parametrize(
    ("make", "caught_by"),
    [
        (names_removed, REIDENTIFY),
        (noisy, {"scoreboard-rh", "fuzzy-rating"}),
        (suppressed, {"exact-rating", "scoreboard-rh"}),
    ],
    ids=["names removed", "±1 noise", "88 % suppressed"],
)
def test_single_people_are_refused_on_100k(hundred_thousand, make, caught_by, tmp_path):
    world = hundred_thousand
    published, private = made.write(make(world.ratings, **world.ids), tmp_path / "x")
    release = made.Release(published)
    case = made.Case(release, made.Truth.read(release, private, world.source, made.SNAPSHOT), private)
    for name in ("integrity", "k-anonymity", *sorted(caught_by)):
        check = registered()[name]
        result = gate.run_check(check, case, check.threshold)
        assert result.passed is (name not in caught_by), result.detail
        assert not result.void


@pytest.fixture
def hundred_thousand(real_data, tmp_path_factory):
    """MovieLens 100K, opened once."""
    if not OPENED:
        OPENED.append(World(real_data("ml-100k"), "100k", tmp_path_factory.mktemp("100k")))
    return OPENED[0]


OPENED: list[World] = []
