"""Hold what all kinds of faults share: the release that is disturbed, what it must become, and what is looked at after.

Every trial ends with the same questions: is anything public that is not whole, does any published byte differ from that
of the undisturbed run, is a process left, is a secret or a source id left in the directory of temporary files.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from benchmarks import results
from tasks.series.ledger import Ledger
from tasks.store import Store, digest, files_below, read_json, write_json

NAME, SNAPSHOT = "faulty", "2026-02-01"
STEPS = (
    "ingest", "padding", "sampling", "centers", "binning", "clustering", "homogenization", "diversity", "evaluate",
    "validate", "publish",
)  # fmt: skip
RELEASE = f"""
[release]
name = "{NAME}"
schedule = "0 3 1 2 *"
[source]
format = "synthetic"
[source.synthetic]
users = 300
items = 80
ratings_per_user = 25.0
churn = 0.2
seed = 1
"""
MARK = "MURMUR_FAULT_TRIAL"  # in the environment of every process that a trial starts
KEY = b"w" * 32
ORPHAN_PATIENCE = 20.0
MURMUR = str(Path(sys.executable).with_name("murmur"))
REPOSITORY = Path(__file__).parents[2]


@dataclass
class Trial:
    """Hold what one injection did. `seconds` runs from the fault, or from the moment it was lifted or answered by a
    person, to the published release (or the finished step, for faults of the disk)."""

    fault: str
    at: str
    recovered_by: str  # itself | a rerun | a restart of the stack | …
    seconds: float
    partial: int = 0
    wrong_bytes: int = 0
    orphans: int = 0
    secrets_in_temp: int = 0
    wrong_end: list[str] = field(
        default_factory=list
    )  # what should have ended otherwise: exit codes, tracebacks

    @property
    def is_clean(self) -> bool:
        return not (
            self.partial or self.wrong_bytes or self.orphans or self.secrets_in_temp or self.wrong_end
        )


class Ground:
    """Hold a directory with configuration, secret and the undisturbed release; make stores to be disturbed."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.rng = root, random.Random(seed)
        self.secret, self.config = root / "secret.key", root / f"{NAME}.toml"
        self.secret.write_bytes(KEY)
        self.secret.chmod(0o600)
        self.config.write_text(RELEASE)
        self.trials: list[Trial] = []
        self.whole = Store(root / "undisturbed")
        begun = time.monotonic()
        if not (public(self.whole) / "manifest.json").exists():
            done = self.run(self.whole, self.environment(self.temp()))
            assert done.returncode == 0, done.stderr
            (root / "seconds").write_text(str(time.monotonic() - begun))
        self.undisturbed_seconds = float((root / "seconds").read_text())
        self.expected = comparable(public(self.whole))
        owner = self.whole.root / "private" / NAME / SNAPSHOT / "membership.parquet"
        self.ids = pq.read_table(owner, columns=["user"]).column("user").to_pylist()

    def temp(self) -> Path:
        """Return a new directory for temporary files."""
        return Path(tempfile.mkdtemp(dir=self.root, prefix="temp"))

    def new_store(self) -> Store:
        """Return a store to be disturbed: beside the temporary files, since it may hold source ids and they may not."""
        return Store(tempfile.mkdtemp(dir=self.root, prefix="store"))

    def environment(self, temp: Path, **more: str) -> dict[str, str]:
        """Return the environment of a trial's processes; `temp` identifies the trial."""
        own = {
            MARK: str(temp),
            "TMPDIR": str(temp),
            "MURMUR_SECRET_FILE": str(self.secret),
            "MURMUR_WORKERS": "0",
        }
        inherited = {
            k: v for k, v in os.environ.items() if k not in ("MURMUR_STORE", "MURMUR_LEDGER", "MURMUR_DASK")
        }
        return inherited | own | more

    def command(self, store: Store, snapshot: str = SNAPSHOT) -> list[str]:
        return [MURMUR, "run", str(self.config), "--snapshot", snapshot, "--store", str(store.root), "--json"]

    def run(
        self, store: Store, environment: dict[str, str], snapshot: str = SNAPSHOT
    ) -> subprocess.CompletedProcess[str]:
        """Run `murmur run` to its end."""
        return subprocess.run(
            self.command(store, snapshot),
            env=environment,
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            check=False,
        )

    def step(self, name: str, store: Store, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run one step as a task of Airflow does."""
        code = (
            "import datetime, sys; from tasks.config import load; from tasks.pipeline import run_step; "
            "from tasks.store import Store; a = sys.argv; "
            "run_step(a[1], load(a[2]), datetime.date.fromisoformat(a[3]), Store(a[4]))"
        )
        command = [sys.executable, "-c", code, name, str(self.config), SNAPSHOT, str(store.root)]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, cwd=REPOSITORY, check=False
        )

    def look(self, trial: Trial, store: Store, temp: Path, *, is_published: bool = True) -> None:
        """Answer the questions of every trial and keep it."""
        trial.partial += partial(store)
        if is_published:
            trial.wrong_bytes += comparable(public(store)) != self.expected
            with Ledger.open(store, NAME) as ledger:
                trial.wrong_end += ledger.problems(store)
        trial.orphans += len(orphans(temp))
        trial.secrets_in_temp += self.secrets_below(temp)
        self.trials.append(trial)
        sign = "clean" if trial.is_clean else f"NOT CLEAN {asdict(trial)}"
        print(f"{trial.fault}, {trial.at}: {trial.recovered_by}, {trial.seconds:.1f} s, {sign}", flush=True)

    def secrets_below(self, temp: Path) -> int:
        """Return how many files hold the owner's secret, a private key or source ids."""
        ids = [one.encode() for one in self.ids if len(one) >= 4]
        signs = [KEY, KEY.hex().encode(), b"PRIVATE KEY", *ids]
        found = 0
        for file in temp.rglob("*"):
            with contextlib.suppress(OSError):
                data = file.read_bytes() if file.is_file() else b""
                found += any(sign in data for sign in signs)
        return found


def public(store: Store, snapshot: str = SNAPSHOT) -> Path:
    return store.root / "published" / NAME / snapshot


def comparable(release: Path) -> dict[str, str]:
    """Return the digests of a release's files; the manifest without the time and the code's version."""
    if not (release / "manifest.json").exists():
        return {}
    manifest = read_json(release / "manifest.json")
    told = {k: v for k, v in manifest.items() if k not in ("created_at", "code_version")}
    return files_below(release) | {"manifest.json": str(sorted(told.items()))}


def partial(store: Store) -> int:
    """Return how many directories in public are no whole release; what is hidden from readers is one, too."""
    found = 0
    for place in (store.root / "published").glob("*/*"):
        manifest = place / "manifest.json"
        listed = read_json(manifest)["files"] if manifest.exists() else {"manifest.json": ""}
        wrong = [
            name for name, sha in listed.items() if not (place / name).exists() or digest(place / name) != sha
        ]
        found += bool(wrong) or place.name.startswith(".")
    return found


def orphans(temp: Path, patience: float = ORPHAN_PATIENCE) -> list[int]:
    """Return the processes of a trial that still run, after waiting for them."""
    deadline = time.monotonic() + patience
    while found := processes_of(temp):
        if time.monotonic() > deadline:
            for one in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            break
        time.sleep(0.3)
    return [one.pid for one in found]


def processes_of(temp: Path) -> list[psutil.Process]:
    """Return the processes that were started with the mark of a trial."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == str(temp) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def wait_for_step(store: Store, step: str, running: subprocess.Popen[str], extra: float = 0.0) -> bool:
    """Wait until a step has begun (its directory is there), and `extra` seconds more; False: the run ended before."""
    place = store.root / "private" / NAME / SNAPSHOT / "work" / step
    while not place.exists():
        if running.poll() is not None:
            return False
        time.sleep(0.005)
    time.sleep(extra)
    return running.poll() is None


@contextlib.contextmanager
def opened(seed: int, kept: Path | None = None) -> Iterator[Ground]:
    """Make the undisturbed release in a directory that is removed afterwards, or use the one that is `kept`."""
    if kept is not None:
        kept.mkdir(mode=0o700, exist_ok=True)
        yield Ground(kept, seed)
        return
    with tempfile.TemporaryDirectory(prefix="murmur-faults-") as place:
        yield Ground(Path(place), seed)


def save(kind: str, ground: Ground, *, add: bool = False) -> None:
    """Write the trials of one kind below benchmarks/results; `add` them to those of an earlier part of the campaign."""
    path = results.DIRECTORY / f"faults-{kind}.json"
    before = read_json(path)["trials"] if add and path.exists() else []
    answer = {
        "kind": kind,
        "undisturbed_seconds": round(ground.undisturbed_seconds, 1),
        "trials": before + [asdict(trial) for trial in ground.trials],
    }
    write_json(path, answer)
