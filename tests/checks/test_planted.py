"""Test planted violations: everything a broken or dishonest release could contain is refused, offline
where possible.
"""

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks import gate
from checks.gate import verify
from checks.registry import registered
from tasks.store import read_json, write_json


def rewrite(path, change):
    """Change the rows of a Parquet file, keeping its schema."""
    table = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema), path)


def result(case, name):
    """The gate's answer to one check."""
    return gate.run_check(registered()[name], case, registered()[name].threshold)


def renumber(published, **counts):
    manifest = read_json(published / "manifest.json")
    write_json(published / "manifest.json", manifest | {"counts": manifest["counts"] | counts})


def lose_a_member(published, private):
    """A group of k − 1, everything else consistent."""
    gone = pq.read_table(published / "members.parquet").to_pylist()[0]
    rewrite(published / "members.parquet", lambda rows: [r for r in rows if r["user"] != gone["user"]])
    rewrite(private / "membership.parquet", lambda rows: [r for r in rows if r["pseudonym"] != gone["user"]])
    rewrite(
        published / "groups.parquet",
        lambda rows: [{**r, "size": r["size"] - (r["group"] == gone["group"])} for r in rows],
    )
    counts = read_json(published / "manifest.json")["counts"]
    renumber(published, users=counts["users"] - 1, ratings=counts["ratings"] - counts["items"])


def two_groups(published, private):
    """One pseudonym listed in two groups."""
    rewrite(published / "members.parquet", lambda rows: [{**rows[0], "group": rows[0]["group"] ^ 1}, *rows])


def two_profiles(published, private):
    """One group number with two profiles."""
    rewrite(published / "groups.parquet", lambda rows: [*rows, {**rows[1], "group": rows[0]["group"]}])


def no_group(published, private):
    """A member of a group that is not there."""
    rewrite(published / "members.parquet", lambda rows: [{**rows[0], "group": 9999}, *rows[1:]])


def no_members(published, private):
    """Add a group without members."""
    rewrite(published / "groups.parquet", lambda rows: [*rows, {**rows[0], "group": 9999}])


OFFLINE = {
    "a group of k−1": (lose_a_member, {"k-anonymity"}),
    "a pseudonym in two groups": (two_groups, {"integrity", "k-anonymity"}),
    "a group id with two profiles": (two_profiles, {"integrity", "k-anonymity"}),
    "a member of no group": (no_group, {"integrity", "k-anonymity"}),
    "a group without members": (no_members, {"integrity", "k-anonymity"}),
}


@pytest.mark.parametrize("what", OFFLINE)
def test_verify_refuses(violated, what):
    change, expected = OFFLINE[what]
    published, private, release = violated(change)
    assert set(verify(published).failed) == expected
    opened = made.reopen(release, published, private)
    assert not any(result(opened, name).passed for name in expected)


def test_a_group_below_k_is_also_found_by_the_attacks(violated):
    published, private, release = violated(lose_a_member, "simple")
    opened = made.reopen(release, published, private)
    for name in ("k-anonymity", "structure-based", "label-based", "set-intersection", "scoreboard-rh"):
        assert not result(opened, name).passed


def alone_and_readable(release):
    """The same groups, and one further of a single person that publishes exactly what this person rated."""
    person = np.diff(release.ratings.indptr).argmax()
    own = release.ratings[[person]].toarray()[0]
    values = np.vstack([release.values, release.values[release.group_of[person]]])
    values[-1] = np.where(own > 0, own, values[-1])
    if np.isnan(release.values).any():
        values[-1, own == 0] = np.nan
    group_of = release.group_of.copy()
    group_of[person] = release.n_groups
    return release.but(values=values, group_of=group_of)


BY_RATINGS = ("exact-rating", "fuzzy-rating", "scoreboard-rh", "nearest-record", "label-based")
BY_ITEMS = ("set-intersection", "tf-idf", "scoring", "structure-based")


@pytest.mark.parametrize(("name", "attacks"), [("padded", BY_RATINGS), ("simple", (*BY_RATINGS, *BY_ITEMS))])
def test_where_linkage_applies_to_groups_it_can_fail(case, releases, tmp_path, name, attacks):
    """Where k people share every profile no such attack can exceed 1/k, so it is no evidence; with one group below k,
    or a threshold below 1/k, it is."""
    good = case(name)
    bad = made.case(alone_and_readable(releases[name]), tmp_path / "alone")
    for attack in attacks:
        kept = result(good, attack)
        assert (kept.passed, kept.applicable) == (True, False), attack
        assert "people share every profile" in kept.detail
        broken = result(bad, attack)
        assert (broken.passed, broken.applicable, broken.void) == (False, True, False), attack
        assert gate.run_check(registered()[attack], good, 0.01).applicable


