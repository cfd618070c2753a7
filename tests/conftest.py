"""Hold what all tests share: lanes and their order, the place of real data, and small samples."""

import contextlib
import datetime
import hashlib
import os
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings

import tasks  # noqa: F401 - chooses the shared cache of compiled kernels before numba is imported

os.environ.setdefault("MURMUR_WORKERS", "0")  # in this process, unless a test is about workers
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
for name in ("MURMUR_DASK", "MURMUR_STORE", "MURMUR_SECRET_FILE", "MURMUR_AIRFLOW"):
    os.environ.pop(name, None)

pytest.register_assert_rewrite("tests.contracts")

# A first example may compile a kernel; time is measured in benchmarks/, never by a test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ROOT = Path(__file__).parents[1]
SNAPSHOT = datetime.date(2026, 1, 1)

# With several processes, what takes longest must begin first, or one process ends long after the others. Files by the
# CPU time they take; all others follow in their usual order. tests/test_lanes.py finds files that no longer exist.
LONGEST_FIRST = (
    "tests/integration/test_release_runs.py",
    "tests/integration/test_interruption.py",
    "tests/tasks/series/test_publication.py",
    "tests/simulation/test_simulation.py",
    "tests/tasks/series/test_shared_ledger.py",
    "tests/tasks/cli/test_cli.py",
    "tests/tasks/test_pipeline.py",
    "tests/checks/test_real_data.py",
    "tests/tasks/studies/test_reproduce_p1.py",
    "tests/tasks/test_cache_keys.py",
    "tests/tasks/methods/test_microaggregation.py",
    "tests/tasks/series/test_replanning.py",
    "tests/tasks/series/test_series_runs.py",
    "tests/tasks/studies/test_reproduce_p3.py",
    "tests/benchmarks/test_harness.py",
    "tests/tasks/methods/test_obfuscation.py",
    "tests/tasks/steps/test_neutral_padding.py",
    "tests/checks/test_real_releases.py",
    "tests/checks/linkage/test_attack_workers.py",
    "tests/tasks/studies/test_compare.py",
    "tests/checks/attacks/test_attribute_inference.py",
    "tests/tasks/studies/test_reproduce_p4.py",
    "tests/checks/reconstruction/test_reconstruction_checks.py",
    "tests/tasks/studies/test_reproduce_p2.py",
    "tests/tasks/studies/test_reproduce_p0.py",
    "tests/checks/test_check_contracts.py",
    "tests/tasks/methods/test_method_contracts.py",
    "tests/tasks/methods/test_perturbation.py",
    "tests/tasks/steps/test_ingest.py",
    "tests/checks/evidence/test_truth.py",
    "tests/tasks/steps/test_grouping.py",
    "tests/checks/test_expectations.py",
    "tests/checks/test_bad_releases.py",
)

# Files that make or judge whole releases in most of their tests: together a minute, too much for the quick lane.
WHOLE_RELEASES = (
    "tests/tasks/cli/test_cli.py",
    "tests/tasks/data/test_no_attribute_in_files_and_logs.py",
    "tests/tasks/methods/",
    "tests/tasks/series/test_erasure.py",
    "tests/tasks/series/test_series_runs.py",
    "tests/tasks/series/test_support_series.py",
    "tests/tasks/steps/test_evaluate_changed.py",
    "tests/tasks/studies/",
    "tests/tasks/test_cache_keys.py",
    "tests/tasks/test_pipeline.py",
)


# Tracing doubles the CPU time of Python code, and whole releases run the same lines in test after test. Coverage is
# therefore measured over the quick lane, the stack, and those slow tests that reach code nobody else does. What the
# others reach does not count, so the figure is a lower bound. A measured process that forks costs most: each child
# writes all that was measured before the fork.
MEASURED_THOUGH_SLOW = (
    "tests/tasks/studies/",
    "tests/tasks/methods/test_method_contracts.py",
    "tests/tasks/series/test_erasure.py",
    "tests/tasks/series/test_refused_cohorts.py",
    "tests/tasks/series/test_series_runs.py",
    "tests/tasks/series/test_support_series.py",
)


