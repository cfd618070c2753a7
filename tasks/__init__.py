"""Hold what changes data: formats, steps, kernels, methods, and the command line that drives them.

Importing this package chooses where numba keeps compiled kernels, because numba reads `NUMBA_CACHE_DIR` once, on its
first import. `checks` imports it for the same reason.
"""

import hashlib
import os
import re
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_USES_NUMBA = re.compile(rb"^(?:from|import) numba\b", re.MULTILINE)


def compile_cache() -> Path | None:
    """Return the directory that all processes of this user and this code share for compiled kernels.

    It lies below `.stack/` of a checkout, else in the user's cache directory, and it is named after the code of the
    kernels: numba notices a change in a kernel's own file, but not in another file whose functions it has inlined. An
    old cache can thus make a run slower, never wrong. Cached files are executed, so a directory that another user
    owns or can write to is not used; without any usable one numba keeps its files beside the sources.
    """
    checkout = _ROOT / ".stack" if (_ROOT / "pyproject.toml").is_file() else None
    for parent in filter(None, (checkout, _user_cache())):
        directory = parent / "numba"
        if _is_private(parent) and _is_private(directory):
            own = directory / _kernel_digest()
            return own if _is_private(own) else None
    return None


def _user_cache() -> Path | None:
    try:
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))
        base = given if given.is_absolute() else Path("~/.cache").expanduser()  # a relative one is invalid
        return base / "murmuration"
    except RuntimeError:  # this user has no home directory
        return None


def _is_private(directory: Path) -> bool:
    """Create a directory for this user alone; test whether it is owned and writable by no other user."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
        return status.st_uid == os.geteuid() and not status.st_mode & 0o022 and os.access(directory, os.W_OK)
    except OSError:
        return False


def kernel_files() -> list[Path]:
    """Return the files that define compiled functions, in a fixed order."""
    files = (file for package in ("tasks", "checks") for file in sorted((_ROOT / package).rglob("*.py")))
    return [file for file in files if _USES_NUMBA.search(file.read_bytes())]


def _kernel_digest() -> str:
    content = hashlib.sha256()
    for file in kernel_files():
        content.update(f"{file.relative_to(_ROOT)}\0".encode() + file.read_bytes())
    return content.hexdigest()[:16]


def _share_compiled_kernels() -> None:
    """Set `NUMBA_CACHE_DIR`, unless the user has; a value that a parent process of ours has set is renewed."""
    given, own = os.environ.get("NUMBA_CACHE_DIR"), compile_cache()
    if own and (not given or Path(given).parent == own.parent):
        os.environ["NUMBA_CACHE_DIR"] = str(own)


_share_compiled_kernels()
