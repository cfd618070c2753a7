"""Test the figures of docs/series.md: staleness, loss, the table, the plots and the markers."""

import json
import math

import pandas as pd
import pytest

from benchmarks import series, series_page


def line(snapshot, cohort, people, **more):
    utility = {"original_rmse": 0.9, "target_deviation_rmse": 0.92, "random_group_rmse": 1.0}
    found = {
        "snapshot": snapshot,
        "status": "published",
        "failed": [],
        "people": people,
        "groups": people // 5,
    }
    found |= {"items": 10, "cohort": cohort, "waiting": 3, "eligible": people, "share_of_eligible": 1.0}
    return found | {"utility": utility if cohort else {}, "cpu_seconds": 7.6} | more


@pytest.fixture
def run():
    lines = [line("2000-05-01", 100, 100), line("2000-06-01", 300, 400), line("2000-07-01", 0, 400)]
    return {"smallest_class": 5, "k": 5, "mode": "sticky", "data": "MovieLens 1M", "snapshots": lines}


def test_staleness_is_the_mean_age_over_people(run):
    found = series_page.staleness(run["snapshots"])
    month = 365.25 / 12
    assert found[0] == 0
    assert found[1] == pytest.approx(31 * 100 / 400 / month)
    assert found[2] == pytest.approx((61 * 100 + 30 * 300) / 400 / month)


def test_the_cohort_of_a_refused_release_does_not_age(run):
    run["snapshots"][0]["status"] = "refused"
    found = series_page.staleness(run["snapshots"])
    assert math.isnan(found[0])
    assert found[1] == 0


def test_loss_is_a_share_of_random_groups_loss(run):
    assert series_page.loss(run["snapshots"][0]) == pytest.approx(0.2)
    assert math.isnan(series_page.loss(run["snapshots"][2]))


def test_the_table_has_a_row_per_snapshot(run):
    run["snapshots"][1] |= {"status": "refused", "failed": ["sybil"]}
    text = series_page.page({"MovieLens 1M, k = 5": run})
    assert "| 2000-05-01 | 100 | 100 | 100.0% | 3 | 20 | 10 | 0.0 | 0.20 | 8 | published |" in text
    assert "refused by sybil" in text
    assert "3 snapshots; smallest class of all releases: 5" in text


def test_runs_that_are_not_in_order_are_not_drawn(run, tmp_path):
    run["snapshots"].reverse()
    (tmp_path / "series-shuffled.json").write_text(json.dumps(run))
    runs = series_page.read_runs(tmp_path)
    assert list(runs) == ["MovieLens 1M, k = 5, backfill 2000-07-01, 2000-06-01, 2000-05-01"]
    assert ".svg" not in series_page.page(runs)


def test_a_refused_snapshot_releases_nobody(run, tmp_path):
    run["snapshots"][1] |= {"status": "refused", "failed": ["sybil"]}
    (tmp_path / "series-1.json").write_text(json.dumps(run))
    (read,) = series_page.read_runs(tmp_path).values()
    assert read["snapshots"][0] == run["snapshots"][0]
    assert (
        read["snapshots"][1] | {"people": 0, "share_of_eligible": 0.0, "waiting": 303} == read["snapshots"][1]
    )


def test_every_plot_of_the_page_is_drawn(run, tmp_path):
    run["snapshots"][0]["class_sizes"] = [5, 9]
    runs = {"MovieLens 1M, k = 5": run}
    series_page.draw(runs, tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {f"{name}.svg" for name in series_page.PLOTS}
    assert all(f"(series/{name})" in series_page.page(runs) for name in drawn)


def test_what_is_between_the_markers_is_replaced():
    old = f"a\n{series_page.BEGIN}\nold\n{series_page.END}\nb\n"
    filled = series_page.fill(old, "new\n")
    assert "old" not in filled
    assert filled.startswith("a\n")
    assert filled.endswith("b\n")
    assert series_page.fill(filled, "new\n") == filled
    with pytest.raises(ValueError, match="must contain"):
        series_page.fill("a", "b")


def test_without_results_the_page_says_so():
    assert "Not measured yet" in series_page.page({})


def test_classes_are_people_who_are_alike_in_every_public_release(tmp_path):
    for day, groups in (
        ("2000-05-01", [0, 0, 0, -1]),
        ("2000-06-01", [1, 1, 0, 2]),
        ("2000-07-01", [0, 1, 2, 3]),
    ):
        private, published = tmp_path / "private/x" / day, tmp_path / "published/x" / day
        private.mkdir(parents=True)
        published.mkdir(parents=True)
        table = {"user": ["a", "b", "c", "d"], "pseudonym": ["p", "q", "r", "s"], "group": groups}
        pd.DataFrame(table).to_parquet(private / "membership.parquet")
        if day < "2000-07-01":  # the last one was refused
            (published / "manifest.json").write_text("{}")
    assert series.class_sizes(tmp_path) == [1, 1, 2]