@pytest.mark.parametrize(
    ("name", "demanded", "passed", "loosened"),
    [
        ("k-anonymity", 1, True, True),
        ("k-anonymity", 5, True, False),
        ("k-anonymity", 10, False, False),
        ("diversity", 0, True, True),
        ("diversity", 3, True, False),
        ("diversity", 1000, False, False),
        ("pseudonyms", 1, True, True),
    ],
)
def test_stricter_and_looser_thresholds_are_reported(case, name, demanded, passed, loosened):
    """Groups are of 5 to 9 people, and there are fewer than a thousand of them."""
    answer = gate.run_check(registered()[name], case(), demanded)
    assert answer.passed is passed
    assert answer.loosened is loosened
    assert ("loosened the threshold" in answer.detail) is loosened  # disclosed to the public


def test_an_item_in_too_few_groups(violated):
    def drop(published, private):
        def without(rows):
            keep = {r["group"] for r in rows if 0 in r["items"]}
            keep = set(sorted(keep)[:1])
            for r in rows:
                if 0 in r["items"] and r["group"] not in keep:
                    r["ratings"], r["items"] = r["ratings"][1:], r["items"][1:]
            return rows

        rewrite(published / "groups.parquet", without)

    published, _, _ = violated(drop, "simple")
    verdict = verify(published)
    assert "diversity" in verdict.failed
    diversity = next(c for c in verdict.checks if c.name == "diversity")
    assert (diversity.observed, diversity.threshold) == (1, 2)


def test_a_tampered_file(violated):
    def nudge(published, private):
        rewrite(
            published / "groups.parquet",
            lambda rows: [
                {**rows[0], "ratings": bytes([rows[0]["ratings"][0] ^ 1]) + rows[0]["ratings"][1:]},
                *rows[1:],
            ],
        )

    published, _, _ = violated(nudge, seal=False)
    verdict = verify(published)
    assert verdict.failed == ["integrity"]
    assert "groups.parquet" in verdict.checks[1].detail


CONTRADICTIONS = {
    "an unlisted file": (lambda p, _: (p / "ids.txt").write_text("17"), "does not list", False),
    "a hidden file": (lambda p, _: (p / ".ids").write_text("17"), "does not list", False),
    "a missing file": (
        lambda p, _: write_json(p / "manifest.json", _with_file(p, "gone")),
        "are missing",
        False,
    ),
    "a link": (lambda p, _: (p / "x").symlink_to("/etc/hostname"), "links to somewhere else", False),
    "wrong counts": (lambda p, _: renumber(p, groups=1), "counts of the manifest", True),
    "a code off the scale": (
        lambda p, _: rewrite(
            p / "groups.parquet",
            lambda rows: [{**rows[0], "ratings": b"\xff" + rows[0]["ratings"][1:]}, *rows[1:]],
        ),
        "off the scale",
        True,
    ),
    "a wrong size": (
        lambda p, _: rewrite(p / "groups.parquet", lambda rows: [{**rows[0], "size": 50}, *rows[1:]]),
        "whose size",
        True,
    ),
    "members in source order": (
        lambda p, _: rewrite(p / "members.parquet", lambda rows: rows[::-1]),
        "pseudonym order",
        True,
    ),
    "notes in a file": (
        lambda p, _: pq.write_table(
            pq.read_table(p / "items.parquet").replace_schema_metadata({"owner": "person 17"}),
            p / "items.parquet",
        ),
        "notes beside their columns (items.parquet)",
        True,
    ),
    "notes on a column": (
        lambda p, _: _annotate(p / "members.parquet", pa.field("user", pa.string(), metadata=NOTE)),
        "notes beside their columns (members.parquet)",
        True,
    ),
    "notes on a list's values": (
        lambda p, _: _annotate(
            p / "groups.parquet",
            pa.field("items", pa.list_(pa.field("element", pa.int32(), metadata=NOTE))),
        ),
        "notes beside their columns (groups.parquet)",
        True,
    ),
    "a name for a list's values": (
        lambda p, _: _annotate(
            p / "groups.parquet", pa.field("items", pa.list_(pa.field("person 17", pa.int32())))
        ),
        "notes beside their columns (groups.parquet)",
        True,
    ),
    "an extra file that is listed": (
        lambda p, _: (p / "ids.txt").write_text("person 17"),
        "do not follow docs/release-format.md (files)",
        True,
    ),
    "a key of its own": (
        lambda p, _: _say(p, note={"person 17": 3}),
        "are not in docs/release-format.md: 1",
        True,
    ),
    "a list of people withheld": (
        lambda p, _: _say(p, withheld={"users": ["person 17"], "items": 0, "why": ""}),
        "do not follow docs/release-format.md (withheld)",
        True,
    ),
    "a long story": (
        lambda p, _: _say(p, withheld={"users": 0, "items": 0, "why": "too few ratings " * 13}),
        "do not follow docs/release-format.md (withheld)",
        True,
    ),
    "more beside what is withheld": (
        lambda p, _: _say(p, withheld={"users": 0, "items": 0, "why": "", "who": ["person 17"]}),
        "do not follow docs/release-format.md (withheld)",
        True,
    ),
    "a release called after a person": (
        lambda p, _: _say(p, release="person 17"),
        "do not follow docs/release-format.md (release)",
        True,
    ),
    "a method nobody knows": (
        lambda p, _: _say(p, method="person 17"),
        "do not follow docs/release-format.md (method)",
        True,
    ),
    "series of some other kind": (
        lambda p, _: _say(p, series="person 17", code_version="person 17", created_at="x"),
        "do not follow docs/release-format.md (series, code_version, created_at)",
        True,
    ),
    "z-scores": (
        lambda p, _: _say(p, unit="z-score"),
        "z-scores of a method that may not publish them",
        True,
    ),
    "a verdict with more to say": (
        lambda p, _: _write_verdict(p, passed=True, note="person 17"),
        "do not follow docs/release-format.md (checks)",
        True,
    ),
    "a void check that passed": (
        lambda p, _: _write_verdict(p, passed=True, void=True),
        "do not follow docs/release-format.md (checks)",
        True,
    ),
    "a failed check that is not applicable": (
        lambda p, _: _write_verdict(p, passed=False, applicable=False),
        "do not follow docs/release-format.md (checks)",
        True,
    ),
    "a fact that is a text": (
        lambda p, _: _write_verdict(p, passed=True, applicable="person 17"),
        "do not follow docs/release-format.md (checks)",
        True,
    ),
    "a failed check": (
        lambda p, _: _write_verdict(p, passed=False),
        "should have stopped the release (k-anonymity)",
        True,
    ),
}


