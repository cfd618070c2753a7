"""Test a series end to end: newcomers form cohorts, old groups are carried over, everything enters the ledger."""

import collections
import contextlib
import datetime
import itertools
import json
import os

import numpy as np
import pyarrow.parquet as pq
import pytest

from checks.evidence.opened_cases import candidate_case
from checks.evidence.views.new_groups import new_groups_view
from checks.gate import judge, run_check
from checks.history.history import History
from checks.registry import registered
from checks.result import Verdict
from tasks import formats, pipeline
from tasks.config import parse
from tasks.errors import Refused
from tasks.series.ledger import Ledger
from tasks.series.repeated import is_already_published
from tasks.steps import evaluate, validate
from tasks.store import Store, read_json
from tests.tasks.series.made_sources import month, write_source

JOINING = [160, 90, 1, 80]


def judge_the_series(public, private, source, snapshot, thresholds, engine=None, *_):
    """Run the checks that judge a whole release. A hundred people are too few for the attacks to show anything: these
    are tested elsewhere, on new groups too."""
    with contextlib.closing(candidate_case(public, private, source, snapshot, engine)) as case:
        whole = [check for check in registered().values() if check.whole]
        return Verdict(
            [run_check(check, case, thresholds.get(check.name, check.threshold)) for check in whole]
        )


