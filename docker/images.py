"""Build the image of the services, on published base images or on ones made from Debian packages.

The Dockerfile and compose.yaml name the published images python and postgres. Where no registry can be reached, the
same places are filled with images made by mmdebstrap from the packages of the Debian that runs here: its sources and
its configuration of apt are used, and none of them is left in the image. Python packages come as wheels that pip
downloads on this machine, configured as it is; the build itself needs no network.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from docker.containers import ContainerError, Engine

HERE = Path(__file__).parent
ROOT = HERE.parent
RELEASE = "bookworm"
PULL_SECONDS = 300.0
PYTHON, POSTGRES = "murmuration-python", "murmuration-postgres"
BUILT = "murmuration"  # as compose.yaml names it

# What nobody reads in a container; and which mirror this machine uses is nobody's business.
SMALL = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("man", "doc", "locale", "info")]
CLEAN = '--customize-hook=cd "$1" && rm -rf etc/apt/sources.list* var/lib/apt/lists/* var/cache/* var/log/*'
NO_CLUSTER = (
    '--essential-hook=mkdir -p "$1/etc/postgresql-common" '
    '&& echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.conf"'
)
PACKAGES = {PYTHON: "python3,python3-venv,ca-certificates", POSTGRES: "postgresql"}


@dataclass(frozen=True)
class Images:
    """Hold the names of the images that a run uses, and what they are based on."""

    services: str
    postgres: str
    base: str  # "published" or "Debian packages"


def published_names() -> tuple[str, str]:
    """Return the base images that Dockerfile and compose.yaml name."""
    python = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", (HERE / "Dockerfile").read_text(), re.MULTILINE)
    postgres = re.search(r"\$\{POSTGRES_IMAGE:-([^}]+)\}", (HERE / "compose.yaml").read_text())
    assert python
    assert postgres
    return python[1], postgres[1]


def build(engine: Engine, image: str, *, is_built: bool = False) -> Images:
    """Build the image, unless that is done, and return its name with what surrounds it."""
    python, postgres = published_names()
    base = "published"
    if not all(_pull(engine, one) for one in (python, postgres)):
        base, python, postgres = "Debian packages", f"{PYTHON}:{RELEASE}", f"{POSTGRES}:{RELEASE}"
        for made in (python, postgres):
            if not engine.has_image(made):
                make_from_debian(engine, made)
    if is_built:
        return Images(image, postgres, base)
    with tempfile.TemporaryDirectory(prefix="murmuration-wheels-") as wheels:
        download_wheels(Path(wheels))
        options = ["--isolation=chroot", "--layers=false"] if engine.is_podman else []
        options += [f"--build-context=wheels={wheels}", f"--build-arg=PYTHON_IMAGE={python}"]
        options += ["--build-arg=INSTALL_OPTIONS=--no-index --find-links=/wheels"]
        engine.call("build", *options, f"--file={HERE / 'Dockerfile'}", f"--tag={image}", str(ROOT))
    return Images(image, postgres, base)


def _pull(engine: Engine, image: str) -> bool:
    if engine.has_image(image):
        return True
    try:
        return engine.call("pull", image, check=False, seconds=PULL_SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def make_from_debian(engine: Engine, image: str) -> None:
    """Make a base image from Debian packages (about a minute)."""
    if not shutil.which("mmdebstrap"):
        raise ContainerError(
            "no registry can be reached, and base images cannot be made from Debian packages either",
            where=image,
            remedy="connect this machine to a registry, or install mmdebstrap",
        )
    name = image.partition(":")[0]
    options = ["--quiet", "--variant=minbase", f"--include={PACKAGES[name]}", *SMALL]
    changes = []
    if name == POSTGRES:
        options += [
            NO_CLUSTER,
            f"--customize-hook=upload {HERE / 'postgres-entrypoint.sh'} /usr/local/bin/entrypoint",
            '--customize-hook=chmod 755 "$1/usr/local/bin/entrypoint" && chroot "$1" useradd --uid 10001 murmur '
            '&& install -d -m 1777 "$1/var/lib/postgresql"',
        ]
        changes = ["--change=ENTRYPOINT /usr/local/bin/entrypoint"]
    with tempfile.TemporaryDirectory(prefix="murmuration-base-") as place:
        archive = str(Path(place, "root.tar"))
        done = subprocess.run(
            ["mmdebstrap", *options, CLEAN, RELEASE, archive], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ContainerError(f"mmdebstrap failed: {done.stderr[-2000:]}", where=image, remedy="see above")
        engine.call("import", *changes, archive, image)


def download_wheels(directory: Path) -> None:
    """Download the locked packages of the image, and the installer that the Dockerfile uses."""
    uv = re.search(r"\buv==\S+", (HERE / "Dockerfile").read_text())
    assert uv
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    for what in (["--require-hashes", f"--requirement={HERE / 'requirements.lock'}"], [uv[0]]):
        done = subprocess.run(
            [*download, f"--dest={directory}", *what], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ContainerError(
                f"pip could not download the packages of the image: {done.stderr[-2000:]}",
                where=what[-1],
                remedy="check the network and pip's configuration on this machine",
            )
