"""Make a release for every setting that is tried, let the gate judge it, and measure what it loses.

Trials run the same steps and the same gate with streams of their own (purpose "trial"), in a private directory that is
removed. Nothing of them can be published, and a release with the setting that is found draws everything anew: so a
trial is no attempt at the snapshot, and a setting that has passed narrowly may be refused. Ratings are read once; steps
whose parameters are equal are not repeated.
"""

import datetime
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checks.registry import registered
from checks.utility.utility import summary
from tasks import methods, pipeline
from tasks.config import ReleaseConfig
from tasks.engine import engine
from tasks.errors import Refused, UsageError
from tasks.progress import Progress
from tasks.series.ledger import Ledger
from tasks.series.under_way import under_way
from tasks.store import Store, owner_only, read_json, remove
from tasks.studies.compare.entries import Entry
from tasks.studies.plan.axes import base_of, changed, usual_axes, with_named
from tasks.studies.plan.lattice import Search, Setting
from tasks.studies.plan.others import other_ways

PURPOSE = "trial"
CPU_SECONDS = 900.0
SAME_LOSS = 1e-4  # RMSE: losses nearer than this are printed alike; no protection is given up for less


@dataclass(frozen=True)
class Trial:
    """Represent a setting and what became of it."""

    values: dict[str, Any]
    passed: bool
    failed: tuple[str, ...]
    why: str | None  # of a step that refused before the gate
    worst_risk: float | None
    worst_attack: str | None
    lost: float | None  # RMSE of the release less that of the model without groups
    lost_share: float | None  # of what random groups lose
    cpu_seconds: float
    own_ndcg: float | None = None  # lists of ten from the release, asked with a person's own history
    group_ndcg: float | None = None  # asked with what the release says of the person
    popularity_ndcg: float | None = None  # the same list for everybody

    def to_json(self) -> dict[str, Any]:
        """Return the row of `murmur plan --json`."""
        return {**vars(self), "failed": list(self.failed)}


def find_cheapest(
    config: ReleaseConfig,
    snapshot: datetime.date,
    store: Store,
    progress: Progress,
    vary: tuple[str, ...] = (),
    cpu_seconds: float = CPU_SECONDS,
    *,
    others: bool = True,
) -> dict[str, Any]:
    """Try settings until the cheapest that passes is known, or the CPU time is used up; return the answer as JSON.

    With `others`, other methods are tried in the time that is left, unless the population has a release: its form is
    fixed then.
    """
    fixed = _has_releases(config, store)
    private = store.private(config.release.name, snapshot)
    with (
        owner_only(),
        under_way(store, config.population),
        tempfile.TemporaryDirectory(prefix=".plan-", dir=private) as place,
        engine() as workers,
    ):
        begun = workers.cpu_seconds()
        inside = Store(place)
        outer = pipeline.open_run(config.alone(), snapshot, store, workers, progress)
        work = inside.private(config.release.name, snapshot) / "work"
        run = replace(outer, store=inside, work=work, purpose=PURPOSE)
        ingest = pipeline.execute("ingest", run)
        axes = with_named(usual_axes(config, ingest["counts"]["users"], k_is_fixed=fixed), vary, config)
        study = _Study(run, ingest, config, Search(axes, base_of(axes, config)), begun, cpu_seconds)
        study.search_all()
        study.improve()
        study.restore()
        progress("plan", study.search.size, study.search.size)
        if others and not fixed:
            study.try_others(other_ways(config, ingest["counts"]["users"]))
        return study.answer(k_is_fixed=fixed)


