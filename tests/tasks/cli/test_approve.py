"""Test `murmur approve`: with `approval = true` nothing is published before a person lets this candidate out."""

import json
import os
import pwd
import shutil
from pathlib import Path

import pytest

from checks.result import CheckResult, Verdict
from tasks.cli import main
from tasks.series import publication
from tasks.steps import validate
from tasks.store import digest, read_json, write_json

pytestmark = pytest.mark.slow

CONFIG = """
[release]
name = "signed"
approval = {approval}
[source]
format = "synthetic"
[source.synthetic]
users = 60
items = 20
ratings_per_user = 8.0
[padding]
rank = 3
iterations = 2
"""


def murmur(capsys, *arguments) -> tuple[int, dict, str]:
    """Exit code, the JSON on stdout, and what went to stderr."""
    capsys.readouterr()
    code = main([*map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def stub_gate(patch, *, passes: bool) -> None:
    """Replace the verdict: what the gate finds is not the subject here."""
    line = CheckResult("made-up", passes, 0.0, 0.0, None, None, 1, "gate", "as the test says")
    patch.setattr(validate, "judge", lambda *_: Verdict([line]))


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """Run a release with approval once; return its config, store, exit code and what was printed."""
    place = tmp_path_factory.mktemp("waiting")
    config = place / "signed.toml"
    config.write_text(CONFIG.format(approval="true"))
    with pytest.MonkeyPatch.context() as patch:
        stub_gate(patch, passes=True)
        code = main(
            ["run", str(config), "--snapshot", "2026-01-01", "--store", str(place / "store"), "--json"]
        )
    assert code == 3
    return config, place / "store"


@pytest.fixture
def candidate(waiting, tmp_path):
    """Return the candidate of a copy of that store."""
    shutil.copytree(waiting[1], tmp_path / "store")
    return tmp_path / "store" / "private" / "signed" / "2026-01-01" / "work" / "validate" / "candidate"


def published(store: Path) -> Path:
    return store / "published" / "signed" / "2026-01-01"


def test_run_does_not_publish(waiting, capsys):
    """The gate passed it; the answer is a refusal that names the candidate and both ways on."""
    config, store = waiting
    code, answer, err = murmur(capsys, "run", config, "--snapshot", "2026-01-01", "--store", store)
    assert code == 3
    assert (answer["status"], answer["published"]) == ("refused", None)
    assert answer["candidate"].endswith("work/validate/candidate")
    assert Path(answer["report"]).exists()
    assert [check["name"] for check in answer["checks"]] == ["made-up"]
    assert f"murmur approve {answer['candidate']}" in err
    assert "release_signed" in err
    assert not (store / "published").exists()


def test_approve_publishes_and_records(candidate, waiting, tmp_path, capsys):
    """Approval publishes the candidate's bytes, and the private directory says who did it and when."""
    store = tmp_path / "store"
    code, answer, _ = murmur(capsys, "approve", candidate)
    assert code == 0
    assert answer["status"] == "published"
    place = published(store)
    assert answer["published"] == str(place)
    for file in ("groups.parquet", "members.parquet", "items.parquet", "checks.json", "report.html"):
        assert digest(place / file) == digest(candidate / file)
    assert read_json(place / "manifest.json")["created_at"]
    record = read_json(candidate.parents[2] / "approval.json")
    assert record["approved_by"] == pwd.getpwuid(os.getuid()).pw_name
    assert record["approved_by_uid"] == os.getuid()
    assert record["approved_at"] == answer["approved_at"]
    assert (candidate.parents[2] / "approval.json").stat().st_mode & 0o777 == 0o600
    assert (candidate.parents[2] / "membership.parquet").exists()
    assert not any("approv" in file.read_text(errors="replace") for file in place.glob("*.json"))
    # Approved once, it is published; the same command again, and a run, find it so.
    assert murmur(capsys, "approve", candidate)[1]["approved_at"] == record["approved_at"]
    code, answer, _ = murmur(capsys, "run", waiting[0], "--snapshot", "2026-01-01", "--store", store)
    assert (code, answer["status"], answer["candidate"]) == (0, "published", None)


def test_the_private_directory_names_the_candidate_too(candidate, capsys):
    assert murmur(capsys, "approve", candidate.parents[2])[0] == 0


@pytest.mark.parametrize(
    "file", ["candidate/groups.parquet", "candidate/report.html", "private/membership.parquet"]
)
def test_an_edited_candidate_is_refused(candidate, tmp_path, capsys, file):
    with (candidate.parent / file).open("ab") as opened:
        opened.write(b" ")
    code, answer, _ = murmur(capsys, "approve", candidate)
    assert code == 3
    assert "not what the gate examined" in answer["error"]["what"]
    assert not (tmp_path / "store" / "published").exists()
    assert not (candidate.parents[2] / "approval.json").exists()


def test_a_mended_digest_does_not_help(candidate, tmp_path, capsys):
    """A file changed together with its digest in the manifest: the manifest is not what the gate examined either."""
    items = candidate / "items.parquet"
    items.write_bytes(items.read_bytes() + b" ")
    manifest = read_json(candidate / "manifest.json")
    manifest["files"]["items.parquet"] = digest(items)
    write_json(candidate / "manifest.json", manifest)
    assert murmur(capsys, "approve", candidate)[0] == 3
    (candidate.parent / "extra.txt").write_text("x")
    assert murmur(capsys, "approve", candidate)[0] == 3
    assert not (tmp_path / "store" / "published").exists()


def test_a_refused_candidate_cannot_be_approved(tmp_path, capsys, monkeypatch):
    config = tmp_path / "signed.toml"
    config.write_text(CONFIG.format(approval="true"))
    stub_gate(monkeypatch, passes=False)
    arguments = ("run", config, "--snapshot", "2026-01-01", "--store", tmp_path / "store")
    code, answer, err = murmur(capsys, *arguments)
    assert (code, answer["status"], answer["candidate"]) == (3, "refused", None)
    assert "murmur approve" not in err
    place = tmp_path / "store" / "private" / "signed" / "2026-01-01"
    for path in (place, place / "work" / "validate", place / "work" / "validate" / "candidate"):
        code, answer, _ = murmur(capsys, "approve", path)
        assert code == 3
        assert "has not passed" in answer["error"]["what"]
    assert not (tmp_path / "store" / "published").exists()


def test_a_verdict_of_another_version_does_not_count(candidate, capsys, monkeypatch):
    monkeypatch.setattr("tasks.pipeline.code_version", lambda: "another")
    code, answer, _ = murmur(capsys, "approve", candidate)
    assert code == 3
    assert "another version" in answer["error"]["what"]


def test_a_candidate_is_approved_where_it_was_made(candidate, tmp_path, capsys):
    """Moved to another snapshot's directory it would replace that snapshot."""
    other = tmp_path / "store" / "private" / "signed" / "2026-02-01"
    shutil.copytree(candidate.parents[2], other)
    code, answer, _ = murmur(capsys, "approve", other)
    assert code == 3
    assert "another release or snapshot" in answer["error"]["what"]


def test_what_is_no_candidate_is_wrong_usage(tmp_path, capsys):
    for path in (tmp_path, tmp_path / "missing"):
        code, answer, _ = murmur(capsys, "approve", path)
        assert code == 2
        assert "no candidate" in answer["error"]["what"]


def test_without_approval_the_same_code_publishes_at_once(candidate, tmp_path, capsys, monkeypatch):
    """The step `publish` and `murmur approve` share one function, so their releases have the same bytes."""
    calls, put = [], publication._put_in_place
    monkeypatch.setattr(publication, "_put_in_place", lambda *given: calls.append(given) or put(*given))
    assert murmur(capsys, "approve", candidate)[0] == 0
    config = tmp_path / "signed.toml"
    config.write_text(CONFIG.format(approval="false"))
    stub_gate(monkeypatch, passes=True)
    code, answer, _ = murmur(capsys, "run", config, "--snapshot", "2026-01-01", "--store", tmp_path / "other")
    assert (code, answer["status"]) == (0, "published")
    assert len(calls) == 2
    for file in ("groups.parquet", "members.parquet", "items.parquet", "checks.json"):
        assert digest(published(tmp_path / "other") / file) == digest(published(tmp_path / "store") / file)


@pytest.fixture
def several(candidate, waiting, tmp_path):
    """Let ann and bob sign before anything is published; return the release file and their keys."""
    store = tmp_path / "store"
    config = tmp_path / "signed.toml"
    config.write_text(CONFIG.format(approval='false\napprovers = ["ann", "bob"]'))
    keys = {}
    for name in ("ann", "bob", "eve"):
        keys[name] = tmp_path / f"{name}.pem"
        assert main(["keys", "person", str(keys[name])]) == 0
        if name != "eve":
            assert main(["keys", "trust", name, f"{keys[name]}.pub", "--store", str(store)]) == 0
    return config, keys


def test_several_approvers_sign_and_another_person_publishes(
    several, candidate, tmp_path, capsys, monkeypatch
):
    """The whole way on the command line; at each point before the last nothing is public."""
    (config, keys), store = several, tmp_path / "store"
    stub_gate(monkeypatch, passes=True)
    again = ("run", config, "--snapshot", "2026-01-01", "--store", store)
    code, answer, err = murmur(capsys, *again)
    assert (code, answer["status"]) == (3, "refused")
    assert "2 approvers must sign this candidate, and 0 did" in answer["why"]
    assert answer["candidate"]
    assert "--key FILE" in err
    assert murmur(capsys, "approve", candidate)[0] == 3  # without a key, as where one person is enough
    assert not (candidate.parents[2] / "approval.json").exists()
    code, answer, _ = murmur(capsys, "approve", candidate, "--key", keys["eve"])
    assert (code, "not one of an approver" in answer["error"]["what"]) == (2, True)
    code, answer, _ = murmur(capsys, "approve", candidate, "--key", keys["ann"])
    assert (code, answer["approved_by"], answer["next"]) == (0, ["ann"], "1 more must sign")
    assert murmur(capsys, *again)[0] == 3
    code, answer, _ = murmur(capsys, "approve", candidate, "--key", keys["bob"])
    assert (answer["status"], answer["approved_by"], answer["not_counted"]) == ("signed", ["ann", "bob"], [])
    assert not (store / "published").exists()
    code, answer, _ = murmur(capsys, *again)
    assert (code, answer["status"]) == (0, "published")
    assert murmur(capsys, *again)[1]["already_published"]


def test_who_triggered_the_run_cannot_sign(several, candidate, tmp_path, capsys, monkeypatch):
    (config, keys), store = several, tmp_path / "store"
    stub_gate(monkeypatch, passes=True)
    monkeypatch.setattr("tasks.data.actor.account_name", lambda: "bob")
    assert murmur(capsys, "run", config, "--snapshot", "2026-01-01", "--store", store)[0] == 3
    code, answer, _ = murmur(capsys, "approve", candidate, "--key", keys["bob"])
    assert (code, "bob triggered a run" in answer["error"]["what"]) == (3, True)
    assert not list(candidate.parents[2].glob("approvals/*"))


def test_a_release_file_without_the_rule_is_refused(several, candidate, tmp_path, capsys, monkeypatch):
    """Whoever may write release files could otherwise let a release out alone."""
    (config, _), store = several, tmp_path / "store"
    stub_gate(monkeypatch, passes=True)
    assert murmur(capsys, "run", config, "--snapshot", "2026-01-01", "--store", store)[0] == 3
    config.write_text(CONFIG.format(approval="false"))
    code, answer, _ = murmur(capsys, "run", config, "--snapshot", "2026-01-01", "--store", store)
    assert code == 2
    assert "asks for no approval, and the store has the rule 2 of ann, bob" in answer["error"]["what"]
    assert not (store / "published").exists()


def test_a_key_without_a_rule_is_wrong_usage(candidate, tmp_path, capsys):
    main(["keys", "person", str(tmp_path / "ann.pem")])
    code, answer, _ = murmur(capsys, "approve", candidate, "--key", tmp_path / "ann.pem")
    assert (code, "no approvers" in answer["error"]["what"]) == (2, True)
