"""Compare several methods and settings on the same ratings: risk against utility (`murmur compare`).

Each entry is made, judged and deleted: candidates are written to a directory of their own below the store's private/,
and nothing is published. Ratings are read once. Risk is the gate's: the upper bound of each attack's success on the
candidate made from all ratings, or the observed success where an attack has no interval. Attacks are of two kinds.
Those with the threshold 1/k re-identify people or undo their disguise; `worst_risk` is the highest of their upper
bounds. The others infer something else (membership, attributes, what a group's means reveal), each on a scale of its
own. Where groups are published, two attacks report the least protected person (checks/linkage/worst_target.py) instead
of an average over people: they have no interval, so `worst_risk`, which compares averages, leaves them out, and the
table shows them. Utility is that of recommenders trained on the shadow run's release (utility.py).
"""

import contextlib
import datetime
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from checks.evidence.case import Case
from checks.evidence.opened_cases import raw_case
from checks.gate import run_check
from checks.registry import registered
from checks.utility import utility as shadow_utility
from tasks import pipeline
from tasks.config import ReleaseConfig
from tasks.config.gate import check_names
from tasks.data.attempts import HISTORY
from tasks.engine import engine, single_threaded
from tasks.errors import MurmurError, Refused, UsageError, place_of
from tasks.keys import OwnerKey
from tasks.progress import Progress, StepProgress, log_progress
from tasks.store import Store, digest, digest_of, make_private, owner_only, read_json, remove, write_bytes
from tasks.studies.compare.entries import Entry, parse_entries
from tasks.studies.compare.plot import draw
from tasks.studies.compare.utility import Held, measure_original, measure_release, read_held, summary

log = logging.getLogger("murmur")

PREFIX = ".compare-"
JUST_BEGUN_SECONDS = 60  # another comparison may not hold its lock yet


def compare(
    config: ReleaseConfig,
    snapshot: datetime.date,
    store: Store,
    methods: str,
    *,
    plot: Path | None = None,
    key: OwnerKey | None = None,
    progress: Progress | None = None,
    notes: Path | None = None,
) -> dict[str, Any]:
    """Make and judge every entry of `methods`, and return the result as JSON.

    An entry that cannot be made has the status "failed", and the others are compared; when none can be made, that is an
    error. `key` replaces the owner's secret where the ratings are public and the figures must be reproducible.
    `notes` is a file for the finished rows: an interrupted comparison of the same ratings continues from there.
    """
    config = config.alone()
    entries = parse_entries(methods, config)
    if plot:
        _refuse_no_file(plot)
    show_progress = progress or log_progress
    with owner_only(), _place(store) as place, engine() as workers:
        inside = Store(place)
        work = inside.private(config.release.name, snapshot) / "work"
        key = key or OwnerKey.load(store.root)
        run = pipeline.Run(config, snapshot, inside, key, workers, work, show_progress)
        ingest = pipeline.execute("ingest", run)
        _refuse_few_people(entries, ingest["counts"]["users"])
        made, originals = _noted(notes, ingest)
        study = Study(run, ingest, place, originals)
        rows, problems = [], []
        for number, entry in enumerate(entries):
            show_progress("compare", number, len(entries) + 1)
            log.info("compare: %s", entry.text)
            which = digest_of(entry.config.model_dump(mode="json"))
            if which not in made:
                try:
                    made[which] = study.row(entry)
                except Exception as problem:  # this entry's alone; the others may have taken hours
                    problems.append(problem)
                    rows.append(_failed(entry, problem))
                    continue
                if notes:
                    _note(notes, ingest, made, originals)
            rows.append(made[which])
        if len(problems) == len(entries):
            raise problems[0]
        show_progress("compare", len(entries), len(entries) + 1)
        original = study.original_row([row["utility"] for row in rows])
        show_progress("compare", len(entries) + 1, len(entries) + 1)
    result = {
        "snapshot": snapshot.isoformat(),
        "dataset": config.source.format,
        "rows": rows,
        "original": original,
        "seconds": run.seconds,
    }
    if plot:
        draw(result, plot)
    return result


