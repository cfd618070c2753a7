"""Count the attempts at a snapshot: every different release of it that the gate has judged, passed or refused.

Whoever is refused can try other seeds, secrets or settings until a release passes by luck. So the owner's directory
keeps a history, private/<name>/<snapshot>/attempts.json, to which entries are only added; clearing a step, removing the
candidate or `murmur clean` does not touch it. An attempt is what could be published together with the thresholds it is
judged by: the same bytes judged again, also by newer code, are the same attempt. The gate widens its intervals for the
number (checks/stats.py).

In a series, people whom the gate refused at other snapshots were tried before: these attempts are added. Groups that
are carried over without newcomers are not drawn anew, so a release of them alone is no attempt at releasing anybody:
it is counted among such releases only.
"""

import datetime
from pathlib import Path
from typing import Any

from tasks.store import digest_of, read_json, read_published_json, write_json

HISTORY = "attempts.json"
_ABOUT_PEOPLE = ("groups.parquet", "members.parquet", "items.parquet")
_SOMETIMES = ("support.parquet",)


def attempt_key(public: Path, settings: Any, *, newcomers: bool = True) -> dict[str, Any]:
    """Return what identifies an attempt: digests of the release's data, and of what the gate is asked; and whether
    anybody would be released for the first time."""
    return {"release": _release_key(public), "settings": digest_of(settings), "newcomers": newcomers}


def count_attempts(private: Path, key: dict[str, Any], *, published: bool, elsewhere: int = 0) -> int:
    """Return how many attempts there were, this one included; `elsewhere` were refused at other snapshots.

    Where the snapshot is published, later attempts cannot replace what is public: an attempt that is judged again is
    counted as it was then, so that a cleared step gives the same bytes.
    """
    history = [entry for entry in read_history(private) if entry.get("newcomers", True) == key["newcomers"]]
    known = [entry for entry in history if _identity(entry) == _identity(key)]
    if published and known:
        return int(known[-1]["attempts"])
    return elsewhere + len({_identity(entry) for entry in [*history, key]})


def count_for_audit(private: Path, public: Path) -> int:
    """Return the number of attempts with which a release was judged last; of an unknown one, all there were."""
    history = read_history(private)
    release = _release_key(public)
    known = [entry for entry in history if entry["release"] == release]
    return int(known[-1]["attempts"]) if known else max(1, len({_identity(entry) for entry in history}))


def record_attempt(private: Path, key: dict[str, Any], attempts: int, verdict: dict[str, Any]) -> None:
    """Add a judgement to the history, unless the last one of the same attempt says the same."""
    observed = {line["name"]: line["observed"] for line in verdict["checks"]}
    entry = {
        **key,
        "attempts": attempts,
        "passed": verdict["passed"],
        "failed": {name: observed[name] for name in verdict["failed"]},
    }
    history = read_history(private)
    same = [one for one in history if _identity(one) == _identity(key)]
    if same and {name: value for name, value in same[-1].items() if name != "when"} == entry:
        return
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()
    write_json(private / HISTORY, [*history, {"when": now, **entry}])


def read_history(private: Path) -> list[dict[str, Any]]:
    """Return all judgements of a snapshot, the oldest first."""
    path = private / HISTORY
    return read_json(path) if path.exists() else []


def _release_key(public: Path) -> str:
    try:
        files = read_published_json(public / "manifest.json")["files"]
        names = [*_ABOUT_PEOPLE, *(name for name in _SOMETIMES if name in files)]
        return digest_of({name: files.get(name) for name in names})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no release; the gate says so
        return ""


def _identity(entry: dict[str, Any]) -> tuple[str, str]:
    return entry["release"], entry["settings"]
