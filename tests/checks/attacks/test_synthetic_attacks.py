"""Test the attacks on synthetic rows: copies of people, and who was in the data."""

import made_rows as made
import numpy as np
import pyarrow.parquet as pq
import pytest

from checks.gate import run_check
from checks.registry import registered
from checks.synthetic.people import shadows_of
from tests.contracts import CheckContract


@pytest.fixture(scope="module")
def open_release(tmp_path_factory):
    """Return a release whose rows are made like this, once for each maker: (name, …) → case."""
    kept = {}

    def build(name, make, **how):
        if name not in kept:
            kept[name] = made.case(tmp_path_factory.mktemp("rows") / "store", make, **how)
        return kept[name]

    return build


class TestCopiedRows(CheckContract):
    """One row in a hundred is a person's record; in the shadows there are none."""

    name = "copied-rows"

    def violation(self, opened):
        return opened("1 % copies", made.with_copies(0.01), in_shadow=made.honest)

    def harmless(self, opened):
        return opened("honest", made.honest)


class TestRowMembership(CheckContract):
    """The rows are the people's own records."""

    name = "row-membership"

    def violation(self, opened):
        return opened("raw", made.raw)

    def harmless(self, opened):
        return opened("honest", made.honest)


def judged(name, case):
    return run_check(registered()[name], case, registered()[name].threshold)


def test_near_copies_are_found(open_release):
    """A tenth of the ratings of each copy changed: no row equals a record, and the copies are found."""
    make = made.with_copies(0.01, changed=0.1)
    found = judged("copied-rows", open_release("near copies", make, in_shadow=made.honest))
    assert not found.passed
    assert not found.void
    assert " 0 equal " in found.detail


def test_one_verbatim_row_is_one_too_many(open_release):
    """A single row of 500 is below the share that is allowed in 1,000 rows and more, and is refused at once."""
    make = made.with_copies(0.002)
    found = judged("copied-rows", open_release("one copy", make, in_shadow=made.honest))
    assert not found.passed
    assert "1 nearly verbatim" in found.detail


def test_copies_of_many_people_are_noticed_as_membership(open_release):
    """Where the mechanism itself copies every second person, those left out of a shadow are recognised."""

    def copying(table, draw):
        return np.concatenate([made.honest(table, draw), table[draw.random(len(table)) < 0.6]])

    found = judged("row-membership", open_release("copying", copying))
    assert not found.passed
    assert found.ci_low > 0.25


def test_shadows_hold_who_was_where(open_release):
    """People without what was held out of them; absent people thinned by the same share; nobody absent twice."""
    case = open_release("honest", made.honest)
    shadows = shadows_of(case)
    table = made.people()
    assert len(shadows) == 2
    for shadow in shadows:
        assert shadow.absent.shape[0] == 40
        kept = shadow.present.nnz / (table[shadow.number_of_present] > 0).sum()
        assert kept == pytest.approx(0.95, abs=0.01)
        full = (table > 0).sum() - (table[shadow.number_of_present] > 0).sum()
        assert shadow.absent.nnz / full == pytest.approx(kept, abs=0.03)
    assert len(np.intersect1d(*(shadow.number_of_present for shadow in shadows))) == 320


def test_damaged_shadows_refuse_the_release(open_release, tmp_path):
    """Without a shadow that can be read nothing is shown."""
    case = made.case(tmp_path / "store", made.honest)
    place = case.private / "utility" / "shadow-release"
    table = pq.read_table(place / "people.parquet")
    pq.write_table(table.slice(0, 10), place / "people.parquet")
    for name in ("row-membership", "copied-rows"):
        assert not judged(name, made_again(case)).passed
    (place / "people.parquet").unlink()
    assert judged("row-membership", made_again(case)).void


def made_again(case):
    """Return the case without what it has read so far."""
    from dataclasses import replace

    return replace(case)