@pytest.fixture(scope="module", autouse=True)
def structure_alone():
    """Make releases without shadow runs and attacks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "judge", judge_the_series)
        patch.setattr(evaluate, "run", lambda job: {})
        yield


def configured(path, **tables):
    given = {
        "release": {"name": "s", "schedule": "@monthly", "start_date": month(0)},
        "source": {"format": "csv", "path": path, "scale": [1.0, 5.0]},
        "padding": {"rank": 3, "iterations": 2},
    }
    return parse({**given, **tables})


class Series:
    """Hold a store with releases of the months that were run."""

    def __init__(self, root, **tables):
        self.config = configured(write_source(root / "source", JOINING), **tables)
        self.store = Store(root / "store")

    def run(self, *months):
        for number in months:
            pipeline.run(self.config, month(number), self.store, progress=lambda *_: None)
        return self

    def published(self, number):
        return self.store.published("s", month(number))

    def manifest(self, number):
        return read_json(self.published(number) / "manifest.json")

    def groups_of(self, number):
        """Return {members: profile} of a release."""
        owner = pq.read_table(self.store.private("s", month(number)) / "membership.parquet").to_pandas()
        items = pq.read_table(self.published(number) / "items.parquet").column("item").to_pylist()
        rows = pq.read_table(self.published(number) / "groups.parquet").to_pylist()
        found = {}
        for row in rows:
            held = items if row["items"] is None else [items[place] for place in row["items"]]
            members = frozenset(owner["user"][owner["group"] == row["group"]])
            found[members] = (row["size"], tuple(held), row["ratings"])
        return found

    def classes(self, *months):
        groups = collections.defaultdict(list)
        for number in months:
            for members in self.groups_of(number):
                for person in members:
                    groups[person].append((number, members))
        return collections.Counter(tuple(one) for one in groups.values())


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    return Series(tmp_path_factory.mktemp("series")).run(0, 1, 2, 3)


def test_old_groups_are_carried_over_and_newcomers_form_new_ones(series):
    before, after = series.groups_of(0), series.groups_of(1)
    assert before.items() <= after.items()
    new = set(after) - set(before)
    assert sum(len(members) for members in new) == JOINING[1]
    assert not set().union(*new) & set().union(*before)


def test_one_newcomer_waits_for_others(series):
    assert series.groups_of(2) == series.groups_of(1)
    assert series.manifest(2)["withheld"]["users"] == 0  # one, rounded down to a multiple of k
    steps = series.store.private("s", month(2)) / "work"
    assert read_json(steps / "padding" / "step.json")["counts"] == {
        "nothing_to_do": "no newcomers form a cohort; all groups are carried over"
    }
    joined = set().union(*series.groups_of(3)) - set().union(*series.groups_of(2))
    assert len(joined) == JOINING[2] + JOINING[3]


def test_everybody_is_among_k_in_all_releases_together(series):
    assert min(series.classes(0, 1, 2, 3).values()) >= 5


def test_the_catalogue_only_grows(series):
    items = [
        pq.read_table(series.published(number) / "items.parquet").column("item").to_pylist()
        for number in range(4)
    ]
    for earlier, later in itertools.pairwise(items):
        assert later[: len(earlier)] == earlier


def test_numbers_and_pseudonyms_are_drawn_anew(series):
    first, second = (
        pq.read_table(series.published(number) / "members.parquet").column("user").to_pylist()
        for number in (1, 2)
    )
    assert not set(first) & set(second)


def test_attacks_are_not_applicable_where_no_group_is_new(series):
    place, private = series.published(2), series.store.private("s", month(2))
    verdict = {one.name: one for one in judge(place, private, series.config.source, month(2), {}).checks}
    assert verdict["recovery"].passed
    assert not verdict["recovery"].applicable
    assert "published and judged before" in verdict["recovery"].detail
    assert verdict["series"].applicable
    assert verdict["carried-over"].passed


def test_attacks_see_new_groups_alone(series):
    place, private = series.published(1), series.store.private("s", month(1))
    case = candidate_case(place, private, series.config.source, month(1))
    with contextlib.closing(case):
        new = new_groups_view(case, ~History.of(case).carried)
        assert new.truth.users == JOINING[1]
        assert int(new.release.sizes.sum()) == JOINING[1]
        assert new.release.n_groups + len(series.groups_of(0)) == case.release.n_groups
        assert new.release.complete
        assert new.release.items.to_pylist() == sorted(new.release.items.to_pylist())
        # Columns are in another order than in the whole release: the values of a group follow their items.
        row = int(np.flatnonzero(case.release.groups == new.release.groups[0])[0])
        own = next(iter(new.release.blocks())).table()[0]
        whole = np.concatenate([block.matrix().toarray() for block in case.release.blocks()])[row]
        position = [case.release.items.to_pylist().index(item) for item in new.release.items.to_pylist()]
        assert own == pytest.approx(whole[position])


def test_the_ledger_agrees_with_the_files(series):
    with Ledger.open(series.store, "s") as ledger:
        assert [one.snapshot for one in ledger.releases()] == [str(month(n)) for n in range(4)]
        assert ledger.problems(series.store) == []
        tokens, _, _ = ledger.people()
        assert len(tokens) == sum(JOINING)


def test_a_published_snapshot_is_left_alone(series):
    assert is_already_published(series.config, month(1), series.store)
    assert not is_already_published(series.config, datetime.date(2027, 1, 1), series.store)


def test_other_settings_and_late_data_are_refused(tmp_path):
    made = Series(tmp_path).run(0)
    other = configured(made.config.source.path, privacy={"k": 6})
    with pytest.raises(Refused, match="settings have changed"):
        is_already_published(other, month(0), made.store)
    source = tmp_path / "source" / f"{month(0)}.csv"
    source.write_text(source.read_text() + "late,i01,5,1767000000\n")
    with pytest.raises(Refused, match="source has changed"):
        is_already_published(made.config, month(0), made.store)
    made.config = other
    with pytest.raises(Refused, match=r"below privacy\.k = 6"):
        made.run(1)
    made.config = configured(made.config.source.path, privacy={"k": 4})
    with pytest.raises(Refused, match=r"promise k = 5, above privacy\.k = 4") as refusal:
        made.run(1)
    assert "set privacy.k = 5" in refusal.value.remedy
    assert not (made.store.private("s", month(1)) / "work" / "padding").exists()  # refused by `ingest`


def test_a_source_that_was_copied_again_is_the_same(tmp_path, monkeypatch):
    made = Series(tmp_path).run(0)
    source = tmp_path / "source" / f"{month(0)}.csv"
    with monkeypatch.context() as patch:  # nothing is read while size and time are the same
        patch.setattr(formats, "content", lambda *_: pytest.fail("the source was read"))
        assert is_already_published(made.config, month(0), made.store)
    text = source.read_text()
    os.utime(source, (1, 1))
    assert is_already_published(made.config, month(0), made.store)
    source.write_text(text.replace(",5,", ",4,", 1))  # of the same size
    with pytest.raises(Refused, match="its source has changed"):
        is_already_published(made.config, month(0), made.store)


def test_a_source_of_which_no_content_was_recorded_may_have_changed(tmp_path, monkeypatch):
    """It was not local, or the entry is one of an older version."""
    monkeypatch.setattr(formats, "content", lambda *_: None)
    made = Series(tmp_path).run(0)
    assert is_already_published(made.config, month(0), made.store)
    os.utime(tmp_path / "source" / f"{month(0)}.csv", (1, 1))
    with pytest.raises(Refused, match="its source may have changed") as refused:
        is_already_published(made.config, month(0), made.store)
    assert "nothing to do" in refused.value.remedy


def test_a_second_independent_release_is_refused(tmp_path):
    made = Series(tmp_path, series={"mode": "independent"}).run(0)
    assert made.manifest(0)["series"] == "unchecked"
    with pytest.raises(Refused, match="does not compose"):
        is_already_published(made.config, month(1), made.store)
    sticky = configured(made.config.source.path)
    with pytest.raises(Refused, match="does not compose"):
        is_already_published(sticky, month(1), made.store)


def test_people_of_another_population_are_refused(tmp_path):
    made = Series(tmp_path).run(0)
    made.config = configured(made.config.source.path, release={"name": "other"})
    with pytest.raises(Refused, match="released as population 's'"):
        made.run(1)


def test_too_few_people_wait(tmp_path):
    made = Series(tmp_path, series={"min_cohort": 200})
    with pytest.raises(Refused, match="nobody can be released yet"):
        made.run(0)
    made.run(1)  # 250 by now
    assert made.manifest(1)["counts"]["users"] == sum(JOINING[:2])


def test_erased_people_in_the_source_do_not_wait(tmp_path):
    made = Series(tmp_path, series={"min_cohort": JOINING[0]}).run(0)
    with Ledger.open(made.store, "s") as ledger:
        for token in ledger.tokens([f"p{JOINING[0] + number}" for number in range(7)]):
            ledger.erase(token)
    made.run(1)  # judged, too: `integrity` compares the number with the source
    assert made.manifest(1)["withheld"]["users"] == 80  # of 90 people 83, rounded down to a multiple of k
    place, private = made.published(1), made.store.private("s", month(1))
    for claimed, passed in (
        (75, False),
        (85, True),
        (95, False),
    ):  # which of the erased are there is not known
        with contextlib.closing(candidate_case(place, private, made.config.source, month(1))) as case:
            case.release.manifest["withheld"]["users"] = claimed
            detail = run_check(registered()["integrity"], case, 0).detail
        assert ("neither released nor withheld" not in detail) is passed


@pytest.mark.parametrize("order", [(3, 0, 1), (1, 3, 0)])
def test_backfill_in_any_order_is_safe(tmp_path, order):
    made = Series(tmp_path).run(*order)
    assert min(made.classes(*order).values()) >= 5
    # Groups are whole in every snapshot at which all their members were there.
    for number in order:
        assert len(set().union(*made.groups_of(number))) >= 0.9 * sum(JOINING[: number + 1])
    # A profile of a group that was first published for a later snapshot says so.
    first = {}
    for number in order:
        for members in made.groups_of(number):
            first.setdefault(members, number)
        newest = max(first[members] for members in made.groups_of(number))
        assert made.manifest(number)["as_of"] == (str(month(newest)) if newest > number else None)
        readme = (made.published(number) / "README.md").read_text()
        assert (f"up to {month(newest)} (`as_of`" in readme) == (newest > number)


@pytest.mark.parametrize("method", ["predictive-simple", "predictive-boosted", "microaggregation"])
def test_other_methods_that_publish_groups(tmp_path, method):
    made = Series(tmp_path, privacy={"method": method}).run(0, 1)
    assert made.groups_of(0).items() <= made.groups_of(1).items()
    assert min(made.classes(0, 1).values()) >= 5


def test_profiles_of_cohorts_use_what_is_public(series):
    """The second cohort has a prior, from the files of the first release alone."""
    ingest = series.store.private("s", month(1)) / "work" / "ingest"
    with np.load(ingest / "prior.npz") as prior:
        assert prior["known"].any()
    assert not (series.store.private("s", month(0)) / "work" / "ingest" / "prior.npz").exists()


def test_no_source_id_leaves_private(series):
    for file in series.store.root.joinpath("published").rglob("*.json"):
        assert '"p1"' not in json.dumps(read_json(file))