# Many short calls of libraries: tracing makes these tests three to five times slower. Contract tests run them too.
UNMEASURED = (
    "tests/checks/attacks/test_attribute_inference.py",
    "tests/checks/privacy/test_pseudonyms.py",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Run some tests without measuring coverage, in processes that they start too."""
    from coverage import Coverage

    running = Coverage.current()
    is_slow = item.get_closest_marker("slow") or item.get_closest_marker("data")
    is_measured = not is_slow or item.nodeid.startswith(MEASURED_THOUGH_SLOW)
    if running is None or (is_measured and not item.nodeid.startswith(UNMEASURED)):
        return (yield)
    variables = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("COVERAGE_")}
    running.stop()
    try:
        return (yield)
    finally:
        running.start()
        os.environ.update(variables)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what needs real data, and order files for several processes."""
    for item in items:
        if "real_data" in item.fixturenames:
            item.add_marker(pytest.mark.data)
        if item.nodeid.startswith(WHOLE_RELEASES):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):  # in a process of pytest-xdist
        place = {file: number for number, file in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give files to processes, all files of tests/integration to the same one: one stack at a time."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "stack" if file.startswith("tests/integration/") else file

    return ByFile(config, log)


@pytest.fixture(scope="session", autouse=True)
def _one_secret(tmp_path_factory):
    """Give releases the same secret in every run of the tests: no release is near a threshold by luck."""
    path = tmp_path_factory.mktemp("secret") / "key"
    path.write_bytes(hashlib.sha256(b"tests").digest())
    path.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MURMUR_SECRET_FILE", str(path))
        yield


@pytest.fixture
def store_secret(monkeypatch):
    """Let each store have a secret of its own, as without MURMUR_SECRET_FILE."""
    monkeypatch.delenv("MURMUR_SECRET_FILE")


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


class OneOfThem:
    """Pass everything on to a client, but give all work to the same one of its workers."""

    def __init__(self, client) -> None:
        self._client = client

    def __getattr__(self, name: str):
        return getattr(self._client, name)

    def map(self, *arguments, **settings):
        one = min(self._client.nthreads())
        return self._client.map(*arguments, workers=[one], **settings)


@pytest.fixture(scope="session")
def started_workers():
    """Start two workers once for all tests of this process: a start takes longer than most of what they do."""
    from tasks.engine import _embedded

    umask = os.umask(0o022)
    os.umask(umask)
    with _embedded(2) as client:
        os.umask(umask)  # the workers have the owner's; this process goes on as without them
        yield client


@pytest.fixture
def shared_workers(started_workers, monkeypatch):
    """Serve every engine of one or two workers by workers that run already, where a test is not about their start."""
    clients = {1: OneOfThem(started_workers), 2: started_workers}
    monkeypatch.setattr("tasks.engine._embedded", lambda count: contextlib.nullcontext(clients[count]))


def _mentions(process: Path, places: list[bytes]) -> bool:
    """Test whether a process works in, writes to, maps or names one of these places; its title alone may be wrong."""
    evidence = []
    links = [process / "cwd"]
    with contextlib.suppress(OSError):  # it has ended meanwhile
        links += (process / "fd").iterdir()
    for link in links:
        with contextlib.suppress(OSError):  # or has closed this file, and others are still open
            evidence.append(os.fsencode(link.readlink()))
    for file in ("cmdline", "environ", "maps"):
        with contextlib.suppress(OSError):
            evidence.append((process / file).read_bytes())
    return any(place in text for place in places for text in evidence)


@pytest.fixture(scope="session")
def left_behind():
    """Find processes that belong to these directories, without this one; wait up to `patience` s for them to end."""

    def find(*directories: Path, patience: float = 0.0) -> list[str]:
        places = [os.fsencode(directory) for directory in directories]
        deadline = time.monotonic() + patience
        while True:
            found = [
                process.name
                for process in Path("/proc").iterdir()
                if process.name.isdigit() and int(process.name) != os.getpid() and _mentions(process, places)
            ]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.2)

    return find
