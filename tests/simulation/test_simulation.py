"""Run seeded schedules of publishers, a backfill, an eraser and crashes on a simulated machine.

`make simulate N=100000` runs more; `make simulate SEED=17` repeats one and prints its trace.
"""

import os

import pytest

from tests.simulation.baton import Crash
from tests.simulation.machine import simulated
from tests.simulation.planted import FAULTS
from tests.simulation.schedule import Simulator

pytestmark = pytest.mark.slow

SCHEDULES = int(os.environ.get("MURMUR_SCHEDULES", "400"))
MOST_TRIES = 400


@pytest.fixture(scope="module")
def simulator():
    made = Simulator()
    with simulated(made.machine):
        made.prepare()
        yield made


def test_what_must_hold_holds(simulator):
    """No schedule breaks an invariant, and the schedules are such that they could."""
    crashes, releases = {"kill": 0, "power": 0}, 0
    for seed in range(SCHEDULES):
        outcome = simulator.run(seed)
        assert outcome.problem is None, f"make simulate SEED={seed}: {outcome.problem}"
        releases += outcome.releases
        for kind, number in outcome.crashes.items():
            crashes[kind] += number
    assert min(crashes.values()) > SCHEDULES / 10
    assert releases > SCHEDULES


@pytest.mark.parametrize("seed", [1535, 1608, 2443, 2944, 2981, 13761])
def test_found_schedules(simulator, seed):
    """An erasure beside a run removed a half-written membership or table of a candidate, and the release was published
    without it; or it stopped at a half-written table. Erasures wait for runs now. The last: a run made the candidate of
    another anew while that was being published, without the ledger's entry."""
    assert simulator.run(seed).problem is None


def test_a_seed_is_a_schedule(simulator):
    """The same seed gives the same steps in the same order, whatever ran before."""
    one = simulator.run(5)
    simulator.run(6)
    assert simulator.run(5) == one
    assert len(one.trace) > 50


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(simulator, name):
    """Each mistake in the code is found by some schedule."""
    for outcome in outcomes(simulator, FAULTS[name]):
        if outcome.problem is not None and FAULTS[name].words in outcome.problem:
            return
    pytest.fail("no schedule found it")


def outcomes(simulator, fault):
    """Yield the outcomes of schedules with a fault, until nobody wants more."""
    step, seed = 0, fault.first
    for _ in range(MOST_TRIES):
        step += 1
        crash = Crash("power", step, counts_weighty_steps=True) if fault.alone else None
        with fault.plant():
            outcome = simulator.run(seed, fault.alone, crash)
        yield outcome
        if not fault.alone or not outcome.crashes:  # the step was beyond the last
            step, seed = 0, seed + 1
