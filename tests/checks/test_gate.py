"""Test the gate: every check runs, every kind of failure refuses, and no message names a user."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import made_releases as made
import numpy as np
import pytest

from checks import gate, registry
from checks.about import About
from checks.evidence.release import Release
from checks.gate import judge_case, verify
from checks.linkage.drawn_knowledge import draw_knowledge
from checks.linkage.knowledge import Model
from checks.registry import Check, registered
from checks.result import NO_RECORDS, REDACTED, CheckResult, Finding, Verdict
from checks.stats import corrected_for
from tasks.config.gate import check_names, check_summaries
from tasks.errors import Refused, UsageError
from tasks.store import read_json, write_json

FIELDS = {
    *("name", "passed", "applicable", "void", "observed", "threshold"),
    *("ci_low", "ci_high", "n", "severity", "detail"),
}


MADE_UP = About(
    title="Made up", summary="Find something", knows="All.", tries="It.", means="Much.", measure="share"
)


def one(case, run, **settings) -> CheckResult:
    """The gate's result for a check made up on the spot."""
    how = {
        "threshold": 1.0,
        "severity": "gate",
        "controlled": False,
        "offline": False,
        "about": MADE_UP,
        "kind": "attacks",
    } | settings
    return gate.run_check(Check("made-up", run=run, **how), case, how["threshold"])


def test_every_file_is_a_check_and_every_check_is_a_file():
    assert sorted(registered()) == check_names()
    assert {c.name for c in registered().values() if c.severity == "advisory"} == {"unprotected-attributes"}


def test_the_command_line_reads_what_the_checks_declare():
    declared = {name: check.about.summary for name, check in registered().items()}
    assert check_summaries() == declared
    assert check_summaries(("attacks",)).keys() < declared.keys()
    assert "" not in declared.values()
    assert len({check.about.title for check in registered().values()}) == len(declared)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"summary": "Find " * 20}, "longer than 54"),
        ({"knows": "no full stop"}, "whole sentences"),
        ({"means": ""}, "is empty"),
        ({"measure": "an upper_bound"}, "identifier"),
    ],
)
def test_words_that_a_page_cannot_show_are_refused(words, problem):
    with pytest.raises(ValueError, match=problem):
        replace(MADE_UP, **words)


def test_order_does_not_depend_on_imports(monkeypatch):
    before = list(registered())
    monkeypatch.setattr(registry, "_REGISTER", dict(reversed(registry._REGISTER.items())))
    assert list(registered()) == before


def test_a_check_must_be_called_after_its_file():
    with pytest.raises(ValueError, match="finds checks by file name"):
        registry.check("another-name", threshold=0, about=MADE_UP)(lambda case, threshold: None)


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_a_good_release_passes_every_check(case, name):
    verdict = judge_case(case(name), {})
    assert verdict.passed, verdict.to_json()
    assert [check.name for check in verdict.checks] == list(registered())
    written = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert all(set(check) == FIELDS for check in written["checks"])
    assert [c["name"] for c in written["checks"] if not c["passed"]] == []
    if name == "padded":  # every group holds every item: what cannot fail here is no evidence
        others = {"rare-items", "kmeans-reconstruction", "pca-reconstruction", "svd-em-reconstruction"}
        assert set(verdict.not_applicable) >= {*PRESENCE, *others, "attribute-inference"}
    else:
        assert not {"link-existence", "diversity"} & set(verdict.not_applicable)
    assert set(verdict.not_applicable) >= set(LINKAGE)  # k people share every profile: none can exceed 1/k


LINKAGE = (
    *("set-intersection", "tf-idf", "scoring", "exact-rating", "fuzzy-rating"),
    *("scoreboard-rh", "nearest-record", "structure-based", "label-based"),
)
PRESENCE = ("set-intersection", "tf-idf", "scoring", "structure-based", "link-existence", "diversity")


def test_a_claimed_method_makes_no_check_inapplicable(releases, tmp_path):
    """The manifest says that every group is padded; one group without one item shows that it is not so."""
    values = releases["padded"].values.copy()
    values[0, 0] = np.nan
    opened = made.case(releases["padded"].but(values=values), tmp_path)
    results = {  # 0.1: less than 1/k, so that k alone does not decide
        name: gate.run_check(registered()[name], opened, min(0.1, registered()[name].threshold))
        for name in PRESENCE
    }
    assert all(result.applicable for result in results.values())


