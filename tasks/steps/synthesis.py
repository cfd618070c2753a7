"""Synthesis: draw rows of ratings from the noisy statistics alone; nothing here depends on anybody's ratings.

Post-processing (docs/proofs/dp-synthetic.md, Lemma 7): rows may be as many as wanted. Blocks of rows are drawn on the
workers, each from a stream of its own.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data import noisy_statistics as files
from tasks.data import profiles
from tasks.kernels.padded import code_type
from tasks.kernels.synthetic_rows import RowModel, codes_of, draw, fit
from tasks.pipeline import Job

RESULT = "profiles"
MODEL = ".model.npz"
CELLS_PER_BLOCK = 4_000_000  # dense latent values: 16 MB, three times
LEAST_ROWS = 10_000  # fewer rows would add the error of a small sample to that of the noise


class Params(Settings):
    """Hold how many rows are drawn, and how their ratings are coded."""

    rows: int | None
    scale: tuple[float, float]
    rating_step: float


@dataclass(frozen=True)
class Inputs:
    """Hold the directory this step reads."""

    statistics: Path


def params(config: ReleaseConfig) -> Params:
    """Pick this step's settings."""
    return Params(
        rows=config.synthesis.rows, scale=config.source.scale, rating_step=config.privacy.rating_step
    )


def run(job: Job[Params, Inputs]) -> dict[str, Any]:
    """Fit the model of rows once, and draw the rows block by block."""
    found = files.read(job.inputs.statistics / files.STATISTICS)
    model = job.out / MODEL
    files.write_arrays(model, fit(found).arrays())
    wanted = job.params.rows or max(found.users, LEAST_ROWS)
    at_once = max(1, CELLS_PER_BLOCK // len(found.columns))
    blocks = [
        (first, min(at_once, wanted - first), job.rng("rows", first)) for first in range(0, wanted, at_once)
    ]
    written = job.engine.map(
        _write_rows, blocks, progress=job.progress, model=model, params=job.params, out=job.out
    )
    profiles.join([part for part, _ in written], job.out / "groups.parquet")
    model.unlink()
    return {"rows": wanted, "items": len(found.columns), "cells": sum(cells for _, cells in written)}


def _write_rows(
    block: tuple[int, int, np.random.Generator], *, model: Path, params: Params, out: Path
) -> tuple[Path, int]:
    first, count, rng = block
    with np.load(model) as stored:
        cells, levels = draw(RowModel.of_arrays(dict(stored)), count, rng)
    kind = code_type(params.scale, params.rating_step)
    cells.data = codes_of(levels, params.scale, params.rating_step).astype(kind)
    part = out / f".part-{first:09d}"
    profiles.write_sparse(part, first, np.ones(count, np.int32), cells)
    return part, cells.nnz
