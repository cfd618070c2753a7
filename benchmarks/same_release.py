"""Compare the releases of two stores: the same published bytes, the same figures of every check.

Run before and after a change that must not alter results, with one secret (MURMUR_SECRET_FILE):

    murmur run release.toml --snapshot 2026-01-01 --store BEFORE     # the old code
    murmur run release.toml --snapshot 2026-01-01 --store AFTER      # the new code
    python -m benchmarks.same_release BEFORE AFTER

A refused release is compared too: its candidate stays in private/. Words (`detail`) and fields that only one side has
are not compared. The exit code is 1 where anything differs.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.store import digest, read_json

FILES = ("groups.parquet", "members.parquet", "items.parquet")
FIGURES = ("passed", "observed", "threshold", "ci_low", "ci_high", "n", "severity")
CANDIDATE = Path("work", "validate", "candidate")


def find_releases(store: Path) -> dict[str, Path]:
    """Return the directory of every release: published, or the candidate that the gate refused."""
    private = sorted(path for path in (store / "private").glob("*/*") if path.is_dir())
    found = {}
    for path in private:
        name = f"{path.parent.name}/{path.name}"
        published = store / "published" / path.parent.name / path.name
        release = published if (published / "manifest.json").exists() else path / CANDIDATE
        if (release / "manifest.json").exists():
            found[name] = release
    return found


def find_differences(before: Path, after: Path) -> Iterator[str]:
    """Yield one line for each file, check or figure that differs between two releases."""
    for file in FILES:
        if digest(before / file) != digest(after / file):
            yield f"{file}: other bytes"
    old, new = (_checks(release) for release in (before, after))
    for name in sorted(old.keys() ^ new.keys()):
        yield f"{name}: only {'before' if name in old else 'after'}"
    for name in sorted(old.keys() & new.keys()):
        for figure in FIGURES:
            if old[name][figure] != new[name][figure]:
                yield f"{name}: {figure} {old[name][figure]} before, {new[name][figure]} after"


def _checks(release: Path) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in read_json(release / "checks.json")}


def main(arguments: list[str] | None = None) -> int:
    """Print the differences of all releases that both stores hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_release", description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args(arguments)
    before, after = find_releases(options.before), find_releases(options.after)
    lines = [f"{name}: only in one store" for name in sorted(before.keys() ^ after.keys())]
    shared = sorted(before.keys() & after.keys())
    for name in shared:
        lines += [f"{name}: {line}" for line in find_differences(before[name], after[name])]
    for line in lines:
        print(line)
    print(f"{len(shared)} releases compared, {len(lines)} differences")
    return 1 if lines or not shared else 0


if __name__ == "__main__":
    sys.exit(main())
