"""Test the check `budget` on releases of a store: what it accepts, and that every planted contradiction fails."""

import pytest

from checks.evidence.opened_cases import candidate_case
from checks.gate import audit, run_check, verify
from checks.registry import registered
from checks.series.budget import Payment, epsilon_of
from tasks.config import Budget, Source
from tasks.kernels import privacy_accounting
from tasks.series import budget as ledgers_rule
from tasks.store import read_json, write_json
from tests.contracts import CheckContract
from tests.tasks.series.made_synthetic import MONTHS, SyntheticSeries, day, edit_manifest


class TestContract(CheckContract):
    """A fourth release within a year whose budget is for three."""

    name = "budget"

    @pytest.fixture(scope="class")
    def open_release(self, tmp_path_factory):
        def opened(*earlier):
            made = SyntheticSeries(tmp_path_factory.mktemp("budget"))
            for snapshot in earlier:
                made.publish(snapshot)
            source = Source(format="csv", path=str(made.source), scale=(1, 5))
            return candidate_case(*made.candidate("2026-04-01"), source, day("2026-04-01"))

        return opened

    def violation(self, opened):
        return opened("2026-01-01", "2026-02-01", "2026-03-01")

    def harmless(self, opened):
        return opened("2026-01-01", "2026-02-01")


# A release that no step made has no shadow run.
FROM_A_SHADOW = {"utility", "dp-audit", "copied-rows", "row-membership"}
FIGURES = ("107", "321")  # people and ratings of the source


@pytest.fixture
def series(tmp_path, monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    return SyntheticSeries(tmp_path)


def judged(series, public, private, snapshot):
    """Run the check as the gate does."""
    source = Source(format="csv", path=str(series.source), scale=(1, 5))
    check = registered()["budget"]
    return run_check(check, candidate_case(public, private, source, day(snapshot)), check.threshold)


@pytest.mark.parametrize("delta", [1e-3, 1e-9])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_the_judges_conversion_agrees_with_the_mechanisms(epsilon, delta):
    """Two ways to the same minimum, written independently."""
    rho = privacy_accounting.rho_of(epsilon, delta)
    assert epsilon_of([Payment(rho, 0.0)], delta) == pytest.approx(epsilon, rel=1e-7)
    assert epsilon_of([Payment(rho / 4, 0.0)] * 4, delta) == pytest.approx(epsilon, rel=1e-7)
    assert epsilon_of([Payment(rho, delta)], delta) == float("inf")


def test_releases_within_the_budget(series):
    series.publish("2026-01-01")
    series.publish("2026-02-01")
    line = judged(series, *series.candidate("2026-03-01"), "2026-03-01")
    assert (line.passed, line.observed, line.n) == (True, 0, 3)
    assert line.detail.startswith("3 release(s) of the period spent epsilon 3 of 3")


def test_a_fourth_release_is_refused(series):
    for snapshot in ("2026-01-01", "2026-02-01", "2026-03-01"):
        series.publish(snapshot)
    line = judged(series, *series.candidate("2026-04-01"), "2026-04-01")
    assert not line.passed
    assert "together with 3 earlier release(s) epsilon is 3.5" in line.detail
    assert judged(series, *series.candidate("2027-01-01"), "2027-01-01").passed


def test_withdrawn_and_hidden_releases_count(series):
    """A release that the ledger does not have any more was public, and its manifest still says what it spent."""
    from tasks.series.withdrawal import withdraw
    from tests.tasks.series.made_synthetic import NAME, POPULATION

    for snapshot in ("2026-01-01", "2026-02-01", "2026-03-01"):
        series.publish(snapshot)
    withdraw(series.store, POPULATION, NAME, "2026-01-01", "a wrong file was read")
    assert "3 earlier" in judged(series, *series.candidate("2026-04-01"), "2026-04-01").detail
    (series.store.root / "private" / "ledger" / f"{POPULATION}.db").unlink()
    (series.store.root / "private" / "ledger" / f"{POPULATION}.key").unlink()
    line = judged(series, *series.candidate("2026-05-01"), "2026-05-01")
    assert not line.passed
    assert "manifest and ledger disagree" in line.detail


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.5}, "epsilon does not follow from rho"),
        ({"rho": 1e-9}, "epsilon does not follow from rho"),
        ({"delta": 1e-4}, "delta is larger than the budget's"),
        ({"budget": {**MONTHS.model_dump(), "epsilon": 1.0}}, "more than the budget's 1"),
    ],
)
def test_a_manifest_that_contradicts_itself(series, change, words):
    """Found offline, too: no store is needed."""
    public, private = series.candidate("2026-01-01")
    edit_manifest(public, privacy=read_json(public / "manifest.json")["privacy"] | change)
    line = judged(series, public, private, "2026-01-01")
    assert not line.passed
    assert words in line.detail
    [offline] = [one for one in verify(public).checks if one.name == "budget"]
    assert (offline.passed, offline.void) == (False, False)


