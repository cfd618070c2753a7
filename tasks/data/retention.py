"""Remove intermediates some days after their release is published: they are secret and not needed for long.

Only results of steps are removed (`private/<release>/<snapshot>/work`), and only of snapshots that are published or
withdrawn: a refused candidate stays for its owner to examine. A cleared step whose inputs are gone recomputes them.
"""

import time
from pathlib import Path

from tasks.store import Store, remove

DAY_SECONDS = 86_400


def sweep(store: Store, name: str, older_than_days: float) -> list[Path]:
    """Remove the intermediates of a release's published snapshots that were not changed for this many days."""
    published = store.root / "published" / name
    removed: list[Path] = []
    if published.resolve().parent != (store.root / "published").resolve():
        return removed  # not a plain name
    for work in sorted((store.root / "private" / name).glob("*/work")):
        last_change = max(
            (file.stat().st_mtime for file in work.rglob("step.json")), default=work.stat().st_mtime
        )
        place = published / work.parent.name
        is_published = any((place / name).exists() for name in ("manifest.json", "tombstone.json"))
        if is_published and time.time() - last_change >= older_than_days * DAY_SECONDS:
            remove(work)
            removed.append(work)
    return removed
