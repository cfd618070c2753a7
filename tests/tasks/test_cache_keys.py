"""Test that the cache key of a step changes with every configuration key that its result depends on.

Every key of the release file is changed, one at a time, to another valid value generated from its type. Where the
change leaves a step's cache key as it is, the step is run with the changed configuration on the same inputs: it must
write the same bytes. All changes that leave a step's key as it is are tried in one run; only where that differs, each
change is tried alone.
"""

import copy
import datetime
import itertools
import types
import typing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Union

import pytest
from pydantic import BaseModel

from tasks import methods, pipeline
from tasks.config import Alerts, ReleaseConfig, parse
from tasks.engine import Engine
from tasks.errors import UsageError
from tasks.keys import OwnerKey
from tasks.steps import ingest, sampling, suppression
from tasks.store import Store, digest_of, files_below
from tests.conftest import SNAPSHOT

BASE = {
    "release": {"name": "t"},
    "source": {"format": "synthetic", "synthetic": {"users": 60, "items": 20, "ratings_per_user": 8.0}},
    "padding": {"rank": 3, "iterations": 2},
    "series": {"mode": "independent"},
}
METHODS: dict[str, dict[str, Any]] = {
    "padded": {},
    "support": {"privacy": {"k": 10, "support": True}},
    "series": {"series": {"mode": "sticky", "population": "p"}},
    "simple": {"privacy": {"method": "predictive-simple"}},
    "boosted": {"privacy": {"method": "predictive-boosted"}},
    "neutral": {"padding": {"rank": 3, "neutral": ["gender"]}, "obfuscation": {"attribute": "age"}},
    "bins": {
        "privacy": {"method": "microaggregation"},
        "microaggregation": {"within_bins": True, "variable": True, "imputation": "item-mean"},
    },
    "z-scores": {"privacy": {"method": "perturbation"}},
    "gna": {"privacy": {"method": "perturbation"}, "perturbation": {"scheme": "gna"}},
    "obfuscation": {
        "privacy": {"method": "obfuscation"},
        "obfuscation": {"attribute": "gender", "strategy": "rfpp"},
    },
    "share": {"privacy": {"method": "suppression"}, "suppression": {"share": 0.3}},
    "rows": {
        "privacy": {"method": "dp-synthetic", "budget": {"epsilon": 20.0}},
        "source": {"format": "synthetic", "synthetic": {"users": 900, "items": 20, "ratings_per_user": 8.0}},
    },
    "search": {"privacy": {"method": "suppression"}},
}
# Valid values of keys whose type does not give any.
HINTS: dict[str, list[Any]] = {
    "release.schedule": ["@daily"],
    "release.start_date": [datetime.date(2020, 1, 1)],
    "release.approvers": [["ann", "ben"]],
    "privacy.method": ["microaggregation", "perturbation"],
    "privacy.budget": [{"epsilon": 15.0}],
    "privacy.protect": [["gender"], []],
    "padding.neutral": [["age"], []],
    "padding.predictor": ["biases", "als"],
    "obfuscation.strategy": ["random"],
    "gate": [{"recovery": 0.123}],
    "series.min_cohort": [55],
    "alerts.on": [["late"]],
    "alerts.mail_to": [["owner@example.org"]],
    "source.encoding": ["latin-1"],
    "source.scale": [[0.0, 5.0]],
    "source.attributes.columns": [["gender"], ["age"]],
    "source.attributes.groups": [{"gender": {"both": ["f", "m"]}}],
    "source.attributes.edges": [{"age": [30.0]}],
}
# A change of these needs others with it (a path, a user table), or there is one value only. They belong to tables that
# the steps that read them carry whole: see test_ingest_key_holds_the_whole_source.
NOT_CHANGEABLE_ALONE = {
    "source.format",
    "source.attributes.path",
    "source.attributes.user",
    "source.attributes.delimiter",
    "source.attributes.encoding",
    "source.sql",
    "release.approvals",
    *(f"source.catalogue.{name}" for name in ("path", "item", "title", "genres", "delimiter", "encoding")),
}
SCHEDULING = {
    f"release.{name}"
    for name in ("schedule", "start_date", "approval", "approvers", "retention_days", "refused_days")
}
SCHEDULING |= {f"alerts.{name}" for name in Alerts.model_fields}  # who is told of a run
KEY = OwnerKey(b"k" * 32)


# --- changed configurations