@dataclass
class _Study:
    """Hold the trials so far, in their order, and what they are made from."""

    run: pipeline.Run
    ingest: dict[str, Any]
    config: ReleaseConfig
    search: Search
    begun: float
    allowed: float
    trials: dict[Setting, Trial] = field(default_factory=dict)
    cheapest: Setting | None = None
    stopped: str | None = None
    others: dict[str, Trial] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # other ways for which there was no time

    @property
    def spent(self) -> float:
        """Return the CPU seconds used so far."""
        return self.run.engine.cpu_seconds() - self.begun

    def search_all(self) -> None:
        """Try settings until all are decided."""
        while (setting := self.search.next()) is not None:
            trial = self._trial(setting)
            if trial is None:
                break
            if hopeless := sorted(set(trial.failed) & methods.UNRELATED_TO_K):
                self.stopped = f"{', '.join(hopeless)} refuses whatever these settings are"
                break
            # The limit of these checks is tighter for a larger k: refused by them alone, a smaller k may pass.
            by_limit = bool(trial.failed) and set(trial.failed) <= methods.TIGHTER_WITH_K
            self.search.record(setting, passed=trial.passed, unordered=("privacy.k",) if by_limit else ())
        passed = {
            one: trial.lost for one, trial in self.trials.items() if trial.passed and trial.lost is not None
        }
        # Of settings that lose the same, the one that protects most.
        self.cheapest = min(passed, key=lambda one: (round(passed[one] / SAME_LOSS), -sum(one)), default=None)

    def improve(self) -> None:
        """Give up one protection after the other of the cheapest setting, to the least on that axis, where this was not
        tried: that less protection loses less is an assumption, and settings may act against each other."""
        for place in range(len(self.search.axes)):
            if self.cheapest is None:
                return
            weaker = (*self.cheapest[:place], 0, *self.cheapest[place + 1 :])
            if weaker in self.trials or self.search.is_refused(weaker):
                continue
            trial, least = self._trial(weaker), self.trials[self.cheapest].lost or 0.0
            if (
                trial is not None
                and trial.passed
                and trial.lost is not None
                and trial.lost < least - SAME_LOSS
            ):
                self.cheapest = weaker

    def restore(self) -> None:
        """Put back protections of the release file that the cheapest setting gave up and that cost nothing."""
        if self.cheapest is None:
            return
        for place in range(len(self.search.axes)):
            least = self.trials[self.cheapest].lost or 0.0
            stronger = (*self.cheapest[:place], self.search.base[place], *self.cheapest[place + 1 :])
            if self.search.base[place] <= self.cheapest[place]:
                continue
            trial = self.trials.get(stronger) or self._trial(stronger)
            if (
                trial is not None
                and trial.passed
                and trial.lost is not None
                and trial.lost <= least + SAME_LOSS
            ):
                self.cheapest = stronger

    def try_others(self, entries: list[Entry]) -> None:
        """Try other ways to release in the time that is left."""
        for entry in entries:
            # Methods cost differently; the dearest trial so far is the only measure there is.
            longest = max(one.cpu_seconds for one in (*self.trials.values(), *self.others.values()))
            if self.spent + longest > self.allowed:
                self.left_out.append(entry.text)
                continue
            self.others[entry.text] = _try(self.run, self.ingest, entry.config, {})

    def _trial(self, setting: Setting) -> Trial | None:
        """Make a trial; None where there is no time for it."""
        longest = max((trial.cpu_seconds for trial in self.trials.values()), default=0.0)
        if self.trials and self.spent + longest > self.allowed:
            self.stopped = (
                f"{self.spent:,.0f} CPU seconds are used, and a further trial takes about {longest:,.0f}"
            )
            return None
        self.run.progress("plan", self.search.size - len(self.search.open()), self.search.size)
        trial = _try(self.run, self.ingest, self.config, self.search.values(setting))
        self.trials[setting] = trial
        return trial

    def answer(self, *, k_is_fixed: bool) -> dict[str, Any]:
        """Return the answer of `murmur plan`."""
        trials, search = list(self.trials.values()), self.search
        passed = [one for one in trials if one.passed and one.lost is not None]
        own = trials[0]
        cheapest = None if self.cheapest is None else self.trials[self.cheapest]
        return {
            "status": "planned",
            "axes": {axis.key: list(axis.values) for axis in search.axes},
            "settings": search.size,
            "undecided": len([one for one in search.open() if one not in self.trials]),
            "stopped": self.stopped,
            "k_is_fixed": k_is_fixed,
            "trials": [{**one.to_json(), "on_frontier": on_frontier(one, passed)} for one in trials],
            "own": {"passed": own.passed, "lost": own.lost, "failed": list(own.failed)},
            "cheapest": None if cheapest is None else {"values": cheapest.values, "lost": cheapest.lost},
            "own_is_cheapest": cheapest is own,
            "others": [{"entry": text, **one.to_json()} for text, one in self.others.items()],
            "others_left_out": self.left_out,
            "cpu_seconds": round(self.spent, 1),
        }