def test_too_few_groups_fail_diversity(case):
    """It cannot fail for a missing item here, but for a missing group."""
    opened = case("padded")
    opened.release.l = opened.release.n_groups + 1
    result = gate.run_check(registered()["diversity"], opened, 1)
    assert (result.passed, result.applicable) == (False, True)


def test_the_same_release_gives_the_same_verdict(case):
    opened = case("padded")
    again = dataclasses.replace(opened)  # without anything computed before
    assert judge_case(opened, {}).to_json() == judge_case(again, {}).to_json()


def test_crash_fails_without_quoting_data(case):
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
            case(),
            lambda c, t, succeeds=control: Finding(True, 0.0, 5, "fine", control=succeeds),
            controlled=True,
        )
        assert not result.passed
        assert result.void
        assert "positive control did not succeed" in result.detail
    assert one(case(), lambda c, t: Finding(True, 0.0, 5, "fine", control=True), controlled=True).passed


def test_fewer_trials_than_planned_void_a_check(case):
    short = one(case(), lambda c, t: Finding(True, 0.0, 4, "fine", planned=5))
    assert (short.passed, short.void) == (False, True)
    full = one(case(), lambda c, t: Finding(True, 0.0, 5, "fine", planned=5))
    assert (full.passed, full.void) == (True, False)


def test_a_loosened_check_can_be_void(case):
    """Both facts hold at once; when they were prefixes of `detail`, the second one hid the first."""
    check = Check(
        "made-up",
        1.0,
        "gate",
        True,
        False,
        lambda c, t: Finding(True, 0.0, 5, "fine", control=False),
        MADE_UP,
        "attacks",
    )
    result = gate.run_check(check, case(), 2.0)
    assert (result.passed, result.void, result.loosened) == (False, True, True)
    assert result.to_json()["void"]
    assert "loosened the threshold to 2 (default 1)" in result.to_json()["detail"]
    assert Verdict([result]).to_json()["loosened"] == ["made-up"]


def test_unfinished_checks_are_void(case):
    def crash(case, threshold):
        raise KeyError("person 17")

    assert one(case(), crash).void


def test_a_failed_check_is_applicable(case):
    """A check cannot claim that it was unable to fail when it has failed."""
    for passed, control in ((False, True), (True, False)):
        finding = Finding(passed, 0.0, 5, "fine", control=control, applicable=False)
        assert one(case(), lambda c, t, found=finding: found, controlled=True).applicable
    finding = Finding(True, 0.0, 5, "fine", control=True, applicable=False)
    assert not one(case(), lambda c, t: finding, controlled=True).applicable


def test_attempts_widen_intervals_and_are_stated(case):
    opened = case("simple")
    check = registered()["exact-rating"]
    once = gate.run_check(check, opened, check.threshold)
    with corrected_for(4):
        often = gate.run_check(check, opened, check.threshold)
        verdict = Verdict([often], 4)
    assert often.ci_low <= once.ci_low <= once.ci_high <= often.ci_high
    assert often.ci_high > once.ci_high
    assert often.outcomes[0].to_json()["ci_high"] > once.outcomes[0].to_json()["ci_high"]  # read outside
    assert often.to_json()["detail"].startswith("Attempt 4 at this release. ")
    assert "Attempt 4 at this release: intervals are of 98.75 %, not 95 %." in verdict.headline
    assert verdict.to_json()["attempts"] == 4
    assert "ttempt" not in once.detail + Verdict([once]).headline


def result_of(name, *, passed=True, severity="gate", **facts):
    return CheckResult(name, passed, 1, 1, None, None, 1, severity, "", **facts)


@pytest.mark.parametrize(
    ("checks", "headline"),
    [
        (
            [
                *(result_of("a"), result_of("b"), result_of("c", applicable=False)),
                result_of("series", passed=False, severity="advisory"),
            ],
            "Passed: all 2 gating checks. 1 advisory warning: series. 1 check is not applicable to this release.",
        ),
        (
            [result_of("a", passed=False), result_of("b", passed=False, void=True), result_of("c")],
            "Refused: 2 of 3 gating checks failed: a, b (void).",
        ),
        ([], "Refused: no applicable gating check was run."),
        (
            [result_of("a", applicable=False)],
            "Refused: no applicable gating check was run. 1 check is not applicable to this release.",
        ),
    ],
)
def test_headline_counts_applicable_checks(checks, headline):
    assert Verdict(checks).headline == headline
    read = [CheckResult.from_json(check.to_json()) for check in checks]
    assert Verdict(read).headline == headline


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
    shown = result.to_json()
    assert (shown["observed"], shown["threshold"], shown["ci_low"], shown["ci_high"]) == (
        None,
        None,
        None,
        0.123457,
    )