def leaf_keys(model: type[BaseModel] = ReleaseConfig, prefix: str = "") -> dict[str, Any]:
    """Return every key of the release file and its type."""
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= leaf_keys(kind, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = kind
    return found


def candidates(kind: Any, value: Any) -> list[Any]:
    """Return values of a type that differ from the current one."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return candidates(arguments[0], value)
    if origin is Literal:
        return [one for one in arguments if one != value]
    if origin in (Union, types.UnionType):
        found = [one for part in arguments if part is not type(None) for one in candidates(part, value)]
        return [*found, None] if value is not None and type(None) in arguments else found
    if kind is bool:
        return [not value]
    if kind is int:
        return [7] if value is None else [value + 1, value - 1, value * 2]
    if kind is float:
        return [0.4, 0.9] if value is None else [value + 0.1, value / 2, value - 0.1]
    if kind is str:
        return ["gender", "other"] if value is None else [f"{value}x", ";"]
    return []


def value_at(config: ReleaseConfig, key: str) -> Any:
    for part in key.split("."):
        config = getattr(config, part)
    return config


def with_value(tables: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(tables)
    *path, last = key.split(".")
    table = changed
    for part in path:
        table = table.setdefault(part, {})
    table[last] = value
    return changed


def parsed(tables: dict[str, Any]) -> ReleaseConfig | None:
    try:
        config = parse(tables)
        methods.graph(config)
    except UsageError:
        return None
    return config


def changes(tables: dict[str, Any]) -> dict[str, Any]:
    """Return another valid value for every key that can be changed alone."""
    config = parse(tables)
    found = {}
    for key, kind in leaf_keys().items():
        current = value_at(config, key)
        for value in (*HINTS.get(key, ()), *candidates(kind, current)):
            changed = parsed(with_value(tables, key, value))
            if changed is not None and value_at(changed, key) != current:
                found[key] = value
                break
    return found


# --- steps under changed configurations


@dataclass
class Made:
    """Hold a release whose steps have run: its tables, its run and the references of its steps."""

    tables: dict[str, Any]
    run: pipeline.Run
    steps: tuple[str, ...]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run all steps of a method but validate and publish: (name in METHODS) → Made."""
    patch = pytest.MonkeyPatch()
    patch.setattr(ingest, "_validate", lambda job, written: {"expectations": 0})
    patch.setattr(suppression, "_checks", list)  # every share passes: the judging is not what is tested here
    known: dict[str, Made] = {}

    def make(name):
        if name not in known:
            tables = BASE | METHODS[name]
            store = Store(tmp_path_factory.mktemp(name))
            run = pipeline.open_run(parse(tables), SNAPSHOT, store, Engine(), lambda *_: None)
            run = replace(run, key=KEY)
            steps = tuple(step for step in methods.graph(run.config) if step not in ("validate", "publish"))
            for step in steps:
                pipeline.execute(step, run)
            known[name] = Made(tables, run, steps)
        return known[name]

    yield make
    patch.undo()


def key_of(made: Made, step: str, config: ReleaseConfig, step_key=pipeline.step_key) -> str:
    """Return the key of a step under a configuration, on the inputs of the release that was made; "": no such step."""
    if step not in methods.graph(config):
        return ""
    run = replace(made.run, config=config)
    planned = run.planned(step)
    digests = {needed: made.run.given.get(needed, {}).get("digest", "") for needed in planned.inputs}
    return step_key(step, run, planned.params, digests)


def content(directory: Path) -> dict[str, str]:
    return {name: found for name, found in files_below(directory).items() if name != "step.json"}


def changes_result(made: Made, step: str, tables: dict[str, Any], work: Path) -> bool:
    """Return whether a step writes other bytes under a configuration, from the same inputs."""
    given = {name: reference for name, reference in made.run.given.items() if name != step}
    run = replace(made.run, config=parse(tables), given=given, work=work)
    return content(Path(pipeline.execute(step, run)["path"])) != content(made.run.work / step)


def missing_keys(made: Made, step: str, tmp_path: Path, step_key=pipeline.step_key) -> list[str]:
    """Return the configuration keys that change what a step writes but not its cache key."""
    numbers = itertools.count()
    before = key_of(made, step, made.run.config, step_key)
    waiting = {
        key: value
        for key, value in changes(made.tables).items()
        if key_of(made, step, parse(with_value(made.tables, key, value)), step_key) == before
    }
    missing = []
    while waiting:
        tables, together = made.tables, {}
        for key, value in waiting.items():  # as many as are valid together
            more = with_value(tables, key, value)
            config = parsed(more)
            if config is not None and key_of(made, step, config, step_key) == before:
                tables, together = more, {**together, key: value}
        if changes_result(made, step, tables, tmp_path / str(next(numbers))):
            missing += [
                key
                for key, value in together.items()
                if changes_result(
                    made, step, with_value(made.tables, key, value), tmp_path / str(next(numbers))
                )
            ] or ["+".join(together)]
        waiting = {key: value for key, value in waiting.items() if key not in together}
    return missing


# --- tests


@pytest.mark.parametrize("name", METHODS)
def test_no_key_is_missing(made, name, tmp_path):
    release = made(name)
    missing = {step: missing_keys(release, step, tmp_path / step) for step in release.steps}
    assert {step: keys for step, keys in missing.items() if keys} == {}


def test_every_key_is_changed_somewhere():
    changed = set().union(*(changes(BASE | tables) for tables in METHODS.values()))
    assert set(leaf_keys()) - changed == NOT_CHANGEABLE_ALONE


def test_a_planted_read_behind_the_parameters_is_found(made, tmp_path, monkeypatch):
    """A step that keeps the configuration aside and reads it while it runs."""
    aside: dict[str, ReleaseConfig] = {}
    release, real = made("padded"), sampling.run

    def params(config):
        aside["config"] = config
        return sampling.Params(sample=None)

    def run(job):
        return real(replace(job, params=sampling.Params(sample=aside["config"].clustering.sample)))

    monkeypatch.setattr(sampling, "params", params)
    monkeypatch.setattr(sampling, "run", run)
    assert missing_keys(release, "sampling", tmp_path) == ["clustering.sample"]


@pytest.mark.slow
def test_a_population_left_out_of_the_shadow_runs_key_is_found(made, tmp_path):
    """The shadow run's noise depends on series.population, which its key once missed."""

    def without_population(value):
        if isinstance(value, dict):
            return {name: without_population(some) for name, some in value.items() if name != "population"}
        return value

    def step_key(name, run, params, digests):
        return digest_of([name, without_population(params.model_dump(mode="json")), dict(digests)])

    assert "series.population" in missing_keys(made("z-scores"), "evaluate", tmp_path, step_key)


@pytest.mark.parametrize("name", METHODS)
def test_unrelated_keys_recompute_nothing(made, name):
    """Schedule, retention and thresholds concern no step that makes data; ingest alone reads all of the source."""
    release, config = made(name), parse(made(name).tables)
    found = changes(release.tables)
    unrelated = SCHEDULING | {"source.max_bad_rows", "source.block_bytes", "source.synthetic.seed"}
    unrelated |= {"gate"} if name != "search" else set()
    # A series forms its groups so that they are whole in snapshots that were due before.
    unrelated -= {"release.schedule", "release.start_date"} if name == "series" else set()
    for key in unrelated & set(found):
        changed = parse(with_value(release.tables, key, found[key]))
        steps = [step for step in release.steps if step != "ingest" or key in SCHEDULING | {"gate"}]
        if name == "search":  # it judges, and so reads the source
            steps.remove("suppression")
        assert [s for s in steps if key_of(release, s, changed) != key_of(release, s, config)] == [], key


def test_a_step_is_recomputed_for_its_own_keys_only(made):
    release = made("padded")
    affected = {
        "privacy.rating_step": {"homogenization", "diversity", "evaluate"},
        "clustering.iterations": {"centers", "clustering", "evaluate"},
        "padding.regularization": {"padding", "evaluate"},
        "privacy.k": {"ingest", "binning", "clustering", "evaluate"},
    }
    found = changes(release.tables)
    for key, expected in affected.items():
        changed = parse(with_value(release.tables, key, found[key]))
        before = {step: key_of(release, step, release.run.config) for step in release.steps}
        after = {step: key_of(release, step, changed) for step in release.steps}
        assert {step for step in before if before[step] != after[step]} == expected


def test_ingest_key_holds_the_whole_source(config):
    given = config()
    assert ingest.params(given).source == given.source


def test_validate_key_holds_all_but_the_schedule(made):
    release = made("padded")
    before = key_of(release, "validate", release.run.config)
    found = changes(release.tables)
    same = {
        key
        for key, value in found.items()
        if key_of(release, "validate", parse(with_value(release.tables, key, value))) == before
    }
    assert same == SCHEDULING


def test_a_job_offers_no_way_to_the_configuration(made):
    release = made("padded")
    run, planned = release.run, release.run.planned("sampling")
    place = {"ingest": Path(run.given["ingest"]["path"])}
    job = pipeline.job_of(run, "sampling", planned.params, place, run.work, lambda *_: None)
    assert not any(isinstance(value, ReleaseConfig | pipeline.Run) for value in vars(job).values())
    assert not hasattr(job, "config")
    inner = job.inner_run(pipeline.Plan(steps={}), {}, run.work, "shadow")
    with pytest.raises(AttributeError, match="privacy"):
        _ = inner.config.privacy
    with pytest.raises(AttributeError, match="metric"):
        _ = inner.config.clustering.metric
