"""Make the files of runs with sybils without any code of the pipeline, with columns that carry opinions or do not."""

from pathlib import Path

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

USERS, ITEMS, K = 300, 200, 5


def attackable() -> made.Made:
    """Return a release of groups that is large enough to be attacked; what it publishes does not matter here."""
    ratings = made.synthetic(USERS, ITEMS, 0.3)
    assert ratings.nnz >= 12_000
    draw = np.random.default_rng(1)
    values = np.clip(3.5 + draw.normal(0, 0.5, (USERS // K, ITEMS)), 1, 5).astype(np.float32)
    return made.Made(ratings, np.arange(USERS) % (USERS // K), values, k=K)


def write_opinions(
    release: made.Made,
    private: Path,
    *,
    carried: float,
    noise: float = 0.3,
    opinions: int = 800,
    seed: int = 2,
    name: str = "opinions",
) -> None:
    """Write a release in which the columns of `opinions` further items carry a share of their one rater's opinion."""
    draw = np.random.default_rng(seed)
    groups = USERS // K
    level = draw.normal(0, noise, opinions)
    rating = draw.choice([1.0, 2.0, 4.0, 5.0], opinions)
    usual = draw.normal(3.0, 0.3, opinions)
    columns = 3.0 + draw.normal(0, 0.4, (groups, 1)) + level + carried * (rating - usual)
    values = np.hstack([release.values, columns + draw.normal(0, 0.2, (groups, opinions))])
    directory = private / "utility" / "sybil" / name
    names = _write(release, directory, np.clip(values, 1, 5).astype(np.float32), USERS)
    rater = draw.integers(0, USERS, opinions)
    targets = {
        "item": pa.array(ITEMS + np.arange(opinions), pa.int32()),
        "rating": pa.array(rating, pa.float32()),
        "usual": pa.array(usual, pa.float32()),
        "pseudonym": names.take(pa.array(rater)),
        "rater": pa.array(rater, pa.int32()),
    }
    pq.write_table(pa.table(targets), directory / "targets.parquet")


def write_copies(release: made.Made, private: Path, group_of: np.ndarray, copy_of: np.ndarray) -> None:
    """Write a release with copies: users 0, 1, … are the targets, the last `len(copy_of)` users their copies."""
    directory = private / "utility" / "sybil" / "copies"
    values = release.values[np.arange(int(group_of.max()) + 1) % len(release.values)]
    names = _write(release, directory, values, len(group_of), group_of)
    targets = int(copy_of.max()) + 1
    rows = np.concatenate([np.arange(targets), len(group_of) - len(copy_of) + np.arange(len(copy_of))])
    target = np.concatenate([np.arange(targets), copy_of])
    accounts = {
        "pseudonym": names.take(pa.array(rows)),
        "target": pa.array(target, pa.int32()),
        "copy": pa.array(np.arange(len(rows)) >= targets),
        "third": pa.array(target % 3, pa.int32()),
        "known": pa.array(np.where(target % 2, 8, 0), pa.int32()),
    }
    pq.write_table(pa.table(accounts), directory / "accounts.parquet")
    target, item = np.repeat(np.arange(targets), ITEMS), np.tile(np.arange(ITEMS), targets)
    # What nobody knew of a target: what its group shows, around the item's mean in the source.
    rated = np.maximum(np.bincount(release.ratings.indices, minlength=ITEMS), 1)
    means = np.asarray(release.ratings.sum(axis=0)).ravel() / rated
    shown = values[group_of[target], item] - values.mean(axis=0)[item] + means[item]
    unknown = {
        "target": pa.array(target, pa.int32()),
        "item": pa.array(item, pa.int32()),
        "rating": pa.array(shown, pa.float32()),
    }
    pq.write_table(pa.table(unknown), directory / "unknown.parquet")


def _write(
    release: made.Made, directory: Path, values: np.ndarray, users: int, group_of: np.ndarray | None = None
) -> pa.Array:
    directory.mkdir(parents=True)
    columns = values.shape[1]
    kept = release.but(
        ratings=made.sp.csr_array((users, columns), dtype=np.float32),
        group_of=release.group_of if group_of is None else group_of,
        values=values,
        user_ids=[str(user) for user in range(users)],
        item_ids=[str(item) for item in range(columns)],
    )
    names = [f"sybil {user:06x}" for user in range(users)]
    made._write_files(kept, directory, directory, names)
    return pa.array(names)
