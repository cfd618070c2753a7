"""Test the rule of several approvers: publication counts signatures itself, whoever asks it to publish."""

import datetime
import json
import shutil

import pytest

from tasks.cli import main
from tasks.config import parse
from tasks.data.actor import Actor, act_for, acting, record_trigger, triggers_of
from tasks.data.approval import AwaitsApproval
from tasks.errors import Refused, UsageError
from tasks.signatures.approvals import Subject, sign_approval
from tasks.signatures.approvers import Approvers, Rule, make_personal_key, read_public
from tasks.signatures.envelope import key_id
from tasks.signatures.owner_keys import OwnerKeys, read_private
from tasks.store import Store, digest_of, read_json, write_json
from tests.tasks.series.made_series import make_candidate, publish_candidate

JANUARY = "2026-01-01"
PEOPLE = ("ann", "bob", "cid")
RULE = Rule(PEOPLE, 2)
OPERATOR = Actor("otto", "airflow", "run 1")


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    for name in ("MURMUR_LEDGER", "MURMUR_SIGNING_KEY", "MURMUR_APPROVERS"):
        monkeypatch.delenv(name, raising=False)


class Waiting:
    """Hold a candidate that the gate passed, the people who may approve it, and their keys."""

    def __init__(self, directory) -> None:
        self.store, self.directory = Store(directory / "store"), directory
        self.people = Approvers(self.store)
        self.keys = {}
        for name in PEOPLE:
            self.add_key(name)
        self.people.set_rule("films", RULE)
        self.place = make_candidate(
            directory / "made", self.store, JANUARY, ["u1", "u2", "u3", "u4"], items=["x", "y"]
        )
        self.private = self.store.root / "private" / "films" / JANUARY
        with act_for(OPERATOR):
            record_trigger(self.private, self.store.root)

    def add_key(self, name: str, **more) -> str:
        made = make_personal_key(self.directory / f"{name}-{len(self.people.listed())}.pem")
        self.keys[name] = read_private(self.directory / f"{name}-{len(self.people.listed())}.pem")
        self.people.trust(name, read_public(self.directory / made["public_key"]), **more)
        return made["keyid"]

    @property
    def subject(self) -> Subject:
        return Subject("films", JANUARY, digest_of(read_json(self.place / "step.json")["files"]))

    def sign(self, name: str, subject: Subject | None = None, **more):
        given = {"triggers": triggers_of(self.private), **more}
        return sign_approval(self.private, self.store.root, subject or self.subject, self.keys[name], **given)

    def publish(self, actor: Actor = OPERATOR) -> None:
        with act_for(actor):
            publish_candidate(self.place, self.store, JANUARY)

    @property
    def is_public(self) -> bool:
        return (self.store.root / "published" / "films" / JANUARY).exists()

    def refused(self, why: str, actor: Actor = OPERATOR) -> None:
        """Expect that publication refuses, that nothing is public, and that the ledger knows of no publication."""
        with pytest.raises(AwaitsApproval, match=why):
            self.publish(actor)
        assert not (self.store.root / "published").exists()
        assert not list(self.store.root.glob("private/films/*/membership.parquet"))


@pytest.fixture
def waiting(tmp_path):
    return Waiting(tmp_path)


def test_two_approvers_let_a_candidate_out(waiting):
    waiting.refused("2 approvers must sign this candidate, and 0 did")
    waiting.sign("ann")
    waiting.refused(r"and 1 did \(ann\)")
    path = waiting.sign("bob")
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert oct(path.parent.stat().st_mode & 0o777) == "0o700"
    waiting.publish()
    assert waiting.is_public
    for file in (waiting.store.root / "published").rglob("*"):
        if file.is_file():
            assert not any(name in file.read_bytes() for name in (b"ann", b"otto", b"approv"))
    waiting.publish()  # published already: nothing is asked again


def test_one_approver_who_signs_twice_counts_once(waiting):
    waiting.sign("ann")
    waiting.sign("ann", now=datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1))
    waiting.refused(r"1 did \(ann\)")
    first = waiting.keys["ann"]
    waiting.add_key("ann")  # a second key of the same person
    waiting.sign("ann")
    assert key_id(first.public_key()) != key_id(waiting.keys["ann"].public_key())
    assert len(list((waiting.private / "approvals").iterdir())) == 2
    waiting.refused(r"1 did \(ann\)")


def test_an_approver_who_triggered_a_run_does_not_count(waiting):
    with act_for(Actor("ann", "airflow", "run 2")):
        record_trigger(waiting.private, waiting.store.root)
    waiting.sign("ann")
    waiting.sign("bob")
    waiting.refused("ann triggered a run of this snapshot")
    waiting.sign("cid")
    waiting.publish()


def test_an_approver_who_publishes_does_not_count(waiting):
    """Who runs the step `publish` alone triggers it, too; upper and lower case are the same person."""
    waiting.sign("ann")
    waiting.sign("bob")
    waiting.refused("bob triggered a run", actor=Actor("Bob", "command line"))
    assert not waiting.is_public


