"""Test counts of raters in a series: a group keeps those of its first publication, whatever happens around it."""

import contextlib
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.evidence.opened_cases import candidate_case
from checks.evidence.views.new_groups import new_groups_view
from checks.gate import run_check
from checks.history.history import History
from checks.recovery.support_cells import all_cells
from checks.registry import registered
from tasks import pipeline
from tasks.config import parse
from tasks.errors import MurmurError, Refused
from tasks.keys import OwnerKey
from tasks.series.erasure import Maker, erase
from tasks.series.ledger import Ledger
from tasks.steps import evaluate, validate
from tasks.store import Store, digest, read_json, write_json
from tests.tasks.series.made_sources import month, write_source
from tests.tasks.series.test_series_runs import judge_the_series

JOINING = [160, 90]
FILE = "support.parquet"


@pytest.fixture(scope="module", autouse=True)
def structure_alone():
    """Make releases without shadow runs and attacks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "judge", judge_the_series)
        patch.setattr(evaluate, "run", lambda job: {})
        yield


class Series:
    """Hold a store of groups of ten with counts of raters."""

    def __init__(self, root, source):
        self.source, self.store = source, Store(root / "store")

    def run(self, *months, mode="sticky", **privacy):
        config = parse(
            {
                "release": {"name": "s", "schedule": "@monthly", "start_date": month(0)},
                "source": {"format": "csv", "path": self.source, "scale": [1.0, 5.0]},
                "padding": {"rank": 3, "iterations": 2},
                "privacy": {"k": 10, "support": True, **privacy},
                "series": {"mode": mode},
            }
        )
        for number in months:
            pipeline.run(config, month(number), self.store, progress=lambda *_: None)
        return config

    def place(self, directory):
        return self.store.root / "published" / "s" / directory

    def counts(self, directory):
        """Return {members: {item: count}}, of groups without any count too."""
        place = self.place(directory)
        owner = pq.read_table(
            self.store.root / "private" / "s" / directory / "membership.parquet"
        ).to_pandas()
        items = pq.read_table(place / "items.parquet").column("item").to_pylist()
        found = {number: {} for number in owner["group"].unique() if number >= 0}
        for row in pq.read_table(place / FILE).to_pylist():
            found[row["group"]][items[row["item"]]] = row["raters"]
        return {frozenset(owner["user"][owner["group"] == number]): cells for number, cells in found.items()}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Return a store with the first release alone."""
    root = tmp_path_factory.mktemp("series")
    series = Series(root, write_source(root / "source", JOINING))
    series.config = series.run(0)
    return series


@pytest.fixture(scope="module")
def made(first, tmp_path_factory):
    series = copy_of(first, tmp_path_factory.mktemp("both"))
    series.run(1)
    return series


def copy_of(series, root):
    """Return the same series in a store of its own."""
    shutil.copytree(series.store.root, root / "store")
    other = Series(root, series.source)
    other.config = series.config
    return other


@pytest.fixture
def copied(made, tmp_path):
    return copy_of(made, tmp_path)


def test_groups_keep_their_counts(made):
    before, after = made.counts(str(month(0))), made.counts(str(month(1)))
    assert before.items() <= after.items()
    assert sum(map(len, before.values())) > 100
    assert sum(map(len, after.values())) > sum(map(len, before.values()))
    assert min(count for cells in after.values() for count in cells.values()) == 3
    assert FILE in read_json(made.place(str(month(1))) / "manifest.json")["files"]


def test_counts_are_of_members_who_really_rated(made):
    """The ratings were 12 of each person, in the order of the source's file of that month. The highest count of an
    item may stand for more."""
    import pandas as pd

    table = pd.read_csv(made.source.format(snapshot=month(0)))
    groups = made.counts(str(month(0)))
    highest = {item: max(cells.get(item, 0) for cells in groups.values()) for item in table["item"].unique()}
    for members, cells in groups.items():
        own = table[table["user"].isin(members)].groupby("item")["user"].nunique()
        for item, count in cells.items():
            assert count <= own[item]
            assert count == highest[item] or own[item] < count + 3
        for item in set(own.index) - set(cells):
            assert own[item] < 3 or highest[item] == 0


def test_the_ledger_covers_them(made, copied):
    with Ledger.open(made.store, "s") as ledger:
        assert ledger.problems(made.store) == []
    nudge(copied, month(0))
    with Ledger.open(copied.store, "s") as ledger:
        problems = ledger.problems(copied.store)
    assert any("have not the bytes of their first publication" in one for one in problems)


