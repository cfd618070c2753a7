"""Measurements side by side with peers, as ratios in one run: `python -m benchmarks.NAME`, or `make bench`.

Every process computes on one thread, like the workers of a release: what is compared is CPU time.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # before numpy: a pool, once made, keeps its size
    os.environ[f"{_library}_NUM_THREADS"] = "1"
