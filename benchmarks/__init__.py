"""Measure our code beside peers, as ratios within one run: `python -m benchmarks.NAME`, or `make bench`.

Every process computes on one thread, like the workers of a release: CPU times are compared.
"""

import os
from pathlib import Path

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # before numpy is imported: a thread pool keeps its size
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import tasks  # noqa: E402, F401 - chooses the shared cache of compiled kernels before numba is imported


def real_data_directory() -> Path:
    """Return where the real data sets are: MURMUR_DATA, by default beside the checkout."""
    return Path(os.environ.get("MURMUR_DATA") or Path(__file__).parents[2] / "shared" / "data")