def nudge(series, when, row=0):
    """Change one count, and the digest of the file."""
    place = series.place(str(when))
    table = pq.read_table(place / FILE)
    raters = table.column("raters").to_numpy().copy()
    raters[row] += 3
    pq.write_table(
        table.set_column(2, table.schema.field("raters"), pa.array(raters, pa.int32())), place / FILE
    )
    manifest = read_json(place / "manifest.json")
    manifest["files"][FILE] = digest(place / FILE)
    write_json(place / "manifest.json", manifest)


def test_a_count_that_was_changed_is_not_carried_over(first, tmp_path):
    series = copy_of(first, tmp_path)
    nudge(series, month(0))
    with pytest.raises(MurmurError, match="are not what the ledger has"):
        series.run(1)


def test_the_judge_refuses_a_carried_group_with_another_count(copied):
    """Its members and its profile are as before; one count is not."""
    nudge(copied, month(1), row=carried_row(copied))
    place, private = copied.place(str(month(1))), copied.store.root / "private" / "s" / str(month(1))
    with contextlib.closing(candidate_case(place, private, copied.config.source, month(1))) as case:
        found = run_check(registered()["carried-over"], case, 0)
    assert (found.passed, found.observed) == (False, 1)
    assert "another profile" in found.detail


def carried_row(series):
    """Return a row of support.parquet that belongs to a group of the first release."""
    first = set(series.counts(str(month(0))))
    owner = pq.read_table(
        series.store.root / "private" / "s" / str(month(1)) / "membership.parquet"
    ).to_pandas()
    old = [n for n in owner["group"].unique() if frozenset(owner["user"][owner["group"] == n]) in first]
    group = pq.read_table(series.place(str(month(1))) / FILE).column("group").to_numpy()
    return int(np.flatnonzero(np.isin(group, old))[0])


def test_the_judge_counts_again_in_the_new_groups(made):
    """Columns of the view are in another order than in the file; a hundred people prove nothing about attacks."""
    place, private = made.place(str(month(1))), made.store.root / "private" / "s" / str(month(1))
    with contextlib.closing(candidate_case(place, private, made.config.source, month(1))) as case:
        new = new_groups_view(case, ~History.of(case).carried)
        found = run_check(registered()["support-disclosure"], new, 0)
        assert found.n < len(case.release.support.row)
        assert found.observed == 0
        assert "all follow the rule" in found.detail
        cells = np.concatenate([cells.shown for cells in all_cells(new, new.release.support)])
        assert (cells > 0).sum() == found.n > 0


def test_groups_with_and_without_counts_do_not_mix(first, tmp_path):
    begun = copy_of(first, tmp_path)
    with pytest.raises(Refused, match="support of this release is not what earlier releases"):
        begun.run(1, support=False)
    without = Series(tmp_path / "without", first.source)
    without.run(0, support=False)
    assert not (without.place(str(month(0))) / FILE).exists()
    with pytest.raises(Refused, match="support of this release is not what earlier releases"):
        without.run(1)


def test_a_repaired_release_keeps_the_counts_of_the_groups_that_stay(copied):
    before = copied.counts(str(month(1)))
    leaving = next(iter(sorted(before, key=sorted)))
    victim = sorted(leaving)[0]
    maker = Maker(OwnerKey.load(copied.store.root), "code", lambda candidate: [])
    erase(copied.store, "s", "s", maker, ids={victim})
    after = copied.counts(f"{month(1)}-r1")
    assert after == {members: cells for members, cells in before.items() if members != leaving}
    with Ledger.open(copied.store, "s") as ledger:
        assert ledger.problems(copied.store) == []


def test_the_same_counts_again(first, tmp_path):
    """Another store with the same secret gives the same bytes."""
    again = Series(tmp_path, first.source)
    again.run(0)
    place = str(month(0))
    assert (again.place(place) / FILE).read_bytes() == (first.place(place) / FILE).read_bytes()


def test_an_independent_release_has_them_too(first, tmp_path):
    alone = Series(tmp_path, first.source)
    alone.run(0, mode="independent")
    counts = alone.counts(str(month(0)))
    assert sum(map(len, counts.values())) > 100
    manifest = read_json(alone.place(str(month(0))) / "manifest.json")
    assert manifest["series"] == "unchecked"
    assert manifest["files"][FILE] == digest(alone.place(str(month(0))) / FILE)
