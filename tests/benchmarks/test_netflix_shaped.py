"""Test the Netflix-shaped generator: exact counts, curves, the paper's histogram, the same bytes however it is run."""

import filecmp

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import netflix_shaped as shaped
from benchmarks import stages

SIZE = {"users": 3000, "items": 400, "ratings": 120_000, "seed": 0}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("shaped") / "small"
    summary = shaped.generate(out, **SIZE, workers=1)
    return out, summary, pq.read_table(out)


@pytest.mark.slow
def test_counts_are_exact_and_nothing_repeats(small):
    _, summary, table = small
    user, item = (table.column(name).to_numpy() for name in ("user", "item"))
    assert (len(table), len(np.unique(user)), len(np.unique(item))) == (120_000, 3000, 400)
    assert len(np.unique(user.astype(np.int64) << 32 | item)) == 120_000
    assert (summary["users"], summary["items"], summary["ratings"]) == (3000, 400, 120_000)
    assert (item.min(), item.max()) == (1, 400)
    assert np.bincount(item)[1:].min() >= shaped.FEWEST_PER_ITEM


@pytest.mark.slow
def test_ratings_follow_table_2_and_days_lie_in_six_years(small):
    _, summary, table = small
    shares = np.array(shaped.TABLE_2) / sum(shaped.TABLE_2)
    found = np.bincount(table.column("rating").to_numpy(), minlength=6)[1:] / len(table)
    assert np.abs(found - shares).max() < 0.005
    assert summary["shares_of_ratings_1_to_5"] == pytest.approx(found.tolist(), abs=1e-4)
    days = table.column("timestamp").to_numpy().astype("datetime64[s]")
    assert days.min() >= np.datetime64("1999-11-11")
    assert np.datetime64("2005-12-01") < days.max() <= np.datetime64("2005-12-31")


@pytest.mark.slow
def test_the_same_bytes_with_any_number_of_workers(small, tmp_path, monkeypatch):
    monkeypatch.setattr(shaped, "PART_USERS", 700)
    outs = [tmp_path / "one", tmp_path / "two"]
    for workers, out in enumerate(outs, start=1):
        shaped.generate(out, **SIZE, workers=workers)
    names = [f"part-{number:05}.parquet" for number in range(5)]
    assert sorted(file.name for file in outs[0].iterdir()) == names
    assert filecmp.cmpfiles(*outs, names, shallow=False)[0] == names
    assert pq.read_table(outs[0]).equals(small[2])  # where the parts end changes nothing either
    shaped.generate(tmp_path / "other", **SIZE | {"seed": 1}, workers=1)
    assert not pq.read_table(tmp_path / "other").equals(small[2])


@pytest.mark.slow
def test_popularity_follows_its_curve_and_taste_steers_what_is_rated():
    """As dense as Netflix: tenths of the items, by their weights, have about the ratings of the curve's tenths."""
    users, items, ratings = 20_000, 2_000, 480_000
    world = shaped.make_world(users, items, ratings, seed=0)
    user, item, _, _ = world.draw(0, users)
    target = shaped._curve(shaped.POPULARITY, items, shaped.ITEMS, ratings, 3, users)
    found = np.bincount(item, minlength=items)[np.argsort(world.weights, kind="stable")]
    tenths = [counts.reshape(10, -1).sum(axis=1) for counts in (found, target)]
    assert tenths[0] == pytest.approx(tenths[1], rel=0.1)
    assert found[-1] == pytest.approx(target[-1], rel=0.1)
    first_trait = world.traits[:, 0]
    shuffled = np.random.default_rng(0).permutation(item)  # the same popularity without taste
    chosen, by_chance = (np.bincount(user, first_trait[them]) / world.counts for them in (item, shuffled))
    active = world.counts > 50
    assert np.var(chosen[active]) > 3 * np.var(by_chance[active])


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(3, 400),
    low=st.integers(1, 3),
    room=st.integers(1, 500),
    share=st.floats(0, 1),
)
def test_a_curve_adds_up_whatever_its_bounds(size, low, room, share):
    high = low + room
    total = size * low + round(share * size * room)
    counts = shaped._curve(shaped.ACTIVITY, size, shaped.USERS, total, low, high)
    assert counts.sum() == total
    assert low <= counts.min()
    assert counts.max() <= high


def test_netflix_curves_at_full_size():
    people = shaped._curve(shaped.ACTIVITY, shaped.USERS, shaped.USERS, shaped.RATINGS, 1, 17_653)
    items = shaped._curve(shaped.POPULARITY, shaped.ITEMS, shaped.ITEMS, shaped.RATINGS, 3, shaped.USERS)
    assert np.median(people) == pytest.approx(96, abs=1)
    assert people[-1] == pytest.approx(17_653, rel=0.01)
    assert (people > 10_000).sum() == pytest.approx(5, abs=4)
    assert np.median(items) == pytest.approx(561, rel=0.01)
    assert items[-1] == pytest.approx(232_944, rel=0.01)
    assert people.sum() == items.sum() == shaped.RATINGS


@settings(max_examples=30, deadline=None)
@given(weights=st.lists(st.floats(1e-6, 10), min_size=1, max_size=40))
def test_the_alias_table_has_the_weights(weights):
    weights = np.array(weights)
    level, other = shaped._alias_table(weights)
    drawn = level.astype(float)
    np.add.at(drawn, other, 1 - level)
    assert drawn / len(weights) == pytest.approx(weights / weights.sum(), abs=1e-5)


def test_impossible_sizes_are_refused(tmp_path):
    with pytest.raises(SystemExit, match="are not possible"):
        shaped.make_world(10, 5, 51, 0)
    (tmp_path / "notes.txt").touch()
    for taken in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(SystemExit, match="is not an empty directory"):
            shaped.generate(taken, **SIZE)


@pytest.mark.slow
def test_an_empty_directory_is_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    place = stages.make_data(tmp_path / "empty", 300, 120, 25.0)
    assert pq.read_table(place).num_rows == 7_500


def test_a_directory_of_other_files_ends_in_one_message(tmp_path, capfd):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(SystemExit) as ended:
        stages.make_data(tmp_path, 300, 120, 25.0)
    assert ended.value.code == 1
    shown = capfd.readouterr().err
    assert "is not an empty directory" in shown
    assert "Traceback" not in shown
