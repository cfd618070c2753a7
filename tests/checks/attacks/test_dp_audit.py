"""Test that the audit finds mistakes of a mechanism and passes one without: whole runs, from trials to finding."""

import math
from types import SimpleNamespace

import made_mechanism as mm
import made_releases as made
import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.optimize import brentq

from checks.attacks import dp_audit
from checks.canaries.trials import FEWEST_TRIALS, SHAPES, Trials, bound_epsilon, read_evidence
from checks.evidence.case import Case
from tasks.errors import Refused
from tasks.shadow.canaries import audit_base, write_trials
from tasks.store import read_json, write_json
from tests.contracts import CheckContract

DELTA = 1e-5
EPSILON = 3.0


def rng(*names):
    return np.random.default_rng([7, *"/".join(map(str, names)).encode()])


def rho_of(epsilon):
    """Return rho by the simple conversion epsilon = rho + 2·sqrt(rho·log(1/delta))."""
    return brentq(lambda rho: rho + 2 * math.sqrt(rho * math.log(1 / DELTA)) - epsilon, 1e-9, 100)


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """Make the trials of a mechanism, once per fault, and return its case: fault → case."""
    kept: dict[str, Case] = {}
    base = audit_base(mm.Toy(rho_of(EPSILON)), made.synthetic(), rng)

    def make(fault: str = "") -> Case:
        if fault not in kept:
            private = tmp_path_factory.mktemp("audit")
            mechanism = mm.Toy(rho_of(EPSILON), fault)
            write_trials(
                private / "utility" / "canaries",
                mechanism,
                base,
                (1, 5),
                rng,
                (EPSILON, DELTA),
                FEWEST_TRIALS,
            )
            kept[fault] = claiming(private, EPSILON)
        return kept[fault]

    return make


def claiming(private, epsilon, delta=DELTA):
    return Case(SimpleNamespace(manifest={"privacy": {"epsilon": epsilon, "delta": delta}}), private=private)


class TestAudit(CheckContract):
    """Half of the noise that was claimed."""

    name = "dp-audit"

    @pytest.fixture(scope="class")
    def open_release(self, audited):
        return audited

    def violation(self, opened):
        return opened("half the noise")

    def harmless(self, opened):
        return opened()


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in mm.FAULTS if fault != "half the noise"])
def test_every_mistake_is_found(audited, fault):
    found = dp_audit.run(audited(fault), 0.0)
    assert found.control
    assert not found.passed, found.detail
    assert found.observed > EPSILON


def test_the_bound_is_near_the_truth(audited):
    """A right mechanism shows less than it claims, and the best attack shows more than half of it."""
    found = dp_audit.run(audited(), 0.0)
    assert EPSILON / 3 < found.observed < EPSILON
    assert found.n == read_evidence(audited().private / "utility" / "canaries").runs
    assert {"noise as claimed", "half of the noise (control)"} == {o.knowledge for o in found.outcomes}


def changed(case, tmp_path, change):
    """Return a case with other evidence: change(table, stated) → (table, stated)."""
    source, out = case.private / "utility" / "canaries", tmp_path / "utility" / "canaries"
    table, stated = change(pq.read_table(source / "trials.parquet"), read_json(source / "canaries.json"))
    out.mkdir(parents=True)
    pq.write_table(table, out / "trials.parquet")
    write_json(out / "canaries.json", stated)
    return claiming(tmp_path, EPSILON)


def without(column, value):
    def change(table, stated):
        keep = np.array([v != value for v in table.column(column).to_pylist()])
        return table.filter(keep), stated

    return change


@pytest.mark.parametrize(
    "change",
    [
        without("shape", "new-item"),
        without("setting", "halved"),
        without("canary", False),
        lambda table, stated: (table.slice(0, 1000), stated),
        lambda table, stated: (table, stated | {"copies": dict.fromkeys(SHAPES, 0)}),
        lambda table, stated: (table.drop_columns(["shape"]), stated),
    ],
)
def test_incomplete_trials_are_refused(audited, tmp_path, change):
    with pytest.raises(Refused):
        dp_audit.run(changed(audited(), tmp_path, change), 0.0)


def test_absent_trials_are_refused(tmp_path):
    with pytest.raises(Refused):
        dp_audit.run(claiming(tmp_path, EPSILON), 0.0)


def test_trials_of_another_claim_are_refused(audited):
    """Trials at epsilon 3 are no evidence for a release that claims 1."""
    with pytest.raises(Refused, match="another epsilon"):
        dp_audit.run(claiming(audited().private, 1.0), 0.0)


def test_a_dead_control_is_reported(audited, tmp_path):
    """Trials in which half of the noise is not noticed show nothing."""

    def deaf(table, stated):
        halved = np.array([v == "halved" for v in table.column("setting").to_pylist()])
        for number, name in enumerate(table.column_names):
            if name not in ("shape", "setting", "canary"):
                values = np.where(halved, 0.0, table.column(name).to_numpy())
                table = table.set_column(number, name, [values])
        return table, stated

    assert dp_audit.run(changed(audited(), tmp_path, deaf), 0.0).control is False


def test_the_choice_of_the_attack_costs_nothing():
    """Among many useless parts and canaries the bound of pure noise stays near 0."""
    draw = np.random.default_rng(3)
    several = [Trials(f"c{i}", 1, draw.normal(size=(500, 12)), draw.normal(size=(500, 12))) for i in range(6)]
    found = bound_epsilon(several, tuple(f"part {j}" for j in range(12)), DELTA, 0.05)
    assert found.mu < 0.2
