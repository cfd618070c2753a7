"""Intermediates are secret and not needed for long: they are removed some days after their release is out.

Only results of steps go (`private/<release>/<snapshot>/work`), and only of published snapshots: a refused candidate
stays for its owner to look at. A cleared step whose inputs are gone recomputes them.
"""

import time
from pathlib import Path

from tasks.store import Store, remove

DAY_SECONDS = 86_400


def sweep(store: Store, name: str, older_than_days: float) -> list[Path]:
    """Remove the intermediates of a release's published snapshots that nobody touched for so many days."""
    published = store.root / "published" / name
    removed: list[Path] = []
    if published.resolve().parent != (store.root / "published").resolve():
        return removed  # not a plain name
    for work in sorted((store.root / "private" / name).glob("*/work")):
        touched = max(
            (file.stat().st_mtime for file in work.rglob("step.json")), default=work.stat().st_mtime
        )
        is_out = (published / work.parent.name / "manifest.json").exists()
        if is_out and time.time() - touched >= older_than_days * DAY_SECONDS:
            remove(work)
            removed.append(work)
    return removed