def test_other_accounts_of_an_approver(waiting):
    waiting.add_key("dan", accounts=["d.smith@films.example"])
    waiting.people.set_rule("films", Rule(("ann", "dan"), 2))
    with act_for(Actor("D.Smith@films.example", "airflow", "run 2")):
        record_trigger(waiting.private, waiting.store.root)
    waiting.sign("ann")
    waiting.sign("dan")
    waiting.refused("dan triggered a run")


def test_a_removed_record_of_triggers_does_not_help(waiting):
    """What the first approver saw is part of what was signed."""
    with act_for(Actor("bob", "airflow", "run 2")):
        record_trigger(waiting.private, waiting.store.root)
    waiting.sign("ann")
    shutil.rmtree(waiting.private / "triggers")
    waiting.sign("bob")
    waiting.refused("bob triggered a run")


def test_a_signature_over_another_candidate_does_not_count(waiting):
    right = waiting.subject
    waiting.sign("ann")
    waiting.sign("bob", Subject("films", JANUARY, "0" * 64))
    waiting.refused("about another candidate")
    waiting.sign("bob", Subject("films", "2026-02-01", right.digest))
    waiting.refused("about another candidate")
    waiting.sign("bob", Subject("books", JANUARY, right.digest))
    waiting.refused("about another candidate")


def test_a_candidate_that_was_made_anew_needs_new_signatures(waiting):
    waiting.sign("ann")
    waiting.sign("bob")
    shutil.rmtree(waiting.place)
    waiting.place = make_candidate(
        waiting.place, waiting.store, JANUARY, ["u1", "u2", "u3", "u4"], items=["x", "y"], code=9
    )
    waiting.refused("about another candidate")


def test_a_revoked_key_does_not_count(waiting):
    waiting.sign("ann")
    waiting.sign("bob")
    waiting.people.revoke(key_id(waiting.keys["bob"].public_key()), "stolen")
    waiting.refused("of bob was revoked")


@pytest.mark.parametrize("days", [-40, 40])
def test_a_key_counts_in_its_time_only(waiting, days):
    """Expired now, although the signature states an earlier time; or not valid yet."""
    begin = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    waiting.add_key("dan", days=30, now=begin)
    waiting.people.set_rule("films", Rule(("ann", "dan"), 2))
    waiting.sign("ann")
    waiting.sign("dan", now=begin + datetime.timedelta(days=1))
    waiting.refused("had expired" if days < 0 else "signed in the future|not valid yet")


def test_keys_that_nobody_named_do_not_count(waiting):
    waiting.add_key("eve")
    waiting.sign("ann")
    waiting.sign("eve")
    waiting.refused("no trusted key signed")


def test_a_rule_may_name_single_keys(waiting):
    old = key_id(waiting.keys["bob"].public_key())
    waiting.people.set_rule("films", Rule(("ann", old), 2))
    waiting.sign("ann")
    waiting.add_key("bob")
    waiting.sign("bob")
    waiting.refused("no trusted key signed")


@pytest.mark.parametrize("change", ["payload", "sig", "keyid", "text", "empty", "large", "two"])
def test_changed_signatures_do_not_count(waiting, change):
    waiting.sign("ann")
    path = waiting.sign("bob")
    envelope = read_json(path)
    if change in ("payload", "sig", "keyid"):
        place = envelope if change == "payload" else envelope["signatures"][0]
        place[change] = ("A" if place[change][0] != "A" else "B") + place[change][1:]
    if change == "two":
        other = read_json(next(one for one in path.parent.iterdir() if one != path))
        envelope["signatures"] += other["signatures"]
    write_json(path, envelope)
    if change in ("text", "empty", "large"):
        path.write_text({"text": "[" * 50_000, "empty": "", "large": " " * 2**17}[change])
    waiting.refused("not counted")


def test_without_a_rule_nothing_is_asked(waiting):
    waiting.people.set_rule("films", None)
    waiting.publish()
    assert waiting.is_public


def test_a_release_file_cannot_weaken_the_rule_of_the_store(waiting):
    """A DAG may hand any configuration to the pipeline."""
    people = waiting.people
    for weaker in (None, Rule(PEOPLE, 1), Rule((*PEOPLE[:2], "eve"), 2)):
        with pytest.raises(UsageError, match="the store has the rule 2 of ann, bob, cid"):
            people.require_rule("films", weaker)
    people.require_rule("films", Rule(tuple(reversed(PEOPLE)), 2))
    people.require_rule("books", None)
    assert people.rule_of("books") is None
    people.require_rule("books", Rule(("ann", "bob"), 2))
    assert people.rule_of("books") == Rule(("ann", "bob"), 2)
    with pytest.raises(UsageError, match="no key is known of: eve"):
        people.require_rule("others", Rule(("ann", "eve"), 2))


