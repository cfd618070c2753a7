"""Test planted violations of a series: each is refused by the checks that should find it, and clean series pass."""

import made_series as ms
import numpy as np
import pytest

from checks.gate import run_check
from checks.registry import registered
from tasks.store import read_json, write_json

SERIES = ("averaging", "carried-over", "catalogue", "cohorts", "differencing", "public-figures", "series")
STRUCTURE = ("integrity", "k-anonymity", "diversity", "pseudonyms", "ordering")


def results(case, names=SERIES):
    return {name: run_check(registered()[name], case, registered()[name].threshold) for name in names}


def refused(case):
    """The checks of a series that refuse a release, none of them because it could not run."""
    found = results(case)
    assert not [name for name, result in found.items() if result.void], found
    assert "person " not in " ".join(result.detail for result in found.values())
    return {name for name, result in found.items() if not result.passed}


@pytest.fixture
def series(tmp_path):
    return ms.clean(tmp_path / "store")


# Clean series


def assert_clean(case):
    assert refused(case) == set()
    found = results(case, STRUCTURE)
    assert [name for name, result in found.items() if not result.passed] == [], found


def test_first_release_says_so(series):
    found = results(series.audit("2026-01-01"))
    assert all(result.passed for result in found.values())
    assert {name for name, result in found.items() if result.applicable} == {"public-figures"}
    said = [result.detail for name, result in found.items() if name != "public-figures"]
    assert all(detail.startswith("This is the first release about these people.") for detail in said)


def test_carried_over_unchanged(series):
    case = series.judge()
    assert_clean(case)
    idle = {name for name, result in results(case).items() if not result.applicable}
    assert idle == {"averaging", "differencing"}  # nobody has a second profile, and nothing differs


def test_new_cohort(series):
    case = series.judge(series.groups + series.cohort(ms.SECOND))
    assert_clean(case)
    assert results(case)["differencing"].applicable


@pytest.mark.parametrize("k", [20, 50])
def test_new_cohort_of_large_groups(tmp_path, k):
    """Half a step of rounding is k half steps in a group's sum; the attack knows, and its control is not dead."""
    series = ms.Series.start(tmp_path / "store", people=800, k=k)
    series.publish(series.cohort(range(400)))
    case = series.judge(series.groups + series.cohort(range(400, 800)))
    result = run_check(registered()["differencing"], case, 0)
    assert result.passed
    assert not result.void
    assert result.applicable


def test_new_person_in_a_large_group(tmp_path):
    """One newcomer in a group of 50 is refused, though rounding hides whose ratings were added."""
    series = ms.Series.start(tmp_path / "store", people=800, k=50)
    series.publish(series.cohort(range(400)))
    first, *others = series.groups
    joined = series.mean_of([*first.members, 500])
    result = run_check(registered()["differencing"], series.judge([joined, *others]), 0)
    assert not result.passed
    assert not result.void


def test_new_cohort_with_new_items(tmp_path):
    series = ms.Series.start(tmp_path / "store")
    series.n_items = 50
    series.publish(series.cohort(ms.FIRST))
    series.n_items = 60
    newcomers = range(140, 320)
    raters = (series.ratings[np.array(newcomers)][:, 50:].toarray() > 0).sum(axis=0)
    assert raters.min() >= 3
    assert_clean(series.judge(series.groups + series.cohort(newcomers)))


def test_people_who_left_the_source_stay(series):
    series.gone = {3, 77}
    assert_clean(series.judge())


def test_withdrawn_release_counts(series):
    """A release that was taken back is compared like any other; the next one carries its groups over."""
    series.withdraw("2026-01-01")
    assert_clean(series.judge())
    shuffled = np.random.default_rng(0).permutation(140).reshape(28, 5)
    assert {"series", "carried-over"} <= refused(series.judge([series.mean_of(row) for row in shuffled]))


def erase_one_each(series, number):
    """Erase one person of each of the first groups, and repair the release."""
    withdrawn = [series.erase(group.members[0]) for group in series.groups[:number]]
    series.withdraw("2026-01-01")
    series.publish(series.groups, "2026-01-01-r1")
    return withdrawn


def test_repaired_release(series):
    [group] = [series.erase(series.groups[0].members[0])]
    series.withdraw("2026-01-01")
    assert group not in series.groups
    assert_clean(series.judge(series.groups, "2026-01-01-r1"))


def test_transversal_pool(series):
    withdrawn = erase_one_each(series, ms.K)
    case = series.judge(series.groups + series.pooled(withdrawn, 4))
    assert_clean(case)
    assert "pooled by transversals" in results(case)["series"].detail
    assert "4 are pools of survivors" in results(case)["carried-over"].detail


