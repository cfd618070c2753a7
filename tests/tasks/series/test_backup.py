"""Test backups of the owner's part of a store: a drill, damaged files, and a restored ledger that is too old to run."""

import io
import json
import shutil
import tarfile

import pytest

from tasks.cli import main
from tasks.errors import Refused, UsageError
from tasks.series import backup
from tasks.series.erasure import erase
from tasks.series.ledger import Ledger
from tasks.series.publication import exclusive
from tasks.series.withdrawal import withdraw
from tasks.signatures.owner_keys import OwnerKeys
from tasks.store import Store, files_below, read_json, write_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate
from tests.tasks.series.small_series import SmallSeries, people

JANUARY, FEBRUARY, MARCH = "2026-01-01", "2026-02-01", "2026-03-01"


@pytest.fixture(autouse=True)
def _plain(monkeypatch, store_secret):
    for name in ("MURMUR_LEDGER", "MURMUR_SIGNING_KEY", "MURMUR_APPROVERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path):
    """A store with a signed release and what a run leaves beside it."""
    store = Store(tmp_path / "store")
    OwnerKeys(store).make()
    publish(store, tmp_path, JANUARY, ["ann", "bob", "cid", "dan"], items=["x", "y"])
    work = store.root / "private" / "films" / JANUARY / "work" / "padding"
    work.mkdir(parents=True)
    (work / "factors.npy").write_bytes(b"large")
    return store


def publish(store, tmp_path, snapshot, newcomers, **more):
    made = make_candidate(tmp_path / f"made-{snapshot}", store, snapshot, newcomers, **more)
    publish_candidate(made, store, snapshot)


def lose(store):
    """Lose the owner's part, and return what was in it."""
    before = files_below(store.root / "private")
    shutil.rmtree(store.root / "private")
    return before


def kept(files):
    """Leave out what a backup need not have: intermediates, locks, and databases, whose bytes may differ."""
    return {
        name: value
        for name, value in files.items()
        if "/work/" not in name and not name.endswith((".lock", ".db", ".db-wal", ".db-shm"))
    }


def test_a_drill(store, tmp_path):
    """Back up, lose everything that is private, restore, go on publishing: as if nothing had happened."""
    made = backup.create(store, tmp_path / "backup.tar")
    assert (made["status"], made["ledgers"][POPULATION]["releases"]) == ("written", 1)
    assert oct((tmp_path / "backup.tar").stat().st_mode & 0o777) == "0o600"
    assert backup.check(tmp_path / "backup.tar")["files"] == made["files"]
    with Ledger.open(store, POPULATION) as ledger:
        head = ledger.head
    before = lose(store)
    answer = backup.restore(store, tmp_path / "backup.tar")
    assert (answer["status"], answer["forgotten"]) == ("restored", [])
    after = files_below(store.root / "private")
    assert kept(after) == kept(before)
    assert not [name for name in after if "work" in name]
    for path in (store.root / "private").rglob("*"):
        assert oct(path.stat().st_mode & 0o777) == ("0o700" if path.is_dir() else "0o600")
    with Ledger.open(store, POPULATION) as ledger:
        assert ledger.head == head
        assert ledger.problems(store) == []
    publish(store, tmp_path, FEBRUARY, ["eve", "fay"])
    with Ledger.open(store, POPULATION) as ledger:
        assert [one.snapshot for one in ledger.releases()] == [JANUARY, FEBRUARY]
        assert ledger.problems(store) == []
    assert sorted(path.name for path in store.root.iterdir()) == ["private", "published"]


def test_a_ledger_that_forgot_a_publication_refuses_to_run(store, tmp_path):
    backup.create(store, tmp_path / "backup.tar")
    publish(store, tmp_path, FEBRUARY, ["eve", "fay"])
    made = make_candidate(tmp_path / "made", store, MARCH, ["gus", "hal"])
    lose(store)
    answer = backup.restore(store, tmp_path / "backup.tar")
    assert answer["status"] == "behind"
    assert [FEBRUARY in line for line in answer["forgotten"]] == [True]
    before = files_below(store.root / "published")
    with pytest.raises(Refused, match=f"films {FEBRUARY} was published on .* not in the ledger") as found:
        publish_candidate(made, store, MARCH)
    assert "murmur backup restore" in found.value.remedy
    with pytest.raises(Refused, match="older than the store"):
        withdraw(store, POPULATION, "films", JANUARY, "a column was wrong")
    assert files_below(store.root / "published") == before


def test_a_ledger_that_forgot_a_withdrawal_or_an_erasure_refuses_to_run(tmp_path):
    """Otherwise a person who was erased would be released again."""
    series = SmallSeries(tmp_path)
    series.publish(JANUARY, people(0, 9))
    backup.create(series.store, tmp_path / "backup.tar")
    erase(series.store, POPULATION, "films", series.maker(), ids=[people(0, 9)[0]])
    lose(series.store)
    answer = backup.restore(series.store, tmp_path / "backup.tar")
    words = " ".join(answer["forgotten"])
    assert f"films {JANUARY} was withdrawn" in words
    assert f"films {JANUARY}-r1 was published" in words
    with pytest.raises(Refused, match="older than the store"), exclusive(series.store, POPULATION):
        pass


def test_a_run_is_refused_before_it_begins(store, tmp_path, capsys):
    """`murmur run` with a restored ledger ends with exit code 3 and what to do; with none at all, too."""
    config = tmp_path / "films.toml"
    config.write_text(
        '[release]\nname = "films"\n[source]\nformat = "synthetic"\n'
        f'[series]\npopulation = "{POPULATION}"\n[privacy]\nk = 2\n'
    )
    backup.create(store, tmp_path / "backup.tar")
    publish(store, tmp_path, FEBRUARY, ["eve", "fay"])
    lose(store)
    run = ["run", str(config), "--snapshot", MARCH, "--store", str(store.root), "--json"]
    root = ["--store", str(store.root), "--json"]
    assert main(run) == 3
    assert "there is none" in json.loads(capsys.readouterr().out)["error"]["what"]
    assert main(["backup", "restore", str(tmp_path / "backup.tar"), *root]) == 3
    capsys.readouterr()
    assert main(run) == 3
    assert "older than the store" in json.loads(capsys.readouterr().out)["error"]["what"]
    assert not (store.root / "private" / "films" / MARCH).exists()


def test_commands(store, tmp_path, capsys):
    file, root = str(tmp_path / "backup.tar"), ["--store", str(store.root), "--json"]
    assert main(["backup", "create", file, *root]) == 0
    assert main(["backup", "create", file, *root]) == 2  # never over another backup
    assert main(["backup", "create", str(store.root / "b.tar"), *root]) == 2
    assert main(["backup", "create", str(tmp_path / "no" / "b.tar"), *root]) == 2
    assert main(["backup", "create", str(tmp_path / "b.tar"), "--store", str(tmp_path), "--json"]) == 2
    assert main(["backup", "check", file, "--json"]) == 0
    assert main(["backup", "restore", file, *root]) == 2  # nothing is overwritten
    lose(store)
    capsys.readouterr()
    assert main(["backup", "restore", file, *root]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "restored"
    assert main(["backup", "check", str(tmp_path / "missing"), "--json"]) == 2


def test_what_is_outside_the_store_is_named(store, tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 32)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))
    assert backup.create(store, tmp_path / "backup.tar")["not_included"] == {
        "MURMUR_SECRET_FILE": "the secret of the pseudonyms"
    }


