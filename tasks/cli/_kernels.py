"""Compile the kernels before a first run, and say so: else every worker compiles its own while a step seems to hang."""

import os
import subprocess
import sys

from tasks.errors import MurmurError


def compile_once() -> None:
    """Compile all kernels, unless that is done for this version of the code; `make setup` does the same.

    In a process of its own, which needs no workers and other settings than this one.
    """
    from tasks.stack.warm_kernels import is_warm

    if os.environ.get("MURMUR_DASK") or is_warm():  # an external cluster has kernels of its own
        return
    done = subprocess.run([sys.executable, "-m", "tasks.stack.warm_kernels"], stdout=sys.stderr, check=False)
    if done.returncode:
        raise MurmurError(
            f"the kernels could not be compiled (exit code {done.returncode})",
            where="python -m tasks.stack.warm_kernels",
            remedy="read the message above, then run it again",
        )
