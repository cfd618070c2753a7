"""Test the steps of method dp-synthetic: files, budget, keys of the noise, the same bytes with any workers."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tasks import pipeline
from tasks.config import parse
from tasks.data import noisy_statistics as files
from tasks.data import profiles
from tasks.data.ratings import write_ids, write_matrix
from tasks.engine import Engine, engine
from tasks.errors import UsageError
from tasks.kernels.bounded_sums import sums
from tasks.steps import statistics
from tasks.store import STEP_TIMES, Store, files_below
from tests.conftest import SNAPSHOT

PEOPLE, ITEMS = 3000, 50
BUDGET = {"epsilon": 4.0, "delta": 1e-5}


def popular(seed: int = 0) -> sp.csr_array:
    """Make ratings of items of which some are far more popular."""
    rng = np.random.default_rng(seed)
    rated = rng.random((PEOPLE, ITEMS)) < np.linspace(0.05, 0.5, ITEMS)
    return sp.csr_array(np.where(rated, rng.integers(1, 6, rated.shape), 0).astype(np.float32))


@pytest.fixture
def release(tmp_path):
    """Open a run whose ingest is given: (matrix, workers, tables) → Run."""
    made = iter(range(100))

    def make(matrix: sp.csr_array, workers: Engine, name: str = "d", snapshot=SNAPSHOT, **tables):
        number = next(made)
        place = tmp_path / f"given-{number}"
        place.mkdir()
        write_ids(place, "user", [f"secret-{n:05}" for n in range(matrix.shape[0])])
        write_ids(place, "item", [f"i{n:04}" for n in range(matrix.shape[1])])
        write_matrix(place, matrix)
        privacy = {
            "method": "dp-synthetic",
            "rating_step": 0.5,
            "budget": BUDGET,
            **tables.pop("privacy", {}),
        }
        config = parse(
            {
                "release": {"name": name},
                "source": {"format": "csv", "path": "-", "scale": [1, 5]},
                "privacy": privacy,
                "synthesis": {"rows": 3000, **tables.pop("synthesis", {})},
                **tables,
            }
        )
        run = pipeline.open_run(
            config, snapshot, Store(tmp_path / f"store-{number}"), workers, lambda *_: None
        )
        run.given["ingest"] = {"path": str(place), "digest": "given", "counts": {}}
        return run

    return make


def statistics_of(run) -> Path:
    return Path(pipeline.execute("statistics", run)["path"])


def chosen_by(run) -> np.ndarray:
    """Return the positions of the chosen items in the matrix."""
    names = pq.read_table(statistics_of(run) / "items.parquet").column("item").to_pylist()
    return np.array([int(name.removeprefix("i")) for name in names])


class TestStatistics:
    def test_files(self, release):
        with engine(0) as here:
            run = release(popular(), here)
            out = statistics_of(run)
        found = files.read(out / files.STATISTICS)
        named = pq.read_table(out / "items.parquet").column("item").to_pylist()
        assert named == sorted(set(named))
        assert len(named) == len(found.counts) == len(found.pairs) >= 2
        assert set(files_below(out)) == {"items.parquet", "spent.json", "statistics.npz", "step.json"}
        hidden = {path.name for path in out.iterdir() if path.name.startswith(".")}
        assert hidden == {STEP_TIMES}  # no exact sums are left

    def test_spent_is_within_the_budget(self, release):
        with engine(0) as here:
            out = statistics_of(release(popular(), here))
        spent = json.loads((out / "spent.json").read_text())
        assert set(spent) == {"rho", "failure", "epsilon", "delta", "parts"}
        assert 0.9 * BUDGET["epsilon"] < spent["epsilon"] <= BUDGET["epsilon"]
        assert spent["delta"] == BUDGET["delta"]
        assert sum(spent["parts"].values()) == pytest.approx(spent["rho"])

    def test_releases_share_the_budget(self, release):
        shared = {"budget": {**BUDGET, "per": "year", "releases": 4}}
        with engine(0) as here:
            alone, one = (
                json.loads((statistics_of(release(popular(), here, privacy=some)) / "spent.json").read_text())
                for some in ({}, shared)
            )
        assert one["rho"] == pytest.approx(alone["rho"] / 4, rel=0.02)

    def test_exact_numbers_stay_out_of_logs(self, release):
        """Counts go to logs and XCom: the number of people in them is the noisy one."""
        with engine(0) as here:
            run = release(popular(), here)
            counts = pipeline.execute("statistics", run)["counts"]
        found = files.read(statistics_of(run) / files.STATISTICS)
        assert counts["users"] == found.users
        assert set(counts) == {"items", "users", "epsilon"}

    def test_no_user_id_in_any_file(self, release):
        with engine(0) as here:
            run = release(popular(), here)
            places = [Path(pipeline.execute(step, run)["path"]) for step in ("statistics", "synthesis")]
        for file in (file for place in places for file in place.rglob("*")):
            assert b"secret-0" not in file.read_bytes(), file

    def test_too_little_data_is_refused_with_a_remedy(self, release):
        with engine(0) as here, pytest.raises(UsageError, match="stand out of the noise") as refusal:
            statistics_of(release(popular()[:20], here))
        assert "epsilon" in str(refusal.value)


class TestNoise:
    def noise(self, run) -> np.ndarray:
        """Return the noise of a run's pairs: what it measured, minus the exact sums of its ratings."""
        found = files.read(statistics_of(run) / files.STATISTICS)
        ratings = run.given["ingest"]["path"]
        exact = sums(statistics.Ratings(ratings).by_user.whole(), chosen_by(run), found.limits)
        return found.pairs - exact.pairs

    def test_other_data_settings_release_snapshot_or_secret(self, release, tmp_path, monkeypatch):
        """Noise that were the same twice could be subtracted."""
        matrix, items = popular(), {"items": 10, "choice_share": 0.5}
        fewer = sp.csr_array(matrix[:-1])
        with engine(0) as here:
            noises = [
                self.noise(release(matrix, here, synthesis=items)),
                self.noise(release(fewer, here, synthesis=items)),
                self.noise(release(matrix, here, synthesis=items, privacy={"budget": {"epsilon": 5.0}})),
                self.noise(release(matrix, here, synthesis=items, name="e")),
                self.noise(release(matrix, here, synthesis=items, snapshot=SNAPSHOT.replace(day=2))),
            ]
            again = self.noise(release(matrix, here, synthesis=items))
            secret = tmp_path / "other"
            secret.write_bytes(b"o" * 32)
            secret.chmod(0o600)
            monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))
            noises.append(self.noise(release(matrix, here, synthesis=items)))
        assert np.array_equal(again, noises[0])
        upper = np.triu_indices(min(len(noise) for noise in noises))
        correlation = np.corrcoef([noise[upper] for noise in noises])
        assert np.abs(correlation[np.triu_indices(len(noises), 1)]).max() < 0.6  # 55 pairs; equal noise has 1


