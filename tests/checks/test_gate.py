"""The gate itself: complete, closed on every kind of failure, silent about people."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import made_releases as made
import numpy as np
import pytest

from checks import gate, registry
from checks.gate import judge_case, verify
from checks.linkage import knowledge
from checks.linkage.knowledge import Model
from checks.registry import Check, registered
from checks.release import Release
from checks.result import CheckResult, Finding, Verdict
from tasks.config.gate import check_names
from tasks.errors import Refused, UsageError
from tasks.store import read_json, write_json

FIELDS = {"name", "passed", "observed", "threshold", "ci_low", "ci_high", "n", "severity", "detail"}


def one(case, run, **settings) -> CheckResult:
    """The gate's result for a check made up on the spot."""
    how = {"threshold": 1.0, "severity": "gate", "controlled": False, "offline": False} | settings
    return gate.run_check(Check("made-up", run=run, **how), case, how["threshold"])


def test_every_file_is_a_check_and_every_check_is_a_file():
    assert sorted(registered()) == check_names()
    assert {c.name for c in registered().values() if c.severity == "advisory"} == {
        "series",
        "unprotected-attributes",
    }


def test_the_order_does_not_depend_on_who_was_imported_first(monkeypatch):
    before = list(registered())
    monkeypatch.setattr(registry, "_REGISTER", dict(reversed(registry._REGISTER.items())))
    assert list(registered()) == before


def test_a_check_must_be_called_after_its_file():
    with pytest.raises(ValueError, match="finds checks by their file"):
        registry.check("another-name", threshold=0)(lambda case, threshold: None)


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_a_good_release_passes_every_check(case, name):
    verdict = judge_case(case(name), {})
    assert verdict.passed, verdict.to_json()
    assert [check.name for check in verdict.checks] == list(registered())
    told = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert all(set(check) == FIELDS for check in told["checks"])
    assert [c["name"] for c in told["checks"] if not c["passed"]] == ["series"]


def test_the_same_release_gives_the_same_verdict(case):
    opened = case("padded")
    again = dataclasses.replace(opened)  # without anything computed before
    assert judge_case(opened, {}).to_json() == judge_case(again, {}).to_json()


def test_a_crash_is_a_failure_that_quotes_nobody(case):
    def crash(case, threshold):
        raise KeyError("person 17")

    result = one(case(), crash)
    assert not result.passed
    assert "KeyError" in result.detail
    assert "person" not in result.detail


def test_a_refusal_inside_a_check_is_a_failure_with_its_reason(case):
    def refuse(case, threshold):
        raise Refused("cannot be proved")

    assert one(case(), refuse).detail == "cannot be proved"
    assert not one(case(), refuse).passed


def test_a_dead_or_missing_control_voids_a_check(case):
    for control in (False, None):
        result = one(
            case(), lambda c, t, alive=control: Finding(True, 0.0, 5, "fine", control=alive), controlled=True
        )
        assert not result.passed
        assert result.detail.startswith("VOID: the positive control")
    assert one(case(), lambda c, t: Finding(True, 0.0, 5, "fine", control=True), controlled=True).passed


def test_fewer_trials_than_planned_void_a_check(case):
    assert not one(case(), lambda c, t: Finding(True, 0.0, 4, "fine", planned=5)).passed
    assert one(case(), lambda c, t: Finding(True, 0.0, 5, "fine", planned=5)).passed


def test_a_check_that_does_not_answer_has_failed(case, monkeypatch):
    monkeypatch.setattr(gate, "check_names", lambda: [*check_names(), "forgotten"])
    verdict = judge_case(case(), {})
    assert not verdict.passed
    assert verdict.failed == ["forgotten"]


def test_thresholds_move_checks_and_unknown_ones_are_refused(case):
    opened = case()
    assert judge_case(opened, {"utility": 0.01}).failed == ["utility"]
    with pytest.raises(UsageError, match="there is no check nonsense"):
        judge_case(opened, {"nonsense": 1.0})


