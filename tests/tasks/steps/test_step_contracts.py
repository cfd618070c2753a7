"""Test what every step must keep (tasks/steps)."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

import tasks.steps

STEPS = sorted(found.name for found in iter_modules(tasks.steps.__path__))


@pytest.mark.parametrize("name", STEPS)
def test_step_contract(name, config):
    """A step has frozen parameters, a documented `run`, and a docstring that begins with its name."""
    step = import_module(f"tasks.steps.{name}")
    chosen = step.params(config())
    assert isinstance(chosen, step.Params)
    assert chosen.model_config["frozen"]
    assert step.run.__doc__
    assert step.__doc__.lower().startswith(f"{name}:"), "the docstring names the step"
