"""Test the benchmarks: a tiny run finishes, figures add up, bars fail when they should."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import growth, netflix, output, page, peers, plots, results, stages
from benchmarks import mdav as microaggregation
from benchmarks.naive import mdav, naive_distances, sum_of_squares
from benchmarks.results import Bar
from tasks.kernels.metrics import distances
from tests.conftest import ROOT

STAGES = [*stages.ANONYMIZATION, *stages.GATE]


def made_run(users, power=1.0, *, workers=2, share=0.0, wall=1.0, digests=None):
    """Figures as `measure` returns them, growing with a given power of the users."""
    took = (users / 1000) ** power
    return {
        "users": users,
        "ratings": 200 * users,
        "k": 5,
        "workers": workers,
        "status": "published",
        "why": None,
        "stages": [
            {"name": name, "cpu_seconds": took, "wall_seconds": wall * took, "peak_bytes": 2**30}
            for name in [*STAGES, "shadow padding"]
        ],
        "peak_bytes": 2**30,
        "others_cpu_share": share,
        "output_bytes": 10**9,
        "output_digests": {"groups.parquet": "a"} if digests is None else digests,
        "references": {"ingest": {"counts": {"ratings": 200 * users}}},
    }


# --- growth


@given(power=st.floats(-2, 3), factor=st.floats(1e-3, 1e3), smallest=st.integers(10, 10_000))
def test_the_exponent_of_a_power_law_is_found(power, factor, smallest):
    sizes = [smallest * 2**step for step in range(4)]
    found = growth.exponent(sizes, [factor * size**power for size in sizes])
    assert found == pytest.approx(power, abs=1e-9)


def test_an_exponent_is_the_least_squares_slope_of_the_logarithms():
    sizes, values = [100, 200, 400, 800], [1.0, 2.5, 3.9, 9.7]
    assert growth.exponent(sizes, values) == pytest.approx(np.polyfit(np.log(sizes), np.log(values), 1)[0])


@pytest.mark.parametrize(("sizes", "values"), [([10], [1.0]), ([10, 20], [1.0, 0.0]), ([10, 20], [1.0])])
def test_no_exponent_where_there_is_none(sizes, values):
    assert growth.exponent(sizes, values) is None


def test_the_shadows_stages_count_once():
    fitted = growth.fit([made_run(1000 * 2**step, 1.1) for step in range(4)])
    assert fitted["whole"] == pytest.approx(1.1)
    assert fitted["last"] == pytest.approx(1.1)
    assert fitted["stages"]["shadow padding"] == pytest.approx(1.1)
    assert stages.total(made_run(1000)["stages"]) == pytest.approx(len(STAGES))


def test_a_stage_too_short_for_the_clock_has_no_exponent():
    fitted = growth.fit([made_run(20 * 2**step) for step in range(4)])
    assert set(fitted["stages"].values()) == {None}
    assert fitted["whole"] == pytest.approx(1.0)


@pytest.mark.parametrize(("power", "kept"), [(1.2, True), (1.3, False)])
def test_growing_too_fast_misses_the_bar(power, kept):
    found = growth.bars(growth.fit([made_run(1000 * 2**step, power) for step in range(4)]), None)
    assert [bar.passed for bar in found] == [kept, kept]


def test_a_last_doubling_that_grows_too_fast_misses_its_bar():
    assert [bar.passed for bar in growth.bars({"whole": 0.4, "last": 1.4}, None)] == [True, False]


def test_figures_of_another_size_are_not_taken_for_the_official_ones(tmp_path):
    assert netflix.arguments([]).json.name == "netflix.json"
    for other in (["--users", "1500"], ["--items", "400"], ["--k", "5"], ["--ratings-per-user", "9"]):
        assert netflix.arguments(other).json.name.endswith(".local.json")
    assert "--users 480189 --items 17770" in netflix.arguments([]).command
    assert growth.arguments([]).json.name == "growth.json"
    assert growth.arguments(["--smallest", "7500"]).json.name == "growth.json"
    for other in (["--smallest", "300"], ["--items", "400"]):
        assert growth.arguments(other).json.name == "growth.local.json"


def test_ratings_of_another_number_are_not_taken_for_those_asked_for(tmp_path):
    pq.write_table(pa.table({"user": [1, 2]}), tmp_path / "part-00000.parquet")
    assert stages.make_data(tmp_path, 1, 10, 2.0) == tmp_path
    with pytest.raises(SystemExit, match="holds 2 ratings"):
        stages.make_data(tmp_path, 100, 10, 2.0)


@pytest.mark.parametrize(
    ("wall", "share", "digests", "kept"),
    [
        (1.9, 0.0, None, [True, True, True]),
        (1.5, 0.0, None, [True, True, False]),
        (1.5, 0.5, None, [True, True]),  # others kept the cores busy: no word about the speed
        (1.9, 0.0, {"groups.parquet": "b"}, [True, False, True]),
        (1.9, 0.0, {}, [True, False, True]),
    ],
)
def test_two_workers_are_faster_and_make_the_same(wall, share, digests, kept):
    one, two = made_run(8000, workers=1, wall=wall, share=share, digests=digests), made_run(8000)
    compared = growth.compare_workers(one, two)
    assert compared["speedup"] == pytest.approx(wall)
    assert [bar.passed for bar in growth.bars({"whole": 1.0, "last": 1.0}, compared)] == [True, *kept]


@pytest.mark.slow
def test_growth_runs_through_and_leaves_its_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(growth, "make_data", lambda directory, *_: directory)
    monkeypatch.setattr(growth, "warm_up", lambda *_: None)
    walls = {1: 1.9, 2: 1.0}
    monkeypatch.setattr(
        growth,
        "measure",
        lambda config, store, workers: made_run(
            int(config["source"]["path"].rsplit("-", 1)[1]), workers=workers, wall=walls[workers]
        ),
    )
    file = tmp_path / "growth.json"
    options = ["--smallest", "500", "--workers", "1,2", "--scratch", str(tmp_path / "s"), "--json", str(file)]
    assert growth.main(options) == 0
    figures = json.loads(file.read_text())
    assert [run["users"] for run in figures["runs"]] == [500, 1000, 2000, 4000]
    assert figures["exponents"]["whole"] == pytest.approx(1.0)
    assert figures["workers"]["speedup"] == pytest.approx(1.9)
    assert figures["machine"].keys() >= {
        "cores",
        "model",
        "memory_bytes",
        "python",
        "packages",
        "commit",
        "date",
    }
    assert "last doubling: 1.00" in capsys.readouterr().out
    text = page.page(tmp_path)
    assert "| validate | 0.5 | 1.0 | 2.0 | 4.0 | 1.00 | 4.0 | 1,024 |" in text
    assert "Not measured yet: `make bench-netflix`" in text
    plots.growth(figures, tmp_path)
    assert (tmp_path / "growth.svg").read_text().count("slope 1.5") == 1


def test_the_page_is_made_from_the_figures_beside_it():
    assert (page.DOCS / "benchmarks.md").read_text(encoding="utf-8") == page.page(), "run: make bench-page"


# --- Netflix's size


def held(**changed):
    run = made_run(1000) | {"naive": {"ratio": 120.0}}
    run["stages"] = netflix.rates(
        run["stages"], {"items": 1, "ratings": 1, "cells": 300e6, "distances": {"binning": 1}}
    )
    return {bar.name: bar.passed for bar in netflix.bars(run | changed)}


def test_all_bars_are_kept_by_good_figures():
    assert list(held().values()) == [True] * 6


@pytest.mark.parametrize(
    ("stage", "changed", "bar"),
    [
        ("clustering", {"peak_bytes": 4.1 * 2**30}, "k=5: peak memory of anonymization"),
        ("validate", {"peak_bytes": 6.1 * 2**30}, "k=5: peak memory of the gate"),
        ("homogenization", {"rate": 199.0}, "k=5: homogenization"),
    ],
)
def test_a_stage_that_takes_too_much_misses_its_bar(stage, changed, bar):
    run = made_run(1000)
    run["stages"] = [one | {"rate": 300.0} for one in run["stages"]]
    run["stages"] = [one | changed if one["name"] == stage else one for one in run["stages"]]
    missed = [name for name, passed in held(stages=run["stages"]).items() if not passed]
    assert missed == [bar]


@pytest.mark.parametrize(
    ("changed", "bar"),
    [
        ({"naive": {"ratio": 99.0}}, "k=5: metric-bound stages against naive NumPy"),
        ({"status": "refused"}, "k=5: passed the gate"),
        ({"output_bytes": 2.1e9}, "k=5: output"),
        ({"output_bytes": None}, "k=5: output"),
    ],
)
def test_a_release_that_falls_short_misses_its_bar(changed, bar):
    assert [name for name, passed in held(**changed).items() if not passed] == [bar]


def test_the_output_is_judged_at_k_5_only():
    assert not any("output" in name or "homogenization" in name for name in held(k=50))


def test_work_is_counted_by_hand(tmp_path):
    np.save(tmp_path / "bins.npy", np.array([0] * 11 + [2] * 4, np.int32))  # bin 1 was merged away
    counts = {
        "ingest": {"items": 7, "ratings": 90},
        "sampling": {"sampled": 6},
        "centers": {"centers": 3},
        "binning": {},
        "clustering": {"groups": 7},
        "homogenization": {"cells": 49},
    }
    references = {name: {"path": str(tmp_path), "counts": found} for name, found in counts.items()}
    work = netflix.count_work(references, 2)
    assert (work["users"], work["groups"], work["cells"]) == (15, 7, 49)
    assert work["distances"] == {"centers": 18, "binning": 45, "clustering": 11 * 5 + 4 * 2}
    run = made_run(1000)
    found = netflix.against_naive(run["stages"], work, 2.0)
    assert found == {"ours_cpu_seconds": 3.0, "naive_cpu_seconds": 252.0, "ratio": 84.0}


@pytest.mark.slow
def test_a_tiny_release_runs_through_and_leaves_its_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(netflix, "warm_up", lambda *_: None)
    secret = tmp_path / "secret"
    secret.write_bytes(b"k" * 32)
    secret.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))
    file = tmp_path / "netflix.json"
    size = ["--users", "300", "--items", "120", "--ratings-per-user", "25", "--k", "10,5", "--workers", "0"]
    places = ["--data", str(tmp_path / "data"), "--store", str(tmp_path / "store"), "--json", str(file)]
    assert netflix.main([*size, *places]) == 1  # so small that its fixed costs miss the bars of speed
    figures = json.loads(file.read_text())
    first, second = figures["runs"]
    assert [first["k"], second["k"]] == [10, 5]
    for run in (first, second):
        names = [stage["name"] for stage in stages.own(run["stages"])]
        assert names == (STAGES if run["status"] == "published" else STAGES[:-1])
        assert all(stage["cpu_seconds"] >= 0 and stage["peak_bytes"] > 2**20 for stage in run["stages"])
        assert run["whole_cpu_seconds"] == pytest.approx(stages.total(run["stages"]))
        assert run["work"]["users"] == 300
    shared = [stage["name"] for stage in second["stages"] if stage.get("shared")]
    assert shared == figures["shared_stages"] == list(stages.INDEPENDENT_OF_K)
    assert [bar["name"] for bar in figures["bars"] if bar["name"].startswith("k=5")]
    assert figures["peers"]["factorization"]["peers"]["cmfrec"] is not None
    assert not list((tmp_path / "store").glob("*/netflix-*"))
    text = page.page(tmp_path)
    assert "### k = 10" in text
    assert "| centers (shared) |" in text
    plots.stages(figures, tmp_path)
    assert "homogenization" in (tmp_path / "stages.svg").read_text()


# --- peers


def test_naive_distances_are_the_metric():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(1, 5, (5, 30)).astype(np.float32), rng.uniform(1, 5, (4, 30)).astype(np.float32)
    ours = distances(x, y, metric="weighted-squared", max_diff=4.0)
    np.testing.assert_allclose(naive_distances(x.astype(float), y.astype(float), 4.0), ours, atol=1e-6)


def test_mdav_by_hand():
    points = np.array([[0.0], [1], [2], [10], [11], [12], [5]])
    labels = mdav(points, 3)  # 7 < 3k: the farthest from the mean and its two nearest, then the rest
    assert sorted(map(sorted, (np.flatnonzero(labels == g).tolist() for g in range(2)))) == [
        [0, 1, 2, 6],
        [3, 4, 5],
    ]
    assert sum_of_squares(points, labels) == pytest.approx(2.0 + 14.0)


@given(count=st.integers(2, 40), k=st.integers(2, 6), seed=st.integers(0, 9))
def test_mdav_makes_groups_of_k_to_2k_less_one(count, k, seed):
    labels = mdav(np.random.default_rng(seed).normal(size=(count, 3)), k)
    sizes = np.bincount(labels)
    assert sizes.sum() == count
    assert sizes.max() <= 2 * k - 1
    assert count < k or sizes.min() >= k


def test_a_peer_that_is_not_here_is_named():
    assert peers._peer("no_such_peer_at_all", lambda _: 1.0) == "not installed"


# --- bars and memory


def test_a_bar_that_was_not_measured_is_missed(capsys):
    missing = Bar("output", None, "≤", 2, "GB")
    assert results.verdict([Bar("speed", 3, "≥", 2, "×"), missing]) == 1
    assert results.verdict([Bar("speed", 2, "≥", 2), Bar("peak", 2, "≤", 2)]) == 0
    assert "output: not measured GB (≤ 2): NO" in capsys.readouterr().out


def test_figures_say_when_the_code_changed_under_them(tmp_path):
    began = results.machine()
    results.write(tmp_path / "same.json", {"figure": 1}, began)
    results.write(tmp_path / "changed.json", {"figure": 1}, began | {"commit": "earlier"})
    assert results.read("same", tmp_path) == {"machine": began, "figure": 1}
    assert results.read("changed", tmp_path)["machine"]["commit"] == f"earlier to {began['commit']}"
    assert results.read("never", tmp_path) is None


@pytest.mark.parametrize(
    ("value", "text"), [(12_345.6, "12,346"), (99.44, "99.4"), (0.01234, "0.0123"), (0, "0")]
)
def test_numbers_are_readable(value, text):
    assert results.number(value) == text


def test_memory_has_a_peak_for_everything_under_way():
    """In a process of its own: the tests' process may have children whose memory changes meanwhile."""
    script = """
import json
import numpy as np
from tasks.cli._peak_memory import PeakMemory

with PeakMemory(interval_seconds=60) as memory:
    with memory.during("outer"):
        with memory.during("inner"):
            held = np.ones(8_000_000)
        del held
    with memory.during("later"):
        pass
print(json.dumps([memory.peaks, memory.peak_bytes]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    peaks, peak_bytes = json.loads(done.stdout)
    assert peaks["inner"] - peaks["later"] > 40_000_000
    assert peaks["outer"] == peaks["inner"] == peak_bytes


# --- microaggregation


def test_microaggregation_is_compared_with_the_textbook_on_the_same_records():
    lines = microaggregation.benchmark(scale=0.02)
    assert [line.bar for line in lines] == [8.0, None]
    assert [line.kernel.split()[:2] for line in lines] == [["MDAV", "480×100,"], ["V-MDAV", "40×100,"]]
    assert all(line.ours > 0 and line.ratio == line.peer / line.ours for line in lines)


def test_groups_that_are_not_the_textbooks_are_no_benchmark():
    with pytest.raises(AssertionError, match="not the textbook's"):
        microaggregation.compare("planted", lambda: np.zeros(3), lambda: np.ones(3), None)


@pytest.mark.slow
def test_output_runs_the_whole_step(tmp_path):
    rates = output.measure(60, 40, tmp_path)
    assert len(rates) == output.ROUNDS
    assert all(rate > 0 for rate in rates)
    assert [place.name for place in tmp_path.iterdir() if place.name not in output.INPUTS] == ["store"]
    assert not list((tmp_path / "store").rglob("groups.parquet"))