def _has_releases(config: ReleaseConfig, store: Store) -> bool:
    """Return whether the first release of the population has fixed k."""
    if config.series_mode != "sticky" or not Ledger.exists(store, config.population):
        return False
    with Ledger.open(store, config.population) as ledger:
        return bool(ledger.releases())


def _try(run: pipeline.Run, ingest: dict[str, Any], config: ReleaseConfig, values: dict[str, Any]) -> Trial:
    before = run.engine.cpu_seconds()
    remove(run.work / "validate")  # of the trial before
    tried = replace(run, config=changed(config, values).alone(), given={"ingest": ingest})
    refusal: Refused | None = None
    try:
        pipeline.execute("validate", tried)
    except Refused as problem:
        refusal = problem
    except UsageError as problem:  # the setting suits neither the data nor the method
        refusal = Refused(problem.what, where=problem.where, remedy=problem.remedy)
    path = Path(run.work, "validate", "private", "verdict.json")
    verdict = read_json(path) if path.exists() else {"failed": [], "checks": []}
    utility = {}
    if (place := tried.given.get("evaluate")) is not None:
        utility = summary(Path(place["path"]))
    lost, share = _loss(utility)
    worst, attack = _worst(verdict["checks"])
    return Trial(
        values=values,
        passed=refusal is None,
        failed=tuple(verdict["failed"]),
        why=refusal.what if refusal and not path.exists() else None,
        worst_risk=worst,
        worst_attack=attack,
        lost=lost,
        lost_share=share,
        cpu_seconds=round(run.engine.cpu_seconds() - before, 1),
        **_ranking(utility),
    )


def _loss(utility: dict[str, Any]) -> tuple[float | None, float | None]:
    if "heldout" not in utility:  # not measured, or synthetic rows, which have no rating of anybody's
        return None, None
    own, model, drawn = (utility[f"{n}_rmse"] for n in ("target_deviation", "original", "random_group"))
    lost = own - model
    return round(lost, 6), round(lost / (drawn - model), 6) if drawn > model else None


def _ranking(utility: dict[str, Any]) -> dict[str, float | None]:
    found = utility.get("ranking") or {}
    names = {
        "own_ndcg": "own_history_ndcg",
        "group_ndcg": "group_history_ndcg",
        "popularity_ndcg": "popularity_ndcg",
    }
    return {ours: found.get(name) for ours, name in names.items()}


def _worst(checks: list[dict[str, Any]]) -> tuple[float | None, str | None]:
    """Return the highest upper bound of the attacks that name people, those with the limit 1/k."""
    known = registered()
    held = {
        one["name"]: one["ci_high"]
        for one in checks
        if one["ci_high"] is not None and one["name"] in known and known[one["name"]].threshold == 1.0
    }
    name = max(held, key=lambda one: held[one], default=None)
    return (held[name], name) if name else (None, None)


def on_frontier(trial: Trial, passed: list[Trial]) -> bool:
    """Return whether no other setting that passed has both a lower risk and a lower loss."""
    if trial not in passed or trial.lost is None:
        return False
    mine = (trial.worst_risk or 0.0, trial.lost)
    others = [(one.worst_risk or 0.0, one.lost or 0.0) for one in passed if one is not trial]
    return not any(a <= mine[0] and b <= mine[1] and (a, b) != mine for a, b in others)
