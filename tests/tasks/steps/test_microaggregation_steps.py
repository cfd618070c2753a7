"""Test microaggregation's grouping and profiles on ratings small enough to inspect."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tasks import pipeline
from tasks.config import parse
from tasks.data import profiles
from tasks.data.factors import open_model
from tasks.data.ratings import write_ids, write_matrix
from tasks.engine import engine
from tasks.errors import UsageError
from tasks.groupings import mdav as grouping
from tasks.kernels.mdav import mdav, v_mdav
from tasks.store import Store
from tests.conftest import SNAPSHOT

# Six people, four items, 0: not rated. Two tastes, so groups of three are the first and the last three.
TASTES = [
    [5, 5, 1, 0],
    [5, 4, 0, 0],
    [4, 5, 1, 2],
    [1, 0, 5, 0],
    [1, 1, 4, 4],
    [0, 1, 5, 0],
]


@pytest.fixture
def release(tmp_path, monkeypatch):
    """Open a run whose ingest is given, always with the same secret: (matrix, workers, tables) → Run."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"k" * 32)
    secret.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))
    numbers = iter(range(9))

    def make(matrix, workers, privacy=None, **tables):
        place = tmp_path / str(next(numbers))
        place.mkdir()
        matrix = sp.csr_array(np.asarray(matrix, np.float32)) if isinstance(matrix, list) else matrix
        write_ids(place, "user", [f"u{n:04}" for n in range(matrix.shape[0])])
        write_ids(place, "item", [f"i{n:04}" for n in range(matrix.shape[1])])
        write_matrix(place, matrix)
        config = parse(
            {
                "release": {"name": "t"},
                "source": {"format": "csv", "path": "-", "scale": [1, 5]},
                "privacy": {"method": "microaggregation", "k": 3, **(privacy or {})},
                **tables,
            }
        )
        run = pipeline.open_run(config, SNAPSHOT, Store(place / "store"), workers, lambda *_: None)
        run.given["ingest"] = {"path": str(place), "digest": "given", "counts": {}}
        return run

    return make


def labels_of(run):
    return np.load(f"{pipeline.execute('clustering', run)['path']}/labels.npy")


def published(run):
    """The released ratings, (groups, items)."""
    coding = profiles.Coding.of(run.config)
    path = f"{pipeline.execute('homogenization', run)['path']}/groups.parquet"
    values = [coding.values(block.codes) for block in profiles.blocks(path, coding.dtype)]
    return np.concatenate(values).reshape(int(labels_of(run).max()) + 1, -1)


def same_partition(one, other):
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))


def filled_with(matrix, values):
    dense = np.broadcast_to(np.asarray(values, float), matrix.shape).copy()
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    dense[row, matrix.indices] = matrix.data
    return dense


def z_scores(filled):
    spread = filled.std(axis=0)
    return (filled - filled.mean(axis=0)) / np.where(filled.min(axis=0) == filled.max(axis=0), 1, spread)


# --- what is published


def test_centroid_is_mean_of_filled_ratings(release):
    with engine(0) as here:
        run = release(
            TASTES, here, privacy={"min_contributors": 1}, microaggregation={"imputation": "central"}
        )
        labels, values = labels_of(run), published(run)
    assert same_partition(labels, np.array([0, 0, 0, 1, 1, 1]))
    # First three: 14/3, 14/3, (1+3+1)/3, (3+3+2)/3; last three: 5/3, 5/3, 14/3, 10/3; in steps of 0.1.
    assert values[labels[0]] == pytest.approx([4.7, 4.7, 1.7, 2.7])
    assert values[labels[3]] == pytest.approx([1.7, 1.7, 4.7, 3.3])


def test_few_real_ratings_show_imputed_values(release):
    with engine(0) as here:
        run = release(
            TASTES, here, privacy={"min_contributors": 3}, microaggregation={"imputation": "central"}
        )
        labels, values = labels_of(run), published(run)
    # Two people of the first three rated the third item, one the fourth: the centre; so for the others' first two.
    assert values[labels[0]] == pytest.approx([4.7, 4.7, 3.0, 3.0])
    assert values[labels[3]] == pytest.approx([3.0, 3.0, 4.7, 3.0])


def test_few_real_ratings_show_item_means(release):
    with engine(0) as here:
        run = release(
            TASTES, here, privacy={"min_contributors": 3}, microaggregation={"imputation": "item-mean"}
        )
        labels, values = labels_of(run), published(run)
    # Means: items 16/5, 16/5, 16/5; the fourth has two raters, fewer than three: 48/15 = 3.2 as well.
    assert same_partition(labels, np.array([0, 0, 0, 1, 1, 1]))
    assert values[labels[0]] == pytest.approx([4.7, 4.7, 3.2, 3.2])


def test_model_imputation_publishes_predictions_only(release, taste_matrix):
    with engine(0) as here:
        run = release(taste_matrix(), here, privacy={"k": 5})
        labels, values = labels_of(run), published(run)
        predicted = open_model(Path(pipeline.execute("padding", run)["path"])).rows(slice(None))
    means = np.array([predicted[labels == group].mean(axis=0) for group in range(labels.max() + 1)])
    assert np.abs(np.clip(means, 1, 5) - values).max() <= 0.05 + 1e-4