def test_pool_is_carried_over(series):
    withdrawn = erase_one_each(series, ms.K)
    series.publish(series.groups + series.pooled(withdrawn, 4))
    assert_clean(series.judge())


def test_backfill_of_whole_groups(series):
    """A past snapshot after a later one: some groups whole, the others absent whole."""
    assert_clean(series.judge(series.groups[::2], "2025-06-01"))


def test_an_audit_reaches_the_same_verdict(series):
    """Later releases do not change the verdict on an earlier one."""
    second = series.publish(series.groups + series.cohort(ms.SECOND))
    before = results(series.audit(second))
    shuffled = np.random.default_rng(0).permutation(140).reshape(28, 5)
    series.publish([series.mean_of(row) for row in shuffled])
    assert results(series.audit(second)) == before
    assert not [name for name, result in before.items() if not result.passed]


@pytest.mark.parametrize("claimed", [None, "2025-09-01", "2025-06-01"])
def test_backfill_hides_that_profiles_are_newer(series, claimed):
    case = series.judge(series.groups[::2], "2025-06-01", manifest={"as_of": claimed})
    assert refused(case) == {"public-figures"}
    assert "date as_of is not that of the newest ratings" in results(case)["public-figures"].detail


def test_first_release_claims_newer_ratings(tmp_path):
    series = ms.Series.start(tmp_path / "store")
    case = series.judge(series.cohort(ms.FIRST), manifest={"as_of": "2027-01-01"})
    assert refused(case) == {"public-figures"}


def test_as_of_without_newer_profiles_may_be_missing(series):
    """Releases made before there was this key stay valid, unless they have newer profiles."""
    directory = series.publish(series.groups)
    file = series.root / "published" / series.name / directory / "manifest.json"
    manifest = read_json(file)
    write_json(file, {key: value for key, value in manifest.items() if key != "as_of"})
    assert refused(series.audit(directory)) == set()


# Planted violations


def test_newcomer_in_an_old_group(series):
    old, *others = series.groups
    joined = joined_by(old, series, 150)
    case = series.judge([joined, *others])
    assert refused(case) == {"carried-over", "cohorts", "differencing", "series"}
    assert results(case)["differencing"].outcomes[0].risk.rate == 1.0  # and the newcomer is found


def joined_by(group, series, person):
    """The group with a further person: the exact sum of all, rounded as published."""
    own = np.where((row := series.ratings[[person]].toarray()[0]) > 0, row, 3.5)
    before = 1 + np.frombuffer(group.codes, np.uint8) * ms.STEP
    n = len(group.members)
    codes = np.rint(((n * before + own) / (n + 1) - 1) / ms.STEP).clip(0, 40).astype(np.uint8)
    return group.but(members=(*group.members, person), codes=codes.tobytes())


def test_survivors_return_by_themselves(series):
    """One person leaves and the rest come back: the difference is that person."""
    larger = next(group for group in series.groups if len(group.members) >= ms.K)
    series.erase(larger.members[0])
    series.withdraw("2026-01-01")
    series.publish(series.groups, "2026-01-01-r1")
    found = refused(series.judge([*series.groups, series.mean_of(larger.members[1:])]))
    assert found == {"carried-over", "differencing", "series"}


def test_survivors_pooled_with_too_few(series):
    """Survivors of two groups are no transversal of k."""
    first, second = erase_one_each(series, 2)
    pooled = series.mean_of([*first.members[1:4], *second.members[1:4]])
    assert {"carried-over", "series"} <= refused(series.judge([*series.groups, pooled]))


def test_survivors_pooled_twice(series):
    withdrawn = erase_one_each(series, ms.K)
    series.publish(series.groups + series.pooled(withdrawn, 2))
    again = [[group.members[2], group.members[3]] for group in withdrawn]
    crossed = [series.mean_of([own[place % 2] for place, own in enumerate(again)])]
    assert {"carried-over", "series"} <= refused(series.judge([*series.groups[:-2], *crossed]))


def test_profile_refreshed_after_one_change(series):
    old, *others = series.groups
    assert refused(series.judge([old.nudged(7), *others])) == {"carried-over", "differencing"}


def test_redrawn_decoy(tmp_path):
    """A fake cell moves to another item: who compares sees which cells are fake."""
    series = ms.Series.start(tmp_path / "store")
    some = [
        group.but(items=tuple(range(59)), codes=group.codes[:59]) if number % 2 else group
        for number, group in enumerate(series.cohort(ms.FIRST))
    ]
    series.publish(some)
    moved = some[1].but(items=(*range(58), 59))
    found = refused(series.judge([some[0], moved, *some[2:]]))
    assert found == {"carried-over", "catalogue", "differencing"}