def test_verify_needs_the_published_files_only(case):
    opened = case("simple")
    verdict = verify(opened.release.directory)
    assert verdict.passed
    assert [check.name for check in verdict.checks] == ["diversity", "integrity", "k-anonymity", "budget"]
    assert verdict.not_applicable == ["budget"]


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


def test_no_detail_contains_a_source_id(releases, tmp_path):
    """Ids that no sentence of ours contains; a refused release has the most to say."""
    for name in ("padded", "single contributors"):
        ids = [f"zqx{number}" for number in range(len(releases[name].group_of))]
        named = made.case(releases[name].but(user_ids=ids), tmp_path / name)
        assert "zqx" not in json.dumps(judge_case(named, {}).to_json())


def test_the_threat_model_names_every_check_with_its_default():
    text = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    shown = {row[0]: row[3] for row in rows if len(row) == 5 and row[0] not in ("check", "---")}
    assert {name: float(default) for name, default in shown.items()} == {
        name: check.threshold for name, check in registered().items()
    }


def test_targets_follow_from_the_fingerprint(case, monkeypatch):
    """Targets cannot be known before publishing; every audit attacks the same ones; pseudonyms decide, not rows."""
    monkeypatch.setattr("checks.evidence.case.sample_size", lambda half_width: 50)

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
            draw_knowledge(replace(opened.truth, salt=salt), np.arange(30), model).items.tolist()
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


# Synthetic rows (docs/dp.md)


def dp_release(case):
    """The same case with a release of the method dp-synthetic."""
    opened = case("padded")
    opened.release.manifest["method"] = "dp-synthetic"
    return opened


def test_a_check_judges_only_the_units_it_is_declared_for(case):
    """What examines groups finds nothing in synthetic rows, and says so in one sentence, whatever it would answer."""

    def fail(case, threshold):
        return Finding(False, 0.7, 10, "a figure 0.7", 0.6, 0.8)

    synthetic = dp_release(case)
    line = one(synthetic, fail)
    assert (line.passed, line.applicable, line.n, line.detail) == (True, False, 0, NO_RECORDS)
    assert not one(synthetic, fail, units=("group", "synthetic")).passed
    line = one(case("simple"), fail, units=("synthetic",))
    assert (line.passed, line.applicable, line.detail) == (True, False, gate.NO_BUDGET)


def test_a_public_line_without_figures():
    line = CheckResult("x", True, 0.71, 0.9, 0.61, 0.81, 512, "gate", "of 1,234 people", loosened=True)
    shown = Verdict([line], attempts=3).redacted({"x": 0.5}, ["x"])
    assert shown.attempts == 1
    written = json.dumps([check.to_json() for check in shown.checks])
    assert not any(figure in written for figure in ("71", "61", "81", "512", "1,234", "0.9"))
    assert read_json_text(written) == {
        **{"name": "x", "passed": True, "applicable": True, "void": False, "severity": "gate"},
        **{"observed": None, "threshold": 0.5, "ci_low": None, "ci_high": None, "n": 0},
    }


def test_what_was_found_does_not_show_in_whether_a_check_applies():
    """Whether there was anybody to attack is a figure of the data: the public line has what the method says."""
    lines = [
        CheckResult("x", True, None, 0.9, None, None, 0, "gate", "y", applicable=found)
        for found in (True, False)
    ]
    for applying in (["x"], []):
        shown = [Verdict([line]).redacted({"x": 0.5}, applying).checks[0].to_json() for line in lines]
        assert shown[0] == shown[1]
        assert shown[0]["applicable"] is bool(applying)


def read_json_text(text: str) -> dict:
    """The only line without its sentence, which is fixed."""
    [line] = json.loads(text)
    assert line.pop("detail") == REDACTED
    return line