def rewritten(source, target, change):
    """Copy an archive; `change` gets the members (name, data) and returns those that are written."""
    with tarfile.open(source) as archive:
        members = [(one.name, archive.extractfile(one).read()) for one in archive]
    with tarfile.open(target, "w") as archive:
        for name, data in change(members):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return target


def flipped(members):
    name, data = members[0]
    return [(name, data[:-1] + bytes([data[-1] ^ 1])), *members[1:]]


def other_form(members):
    return [
        (name, json.dumps({**json.loads(data), "form": 2}).encode() if name == "backup.json" else data)
        for name, data in members
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (flipped, "2 files in it"),
        (lambda members: members[1:], "1 files in it"),
        (lambda members: [*members, ("private/more", b"x")], "1 files in it"),
        (lambda members: [*members, ("private/../../escaped", b"x")], "cannot be read"),
        (lambda members: [*members, ("/escaped", b"x")], "cannot be read"),
        (lambda members: [*members, ("published/films/x", b"x")], "cannot be read"),
        (lambda members: [*members, members[0]], "cannot be read"),
        (lambda members: [one for one in members if one[0] != "backup.json"], "cannot be read"),
        (lambda members: [], "cannot be read"),
        (other_form, "has form 2"),
    ],
)
def test_a_file_that_is_no_whole_backup_restores_nothing(store, tmp_path, change, words):
    backup.create(store, tmp_path / "backup.tar")
    changed = rewritten(tmp_path / "backup.tar", tmp_path / "changed.tar", change)
    lose(store)
    for attempt in (backup.check, lambda file: backup.restore(store, file)):
        with pytest.raises((Refused, UsageError), match=words):
            attempt(changed)
    assert [path.name for path in store.root.iterdir() if path.name.startswith(".")] == []
    assert not any(path.is_file() for path in (store.root / "private").rglob("*"))
    assert not (tmp_path / "escaped").exists()