def _with_file(published, name):
    manifest = read_json(published / "manifest.json")
    return manifest | {"files": manifest["files"] | {name: "0" * 64}}


NOTE = {"map": "person 17"}


def _say(published, **changes):
    write_json(published / "manifest.json", read_json(published / "manifest.json") | changes)


def _annotate(path, field):
    """The same column under another description; the writer keeps the names of list elements as they are."""
    table = pq.read_table(path)
    schema = table.schema.set(table.schema.get_field_index(field.name), field)
    pq.write_table(table.cast(schema), path, use_compliant_nested_type=False)


def _write_verdict(published, *, passed, **more):
    numbers = {"observed": 5, "threshold": 5, "ci_low": None, "ci_high": None, "n": 300, "detail": "measured"}
    facts = {"passed": passed, "applicable": True, "void": False}
    line = {"name": "k-anonymity", "severity": "gate"} | facts | numbers | more
    checks = [{key: value for key, value in line.items() if value != ...}]
    write_json(published / "checks.json", checks)
    write_json(published / "manifest.json", read_json(published / "manifest.json") | {"checks": checks})


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_contradictions(violated, what):
    change, words, seal = CONTRADICTIONS[what]
    published, _, _ = violated(change, seal=seal)
    verdict = verify(published)
    assert verdict.failed == ["integrity"]
    detail = next(c for c in verdict.checks if c.name == "integrity").detail
    assert words in detail
    assert "person" not in detail


def test_a_verdict_that_passed_is_no_contradiction(violated):
    published, _, _ = violated(lambda p, _: _write_verdict(p, passed=True))
    assert verify(published).passed


@pytest.mark.parametrize(("absent", "failed"), [(("applicable", "void"), []), (("void",), ["integrity"])])
def test_lines_of_older_releases_stay_valid(violated, absent, failed):
    """Lines published before `applicable` and `void` existed are accepted; lines with one of the two are not."""
    published, _, _ = violated(lambda p, _: _write_verdict(p, passed=True, **dict.fromkeys(absent, ...)))
    assert verify(published).failed == failed


