"""Run functions over blocks on Dask: on the cluster at `MURMUR_DASK`, or on embedded worker processes.

No other module creates a Dask client. Results never depend on the workers: blocks follow the data, seeds follow the
blocks, and every process computes on one thread (BLAS with one and with two threads gives different bytes).

Who may connect to a Dask process may run code as its owner, and loopback is open to every account of the machine. So
every connection, of embedded and of external clusters, is TLS with a certificate on both sides.

Embedded workers read and write our files. Those of an external cluster do so, too, where the store is a directory;
where it is in an object store they share none with us, and files travel through the store (tasks/storage/exchange.py).
"""

import contextlib
import datetime
import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from tasks.errors import MurmurError, UsageError
from tasks.storage.exchange import Exchange
from tasks.store import owner_only

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}

# Dask starts an HTTP server in the scheduler and in every worker, dashboard or not, and its pages ask nobody who they
# are. Without routes it answers every request with "not found".
NO_PAGES = ("distributed.scheduler.http.routes", "distributed.worker.http.routes")

# Dask watches itself: fifty times a second whether its loop is late, a hundred times which function is running. Idle
# workers spent a fifteenth of a core on that, and nobody looks at it: there are no pages that would show it.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "30s",  # of a warning: a kernel makes the loop wait for longer than Dask expects
    "distributed.admin.system-monitor.interval": "5s",
}

# Of the scheduler: for so long a run waits where no worker is left. Those who start workers (compose, Kubernetes, the
# nannies of the embedded ones) replace a lost one within a minute.
PATIENCE = {"distributed.scheduler.no-workers-timeout": "10m"}

TRIES_TO_REGISTER = 3
CONNECT_SECONDS = 20
CERTIFICATE_DAYS = 365  # longer than any run or stack lives; each has a certificate of its own
CREDENTIALS = ("MURMUR_DASK_CA", "MURMUR_DASK_CERT", "MURMUR_DASK_KEY")


class ClusterLost(MurmurError):
    """Report that scheduler or workers are gone; this is no verdict on the release, and steps that are done stay."""


