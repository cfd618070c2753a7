"""Test the check `series`: what several releases about the same people give away together."""

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.evidence.case import Case
from checks.evidence.membership import Membership
from checks.privacy import series
from checks.registry import registered

SIX = ["a", "b", "c", "d", "e", "f"]


def membership(groups: dict[str, int]) -> Membership:
    return Membership(
        pa.array(groups, pa.string()),
        pa.array([f"p{u}" for u in groups]),
        np.array([*groups.values()], np.int32),
    )


def publish(store, name, snapshot, groups: dict[str, int], *, age: int = 0, public: bool = True):
    """Put a release into a store: who is in which group, and whether it is published."""
    place = store / "private" / name / snapshot
    place.mkdir(parents=True, exist_ok=True)
    table = {"user": [*groups], "pseudonym": [f"p{u}" for u in groups], "group": [*groups.values()]}
    schema = pa.schema([("user", pa.string()), ("pseudonym", pa.string()), ("group", pa.int32())])
    pq.write_table(pa.table(table, schema), place / "membership.parquet")
    os.utime(place / "membership.parquet", ns=(10**18 - age, 10**18 - age))
    if public:
        (store / "published" / name / snapshot).mkdir(parents=True)
        (store / "published" / name / snapshot / "manifest.json").write_text("{}")
    return place


def judged(store, groups: dict[str, int], manifest: dict | None = None, *, below="work/validate/private"):
    """Judge a candidate of films, 2026-03-01, whose manifest says anything."""
    private = store / "private" / "films" / "2026-03-01" / below
    private.mkdir(parents=True, exist_ok=True)
    release = SimpleNamespace(manifest=manifest or {})
    case = Case(release, SimpleNamespace(membership=membership(groups)), private)
    return series.run(case, 1.0)


TOGETHER = dict(zip(SIX, [0, 0, 0, 1, 1, 1], strict=True))
CROSSED = dict(zip(SIX, [0, 0, 1, 0, 1, 1], strict=True))  # c and d change sides: {a, b}, {c}, {d}, {e, f}


def test_classes_by_hand():
    assert series.people_in_class([membership(TOGETHER)]).tolist() == [3] * 6
    both = series.people_in_class([membership(TOGETHER), membership(CROSSED)])
    assert both.tolist() == [2, 2, 1, 1, 2, 2]


def test_absent_people_form_classes_too():
    """Whoever left is among those who left with them; who is in no release is nobody."""
    first = membership(TOGETHER)
    second = membership({"a": 0, "b": 0, "d": -1, "x": -1})
    assert series.people_in_class([first, second]).tolist() == [2, 2, 1, 3, 3, 3]


def test_first_release(tmp_path):
    found = judged(tmp_path, TOGETHER)
    assert (found.passed, found.observed, found.applicable) == (True, 1.0, False)


def test_intersection_is_found(tmp_path):
    publish(tmp_path, "films", "2026-02-01", CROSSED)
    found = judged(tmp_path, TOGETHER)
    assert (found.passed, found.observed, found.n) == (False, 0.0, 1)
    assert "up to 100 %" in found.detail
    assert "fewer than 3" in found.detail


def test_unchanged_groups_are_safe(tmp_path):
    publish(tmp_path, "films", "2026-02-01", {user: 5 - group for user, group in TOGETHER.items()})
    found = judged(tmp_path, TOGETHER)
    assert (found.passed, found.observed, found.applicable) == (True, 1.0, True)
    assert "at least 3" in found.detail


@pytest.mark.parametrize("claim", ["checked", "unchecked"])
@pytest.mark.parametrize("population", [None, "other people"])
def test_claims_of_the_manifest_change_nothing(tmp_path, claim, population):
    """A planted lie: the manifest says that it was checked, or that it is about other people."""
    publish(tmp_path, "films", "2026-02-01", CROSSED)
    lie = {
        "series": claim,
        "population": population,
        "release": "first of its kind",
        "snapshot": "1970-01-01",
    }
    assert judged(tmp_path, TOGETHER, lie) == judged(tmp_path, TOGETHER)
    assert not judged(tmp_path, TOGETHER, lie).passed


def test_whatever_the_other_release_is_called(tmp_path):
    """Another name and a later snapshot do not make other people of the same ones."""
    publish(tmp_path, "quite-another", "2027-01-01", CROSSED)
    assert not judged(tmp_path, TOGETHER).passed


def test_what_was_not_published_or_is_about_others_does_not_count(tmp_path):
    publish(tmp_path, "films", "2026-02-01", CROSSED, public=False)
    publish(tmp_path, "films", "2026-01-01", {user.upper(): group for user, group in CROSSED.items()})
    publish(tmp_path, "films", "2025-01-01", dict.fromkeys(SIX, -1))  # all withheld
    assert judged(tmp_path, TOGETHER).applicable is False


def test_a_release_judged_again_is_judged_the_same(tmp_path):
    """Later releases do not change the verdict on an earlier one; the later one's verdict has both."""
    publish(tmp_path, "films", "2026-02-01", CROSSED, age=2)
    before = judged(tmp_path, TOGETHER)
    publish(tmp_path, "films", "2026-03-01", TOGETHER, age=1)
    publish(tmp_path, "films", "2026-04-01", dict(zip(SIX, [0, 1, 1, 1, 0, 0], strict=True)))
    assert judged(tmp_path, TOGETHER) == before
    assert judged(tmp_path, TOGETHER, below="") == before  # as `murmur audit` does


def test_single_people_are_never_safe_together(tmp_path):
    alone = {user: number for number, user in enumerate(SIX)}
    publish(tmp_path, "films", "2026-02-01", alone)
    found = judged(tmp_path, alone)
    assert not found.passed
    assert "averaged" in found.detail


def test_outside_a_store_nothing_is_claimed(tmp_path):
    """A private directory that was copied elsewhere shows nothing about other releases."""
    place = tmp_path / "copied" / "private"
    place.mkdir(parents=True)
    case = Case(
        SimpleNamespace(manifest={"series": "checked"}),
        SimpleNamespace(membership=membership(TOGETHER)),
        place,
    )
    found = series.run(case, 1.0)
    assert not found.passed
    assert "not examined" in found.detail
    assert not series.run(replace(case, private=None), 1.0).passed


def test_details_name_nobody(tmp_path):
    publish(tmp_path, "films", "2026-02-01", {f"person {user}": g for user, g in CROSSED.items()})
    found = judged(tmp_path, {f"person {user}": g for user, g in TOGETHER.items()})
    assert "person " not in json.dumps(found.detail)
    assert registered()["series"].severity == "advisory"