PRIVATE = {
    "another group than the owner's": (
        lambda _, p: rewrite(
            p / "membership.parquet", lambda rows: [{**rows[0], "group": rows[0]["group"] ^ 1}, *rows[1:]]
        ),
        "group differs",
    ),
    "somebody the owner does not know": (
        lambda _, p: rewrite(p / "membership.parquet", lambda rows: rows[1:]),
        "who are not in the membership",
    ),
    "an invented person": (
        lambda _, p: rewrite(
            p / "membership.parquet", lambda rows: [{**rows[0], "user": "nobody"}, *rows[1:]]
        ),
        "members without a rating in the source",
    ),
}


@pytest.mark.parametrize("what", PRIVATE)
def test_contradictions_with_the_private_side(violated, what):
    change, words = PRIVATE[what]
    published, private, release = violated(change)
    assert verify(published).passed  # the public cannot see it
    opened = made.reopen(release, published, private)
    assert not result(opened, "integrity").passed
    assert words in result(opened, "integrity").detail


REASONS = {
    "person 17 asked for it": 1,
    "asked by PERSON 17, person 4 and person 4": 2,
    "(person 17)": 1,
    "person 1700 and xperson 17": 0,
    "fewer than five ratings": 0,
    "": 0,
}


@pytest.mark.parametrize("why", REASONS)
def test_withheld_reason_contains_no_id(violated, why):
    """Only with the source can a word be recognized as an id."""
    withheld = {"users": 0, "items": 0, "why": why}
    published, private, release = violated(lambda p, _: _say(p, withheld=withheld))
    assert verify(published).passed
    answer = result(made.reopen(release, published, private), "integrity")
    assert (answer.passed, answer.observed) == (not REASONS[why], REASONS[why])
    assert "person" not in answer.detail


def as_floats(published, *values):
    """The release with the values themselves instead of codes, the first ones replaced."""
    low, step = 1.0, 0.1

    def change(rows):
        for number, row in enumerate(rows):
            plain = (low + np.frombuffer(row["ratings"], "u1") * step).astype("<f4")
            if number == 0:
                plain[: len(values)] = values
            row["ratings"] = plain.tobytes()
        return rows

    rewrite(published / "groups.parquet", change)
    _say(published, rating_encoding="float32", rating_step=None)


FLOATS = {  # on the scale from 1 to 5: width 4
    (5.5, 9.0, -3.0): (0, ""),
    (9.1, -3.1, 5.0): (2, "ratings off the scale by more than its width: 2"),
}


@pytest.mark.parametrize("values", FLOATS)
def test_values_far_off_the_scale(violated, values):
    count, words = FLOATS[values]
    published, _, _ = violated(lambda p, _: as_floats(p, *values))
    answer = next(c for c in verify(published).checks if c.name == "integrity")
    assert (answer.passed, answer.observed) == (not count, count)
    assert words in answer.detail


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers(violated, value):
    """Every check that reads them says so, in words; none crashes."""
    published, private, release = violated(lambda p, _: as_floats(p, value))
    assert "integrity" in verify(published).failed
    opened = made.reopen(release, published, private)
    for name in ("integrity", "recovery", "scoring", "homogeneity", "rating-inference"):
        answer = result(opened, name)
        assert not answer.passed
        assert answer.detail == "a published rating is not a number (NaN or infinite)"


def test_people_left_out_must_be_declared(releases, tmp_path):
    """Five people of the source are in no group: fine when withheld, a contradiction when not."""
    whole = releases["padded"]
    keep = whole.group_of != whole.n_groups - 1
    part = whole.but(group_of=whole.group_of[keep], values=whole.values[:-1], ratings=whole.ratings[keep])
    part.user_ids = whole.users[keep].tolist()
    for count, passed in (((~keep).sum(), True), (0, False)):
        declared = part.but(withheld={"users": int(count), "items": 0, "why": "test"})
        published, private = made.write(declared, tmp_path / str(count))
        release = made.Release(published)
        truth = made.Truth.build(release, made.Membership.read(private), made.blocks(whole))
        assert result(made.Case(release, truth, private), "integrity").passed is passed
        assert truth.unlisted_users == (~keep).sum()


def test_pseudonyms_that_reveal_ids_fail(releases, tmp_path):
    """Ids as they are, plain hashes, and numbers in the order of the ids."""
    import hashlib

    release = releases["padded"]
    names = {
        "themselves": release.users.tolist(),
        "hashes": [hashlib.sha256(u.encode()).hexdigest()[:32] for u in release.users],
        "numbers": [f"{n:06d}" for n in pc_rank(release.users)],
    }
    for what, pseudonyms in names.items():
        published, private = made.write(release, tmp_path / what, pseudonyms=pseudonyms)
        assert not result(made.reopen(release, published, private), "pseudonyms").passed, what


def pc_rank(values):
    import numpy as np

    return np.argsort(np.argsort(values))