class Engine:
    """Run a function over blocks, in this process or on Dask workers; results are in the order of the blocks.

    With `connect`, workers are started or reached when they are needed first.
    """

    def __init__(
        self,
        client: Any | None = None,
        exchange: Exchange | None = None,
        *,
        connect: Callable[[], "Engine"] | None = None,
    ) -> None:
        self._client, self._exchange, self._connect = client, exchange, connect
        self._used_before = 0.0  # by the workers, when they were reached

    @property
    def workers(self) -> int:
        """Return the number of worker processes (0: everything runs in this process)."""
        self._reach()
        # Not scheduler_info: a periodic update that lists no worker may replace the answer before it is returned.
        return len(self._client.nthreads()) if self._client else 0

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far by this process and by the workers."""
        return time.process_time() + self._used_by_workers() - self._used_before

    def _used_by_workers(self) -> float:
        return sum(_run_everywhere(self._client, time.process_time).values()) if self._client else 0.0

    def _reach(self) -> None:
        """Start or reach the workers, unless that is done."""
        if self._connect is not None:
            reached, self._connect = self._connect(), None
            self._client, self._exchange = reached._client, reached._exchange
            self._used_before = self._used_by_workers()

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
        self._reach()
        if self._client is None:
            for position, block in enumerate(blocks):
                yield position, function(block, **common)
            return
        from distributed import as_completed

        # Bound here, not passed to Dask, which would give a large argument the same key in every call.
        bound: Callable[..., Any] = functools.partial(function, **common)
        if self._exchange is not None:
            bound, blocks = self._exchange.pack(bound, blocks)
        futures = self._client.map(bound, blocks, pure=False)
        position_of = {future.key: position for position, future in enumerate(futures)}
        try:
            with _losses_named():
                for future, result in as_completed(futures, with_results=True, loop=self._client.loop):
                    if isinstance(result, CancelledError):  # Dask returns it as if the function had
                        raise result
                    if self._exchange is not None:
                        result = self._exchange.unpack(result)
                    yield position_of[future.key], result
                    future.release()
        finally:
            if self._client.status == "running":
                self._client.cancel([f for f in futures if not f.done()])
            for future in (
                futures
            ):  # else the client keeps the exception of a failed one, and all objects in its frames
                future.release()


@contextlib.contextmanager
def _losses_named() -> Iterator[None]:
    """Raise ClusterLost where Dask says that scheduler or workers are gone."""
    from distributed import KilledWorker
    from distributed.comm import CommClosedError
    from distributed.scheduler import NoWorkerError

    again = "run it again: steps that are done stay"
    try:
        yield
    except (CancelledError, CommClosedError):
        what = "the connection to the Dask scheduler was lost"
        remedy = f"see that the scheduler runs and can be reached, then {again}"
    except NoWorkerError as problem:
        what = f"no Dask worker was left, and none came within {problem.timeout:.0f} seconds"
        remedy = f"see that workers run and can reach the scheduler, then {again}"
    except KilledWorker as problem:
        what = f"{problem.allowed_failures + 1} Dask workers ended one after the other while they computed one block"
        remedy = (
            "read their logs; give each worker more memory, or the machine fewer workers, then run it again"
        )
    else:
        return
    raise ClusterLost(what, where=os.environ.get("MURMUR_DASK", "embedded workers"), remedy=remedy) from None


def _run_everywhere(client: Any, function: Callable[[], Any]) -> dict[str, Any]:
    """Run a function on every worker that can be reached: none where the scheduler is gone."""
    if client.status != "running":
        return {}
    with contextlib.suppress(OSError, CancelledError):  # distributed's errors of connections are OSErrors
        return dict(client.run(function, on_error="ignore"))
    return {}


@contextlib.contextmanager
def engine(workers: int | None = None, *, exchange: Exchange | None = None) -> Iterator[Engine]:
    """Connect to `MURMUR_DASK`, or start `MURMUR_WORKERS` embedded workers (0: none, all in this process).

    `exchange` takes files to the workers of an external cluster where the store is no directory that they share.
    """
    address = os.environ.get("MURMUR_DASK")
    count = workers_wanted() if workers is None else workers
    with single_threaded():
        if address and workers is None:
            with _connect(address) as client, _exchanging(client, exchange):
                yield Engine(client, exchange)
        elif count == 0:
            yield Engine()
        else:
            with _embedded(count) as client:
                yield Engine(client)


def workers_for(exchange: Exchange | None, published: bool) -> contextlib.AbstractContextManager[Engine]:
    """Return the workers of a run; of what is published the results are mostly there, and nobody has to compute."""
    return (engine_on_demand if published else engine)(exchange=exchange)


@contextlib.contextmanager
def engine_on_demand(*, exchange: Exchange | None = None) -> Iterator[Engine]:
    """Return an engine like `engine`, whose workers are started or reached when the first block is computed.

    For runs that will probably find all results: they need no worker, and say nothing of a scheduler that is not there.
    """
    with contextlib.ExitStack() as opened:
        yield Engine(connect=lambda: opened.enter_context(engine(exchange=exchange)))


@contextlib.contextmanager
def _exchanging(client: Any, exchange: Exchange | None) -> Iterator[None]:
    """Hold the files that are exchanged with workers, and remove them everywhere at the end."""
    if exchange is None:
        yield
        return
    with exchange.session():
        leave = exchange.leave()
        try:
            yield
        finally:
            _run_everywhere(client, leave)


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Limit BLAS in this process to one thread, as in the workers."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def _registered(make: Callable[[], Any]) -> Any:
    """Return a client; distributed asserts that one message answers its registration, and on a busy machine there may
    be more."""
    for _ in range(TRIES_TO_REGISTER - 1):
        with contextlib.suppress(AssertionError):
            return make()
    return make()


def _connect(address: str) -> Any:
    """Return a client of an external cluster."""
    from distributed import Client

    try:
        credentials = _own_credentials(address)
        return _registered(
            lambda: Client(address, timeout=CONNECT_SECONDS, set_as_default=False, security=credentials)
        )
    except OSError:
        raise UsageError(
            "no Dask scheduler answers at this address, or it does not accept our certificate",
            where=f"MURMUR_DASK={address}",
            remedy="start it, correct the address, give both sides certificates of one authority "
            "(MURMUR_DASK_CA), or unset MURMUR_DASK to run embedded workers",
        ) from None


def _own_credentials(address: str) -> Any:
    """Return the certificate we show to an external cluster, from `CREDENTIALS` or from Dask's own configuration."""
    from distributed import Security

    if not address.startswith("tls://"):
        raise UsageError(
            "this scheduler would be reached without a certificate; whoever can reach it could run code on its workers",
            where=f"MURMUR_DASK={address}",
            remedy="start scheduler and workers with TLS and name the address tls://… (docs/commands.md)",
        )
    named = {name: os.environ[name] for name in CREDENTIALS if os.environ.get(name)}
    if named and len(named) < len(CREDENTIALS):
        raise UsageError(
            f"{' and '.join(sorted(set(CREDENTIALS) - set(named)))} must be set, too",
            where=", ".join(named),
            remedy="name the files of the authority, of our certificate and of its key",
        )
    files = dict(zip(("tls_ca_file", "tls_client_cert", "tls_client_key"), named.values(), strict=False))
    security: Any = Security(require_encryption=True, **files)
    if not (security.tls_ca_file and security.tls_client_cert):
        raise UsageError(
            "there is no certificate for this scheduler",
            where=f"MURMUR_DASK={address}",
            remedy=f"set {', '.join(CREDENTIALS)}, or distributed.comm.tls in Dask's configuration",
        )
    key = Path(security.tls_client_key or security.tls_client_cert)
    try:
        readable_by_others = key.stat().st_mode & 0o077
        security.get_connection_args("client")
    except OSError as problem:  # ssl.SSLError is one
        raise UsageError(
            f"the certificate for Dask cannot be used ({problem.strerror or type(problem).__name__})",
            where=f"{security.tls_ca_file}, {security.tls_client_cert}, {key}",
            remedy="name PEM files of an authority, a certificate and its key that this account may read",
        ) from None
    if readable_by_others:
        raise UsageError(
            "the key of the certificate for Dask can be read by others",
            where=str(key),
            remedy=f"run: chmod 600 {key}",
        )
    return security


