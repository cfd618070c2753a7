"""Shared by all tests: where real data is, and small worlds to test in."""

import datetime
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

os.environ.setdefault("MURMUR_WORKERS", "0")  # in this process, unless a test is about workers
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
for name in ("MURMUR_DASK", "MURMUR_STORE", "MURMUR_SECRET_FILE"):
    os.environ.pop(name, None)

ROOT = Path(__file__).parents[1]
SNAPSHOT = datetime.date(2026, 1, 1)


@pytest.fixture
def real_data():
    """Find a real data set by name, or skip."""

    def find(name: str) -> Path:
        place = Path(os.environ.get("MURMUR_DATA") or ROOT.parent / "shared" / "data") / name
        if not place.is_dir():
            pytest.skip(f"{name} is not here; set MURMUR_DATA to the directory that holds it")
        return place

    return find


@pytest.fixture
def taste_matrix():
    """Make ratings 1..5 with two tastes: (users, items, share rated, seed) → CSR."""

    def make(users: int = 60, items: int = 40, share: float = 0.4, seed: int = 0) -> sp.csr_array:
        rng = np.random.default_rng(seed)
        taste = rng.standard_normal((users, 2)) @ rng.standard_normal((2, items))
        ratings = np.clip(np.rint(3.4 + 0.8 * taste + 0.5 * rng.standard_normal((users, items))), 1, 5)
        rated = rng.random((users, items)) < share
        rated[np.arange(users), rng.integers(0, items, users)] = True  # nobody is without a rating
        matrix = sp.csr_array(np.where(rated, ratings, 0).astype(np.float32))
        matrix.sort_indices()
        return matrix

    return make


@pytest.fixture
def config():
    """A small synthetic release; keyword arguments replace or extend its tables."""
    from tasks.config import parse

    def make(**tables: dict):
        base: dict = {
            "release": {"name": "small"},
            "source": {
                "format": "synthetic",
                "synthetic": {"users": 300, "items": 80, "ratings_per_user": 25.0},
            },
        }
        for name, table in tables.items():
            base[name] = {**base.get(name, {}), **table}
        return parse(base)

    return make