@contextlib.contextmanager
def _place(store: Store) -> Iterator[Path]:
    """Make a private directory for this comparison, removed afterwards; remove those of killed comparisons."""
    private = store.root / "private"
    make_private(private, below=store.root)
    for left in private.glob(f"{PREFIX}*"):
        with contextlib.suppress(Timeout, OSError):
            if time.time() - left.stat().st_mtime > JUST_BEGUN_SECONDS:
                with FileLock(left / "lock", timeout=0, mode=0o600):
                    remove(left)
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=private) as place,
        FileLock(Path(place) / "lock", mode=0o600),
    ):
        yield Path(place)


def _refuse_no_file(plot: Path) -> None:
    """Refuse a plot that cannot be written before the work, not after it."""
    try:
        plot.parent.mkdir(parents=True, exist_ok=True)
        usable = not plot.is_dir() and os.access(plot.parent, os.W_OK)
    except OSError:
        usable = False
    if not usable:
        raise UsageError(
            "no plot can be written there",
            where=f"--plot {plot}",
            remedy="name a file in a directory of yours",
        )


def _refuse_few_people(entries: list[Entry], users: int) -> None:
    """Refuse entries whose promises need more people than the ratings have; ingest reads once for all entries."""
    for entry in entries:
        privacy = entry.config.privacy
        if users // privacy.k < privacy.l:
            raise UsageError(
                f"{users} users form fewer than privacy.l = {privacy.l} groups of privacy.k = {privacy.k}",
                where=f"--methods {entry.text}",
                remedy="lower k or l",
            )