def make_certificate(days: int = CERTIFICATE_DAYS) -> tuple[str, str]:
    """Return a new certificate and its key, as PEM. It is its own authority: only who has the key is accepted.

    An elliptic curve, because an RSA key takes a hundred times as long to make.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "murmur-dask")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("murmur-dask")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


@contextlib.contextmanager
def _embedded(count: int) -> Iterator[Any]:
    import dask

    # What goes wrong on a worker is raised here as well. Dask would log its traceback, whose text may quote a source
    # id, before our message. The level is read once, when distributed is imported.
    level = "error" if os.environ.get("MURMUR_TRACEBACK") else "critical"
    dask.config.set({"logging.distributed": level})
    from distributed import Client, LocalCluster, Security

    certificate, key = make_certificate()  # in memory only, and of this run alone
    roles = {
        f"tls_{role}_{part}": text
        for role in ("client", "scheduler", "worker")
        for part, text in (("cert", certificate), ("key", key))
    }

    settings = {
        # These replace Dask's own settings, so its rule to return freed memory at once is repeated here.
        "distributed.nanny.pre-spawn-environ": ONE_THREAD | {"MALLOC_TRIM_THRESHOLD_": "65536"},
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
        "distributed.comm.timeouts.connect": "60s",
        **{routes: [] for routes in NO_PAGES},
        **QUIET,
        **PATIENCE,
    }
    # Workers inherit the umask, also those that replace a dead one while a step runs.
    with dask.config.set(settings), owner_only(), contextlib.ExitStack() as last_first:
        with _interrupts_held():
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # of the HTTP server, which listens with or without a dashboard
                scheduler_kwargs={"dashboard": False},
                security=Security(require_encryption=True, tls_ca_file=certificate, **roles),
                silence_logs=logging.getLevelNamesMapping()[level.upper()],
            )
            last_first.callback(_close, cluster)
            client = _registered(lambda: Client(cluster, set_as_default=False))
            last_first.callback(_close, client)
        yield client


def _close(part: Any) -> None:
    with _interrupts_held():  # a second Ctrl-C must not interrupt the closing that the first one caused
        part.close()


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until the block ends, and keep it from the threads and processes that are started inside.

    A terminal sends it to every process of the command. The workers must not end by it in the middle of a task, each
    with a traceback: this process ends them. They inherit the blocked signal from Dask's thread, also those that
    replace a dead one later.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # interrupts reach the main thread only
        return
    # Made by the first child; its start would unblock the signal again in Dask's thread.
    resource_tracker.ensure_running()
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
    if received and before is not signal.SIG_IGN:
        raise KeyboardInterrupt


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
