"""Run functions over blocks on Dask: on the cluster at `MURMUR_DASK`, or on embedded worker processes.

No other module creates a Dask client. Results never depend on the workers: blocks follow the data, seeds follow the
blocks, and every process computes on one thread (BLAS with one and with two threads gives different bytes).
"""

import contextlib
import functools
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tasks.errors import UsageError
from tasks.store import owner_only

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}

CONNECT_SECONDS = 20


class Engine:
    """Run a function over blocks, in this process or on Dask workers; results are in the order of the blocks."""

    def __init__(self, client: Any | None = None) -> None:
        self._client = client

    @property
    def workers(self) -> int:
        """Return the number of worker processes (0: everything runs in this process)."""
        return len(self._client.scheduler_info(n_workers=-1)["workers"]) if self._client else 0

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far by this process and by the workers."""
        on_workers = self._client.run(time.process_time, on_error="ignore") if self._client else {}
        return time.process_time() + sum(on_workers.values())

    def map(
        self,
        function: Callable[..., Any],
        blocks: Iterable[Any],
        *,
        progress: Callable[[int, int], None] | None = None,
        **common: Any,
    ) -> list[Any]:
        """Return `function(block, **common)` for every block. A worker that dies is replaced, its blocks run again."""
        blocks = list(blocks)
        results: list[Any] = [None] * len(blocks)
        for done, (position, result) in enumerate(self._run(function, blocks, common), start=1):
            results[position] = result
            if progress:
                progress(done, len(blocks))
        return results

    def _run(
        self, function: Callable[..., Any], blocks: list[Any], common: dict
    ) -> Iterator[tuple[int, Any]]:
        if self._client is None:
            for position, block in enumerate(blocks):
                yield position, function(block, **common)
            return
        from distributed import as_completed

        # Bound here, not passed to Dask, which would give a large argument the same key in every call.
        futures = self._client.map(functools.partial(function, **common), blocks, pure=False)
        position_of = {future.key: position for position, future in enumerate(futures)}
        try:
            for future, result in as_completed(futures, with_results=True, loop=self._client.loop):
                yield position_of[future.key], result
                future.release()
        finally:
            self._client.cancel([f for f in futures if not f.done()])
            for future in (
                futures
            ):  # else the client keeps the exception of a failed one, and all objects in its frames
                future.release()


@contextlib.contextmanager
def engine(workers: int | None = None) -> Iterator[Engine]:
    """Connect to `MURMUR_DASK`, or start `MURMUR_WORKERS` embedded workers (0: none, all in this process)."""
    address = os.environ.get("MURMUR_DASK")
    count = workers_wanted() if workers is None else workers
    with single_threaded():
        if address and workers is None:
            from distributed import Client

            try:
                client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
            except OSError:
                raise UsageError(
                    "no Dask scheduler answers at this address",
                    where=f"MURMUR_DASK={address}",
                    remedy="start it, correct the address, or unset MURMUR_DASK to run embedded workers",
                ) from None
            with client:
                yield Engine(client)
        elif count == 0:
            yield Engine()
        else:
            with _embedded(count) as client:
                yield Engine(client)


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Limit BLAS in this process to one thread, as in the workers."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


@contextlib.contextmanager
def _embedded(count: int) -> Iterator[Any]:
    import dask

    dask.config.set({"logging.distributed": "error"})  # read once, when distributed is imported
    from distributed import Client, LocalCluster

    settings = {
        # These replace Dask's own settings, so its rule to return freed memory at once is repeated here.
        "distributed.nanny.pre-spawn-environ": ONE_THREAD | {"MALLOC_TRIM_THRESHOLD_": "65536"},
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
        "distributed.comm.timeouts.connect": "60s",
    }
    # Workers inherit the umask, also those that replace a dead one while a step runs.
    with dask.config.set(settings), owner_only():
        cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.ERROR,
        )
        with cluster, Client(cluster, set_as_default=False) as client:
            yield client


def workers_wanted() -> int:
    """Return `MURMUR_WORKERS`, or one per core."""
    text = os.environ.get("MURMUR_WORKERS", "")
    if not text:
        return os.cpu_count() or 1
    if not text.isdigit():
        raise UsageError(
            f"'{text}' is not a number of workers", where="MURMUR_WORKERS", remedy="use 0, 1, 2, …"
        )
    return int(text)