def _noted(notes: Path | None, ingest: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the rows and the figures of the original from an earlier run of the same code on the same ratings."""
    if notes and notes.exists():
        found = read_json(notes)
        if found["of"] == _version(ingest):
            return found["rows"], found["originals"]
    return {}, {}


def _note(notes: Path, ingest: dict[str, Any], rows: dict[str, Any], originals: dict[str, Any]) -> None:
    found = {"of": _version(ingest), "rows": rows, "originals": originals}
    write_bytes(notes, json.dumps(found, allow_nan=False).encode())


def _version(ingest: dict[str, Any]) -> str:
    return f"{pipeline.code_version()} {ingest['digest']}"


def _failed(entry: Entry, problem: Exception) -> dict[str, Any]:
    """Return the row of an entry that could not be made. An unexpected exception may quote a source id: only its type
    and its place are shown."""
    why = problem.what if isinstance(problem, MurmurError) else f"unexpected {place_of(problem)}"
    log.warning("compare: %s failed: %s", entry.text, why)
    return {
        "method": entry.method,
        "settings": entry.settings,
        "k": entry.config.privacy.k,
        "status": "failed",
        "failed": [],
        "why": why,
        "risk": {},
        "not_applicable": [],
        **_worst({}),
        "utility": {},
        "recommenders": {},
        "counts": {},
        "seconds": {},
    }


@dataclass(frozen=True)
class Study:
    """Hold the ratings that all entries share, and the figures of the original so far."""

    run: pipeline.Run
    ingest: dict[str, Any]
    place: Path
    originals: dict[str, dict[str, dict[str, float]]]

    def row(self, entry: Entry) -> dict[str, Any]:
        """Make an entry's candidate, let the gate judge it, train on its shadow release."""
        run = replace(self.run, config=entry.config, given={"ingest": self.ingest}, seconds={})
        validated = run.work / "validate"
        remove(validated)  # another entry's
        # Entries are compared, none is published: the gate must not take them for attempts at one release.
        (run.private / HISTORY).unlink(missing_ok=True)
        refusal: Refused | None = None
        try:
            pipeline.execute("validate", run)
        except Refused as problem:
            refusal = problem
        except UsageError as problem:
            where = f"--methods {entry.text}; {problem.where}"
            raise UsageError(problem.what, where=where, remedy=problem.remedy) from None
        judged = (validated / "private" / "verdict.json").exists()
        verdict = (
            read_json(validated / "private" / "verdict.json") if judged else {"failed": [], "checks": []}
        )
        attacks = {c["name"]: c for c in verdict["checks"] if c["name"] in check_names(("attacks",))}
        utility, figures = self._utility(run) if "evaluate" in run.given else ({}, {})
        return {
            "method": entry.method,
            "settings": entry.settings,
            "k": entry.config.privacy.k,
            "status": "refused" if refusal else "passed",
            "failed": verdict["failed"],
            # `failed` names the checks that refuse it; a step that refuses to make it says why here.
            "why": refusal.what if refusal and not judged else None,
            "risk": _risks(attacks),
            "not_applicable": [name for name, found in attacks.items() if not found["applicable"]],
            **_worst(attacks),
            "utility": utility,
            "recommenders": figures,
            "counts": read_json(validated / "candidate" / "manifest.json")["counts"] if judged else {},
            "seconds": run.seconds,
        }

    def original_row(self, made: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the row of the ratings with only the names removed: the attacks' success and the utility; `made` is
        the utility of the entries."""
        show_progress = StepProgress("original", self.run.progress)
        checks = [registered()[name] for name in check_names(("attacks",))]
        attacks = {}
        with (
            pipeline.log_cpu_time("original", self.run),
            single_threaded(),
            contextlib.closing(self._raw()) as case,
        ):
            for done, check in enumerate(checks, start=1):
                attacks[check.name] = run_check(check, case, check.threshold).to_json()
                show_progress(done, len(checks))
                case.forget()
        # An entry that leaves items out is compared with the original without them; this row is for all items.
        whole = max(self.originals, key=lambda split: int(split.partition(" ")[0]), default=None)
        figures = self.originals[whole] if whole else {}
        return {
            "risk": _risks(attacks),
            "not_applicable": [name for name, found in attacks.items() if not found["applicable"]],
            **_worst(attacks),
            "utility": (summary(figures, figures) if figures else {}) | _original_ranking(made),
            "recommenders": figures,
            "counts": {name: self.ingest["counts"][name] for name in ("users", "items", "ratings")},
        }

    def _raw(self) -> Case:
        config = self.run.config
        return raw_case(config.source, self.run.snapshot, self.run.engine, config.protected_attributes)

    def _utility(self, run: pipeline.Run) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
        evaluated = Path(run.given["evaluate"]["path"])
        measured = shadow_utility.summary(evaluated)
        if "heldout" not in measured:  # synthetic rows: nobody has a record, so that only ranking is measured
            return measured, {}
        release = evaluated / "shadow-release"
        held = read_held(release, Path(self.ingest["path"]))
        scale = run.config.source.scale
        with pipeline.log_cpu_time("recommenders", run):
            split = f"{held.known.shape[1]} {digest(release / 'held_out.parquet')}"
            original = self._original(split, held, run)
            show_progress = StepProgress("recommenders", run.progress)
            found = measure_release(release, held, scale, self.place, run.engine, show_progress)
        return {**summary(found, original), **measured}, found

    def _original(self, split: str, held: Held, run: pipeline.Run) -> dict[str, dict[str, float]]:
        """Return the figures of training on the 90 % themselves: the same 90 % for all entries, unless one needs all
        people to form groups."""
        if split not in self.originals:
            show_progress = StepProgress("original recommenders", run.progress)
            self.originals[split] = measure_original(
                held, run.config.source.scale, self.place, run.engine, show_progress
            )
        return self.originals[split]


def _original_ranking(made: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how well the original and popularity rank. They are the same for all entries whose shadow run has the same
    people: the first one's are shown."""
    found = next((utility["ranking"] for utility in made if utility.get("ranking")), None)
    if found is None:
        return {}
    shown = ("people", "original_", "popularity_")
    return {"ranking": {name: value for name, value in found.items() if name.startswith(shown)}}


def _risks(attacks: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """Return each attack's upper bound; where it has no interval, the observed success."""
    return {
        name: found["observed"] if found["ci_high"] is None else found["ci_high"]
        for name, found in attacks.items()
    }


def _worst(attacks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the highest upper bound among the attacks with the threshold 1/k: those whose registered threshold is 1.
    Of equal ones, prefer one that re-identifies people to one that undoes their disguise."""
    held = {
        name: found["ci_high"]
        for name, found in attacks.items()
        if found["ci_high"] is not None and registered()[name].threshold == 1.0
    }
    worst = max(held, key=lambda name: (held[name], not name.endswith("-reconstruction")), default=None)
    return {"worst_risk": held[worst] if worst else None, "worst_attack": worst}
