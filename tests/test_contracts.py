"""What every registered plug-in must keep, whichever there are: formats, padders, methods, steps, checks."""

from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

import tasks.obfuscators
import tasks.padders
import tasks.steps
from checks.registry import registered as registered_checks
from tasks import formats, methods
from tasks.config.gate import AT_LEAST, check_names
from tasks.config.obfuscation import Obfuscation
from tasks.config.padding import Padding
from tasks.config.source import FormatName
from tasks.ratings import Ratings, write_ids, write_matrix

PADDERS = sorted(found.name for found in iter_modules(tasks.padders.__path__))
METHODS = sorted(methods.registered())
STRATEGIES = tasks.obfuscators.registered()
STEPS = sorted(found.name for found in iter_modules(tasks.steps.__path__))


@pytest.mark.parametrize("name", STEPS)
def test_a_step_has_params_and_a_run(name, config):
    step = import_module(f"tasks.steps.{name}")
    chosen = step.params(config())
    assert isinstance(chosen, step.Params)
    assert chosen.model_config["frozen"]
    assert step.run.__doc__
    assert step.__doc__.lower().startswith(f"{name}:"), "the file says which box it is"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_a_graph_whose_steps_come_in_order(name, config):
    hidden = {"obfuscation": {"attribute": "gender"}} if name == "obfuscation" else {}
    graph = methods.graph(config(privacy={"method": name}, **hidden))
    seen: set[str] = set()
    for step, needed in graph.items():
        assert set(needed) <= seen, f"{step} reads from a step that comes later"
        seen.add(step)
    assert next(iter(graph)) == "ingest"
    assert list(graph)[-2:] == ["validate", "publish"]


def test_every_format_of_the_configuration_exists():
    assert sorted(get_args(FormatName)) == formats.registered()
    for name in formats.registered():
        module = import_module(f"tasks.formats.{name.replace('-', '_')}")
        assert callable(module.pieces)
        assert callable(module.read)


def test_the_configuration_knows_which_thresholds_are_a_least_number():
    assert {check.name for check in registered_checks().values() if check.larger_is_safer} == set(AT_LEAST)


def test_every_padder_of_the_configuration_exists():
    assert sorted(get_args(Padding.model_fields["predictor"].annotation)) == PADDERS


@pytest.fixture
def fit(tmp_path, taste_matrix, config):
    """Fit a padder on a matrix with the given mask: (name, matrix, fit_items) → model."""
    from tasks.engine import Engine
    from tasks.steps import padding

    numbers = iter(range(99))

    def make(name, matrix, fit_items):
        place = tmp_path / str(next(numbers))
        (place / "out").mkdir(parents=True)
        write_ids(place, "user", [str(n) for n in range(matrix.shape[0])])
        write_ids(place, "item", [str(n) for n in range(matrix.shape[1])])
        write_matrix(place, matrix)
        job = SimpleNamespace(
            params=padding.params(config()),
            out=place / "out",
            engine=Engine(),
            rng=lambda *_: np.random.default_rng(0),
            progress=lambda *_: None,
        )
        return tasks.padders.padder(name).fit(job, Ratings(place), fit_items)

    return make


@pytest.mark.parametrize("name", PADDERS)
def test_a_padder_beats_the_overall_mean(name, fit, taste_matrix):
    matrix = taste_matrix(users=120, items=50)
    model = fit(name, matrix, np.ones(50, bool))
    row = np.repeat(np.arange(120), np.diff(matrix.indptr))
    error = model.cells(row, matrix.indices) - matrix.data
    assert np.mean(error**2) < 0.95 * np.var(matrix.data)


@pytest.mark.parametrize("name", PADDERS)
def test_a_padder_learns_nothing_from_items_outside_the_fit(name, fit, taste_matrix):
    """Turn every rating of a rare item upside down: no prediction for anybody may move."""
    matrix = taste_matrix(users=80, items=30)
    fit_items = np.ones(30, bool)
    fit_items[[3, 17]] = False
    turned = matrix.copy()
    rare = ~fit_items[turned.indices]
    turned.data[rare] = 6 - turned.data[rare]
    one, other = fit(name, matrix, fit_items), fit(name, turned, fit_items)
    assert np.array_equal(one.rows(slice(None)), other.rows(slice(None)))
    # Rare items are predicted alike: the user's own level, nothing about the item.
    assert np.array_equal(one.rows(slice(None))[:, 3], one.rows(slice(None))[:, 17])


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_adds_as_many_as_asked_and_nothing_that_was_rated(name, taste_matrix):
    assert name in get_args(Obfuscation.model_fields["strategy"].annotation)
    matrix = taste_matrix(users=60, items=40)
    labels = (matrix.toarray()[:, :20] > 0).sum(axis=1) > 8
    chance = tasks.obfuscators.seeded_chance(1)
    wanted = tasks.obfuscators.Wanted(share=0.1, classes=2, scale=(1.0, 5.0), chance=chance)
    one, other = (tasks.obfuscators.strategy(name).add(matrix, labels.astype(int), wanted) for _ in range(2))
    assert one.shape == matrix.shape
    assert one.nnz == wanted.total(matrix)
    assert not one.multiply(matrix).nnz
    assert ((one.data >= 1) & (one.data <= 5)).all()
    assert (one != other).nnz == 0


def test_every_check_answers_to_its_files_name():
    checks = registered_checks()
    assert sorted(checks) == check_names()
    for check in checks.values():
        assert check.severity in ("gate", "advisory")
        assert check.threshold >= 0
