"""Remove from an environment what no program needs at run time: tests, headers, sources, two libraries of Arrow.

The Dockerfile runs it. A package whose code imports one of these fails in `make containers`.
"""

import shutil
import sys
import sysconfig
from pathlib import Path

DIRECTORIES = ("tests", "test")  # of packages, where they are packages themselves
PLACES = ("pyarrow/include", "pyarrow/src", "numpy/_core/include")
# Arrow's network service and foreign query plans: nothing here imports them.
LIBRARIES = ("pyarrow/*_flight*.so*", "pyarrow/*_substrait*.so*")
SOURCES = ("*.c", "*.cc", "*.cpp", "*.h", "*.hpp", "*.pyx", "*.pxd", "*.pyi", "*.a", "*.js.map")


def trim(packages: Path) -> int:
    """Remove them below `packages`, and return how many bytes that were."""
    found = [packages / place for place in PLACES]
    for name in DIRECTORIES:
        found += [path for path in packages.rglob(name) if (path / "__init__.py").exists()]
    removed = 0
    for directory in found:
        if directory.is_dir():
            removed += sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
            shutil.rmtree(directory)
    for pattern in (*SOURCES, *LIBRARIES):
        for file in packages.rglob(pattern):
            removed += file.stat().st_size
            file.unlink()
    return removed


if __name__ == "__main__":
    sys.stdout.write(
        f"removed {trim(Path(sysconfig.get_path('purelib'))) / 1e6:.0f} MB of tests and sources\n"
    )