def test_links_and_broken_archives_are_refused(store, tmp_path):
    backup.create(store, tmp_path / "backup.tar")
    whole = (tmp_path / "backup.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.tar").write_bytes(b"hello")
    with tarfile.open(tmp_path / "link.tar", "w") as archive:
        member = tarfile.TarInfo("private/link")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    for name in ("cut", "text", "link"):
        with pytest.raises(Refused, match="damaged"):
            backup.check(tmp_path / f"{name}.tar")


def test_the_log_says_who_did_what(store, tmp_path, capsys):
    """Who published, approved, withdrew and erased; no source id is in it, and it cannot be changed unnoticed."""
    from tasks.data.actor import Actor, act_for
    from tasks.data.approval import record_approval_in_airflow
    from tasks.store import digest_of

    made = make_candidate(tmp_path / "made", store, FEBRUARY, ["eve", "fay"])
    private = store.root / "private" / "films" / FEBRUARY
    private.mkdir()
    digest = digest_of(read_json(made / "step.json")["files"])
    record_approval_in_airflow(private, digest, user="ann.manager", at="2026-02-02")
    with act_for(Actor("otto", "airflow", "run 7")):
        publish_candidate(made, store, FEBRUARY)
    with act_for(Actor("wilma", "airflow", "run 8")):
        withdraw(store, POPULATION, "films", FEBRUARY, "a column was wrong")
    with Ledger.open(store, POPULATION) as ledger, act_for(Actor("dora", "command line")):
        ledger.erase(ledger.tokens(["nobody"])[0])
        assert ledger.problems() == []
    config = tmp_path / "films.toml"
    config.write_text(
        f'[release]\nname = "films"\n[source]\nformat = "synthetic"\n[series]\npopulation = "{POPULATION}"\n'
    )
    command = ["ledger", str(config), "--log", "--store", str(store.root)]
    assert main([*command, "--json"]) == 0
    log = json.loads(capsys.readouterr().out)["log"]
    assert [(one["what"], one["by"], one["directory"]) for one in log[1:]] == [
        ("release", "otto", FEBRUARY),
        ("withdrawal", "wilma", FEBRUARY),
        ("erasure", "dora", None),
    ]
    assert log[1]["approved_by"] == ["ann.manager"]
    assert (log[1]["run"], log[1]["approved_in"], log[0]["approved_by"]) == ("run 7", "airflow", [])
    assert all(one["at"] for one in log)
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "wilma" in printed
    assert not any(name in json.dumps(log) for name in ("eve", "fay", "nobody"))


def test_an_approval_of_other_bytes_is_not_logged(store, tmp_path):
    made = make_candidate(tmp_path / "made", store, FEBRUARY, ["eve", "fay"])
    private = store.root / "private" / "films" / FEBRUARY
    private.mkdir()
    write_json(private / "approval.json", {"candidate_digest": "0" * 64, "approved_by": "ann"})
    publish_candidate(made, store, FEBRUARY)
    with Ledger.open(store, POPULATION) as ledger:
        assert ledger.log()[1][1]["approval"] is None