def test_a_threshold_cannot_undercut_the_promise(case):
    opened = case().release
    opened.k = 7
    result = gate.run_check(registered()["k-anonymity"], made.Case(opened), 2)
    assert (result.passed, result.observed, result.threshold) == (False, 5, 7)


def test_no_results_are_no_pass():
    assert not Verdict([]).passed
    advisory = CheckResult("series", True, 1, 1, None, None, 1, "advisory", "")
    assert not Verdict([advisory]).passed


def test_numbers_that_are_none_become_null():
    result = CheckResult("x", True, float("nan"), float("inf"), None, 0.1234567, 3, "gate", "")
    told = result.to_json()
    assert (told["observed"], told["threshold"], told["ci_low"], told["ci_high"]) == (
        None,
        None,
        None,
        0.123457,
    )


def test_verify_needs_the_published_files_only(case):
    opened = case("simple")
    verdict = verify(opened.release.directory)
    assert verdict.passed
    assert [check.name for check in verdict.checks] == ["diversity", "integrity", "k-anonymity"]


def test_what_is_no_release_fails_everything(tmp_path):
    verdict = verify(tmp_path)
    assert not verdict.passed
    assert all("no readable manifest" in check.detail for check in verdict.checks)


def test_an_unreadable_candidate_is_a_verdict_not_a_crash(case, config):
    opened = case()
    source = config().source
    (opened.release.directory / "items.parquet").write_bytes(b"no parquet")
    verdict = gate.judge(opened.release.directory, opened.private, source, made.SNAPSHOT, {})
    assert len(verdict.checks) == len(registered())
    assert not any(check.passed for check in verdict.checks)


def test_a_missing_membership_fails_everything(case, config):
    opened = case()
    (opened.private / "membership.parquet").unlink()
    verdict = gate.audit(opened.release.directory, opened.private, config().source)
    assert not verdict.passed
    assert "membership" in verdict.checks[0].detail


def test_no_detail_names_anybody(releases, tmp_path):
    """Ids that no sentence of ours contains; a refused release has the most to say."""
    for name in ("padded", "single contributors"):
        ids = [f"zqx{number}" for number in range(len(releases[name].group_of))]
        named = made.case(releases[name].but(user_ids=ids), tmp_path / name)
        assert "zqx" not in json.dumps(judge_case(named, {}).to_json())


def test_the_threat_model_names_every_check_with_its_default():
    text = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    told = {row[0]: row[3] for row in rows if len(row) == 5 and row[0] not in ("check", "---")}
    assert {name: float(default) for name, default in told.items()} == {
        name: check.threshold for name, check in registered().items()
    }


def test_whom_the_judge_attacks_follows_from_what_is_published(case, monkeypatch):
    """Nobody can know beforehand whom to protect; an audit attacks the same people; names decide, not places."""
    monkeypatch.setattr("checks.case.sample_size", lambda half_width: 50)

    def attacked(opened, salt=None):
        truth = opened.truth if salt is None else replace(opened.truth, salt=salt)
        other = replace(opened, given_truth=truth)
        names = truth.membership.pseudonyms.to_pylist()
        return {names[row] for row in other.targets("knowledge")}

    opened = case("padded")
    assert opened.truth.salt == opened.release.fingerprint
    assert len(attacked(opened)) == 50
    assert attacked(opened) == attacked(opened)
    assert attacked(opened) != attacked(opened, "other")
    known = [Model(4), Model(0, "forum")]
    for model in known:
        one, other = (
            knowledge.known(replace(opened.truth, salt=salt), np.arange(30), model).items.tolist()
            for salt in "ab"
        )
        assert one != other


def test_a_k_below_two_is_no_promise(violated):
    def forge(published, private):
        manifest = read_json(published / "manifest.json")
        write_json(published / "manifest.json", manifest | {"privacy": manifest["privacy"] | {"k": 1}})

    published, _, _ = violated(forge)
    with pytest.raises(Refused, match="at least 2"):
        Release(published)