class TestSynthesis:
    def test_rows(self, release):
        with engine(0) as here:
            run = release(popular(), here)
            out = Path(pipeline.execute("synthesis", run)["path"]) / "groups.parquet"
            items = pq.read_metadata(statistics_of(run) / "items.parquet").num_rows
        [*blocks] = profiles.blocks(out, np.dtype("u1"))
        assert sum(len(block.sizes) for block in blocks) == 3000
        for block in blocks:
            assert block.lengths.min() >= 1
            assert np.all(block.sizes == 1)
            assert block.items.max() < items
            assert block.codes.max() <= 8  # 1 to 5 in steps of 0.5
        table = pq.read_table(out)
        assert table.column("group").to_pylist() == list(range(3000))
        assert all(row == sorted(set(row)) for row in table.column("items").to_pylist())

    def test_popular_items_stay_popular(self, release):
        with engine(0) as here:
            run = release(popular(), here)
            out = Path(pipeline.execute("synthesis", run)["path"]) / "groups.parquet"
            columns = chosen_by(run)
        listed = pq.read_table(out).column("items").combine_chunks().flatten().to_numpy()
        drawn = np.bincount(listed, minlength=len(columns))
        assert np.corrcoef(drawn, popular().sum(axis=0)[columns])[0, 1] > 0.8

    def test_default_number_of_rows_follows_the_noisy_number_of_people(self, release, monkeypatch):
        from tasks.steps import synthesis

        monkeypatch.setattr(synthesis, "LEAST_ROWS", 10)
        with engine(0) as here:
            run = release(popular(), here, synthesis={"rows": None})
            counts = pipeline.execute("synthesis", run)["counts"]
        assert counts["rows"] == files.read(statistics_of(run) / files.STATISTICS).users
        assert counts["rows"] == pytest.approx(PEOPLE, rel=0.05)

    def test_default_rows_are_never_few(self, release):
        with engine(0) as here:
            run = release(popular(), here, synthesis={"rows": None})
            assert pipeline.execute("synthesis", run)["counts"]["rows"] == 10_000

    @pytest.mark.usefixtures("shared_workers")
    def test_same_bytes_with_any_workers(self, release, monkeypatch):
        """Blocks follow the data: no worker, one, two; some blocks of people, and of rows."""
        from tasks.steps import synthesis

        monkeypatch.setattr(statistics, "LEAST_RATINGS", 5_000)
        monkeypatch.setattr(synthesis, "CELLS_PER_BLOCK", 20_000)
        made = []
        for count in (0, 1, 2):
            with engine(count) as workers:
                run = release(popular(), workers)
                places = [Path(pipeline.execute(step, run)["path"]) for step in ("statistics", "synthesis")]
                made.append([files_below(place) for place in places])
        for one in made:
            for place in one:
                del place["step.json"]  # holds digests of paths' contents and the key of the secret only
        assert made[0] == made[1] == made[2]
        assert len(profiles.row_groups(places[1] / "groups.parquet")) > 1

    def test_blocks_of_people_do_not_matter(self, release, monkeypatch):
        made = []
        for least in (500_000, 3_000):
            monkeypatch.setattr(statistics, "LEAST_RATINGS", least)
            with engine(0) as here:
                out = statistics_of(release(popular(), here))
                made.append((out / files.STATISTICS).read_bytes())
        assert made[0] == made[1]