def test_a_file_of_approvers_outside_the_store(waiting, tmp_path, monkeypatch):
    """Mounted read-only it holds although somebody changes the store's own."""
    outside = tmp_path / "approvers.json"
    shutil.copy(waiting.store.root / "private" / "keys" / "approvers.json", outside)
    waiting.people.set_rule("films", None)
    monkeypatch.setenv("MURMUR_APPROVERS", str(outside))
    waiting.refused("2 approvers must sign")
    with pytest.raises(UsageError, match="outside the store"):
        Approvers(waiting.store).set_rule("films", None)
    outside.unlink()
    with pytest.raises(UsageError, match="no file of approvers"):
        waiting.publish()
    assert not waiting.is_public


@pytest.mark.parametrize("content", ["", "[]", '{"people": 1, "rules": {}}', '{"people": []}'])
def test_a_broken_file_of_approvers_lets_nothing_out(waiting, content):
    (waiting.store.root / "private" / "keys" / "approvers.json").write_text(content)
    with pytest.raises(UsageError, match="nothing is published before it is restored"):
        waiting.publish()
    assert not waiting.is_public


def test_a_key_belongs_to_one_person(waiting, tmp_path):
    with pytest.raises(UsageError, match="known already"):
        waiting.people.trust("eve", waiting.keys["ann"].public_key())
    with pytest.raises(UsageError, match="no name"):
        waiting.people.trust(" ", read_public_of(make_personal_key(tmp_path / "n.pem")))
    with pytest.raises(UsageError, match="exists already"):
        make_personal_key(tmp_path / "n.pem")
    with pytest.raises(UsageError, match="no Ed25519 public key"):
        read_public(tmp_path / "n.pem")


def read_public_of(made):
    from pathlib import Path

    return read_public(Path(made["public_key"]))


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ({"approvers": ["ann"]}, "2 of 1 approvers cannot sign"),
        ({"approvers": ["ann", "ann"]}, "named twice"),
        ({"approvals": 1}, "nobody is named"),
        ({"approvers": ["ann"], "approvals": 0}, "greater than or equal to 1"),
    ],
)
def test_impossible_rules_are_refused(release, words):
    with pytest.raises(UsageError, match=words):
        parse({"release": {"name": "films", **release}, "source": {"format": "synthetic"}})


def test_who_acts(monkeypatch):
    import pwd

    monkeypatch.delenv("SUDO_USER", raising=False)
    account = acting()
    assert account.place == "command line"
    with act_for(OPERATOR):
        assert acting() == OPERATOR
    assert acting() == account
    monkeypatch.setattr("os.getuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "ann")
    assert acting().name == "ann"
    monkeypatch.delenv("SUDO_USER")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: (_ for _ in ()).throw(KeyError))
    assert acting().name == "0"


def test_commands(tmp_path, capsys):
    """`murmur keys person`, `trust`, `rule`, `revoke`, `list`: no private key is printed."""
    root = str(tmp_path / "store")
    config = tmp_path / "films.toml"
    text = '[release]\nname = "films"\napprovers = ["ann", "bob"]\n[source]\nformat = "synthetic"\n'
    config.write_text(text)

    def murmur(*arguments: str) -> tuple[int, dict]:
        capsys.readouterr()
        code = main(["keys", *arguments, "--json"])
        out, err = capsys.readouterr()
        assert "PRIVATE" not in out + err
        return code, json.loads(out)

    assert murmur("rule", str(config), "--store", root)[0] == 2  # nobody is known yet
    ids = {}
    for name in ("ann", "bob"):
        code, made = murmur("person", str(tmp_path / f"{name}.pem"))
        assert code == 0
        assert oct((tmp_path / f"{name}.pem").stat().st_mode & 0o777) == "0o600"
        code, trusted = murmur(
            "trust", name, made["public_key"], "--account", f"{name}@films", "--days", "30", "--store", root
        )
        assert (code, trusted["accounts"], trusted["keyid"]) == (0, [f"{name}@films"], made["keyid"])
        ids[name] = made["keyid"]
    assert murmur("person", str(tmp_path / "ann.pem"))[0] == 2
    assert murmur("rule", str(config), "--store", root)[1]["rule"] == "2 of ann, bob"
    own = OwnerKeys(Store(root)).make()["keyid"]
    assert murmur("revoke", ids["bob"][:20], "--reason", "left", "--store", root)[0] == 0
    assert murmur("revoke", own[:20], "--reason", "stolen", "--store", root)[0] == 0
    assert murmur("revoke", "", "--reason", "x", "--store", root)[0] == 2
    code, listed = murmur("list", "--store", root)
    assert listed["rules"] == {"films": "2 of ann, bob"}
    assert [bool(one["revoked_at"]) for one in listed["approvers"]] == [False, True]
    assert bool(listed["keys"][0]["revoked_at"])
    config.write_text(text.replace('approvers = ["ann", "bob"]\n', ""))
    assert murmur("rule", str(config), "--store", root)[1]["rule"] == "none"


def test_a_missing_signature_is_a_refusal(waiting):
    """`murmur run` and Airflow show it as a refusal, with exit code 3."""
    with pytest.raises(Refused) as found:
        waiting.publish()
    assert found.value.exit_code == 3
    assert "--key FILE" in found.value.remedy