def test_kept_observed_ratings_enter_means(release, taste_matrix):
    matrix = taste_matrix()
    with engine(0) as here:
        run = release(matrix, here, privacy={"k": 5, "min_contributors": 1}, padding={"keep_observed": True})
        labels, values = labels_of(run), published(run)
        filled = filled_with(
            matrix, open_model(Path(pipeline.execute("padding", run)["path"])).rows(slice(None))
        )
    means = np.array([filled[labels == group].mean(axis=0) for group in range(labels.max() + 1)])
    assert np.abs(np.clip(means, 1, 5) - values).max() <= 0.05 + 1e-4


# --- who is grouped with whom


@pytest.mark.parametrize("variable", [False, True])
def test_groups_equal_the_kernel_on_z_scores(release, taste_matrix, variable, monkeypatch):
    monkeypatch.setattr(grouping, "CELLS_PER_BLOCK", 300)  # several blocks
    matrix = taste_matrix(users=90, items=30, share=0.2)
    with engine(0) as here:
        settings = {"imputation": "central", "variable": variable, **({"gamma": 1.1} if variable else {})}
        labels = labels_of(release(matrix, here, privacy={"k": 4}, microaggregation=settings))
    points = z_scores(filled_with(matrix, 3.0))
    expected = v_mdav(points, 4, 1.1) if variable else mdav(points, 4)
    assert same_partition(labels, expected)


def test_constant_items_are_ignored(release):
    """Its deviation is 0; nothing is divided by it, nor by what rounding makes of it."""
    same = [[*row, 3] for row in TASTES]
    with engine(0) as here:
        run = release(same, here, privacy={"min_contributors": 1}, microaggregation={"imputation": "central"})
        assert same_partition(labels_of(run), np.array([0, 0, 0, 1, 1, 1]))


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_give_the_same_groups(release, taste_matrix):
    settings = [(i, bins) for i in ("model", "user-mean") for bins in (False, True)]
    found: dict = {setting: [] for setting in settings}
    for workers in (0, 2):
        with engine(workers) as here:
            for imputation, within_bins in settings:
                table = {"imputation": imputation, "within_bins": within_bins}
                run = release(taste_matrix(users=130), here, microaggregation=table)
                found[imputation, within_bins].append((labels_of(run), published(run)))
    for (labels, values), (other_labels, other_values) in found.values():
        assert np.array_equal(labels, other_labels)
        assert np.array_equal(values, other_values)
        assert np.bincount(labels).min() >= 3


def test_groups_stay_inside_bins(release, taste_matrix):
    with engine(0) as here:
        run = release(taste_matrix(users=200), here, privacy={"k": 2}, microaggregation={"within_bins": True})
        bins = np.load(f"{pipeline.execute('binning', run)['path']}/bins.npy")
        labels = labels_of(run)
    assert len(set(bins.tolist())) > 1
    for group in range(labels.max() + 1):
        assert len(set(bins[labels == group].tolist())) == 1


# --- what is refused


@pytest.mark.parametrize("limit", ["MOST_CELLS", "MOST_COMPARED"])
def test_too_many_users_are_refused_with_remedy(release, taste_matrix, monkeypatch, limit):
    monkeypatch.setattr(grouping, limit, 100)
    with engine(0) as here, pytest.raises(UsageError, match="60 users and 40 items") as error:
        labels_of(release(taste_matrix(), here))
    assert "microaggregation.within_bins = true" in error.value.remedy
    with engine(0) as here, pytest.raises(UsageError, match="out of reach") as error:
        labels_of(release(taste_matrix(), here, microaggregation={"within_bins": True}))
    assert "predictive-padded" in error.value.remedy


def test_contradicting_settings_are_named(config):
    with pytest.raises(UsageError, match=r"microaggregation: gamma: only V-MDAV has it"):
        config(microaggregation={"gamma": 0.5})
    with pytest.raises(UsageError, match=r"privacy.min_contributors 3 exceeds privacy.k 2.*'central'"):
        config(privacy={"method": "microaggregation", "k": 2}, microaggregation={"imputation": "central"})
    with pytest.raises(UsageError, match=r"microaggregation.imputation"):
        config(microaggregation={"imputation": "median"})
    config(privacy={"method": "microaggregation", "k": 2})  # predictions need no contributors


@pytest.mark.parametrize(
    ("table", "boxes"),
    [
        ({}, ["ingest", "padding", "clustering", "homogenization"]),
        ({"imputation": "central"}, ["ingest", "clustering", "homogenization"]),
        (
            {"imputation": "central", "within_bins": True},
            ["ingest", "padding", "sampling", "centers", "binning", "clustering", "homogenization"],
        ),
    ],
)
def test_release_has_only_needed_steps(config, table, boxes):
    from tasks import methods

    made = config(privacy={"method": "microaggregation"}, microaggregation=table)
    assert list(methods.data_steps(made)) == boxes