def test_a_manifest_that_states_less_than_the_mechanism_spent(series):
    public, private = series.candidate("2026-01-01")
    account = read_json(private / "spent.json")
    write_json(private / "spent.json", account | {"parts": {**account["parts"], "ratings": 0.1}})
    line = judged(series, public, private, "2026-01-01")
    assert (line.passed, "the mechanism spent more than the manifest states" in line.detail) == (False, True)
    (private / "spent.json").unlink()
    assert "not among the owner's files" in judged(series, public, private, "2026-01-01").detail


def test_a_past_manifest_that_was_changed(series):
    series.publish("2026-01-01")
    public = series.public("2026-01-01")
    edit_manifest(
        public, privacy=read_json(public / "manifest.json")["privacy"] | {"rho": 1e-9, "epsilon": 1e-4}
    )
    line = judged(series, *series.candidate("2026-02-01"), "2026-02-01")
    assert not line.passed
    assert "disagree about what they spent" in line.detail


def test_an_audit_counts_what_was_there_before(series):
    """A limit that was raised later does not change the verdict on an earlier release."""
    for snapshot in ("2026-01-01", "2026-02-01", "2026-03-01"):
        series.publish(snapshot)
    series.publish("2026-04-01", Budget(epsilon=9.0, per="year", releases=3))
    line = judged(series, series.public("2026-03-01"), series.private("2026-03-01"), "2026-03-01")
    assert (line.passed, line.n) == (True, 3)


def test_outside_a_store_nothing_is_shown(series, tmp_path):
    public, private = series.candidate("2026-01-01")
    elsewhere = private.rename(tmp_path / "elsewhere")
    line = judged(series, public, elsewhere, "2026-01-01")
    assert (line.passed, "belongs to no store" in line.detail) == (False, True)


def test_a_ledger_that_let_too_much_pass_is_found(series, monkeypatch):
    """The rule of the ledger is another program's: the judge adds up for itself."""
    monkeypatch.setattr(ledgers_rule, "require_within", lambda *_: None)
    for snapshot in ("2026-01-01", "2026-02-01", "2026-03-01", "2026-04-01"):
        series.publish(snapshot)
    line = judged(series, series.public("2026-04-01"), series.private("2026-04-01"), "2026-04-01")
    assert "together with 3 earlier" in line.detail


# The rest of the gate on synthetic rows


def test_the_published_files_alone(series):
    verdict = verify(series.publish("2026-01-01"))
    assert verdict.passed, verdict.to_json()
    applicable = {check.name for check in verdict.checks if check.applicable}
    assert applicable == {"integrity", "budget"}


