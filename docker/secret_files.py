"""Make the files that compose.yaml mounts as secrets: `python -m docker.secret_files DIR`, for a directory of your own.

Files that exist are kept, so that it can run again after a new one was added to compose.yaml. The certificate of Dask's
processes is replaced by `murmur keys dask DIR --replace`.
"""

import argparse
import base64
import json
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from tasks.cli.keys import make_dask_files
from tasks.errors import MurmurError
from tasks.store import owner_only, write_bytes

UI_USER = "admin"


def _hexadecimal() -> bytes:
    return secrets.token_hex(32).encode()


# Without line ends: Airflow takes a key as it is.
MADE: dict[str, Callable[[], bytes]] = {
    "database_password": _hexadecimal,
    "session_key": _hexadecimal,
    "jwt_key": _hexadecimal,
    "fernet_key": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)),
    "pseudonym_key": lambda: secrets.token_bytes(32),
    "airflow_passwords.json": lambda: json.dumps({UI_USER: secrets.token_urlsafe(18)}).encode(),
}


def make_secrets(directory: Path) -> list[str]:
    """Make the files that are not there, readable by their owner alone, and return their names."""
    made = []
    with owner_only():
        directory.mkdir(exist_ok=True, parents=True)
        directory.chmod(0o700)
        for name, make in MADE.items():
            if not (directory / name).exists():
                write_bytes(directory / name, make())
                made.append(name)
    if not (directory / "dask_key").exists():
        made += [file.name for file in make_dask_files(directory).values()]
    return made


def main(arguments: list[str] | None = None) -> int:
    """Make the files and print their names."""
    parser = argparse.ArgumentParser(prog="python -m docker.secret_files", description=__doc__)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args(arguments)
    try:
        made = make_secrets(options.directory)
    except MurmurError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"made in {options.directory}: {', '.join(made) or 'nothing, all files were there'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