def one_new_item(tmp_path, raters):
    """A series whose next release lists a new item that so many of the newcomers rated."""
    series = ms.Series.start(tmp_path / "store")
    ratings = series.ratings.tolil()
    ratings[140:, 59] = 0
    ratings[140 : 140 + raters, 59] = 4
    series.ratings = ms.sp.csr_array(ratings.tocsr())
    series.ratings.eliminate_zeros()
    series.n_items = 59
    series.publish(series.cohort(ms.FIRST))
    series.n_items = 60
    return series.judge(series.groups + series.cohort(ms.SECOND))


@pytest.mark.parametrize(("raters", "expected"), [(1, {"catalogue"}), (2, {"catalogue"}), (3, set())])
def test_new_item_with_few_raters(tmp_path, raters, expected):
    assert refused(one_new_item(tmp_path, raters)) == expected


def test_item_delisted_after_an_erasure(series):
    series.erase(series.groups[0].members[0])
    series.withdraw("2026-01-01")
    shorter = [group.but(items=tuple(range(59)), codes=group.codes[:59]) for group in series.groups]
    assert "catalogue" in refused(series.judge(shorter, "2026-01-01-r1", n_items=59))


def test_items_in_another_order(series):
    ids = [f"item {number}" for number in (1, 0, *range(2, 60))]
    assert {"catalogue", "carried-over"} <= refused(series.judge(item_ids=ids))


def test_warm_started_refit(series):
    """All profiles slightly changed, because one further person took part in the fit."""
    refit = [group.nudged(*range(number % 5, 60, 5)) for number, group in enumerate(series.groups)]
    assert {"carried-over", "differencing"} <= refused(series.judge(refit))


def test_aged_sybils_around_one_newcomer(series):
    """k − 1 accounts that waited long enough, in a month with one newcomer."""
    lone = series.mean_of(range(150, 150 + ms.K))
    assert refused(series.judge([*series.groups, lone])) == {"cohorts"}


def test_aged_sybils_without_old_groups(series):
    """The same with nobody carried over: the name tells that it is no first release."""
    assert refused(series.judge([series.mean_of(range(150, 150 + ms.K))])) == {"cohorts"}


def test_renamed_population_with_the_same_people(series):
    shuffled = np.random.default_rng(0).permutation(140).reshape(28, 5)
    case = series.judge([series.mean_of(row) for row in shuffled], name="quite-another")
    assert {"averaging", "carried-over", "series"} <= refused(case)


@pytest.mark.parametrize("claim", ["checked", "unchecked"])
def test_forged_claim(series, claim):
    """What the manifest says about its series changes nothing."""
    shuffled = np.random.default_rng(0).permutation(140).reshape(28, 5)
    case = series.judge([series.mean_of(row) for row in shuffled], manifest={"series": claim})
    assert {"averaging", "carried-over", "series"} <= refused(case)


def test_forged_claim_hides_no_invented_people(series):
    """A series may keep people who left the source, not people who never were in it."""
    case = series.judge([*series.groups, series.mean_of(range(200, 250))])
    series.gone = {201}
    invented = series.judge([*series.groups, series.mean_of(range(200, 250))])
    assert results(case, ["integrity"])["integrity"].passed
    assert not results(invented, ["integrity"])["integrity"].passed


def test_changed_release_of_a_published_snapshot(series):
    """Another release at the place of a published one is compared with it."""
    shuffled = np.random.default_rng(0).permutation(140).reshape(28, 5)
    case = series.judge([series.mean_of(row) for row in shuffled], "2026-01-01")
    assert {"carried-over", "series"} <= refused(case)


FIGURES = {
    "an exact number of people": {"withheld": {"users": 178, "items": 0, "why": ""}},
    "a number of items": {"withheld": {"users": 180, "items": 3, "why": ""}},
    "a sentence with the source's people": {"withheld": {"users": 180, "items": 0, "why": "of 321 people"}},
    "other counts": {"counts": {"users": 321, "items": 60, "groups": 28, "ratings": 8400}},
}


@pytest.mark.parametrize("what", FIGURES)
def test_figures_about_people_who_wait(tmp_path, what):
    series = ms.Series.start(tmp_path / "store", people=321)
    series.publish(series.cohort(ms.FIRST))
    assert refused(series.judge()) == set()
    assert refused(series.judge(manifest=FIGURES[what])) == {"public-figures"}


def test_missing_history_refuses(series):
    """A release that was public and whose private files are gone cannot be compared: nothing is shown."""
    (series.root / "private" / "films" / "2026-01-01" / "membership.parquet").unlink()
    found = results(series.judge())
    assert all(result.void and not result.passed for result in found.values())


def test_outside_a_store_nothing_is_claimed(series, tmp_path):
    case = series.judge()
    moved = tmp_path / "elsewhere"
    case.private.rename(moved)
    found = results(series.open(case.release.directory, moved))
    assert not found["series"].passed
    assert "not examined" in found["series"].detail