def test_the_whole_gate(series):
    """What is about groups and people does not apply; the files are compared with the ledger and the source."""
    public = series.publish("2026-01-01")
    source = Source(format="csv", path=str(series.source), scale=(1, 5))
    verdict = audit(public, series.private("2026-01-01"), source)
    applicable = {check.name for check in verdict.checks if check.applicable} - FROM_A_SHADOW
    assert {"integrity", "budget", "public-figures"} <= applicable
    assert not applicable & {"k-anonymity", "diversity", "series", "catalogue", "pseudonyms", "ordering"}
    assert [
        check.to_json() for check in verdict.checks if not check.passed and check.name in applicable
    ] == []


BAD = [
    ({"counts": {"users": 107, "items": 3, "groups": 4, "ratings": 8}}, "counts of people"),
    ({"withheld": {"users": 0, "items": 1, "why": ""}}, "withheld people or items"),
    ({"withheld": {"users": 0, "items": 0, "why": "one left"}}, "withheld people or items"),
    ({"series": "checked"}, "claims about a series"),
    ({"privacy": {"k": 5, "l": 2, "b": 1, "min_contributors": 3}}, None),
    ({"rating_scale": [1.0, 2.0]}, "ratings off the scale"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_edited_manifests_are_refused(series, change, words):
    public = series.publish("2026-01-01")
    edit_manifest(public, **change)
    verdict = verify(public)
    assert not verdict.passed
    assert words is None or any(words in check.detail for check in verdict.checks if not check.passed)


def test_a_line_with_a_figure_is_refused(series):
    public = series.publish("2026-01-01")
    manifest = read_json(public / "manifest.json")
    for change, words in (
        ({"observed": 0.2}, "figures measured"),
        ({"detail": "of 107 people"}, "other words"),
    ):
        lines = [line | change if line["name"] == "integrity" else line for line in manifest["checks"]]
        edit_manifest(public, checks=lines)
        write_json(public / "checks.json", lines)
        [line] = [check for check in verify(public).checks if check.name == "integrity"]
        assert words in line.detail


def test_an_exact_number_of_the_source_is_found(series):
    """Planted where words are allowed in other releases; the release's own counts are not looked at."""
    public, private = series.candidate("2026-01-01")
    source = Source(format="csv", path=str(series.source), scale=(1, 5))
    check = registered()["public-figures"]

    def judge_figures():
        return run_check(check, candidate_case(public, private, source, day("2026-01-01")), check.threshold)

    assert judge_figures().passed
    for figure in FIGURES:
        lines = read_json(public / "manifest.json")["checks"]
        edit_manifest(
            public, checks=[line | {"detail": f"of {figure} people"} for line in lines[:1]] + lines[1:]
        )
        assert judge_figures().observed == 1
        edit_manifest(public, checks=lines)


def test_a_real_row_copied_in_is_found(series, tmp_path):
    """The digests of the candidate do not match any more; mended, they do not match the ledger's."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tasks.store import digest

    public = series.publish("2026-01-01")
    path = public / "groups.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[0] |= {"items": [0, 1, 2], "ratings": bytes([0, 10, 20])}
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    assert "differ from their digest" in _failed(verify(public))
    manifest = read_json(public / "manifest.json")
    counts = manifest["counts"] | {"ratings": manifest["counts"]["ratings"] + 1}
    edit_manifest(public, files=manifest["files"] | {"groups.parquet": digest(path)}, counts=counts)
    assert verify(public).passed  # the files agree with each other again
    source = Source(format="csv", path=str(series.source), scale=(1, 5))
    found = _failed(audit(public, series.private("2026-01-01"), source))
    assert "manifests that differ from the ledger's digest" in found


def test_people_in_synthetic_rows_are_refused(series):
    import pyarrow as pa
    import pyarrow.parquet as pq

    public = series.publish("2026-01-01")
    listed = {"user": pa.array(["p1"]), "group": pa.array([0], pa.int32())}
    pq.write_table(pa.table(listed), public / "members.parquet")
    assert "people listed in a release of synthetic rows" in _failed(verify(public))


def _failed(verdict) -> str:
    return " ".join(check.detail for check in verdict.checks if not check.passed)
