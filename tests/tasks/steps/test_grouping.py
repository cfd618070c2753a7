"""Test sampling, centres, binning and clustering on ratings small enough to inspect."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tasks import pipeline
from tasks.config import parse
from tasks.data.ratings import write_ids, write_matrix
from tasks.data.similarity import Similarity, padded_rows
from tasks.engine import engine
from tasks.errors import DiskFull
from tasks.kernels.metrics import METRICS, distances
from tasks.kernels.rating_vectors import DenseVectors
from tasks.steps import clustering, sampling
from tasks.steps.binning import Params, merge_small_bins
from tasks.store import Store
from tests.conftest import SNAPSHOT


@pytest.fixture
def release(tmp_path, taste_matrix):
    """Open a run whose ingest is given: (matrix, workers, tables) → Run."""

    def make(matrix=None, workers=None, store=None, **tables):
        matrix = taste_matrix() if matrix is None else matrix
        place = tmp_path / "given"
        if not place.exists():
            place.mkdir()
            write_ids(place, "user", [f"u{n:04}" for n in range(matrix.shape[0])])
            write_ids(place, "item", [f"i{n:04}" for n in range(matrix.shape[1])])
            write_matrix(place, matrix)
        config = parse(
            {"release": {"name": "t"}, "source": {"format": "csv", "path": "-", "scale": [1, 5]}, **tables}
        )
        run = pipeline.open_run(
            config, SNAPSHOT, Store(store or tmp_path / "store"), workers, lambda *_: None
        )
        run.given["ingest"] = {"path": str(place), "digest": "given", "counts": {}}
        return run

    return make


def labels_of(run):
    path = pipeline.execute("clustering", run)["path"]
    return np.load(f"{path}/labels.npy")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [2, 7, 25])
def test_groups_have_k_users_and_all_users(release, metric, k):
    with engine(0) as here:
        labels = labels_of(release(workers=here, privacy={"k": k}, clustering={"metric": metric}))
    assert len(labels) == 60
    sizes = np.bincount(labels)
    assert sizes.min() >= k
    assert sizes.sum() == 60


def test_k_users_make_one_group(release, taste_matrix):
    with engine(0) as here:
        labels = labels_of(release(taste_matrix(users=5), workers=here, privacy={"k": 5, "l": 1}))
    assert labels.tolist() == [0] * 5


def test_similar_users_share_a_group(release):
    # Two camps that rate everything alike within and opposite between: no group may mix them.
    camp = np.repeat([[5, 1] * 10, [1, 5] * 10], 20, axis=0).astype(np.float32)
    with engine(0) as here:
        labels = labels_of(release(sp.csr_array(camp), workers=here, privacy={"k": 4}))
    for group in np.unique(labels):
        assert len({int(user >= 20) for user in np.flatnonzero(labels == group)}) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_grouping_depends_on_seed_and_secret_only(release, tmp_path, monkeypatch):
    key = tmp_path / "key"
    key.write_bytes(b"s" * 32)
    key.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(key))
    with engine(0) as here, engine(2) as there:
        one = labels_of(release(workers=here, store=tmp_path / "a"))
        assert np.array_equal(one, labels_of(release(workers=there, store=tmp_path / "b")))
        other_seed = labels_of(release(workers=here, store=tmp_path / "c", clustering={"seed": 1}))
        key.write_bytes(b"t" * 32)
        other_secret = labels_of(release(workers=here, store=tmp_path / "d"))
    assert not np.array_equal(one, other_seed)
    assert not np.array_equal(one, other_secret)


def test_users_join_the_nearest_center(release):
    with engine(0) as here:
        run = release(workers=here, privacy={"k": 2})
        factors = np.load(pipeline.execute("centers", run)["path"] + "/centers.npy")
        bins = np.load(pipeline.execute("binning", run)["path"] + "/bins.npy")
        paths = [pipeline.execute(name, run)["path"] for name in ("ingest", "padding")]
    rows = padded_rows(*map(Path, paths), np.arange(60), keep_observed=False)
    assert len(factors) == 7  # the root of 60 users
    centers = Similarity.of(run.config).as_points(Path(paths[1]), factors).rows(slice(None))
    nearest = distances(rows, centers, metric="weighted-squared", max_diff=4.0).argmin(axis=1)
    merged = {b for b in range(7) if b not in bins}
    assert all(bins[u] == nearest[u] for u in range(60) if nearest[u] not in merged)


def merge(bins, centers, least):
    points = np.array(centers, np.float32).reshape(-1, 1)
    params = Params(
        similarity=Similarity(metric="weighted", max_diff=10.0, keep_observed=False), least_users=least
    )
    return merge_small_bins(np.array(bins), DenseVectors(points), params).tolist()


def test_a_small_bin_joins_its_nearest():
    assert merge([0, 0, 0, 1, 2, 2], [0, 9, 8], 2) == [0, 0, 0, 2, 2, 2]


def test_small_bins_merge_until_none_is_small():
    assert merge([0, 1, 2, 3], [0, 1, 5, 6], 2) in ([1, 1, 3, 3], [0, 0, 2, 2], [1, 1, 2, 2], [0, 0, 3, 3])
    assert len(set(merge([0, 1, 2, 3], [0, 1, 5, 6], 4))) == 1


def test_too_few_users_make_one_bin():
    assert len(set(merge([0, 1], [0, 9], 99))) == 1


def test_sample_has_the_configured_size(release):
    with engine(0) as here:
        path = pipeline.execute("sampling", release(workers=here, clustering={"sample": 13}))["path"]
    sample = np.load(f"{path}/sample.npy")
    assert len(sample) == len(set(sample.tolist())) == 13
    assert sample.max() < 60


def test_unread_settings_do_not_recompute(release, monkeypatch):
    with engine(0) as here:
        labels_of(release(workers=here))
        monkeypatch.setattr(clustering, "run", lambda job: pytest.fail("computed again"))
        labels_of(
            release(workers=here, privacy={"k": 5, "rating_step": 0.5})
        )  # k's default; the step is not ours


def test_missing_result_files_are_recomputed(release):
    with engine(0) as here:
        run = release(workers=here)
        before = labels_of(run)
        for file in Path(pipeline.execute("binning", run)["path"]).iterdir():
            file.unlink()
        (run.work / "clustering" / "step.json").unlink()
        assert np.array_equal(labels_of(release(workers=here)), before)


def test_a_failed_step_leaves_no_result(release, monkeypatch):
    def broken(job):
        (job.out / "half").write_text("x")
        raise OSError(28, "No space left on device")

    with engine(0) as here:
        run = release(workers=here)
        with monkeypatch.context() as patch:
            patch.setattr(sampling, "run", broken)
            with pytest.raises(DiskFull, match="no space left"):
                pipeline.execute("sampling", run)
        assert not (run.work / "sampling" / "step.json").exists()
        pipeline.execute("sampling", run)
        assert not (run.work / "sampling" / "half").exists()
