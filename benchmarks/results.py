"""Store the results of a benchmark: figures, their bars, and the machine, in results/NAME.json."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import psutil

DIRECTORY = Path(__file__).parent / "results"
PACKAGES = (
    "numpy", "scipy", "numba", "pyarrow", "dask", "distributed", "implicit", "k-means-constrained", "cmfrec",
)  # fmt: skip


@dataclass(frozen=True)
class Bar:
    """Represent a figure and its limit; `value` None: not measured, which counts as missed."""

    name: str
    value: float | None
    sense: Literal["≤", "≥"]
    limit: float
    unit: str = ""

    @property
    def passed(self) -> bool:
        if self.value is None:
            return False
        return self.value <= self.limit if self.sense == "≤" else self.value >= self.limit

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}

    def __str__(self) -> str:
        found = "not measured" if self.value is None else number(self.value)
        wanted = f"{self.sense} {self.limit:g}"
        return f"{self.name}: {found} {self.unit}".rstrip() + f" ({wanted}): {'yes' if self.passed else 'NO'}"


def verdict(bars: Iterable[Bar]) -> int:
    """Print every bar and return the exit code."""
    bars = list(bars)
    for bar in bars:
        print(bar)
    return 0 if all(bar.passed for bar in bars) else 1


def write(path: Path, figures: dict[str, Any], began: dict[str, Any]) -> None:
    """Write the figures with the facts about the machine, taken before the first of them was measured."""
    if (now := _commit()) != began[
        "commit"
    ]:  # a long run: what its later processes ran is not what it began with
        began = {**began, "commit": f"{began['commit']} to {now}"}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": began, **figures}, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def read(name: str, directory: Path = DIRECTORY) -> dict[str, Any] | None:
    """Return the figures of that name, or None if they are not measured yet."""
    path = directory / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def machine() -> dict[str, Any]:
    """Describe the machine, the packages and the date."""
    return {
        "cores": os.cpu_count(),
        "model": _processor(),
        "architecture": platform.machine(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "packages": {name: installed(name) or "not installed" for name in PACKAGES},
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def installed(package: str) -> str | None:
    """Return the version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _commit() -> str:
    """Return the commit; a `+` is added if tracked files differ from it."""
    try:
        asked = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        done = subprocess.run(asked, cwd=DIRECTORY.parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def number(value: float) -> str:
    """Format with three digits, without powers of ten if possible."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Format rows as aligned columns, the first `left` left-aligned; the first row is the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def command(module: str, asked: argparse.Namespace, *names: str) -> str:
    """Return the command that gives these figures, with every relevant option, given or default."""
    options = (f"--{name.replace('_', '-')} {getattr(asked, name)}" for name in names)
    return " ".join([f"python -m {module}", *options])
