"""Test the attack with made-up accounts: opinions behind one-rater items, and people among copies of themselves."""

import tempfile
from pathlib import Path

import made_releases as made
import made_sybils
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks import gate
from checks.attacks import sybil
from checks.evidence.views.raw import raw_view
from checks.evidence.views.sybils import open_copies, open_opinions
from checks.opinions.area import Area
from checks.registry import registered
from checks.stats import corrected_for
from tasks.store import read_json, write_json

RELEASE = made_sybils.attackable()


@pytest.fixture
def opened(tmp_path):
    """Open the release after `write(private)` has put the files of runs with sybils beside it."""

    def build(write=lambda private: None, release=RELEASE):
        published, private = made.write(release, Path(tempfile.mkdtemp(dir=tmp_path)) / "release")
        write(private)
        return made.reopen(release, published, private)

    return build


def result(case):
    return gate.run_check(registered()["sybil"], case, 0.65)


def test_columns_that_carry_opinions_are_refused(opened):
    found = result(opened(lambda private: made_sybils.write_opinions(RELEASE, private, carried=1 / 3)))
    assert (found.passed, found.void, found.applicable) == (False, False, True)
    assert found.observed > 0.9
    assert found.n == 800


def test_reversed_columns_are_refused(opened):
    found = result(opened(lambda private: made_sybils.write_opinions(RELEASE, private, carried=-1 / 3)))
    assert not found.passed
    assert found.observed > 0.9


def test_columns_without_opinions_pass(opened):
    found = result(opened(lambda private: made_sybils.write_opinions(RELEASE, private, carried=0.0)))
    assert (found.passed, found.void, found.applicable) == (True, False, True)
    assert 0.5 <= found.observed < 0.58
    assert found.ci_high <= 0.62


def test_noise_hides_what_columns_carry(opened):
    """A share of 1/3 of opinions with a spread of 1.6 behind noise of three times that."""
    hidden = result(
        opened(lambda private: made_sybils.write_opinions(RELEASE, private, carried=1 / 3, noise=2.0))
    )
    assert 0.5 < hidden.observed < 0.7


def test_several_draws_are_pooled(opened):
    """What each of two draws cannot show both together can; a person's opinions in both draws count as dependent."""

    def write(*names):
        def both(private):
            for seed, name in enumerate(names):
                made_sybils.write_opinions(RELEASE, private, carried=0.0, opinions=150, seed=seed, name=name)

        return both

    one, two = (result(opened(write(*names))) for names in (["opinions"], ["opinions", "opinions-2"]))
    assert (one.n, two.n) == (150, 300)
    assert two.ci_high - two.observed < one.ci_high - one.observed


def test_a_leak_in_one_draw_is_not_averaged_away(opened):
    def write(private):
        made_sybils.write_opinions(RELEASE, private, carried=0.0, name="opinions")
        made_sybils.write_opinions(RELEASE, private, carried=1 / 3, seed=3, name="opinions-2")

    assert not result(opened(write)).passed


def test_few_opinions_fail_closed(opened):
    """With twenty opinions nothing is shown, and what is not shown does not pass."""
    found = result(
        opened(lambda private: made_sybils.write_opinions(RELEASE, private, carried=0.0, opinions=20))
    )
    assert not found.passed
    assert found.ci_high > 0.65


def test_dead_control_is_void(opened, monkeypatch):
    monkeypatch.setattr(sybil, "MIN_CONTROL_AREA", 1.1)
    found = result(opened(lambda private: made_sybils.write_opinions(RELEASE, private, carried=0.0)))
    assert (found.passed, found.void) == (False, True)


def test_missing_files_fail(opened):
    found = result(opened())
    assert (found.passed, found.void) == (False, True)
    assert "cannot be used" in found.detail


def test_changed_files_fail(opened):
    def change(private):
        made_sybils.write_opinions(RELEASE, private, carried=0.0)
        directory = private / "utility" / "sybil" / "opinions"
        pq.write_table(pa.table({"item": [str(n) for n in range(1000)][::-1]}), directory / "items.parquet")

    assert "not those its manifest names" in result(opened(change)).detail


