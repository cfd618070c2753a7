"""Compile the kernels of pipeline and gate once, in one process, before many processes need them.

`make setup` runs it. Kernels are compiled for the argument types they are called with, so the surest way to the right
types is to make releases: one small release per kind of method, in a temporary store, judged by the whole gate. The
verdicts do not matter. Kernels that are compiled already for this version of the code are not compiled again.
"""

import contextlib
import datetime
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks import compile_cache

SNAPSHOT = datetime.date(2026, 1, 1)
UNUSED_DAYS = 14  # compiled kernels of other versions of the code are removed when they are older


def _synthetic(users: int) -> dict[str, Any]:
    return {"format": "synthetic", "synthetic": {"users": users, "items": 60, "ratings_per_user": 20.0}}


SOURCE = _synthetic(120)
# One release per kind of kernel; the tables are those of a release file.
RELEASES: dict[str, dict[str, dict[str, Any]]] = {
    # With 500 users or more the shadow run leaves some out, and the attacks on absent users run.
    "padded": {"privacy": {"method": "predictive-padded"}, "source": _synthetic(600)},
    "simple": {"privacy": {"method": "predictive-simple"}},
    "microaggregation": {"privacy": {"method": "microaggregation"}},
    "perturbation": {"privacy": {"method": "perturbation"}},
    "suppression": {"privacy": {"method": "suppression"}, "suppression": {"share": 0.1}},
    "obfuscation": {"privacy": {"method": "obfuscation"}, "obfuscation": {"attribute": "gender"}},
}


def main() -> int:
    """Fill the shared cache of compiled kernels, unless that is done or the user has set another directory."""
    cache = compile_cache()
    if cache is None or is_warm():
        return 0
    _print("compiling kernels, once for this version of the code (one to two minutes) …")
    begun = time.monotonic()
    warm(progress=lambda done, total: _print(f"  {done} of {total} kinds of releases"))
    (cache / _marker()).touch(mode=0o600)
    remove_unused(cache)
    _print(f"compiled in {time.monotonic() - begun:.0f} s")
    return 0


def is_warm() -> bool:
    """Return whether the shared cache has all kernels, or is not used."""
    cache = compile_cache()
    return cache is None or os.environ.get("NUMBA_CACHE_DIR") != str(cache) or (cache / _marker()).exists()


def _marker() -> str:
    """Return the name of the file that says that all kernels are there: for this numba, Python and processor."""
    import llvmlite.binding
    import numba

    kind = f"{numba.__version__} {sys.version} {llvmlite.binding.get_host_cpu_name()}"
    return f"warmed-{hashlib.sha256(kind.encode()).hexdigest()[:12]}"


def warm(
    releases: dict[str, dict[str, dict[str, Any]]] = RELEASES,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Make one small release of each kind in a temporary store."""
    os.environ["MURMUR_WORKERS"] = "0"  # all in this process: each worker would compile the same again
    for name in ("MURMUR_DASK", "MURMUR_SECRET_FILE"):
        os.environ.pop(name, None)
    from tasks import pipeline
    from tasks.config import parse
    from tasks.errors import Refused
    from tasks.store import Store

    with tempfile.TemporaryDirectory(prefix="murmur-warm-") as scratch:
        for number, (name, tables) in enumerate(releases.items(), start=1):
            config = parse({"release": {"name": name}, "source": SOURCE, **tables}, __name__).alone()
            with contextlib.suppress(Refused):
                pipeline.run(config, SNAPSHOT, Store(scratch))
            if progress:
                progress(number, len(releases))


def remove_unused(cache: Path) -> None:
    """Remove compiled kernels of other versions of the code that have not changed for a while.

    A version that is still in use is compiled again: slower once, never wrong.
    """
    oldest = time.time() - UNUSED_DAYS * 86_400
    for other in cache.parent.iterdir():
        if other != cache and other.is_dir() and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)


def _print(words: str) -> None:
    print(words, file=sys.stderr, flush=True)  # noqa: T201 - progress of `make setup`


if __name__ == "__main__":
    sys.exit(main())
