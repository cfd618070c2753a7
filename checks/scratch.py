"""The judge's working files: the owner's alone, mapped rather than held, gone when nobody needs them."""

import mmap
import tempfile
from pathlib import Path

import numpy as np


def working_files(private: Path | None) -> tempfile.TemporaryDirectory:
    """A directory readable by the owner only, beside the private files where there are any (workers on other
    machines see those); removed with the object."""
    try:
        return tempfile.TemporaryDirectory(prefix=".attack-", dir=private)
    except OSError:  # an audit may be allowed to read the private files and not to write
        return tempfile.TemporaryDirectory(prefix="murmur-attack-")


def mapped(path: Path, dtype: type[np.generic]) -> np.ndarray:
    """A whole file as an array; all processes that map it share its pages."""
    if not path.stat().st_size:  # nothing can be mapped of an empty file
        return np.zeros(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")


def forget(*arrays: np.ndarray | None) -> None:
    """Let go of the pages of mapped arrays: they stay in the files, and come back when they are touched."""
    for array in arrays:
        base = array
        while base is not None and not isinstance(base, mmap.mmap):
            base = getattr(base, "base", None)
        if base is not None:
            base.madvise(mmap.MADV_DONTNEED)
