"""Clustering: bounded t-means inside every bin gives groups of at least k (paper section 4.2; Algorithm 1, line 5)."""

from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.kernels.bounded_tmeans import bounded_tmeans
from tasks.kernels.tighten import tighten
from tasks.pipeline import Job
from tasks.similarity import Similarity


class Params(Settings):
    """How users are compared and the least size of a group."""

    similarity: Similarity
    iterations: int
    k: int


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(
        similarity=Similarity.of(config), iterations=config.clustering.iterations, k=config.privacy.k
    )


def run(job: Job) -> dict[str, Any]:
    """Cluster the bins in parallel, then number all groups in a keyed random order."""
    bins = np.load(job.inputs["binning"] / "bins.npy")
    order = np.argsort(bins, kind="stable")
    names, starts = np.unique(bins[order], return_index=True)
    members = np.split(order, starts[1:])
    blocks = [(users, job.rng(int(name))) for name, users in zip(names, members, strict=True)]
    labels_in_bins = job.engine.map(
        _cluster_bin,
        blocks,
        progress=job.progress,
        ingest=job.inputs["ingest"],
        padding=job.inputs["padding"],
        params=job.params,
    )
    labels = np.empty(len(bins), np.int32)
    groups = 0
    for users, within in zip(members, labels_in_bins, strict=True):
        labels[users] = groups + within
        groups += int(within.max()) + 1
    # The order of creation would tell which groups are neighbours, and later which are new: shuffle it.
    labels = job.rng("numbering").permutation(groups).astype(np.int32)[labels]
    np.save(job.out / "labels.npy", labels)
    sizes = np.bincount(labels, minlength=groups)
    if sizes.min() < job.params.k:
        raise AssertionError(f"a group has {sizes.min()} members, fewer than k={job.params.k}")
    return {"groups": groups, "smallest": int(sizes.min()), "largest": int(sizes.max())}


def _cluster_bin(
    block: tuple[np.ndarray, np.random.Generator], *, ingest: Path, padding: Path, params: Params
) -> np.ndarray:
    users, rng = block
    count = len(users) // params.k
    if count <= 1:
        return np.zeros(len(users), np.int32)
    points = params.similarity.points(ingest, padding, users)
    labels, _ = bounded_tmeans(
        points,
        t=count,
        min_size=params.k,
        **params.similarity.measure,
        iterations=params.iterations,
        rng=rng,
    )
    return tighten(points, labels, min_size=params.k)
