"""Test attacks on absent people: the shadow as the judge opens it, and what an attack seems to find of them."""

import shutil

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import checks.evidence.views.shadow
from checks import gate
from checks.evidence.views.raw import raw_view
from checks.evidence.views.shadow import absent_people, can_spare
from checks.linkage.absent_people import absent_ranks, absent_risk, nearest_profile, shadow_of
from checks.linkage.knowledge import Model
from checks.linkage.planted_items import with_planted_items
from checks.linkage.postings import postings_of
from checks.linkage.rules import Rule, world_of
from checks.registry import registered
from tasks.errors import Refused
from tasks.store import read_json, write_json

NO = np.nan
PRESENT = np.array([0, 1, 2, 3])
EVERYTHING = Model(0, "all")

# Groups {0, 1, 4} and {2, 3, 5}; 4 and 5 are absent from the shadow. Item means: 4, 14/5, 7/3, none.
RATINGS = np.array(
    [
        [4, 2, NO, NO],
        [4, 2, NO, NO],
        [NO, 4, 3, NO],
        [NO, 4, 3, NO],
        [4, 2, NO, NO],
        [4, NO, 1, NO],
    ]
)
GROUPS = np.array([[4, 2, NO, NO], [NO, 5, 3, NO]], dtype=np.float32)


@pytest.fixture
def six(tmp_path):
    """The six people; their shadow without 4 and 5 by default."""
    rows, columns = np.nonzero(~np.isnan(RATINGS))
    ratings = made.csr(rows, columns, RATINGS[rows, columns], RATINGS.shape)
    release = made.Made(ratings, np.array([0, 0, 1, 1, 0, 1]), GROUPS, k=2, c=1, method="predictive-simple")

    def build(present=PRESENT):
        published, private = made.write(release, tmp_path / "six")
        place = private / "utility" / "shadow-release"
        shutil.rmtree(place)
        made.write_shadow(release, place, present)
        return made.reopen(release, published, private)

    return build


def by_name(case, people):
    """Rows of a shadow's truth by the source's people."""
    names = case.truth.membership.users.to_pylist()
    return np.array([names.index(f"person {person}") for person in people])


def test_the_shadow_is_a_case_without_the_absent(six):
    shadow = shadow_of(six())
    assert absent_people(shadow).tolist() == sorted(by_name(shadow, [4, 5]))
    assert shadow.truth.row_of_user[by_name(shadow, range(6))].tolist() == [0, 0, 1, 1, -1, -1]
    assert shadow.members.tolist() == [2, 2]
    assert shadow.people.tolist() == [2, 2]
    dense = shadow.truth.ratings.toarray()[by_name(shadow, range(6))]
    assert np.array_equal(dense, np.nan_to_num(RATINGS))
    assert sorted(shadow.targets("x")) == sorted(by_name(shadow, PRESENT))


def test_attributes_go_with_people_into_the_shadow(six):
    opened = six()
    sides = [f"side {name[-1]}" for name in opened.truth.membership.users.to_pylist()]
    opened.truth.attributes["side"] = pa.array(sides).dictionary_encode()
    shadow = shadow_of(opened)
    found = shadow.truth.attributes["side"].take(pa.array(by_name(shadow, range(6)))).to_pylist()
    assert found == [f"side {person}" for person in range(6)]


def test_what_was_held_out_of_members_is_not_known_about_them(six):
    opened = six()
    file = opened.private / "utility" / "shadow-release" / "held_out.parquet"
    pq.write_table(pa.table({"pseudonym": ["shadow 00000002"], "item": pa.array([1], pa.int32())}), file)
    shadow = shadow_of(opened)
    dense = shadow.truth.ratings.toarray()[by_name(shadow, [2, 3, 4])]
    assert dense.tolist() == [[0, 0, 3, 0], [0, 4, 3, 0], [4, 2, 0, 0]]
    assert shadow.truth.raters.tolist() == opened.truth.raters.tolist()
    assert world_of(shadow).users == 6


def test_nearest_profile_compares_rated_items(six):
    """Person 5 rated 4 and 1: group 0 is 16/9 away (it lacks item 2, whose mean is 7/3), group 1 is 4 away."""
    shadow = shadow_of(six())
    assert shadow.item_means.tolist() == pytest.approx([4, 14 / 5, 7 / 3, 37 / 12])
    assert nearest_profile(shadow, by_name(shadow, [4, 5])).tolist() == [0, 0]
    assert nearest_profile(shadow, by_name(shadow, [2])).tolist() == [1]


def test_absent_people_are_found_at_their_nearest_group(six):
    opened = six()
    ratings = absent_risk(opened, Rule(np.ones(4), "within"), EVERYTHING)
    # 4 agrees twice with group 0 and 5 once, none with group 1: one of two people each.
    assert (ratings.successes, ratings.n, ratings.ceiling) == (1.0, 2, 0.5)
    presence = absent_risk(opened, Rule(np.ones(4)), EVERYTHING)
    # By items alone 5 fits both groups: one of four people.
    assert (presence.successes, presence.rate) == (0.75, 0.375)
    assert sorted(absent_ranks(opened, Rule(np.ones(4)), EVERYTHING).group_rank) == [1, 2]


