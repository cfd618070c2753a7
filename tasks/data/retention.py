"""Remove intermediates some days after their release is published: they are secret and not needed for long.

Only results of steps are removed (`private/<release>/<snapshot>/work`). Those of snapshots that are neither published
nor withdrawn stay for their owner to examine, unless `release.refused_days` says for how long; verdict and history of
attempts are beside them and stay. A candidate that the gate passed waits for approval and is never removed. A cleared
step whose inputs are gone recomputes them.
"""

import time
from pathlib import Path

from tasks.store import Store, remove

DAY_SECONDS = 86_400


def sweep(store: Store, name: str, older_than_days: float, refused_days: float | None = None) -> list[Path]:
    """Remove the intermediates of a release's published snapshots that were not changed for this many days.

    Those of other snapshots go if they were not changed for `refused_days`; None: they stay."""
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
        days = older_than_days if is_published else None if _is_passed(work) else refused_days
        if days is not None and time.time() - last_change >= days * DAY_SECONDS:
            remove(work)
            removed.append(work)
    return removed


def _is_passed(work: Path) -> bool:
    """Return whether the gate passed the candidate: only then is the step `validate` closed."""
    return (work / "validate" / "step.json").exists()