def test_other_settings_fail(opened):
    def change(private):
        made_sybils.write_opinions(RELEASE, private, carried=0.0)
        path = private / "utility" / "sybil" / "opinions" / "manifest.json"
        manifest = read_json(path)
        write_json(path, manifest | {"privacy": manifest["privacy"] | {"min_contributors": 9}})

    assert "not made by the method" in result(opened(change)).detail


def test_targets_of_one_item_twice_fail(opened):
    def change(private):
        made_sybils.write_opinions(RELEASE, private, carried=0.0)
        path = private / "utility" / "sybil" / "opinions" / "targets.parquet"
        table = pq.read_table(path)
        pq.write_table(pa.concat_tables([table, table]), path)

    found = result(opened(change))
    assert not found.passed
    assert "different items" in found.detail


def test_small_data_are_not_attacked(opened):
    small = made.Made(made.synthetic(60, 50, 0.3), np.arange(60) % 12, np.full((12, 50), 3, np.float32), k=5)
    found = result(opened(release=small))
    assert (found.passed, found.applicable, found.n) == (True, False, 0)
    assert "the groups that are judged hold 50 items" in found.detail


def test_single_records_need_no_sybil(opened):
    single = RELEASE.but(
        group_of=np.arange(300), values=np.full((300, 200), 3, np.float32), method="suppression", k=5
    )
    found = result(opened(release=single))
    assert (found.passed, found.applicable) == (True, False)


def test_a_grouping_method_with_single_records_is_attacked(opened):
    single = RELEASE.but(group_of=np.arange(300), values=np.full((300, 200), 3, np.float32))
    assert not result(opened(release=single)).passed


def test_raw_data_are_not_applicable(opened):
    found = result(raw_view(opened()))
    assert (found.passed, found.applicable) == (True, False)


def test_sparse_release(opened):
    """An item that few groups publish is read from those that do."""
    release = RELEASE.but(method="predictive-simple", values=RELEASE.values.copy())
    release.values[:50, :190] = np.nan

    def write(private):
        made_sybils.write_opinions(release, private, carried=1 / 3)

    case = opened(write, release)
    [planted] = open_opinions(case)
    assert not planted.release.complete
    found = result(case)
    assert not found.passed
    assert found.observed > 0.9


def test_alone_by_hand(opened):
    """Three targets with two copies each: the first is alone with them, the second has a stranger, the third's copies
    are elsewhere."""
    group_of = np.array([0, 1, 2, 1, 2, 2, 3, 0, 0, 1, 1, 3, 3])
    copy_of = np.array([0, 0, 1, 1, 2, 2])

    def write(private):
        made_sybils.write_opinions(RELEASE, private, carried=0.0)
        made_sybils.write_copies(RELEASE, private, group_of, copy_of)

    case = opened(write)
    assert sybil.is_alone(open_copies(case)).tolist() == [True, False, False]
    found = result(case)
    assert found.passed  # reported, not gated
    half, eight = found.outcomes[2], found.outcomes[1]
    assert half.knowledge == "copies with half of a person's ratings"
    assert (half.risk.successes, half.risk.n) == (1, 2)
    assert (eight.risk.successes, eight.risk.n) == (0, 1)
    assert half.more["light"] == "1 of 1"


def test_taste_of_a_lone_target_is_recovered(opened):
    """The unknown ratings here are what the groups show."""
    copy_of = np.repeat(np.arange(4), 2)
    group_of = np.concatenate([np.arange(4), copy_of])

    def write(private):
        made_sybils.write_opinions(RELEASE, private, carried=0.0)
        made_sybils.write_copies(RELEASE, private, group_of, copy_of)

    case = opened(write)
    copies = open_copies(case)
    alone = sybil.is_alone(copies)
    assert alone.all()
    assert sybil.taste_correlation(case, copies, alone) > 0.8
    assert sybil.taste_correlation(case, copies, ~alone) == 0


def test_the_bound_is_wider_after_several_attempts():
    area = Area(0.6, 0.02)
    once = area.most
    with corrected_for(8):
        assert area.most > once + 0.01