def test_without_absent_people_there_is_no_baseline(six):
    assert absent_risk(six(np.arange(6)), Rule(np.ones(4)), EVERYTHING) is None


def test_forum_mentions_are_the_heavy_raters(case):
    opened = case()
    all_people = len(absent_people(shadow_of(opened)))
    ranks = absent_ranks(opened, Rule(np.ones(opened.release.n_items)), Model(0, "forum"))
    assert all_people == 15
    assert 0 < len(ranks) < all_people


def test_the_raw_datas_shadow_lacks_the_records_of_the_absent(case):
    raw = raw_view(case())
    shadow = shadow_of(raw)
    gone = absent_people(shadow)
    assert len(gone) == 15
    assert postings_of(shadow).records == postings_of(raw).records - 15 == 285
    members = np.flatnonzero(shadow.truth.row_of_user >= 0)
    records = shadow.release.blocks()
    published = np.vstack([np.nan_to_num(block.table()) for block in records])
    assert np.array_equal(published[shadow.record_of(members)], shadow.truth.ratings.toarray()[members])
    assert shadow.single


def test_control_crowd_is_limited(case, monkeypatch):
    monkeypatch.setattr(checks.evidence.views.shadow, "MOST_PEOPLE", 100)
    raw = raw_view(case())
    shadow = shadow_of(raw)
    gone = absent_people(shadow)
    assert (len(gone), shadow.truth.users, postings_of(shadow).records) == (15, 100, 85)
    assert shadow.truth.source_users == raw.truth.source_users == 300
    assert np.array_equal(shadow.truth.raters, raw.truth.raters)
    names = shadow.truth.membership.users
    rows = pc.index_in(names, value_set=raw.truth.membership.users).to_numpy()
    assert (shadow.truth.ratings != raw.truth.ratings[rows]).nnz == 0
    targets = raw.control_targets()[:40]
    more, there = with_planted_items(raw, targets)
    assert more.truth.ratings.shape == (100, raw.release.n_items + 40)
    own = more.truth.ratings[there]
    assert (own[:, :-40] != raw.truth.ratings[targets]).nnz == 0
    assert np.array_equal(own[:, -40:].toarray(), 5 * np.eye(40))


def test_small_data_spare_no_people(tmp_path):
    groups = {"values": np.full((100, 4), 3, np.float32), "group_of": np.arange(500) // 5}
    rated = made.csr(np.arange(500), np.arange(500) % 4, np.full(500, 3), (500, 4))
    opened = made.case(made.Made(rated, k=5, l=2, **groups), tmp_path / "x")
    assert can_spare(opened)
    opened.release.l = 48  # 2·5·48 people must stay, and 475 would
    assert not can_spare(opened)


def rewrite(place, name, change):
    table = pq.read_table(place / name).to_pandas()
    pq.write_table(
        pa.Table.from_pandas(change(table), pq.read_schema(place / name), preserve_index=False), place / name
    )


DAMAGE = {
    "gone": (shutil.rmtree, "no readable manifest"),
    "no parquet": (lambda place: (place / "groups.parquet").write_bytes(b"no"), "cannot be read"),
    "other files": (
        lambda place: rewrite(place, "members.parquet", lambda t: t.iloc[1:]),
        "not those its manifest names",
    ),
    "other promises": (
        lambda place: write_json(
            place / "manifest.json", read_json(place / "manifest.json") | {"method": "another"}
        ),
        "with the settings of the release",
    ),
    "strangers": (
        lambda place: rewrite(place, "membership.parquet", lambda t: t.assign(user="person who is nowhere")),
        "not those of the release",
    ),
    "members called absent": (
        lambda place: rewrite(place, "membership.parquet", lambda t: t.assign(group=np.int32(-1))),
        "not those its membership lists",
    ),
    "nothing held out": (lambda place: (place / "held_out.parquet").unlink(), "cannot be read"),
    "held out of nobody": (
        lambda place: pq.write_table(
            pa.table({"pseudonym": ["somebody"], "item": pa.array([0], pa.int32())}),
            place / "held_out.parquet",
        ),
        "not of its people and items",
    ),
    "held out but never rated": (
        lambda place: pq.write_table(
            pa.table({"pseudonym": ["shadow 00000000"] * 200, "item": pa.array(range(200), pa.int32())}),
            place / "held_out.parquet",
        ),
        "not ratings of the source",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shadow_is_refused_in_plain_words(case, damage):
    opened = case()
    harm, said = DAMAGE[damage]
    harm(opened.private / "utility" / "shadow-release")
    with pytest.raises(Refused, match=said):
        _ = shadow_of(opened)
    needs_it, other = (registered()[name] for name in ("membership-inference", "k-anonymity"))
    result = gate.run_check(needs_it, opened, needs_it.threshold)
    assert not result.passed
    assert "shadow release" in result.detail
    assert "person" not in result.detail
    assert gate.run_check(other, opened, other.threshold).passed
