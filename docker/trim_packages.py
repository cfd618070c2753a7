"""Remove from an environment what no program needs at run time: tests, headers, sources, a library of Arrow, other
services of Amazon than object stores, words of other languages.

The Dockerfile runs it, and then imports the packages that lost most.
"""

import shutil
import sys
import sysconfig
from pathlib import Path

DIRECTORIES = ("tests", "test")  # of packages, where they are packages themselves
PLACES = ("pyarrow/include", "pyarrow/src", "numpy/_core/include")
# Arrow's network service: nothing here imports it, and no other library of Arrow is linked with it.
LIBRARIES = ("pyarrow/*_flight*.so*",)
SOURCES = ("*.c", "*.cc", "*.cpp", "*.h", "*.hpp", "*.pyx", "*.pxd", "*.pyi", "*.a", "*.js.map")

# Descriptions of services: a store needs S3, and its login the others.
SERVICES, KEPT_SERVICES = "botocore/data", {"s3", "signin", "sso", "sso-oidc", "sts"}
# Names of months and the like: everything here speaks English, and `root` is what all languages begin from.
LANGUAGES, KEPT_LANGUAGES = (
    "babel/locale-data",
    {"root.dat", "en.dat", "en_001.dat", "en_GB.dat", "en_US.dat"},
)


def trim(packages: Path) -> int:
    """Remove them below `packages`, and return how many bytes that were."""
    found = [packages / place for place in PLACES]
    for name in DIRECTORIES:
        found += [path for path in packages.rglob(name) if (path / "__init__.py").exists()]
    services, languages = packages / SERVICES, packages / LANGUAGES
    found += [one for one in services.glob("*/") if one.is_dir() and one.name not in KEPT_SERVICES]
    removed = 0
    for directory in found:
        if directory.is_dir():
            removed += sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
            shutil.rmtree(directory)
    files = [file for pattern in (*SOURCES, *LIBRARIES) for file in packages.rglob(pattern)]
    files += [file for file in languages.glob("*.dat") if file.name not in KEPT_LANGUAGES]
    for file in files:
        removed += file.stat().st_size
        file.unlink()
    return removed


if __name__ == "__main__":
    sys.stdout.write(
        f"removed {trim(Path(sysconfig.get_path('purelib'))) / 1e6:.0f} MB of tests and sources\n"
    )
