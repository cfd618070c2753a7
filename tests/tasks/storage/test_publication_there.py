"""Test publication, withdrawal and erasure in an object store: crashes, races, nothing left behind."""

import os
import signal

import pytest

from tasks.errors import MurmurError
from tasks.keys import OwnerKey
from tasks.series import publication, tombstones
from tasks.series.erasure import erase
from tasks.series.ledger import Ledger
from tasks.series.publication import recover
from tasks.series.withdrawal import withdraw
from tasks.storage import objects
from tasks.storage.bucket import Bucket
from tasks.store import Store, make_private, read_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate
from tests.tasks.series.small_series import NAME, SmallSeries, people

pytestmark = [pytest.mark.stack, pytest.mark.slow]

JANUARY, FEBRUARY = "2026-01-01", "2026-02-01"
PEOPLE = ["ann", "bob", "cid", "dan"]


@pytest.fixture
def address(s3, use_postgres, monkeypatch, tmp_path):
    """Return the address of an empty store with an empty ledger and a secret of its own."""
    use_postgres()
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 32)
    secret.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))
    return s3()


@pytest.fixture
def january(address, tmp_path):
    """Publish a first release of four people."""
    store = Store(address)
    publish_candidate(
        make_candidate(tmp_path / "january", store, JANUARY, PEOPLE, items=["x"]), store, JANUARY
    )
    return store


def in_child(work) -> int:
    """Run a function in a process of its own; return its exit code: 3 for an error of ours, negative where killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except MurmurError:
            code = 3
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def require_agreement(address: str, *snapshots: str) -> None:
    """Require that store and ledger, as another machine sees them, have these releases and nothing half made."""
    store = Store(address)
    with Ledger.open(store, POPULATION) as ledger:
        assert ledger.problems(store) == []
        assert ledger.pending() == []
        assert [one.snapshot for one in ledger.releases()] == list(snapshots)
    names = Bucket(address).entries()
    public = {name.split("/")[2] for name in names if name.startswith("published/")}
    assert public == set(snapshots)
    assert not [name for name in names if "/ledger/" in name and not name.startswith("private/ledger/")]


@pytest.mark.parametrize(
    ("module", "point", "is_published"),
    [
        (publication, "prepared", False),
        (publication, "kept", False),
        (objects, "uploaded", False),  # all files but the manifest are there
        (objects, "revealed", True),  # the manifest is there, the ledger does not have it
        (publication, "renamed", True),
        (publication, "committed", True),
    ],
)
def test_a_killed_publisher(address, january, tmp_path, module, point, is_published):
    """The next process on another machine completes or removes what a killed publisher left."""
    place = make_candidate(tmp_path / "february", january, FEBRUARY, ["eve", "fay"])

    def publish_and_die() -> None:
        def die(name: str) -> None:
            if name == point:
                os.kill(os.getpid(), signal.SIGKILL)

        module._crash_point = die
        publish_candidate(place, Store(address), FEBRUARY)

    assert in_child(publish_and_die) == -signal.SIGKILL
    there = {name for name in Bucket(address).entries() if name.startswith(f"published/films/{FEBRUARY}")}
    assert (f"published/films/{FEBRUARY}/manifest.json" in there) == is_published
    assert recover(Store(address), POPULATION) in ([], [FEBRUARY])
    require_agreement(address, JANUARY, *[FEBRUARY] * is_published)
    store = Store(address)
    publish_candidate(place, store, FEBRUARY)  # the step runs again
    require_agreement(address, JANUARY, FEBRUARY)


def test_two_publishers_on_two_machines(address, january, tmp_path):
    """Two candidates for one snapshot, planned against the same head: one is published, the other refused."""
    one = make_candidate(tmp_path / "one", january, FEBRUARY, ["eve", "fay"], code=2)
    two = make_candidate(tmp_path / "two", january, FEBRUARY, ["eve", "gus"], code=3)
    children = []
    for place in (one, two):
        child = os.fork()
        if child == 0:
            os._exit(in_child(lambda place=place: publish_candidate(place, Store(address), FEBRUARY)))
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(codes) == [0, 3]
    require_agreement(address, JANUARY, FEBRUARY)
    store, winner = Store(address), (one, two)[codes.index(0)]
    digests = read_json(winner / "candidate" / "manifest.json")["files"]
    assert read_json(store.root / "published/films" / FEBRUARY / "manifest.json")["files"] == digests


def test_a_failed_upload_leaves_nothing(address, january, tmp_path, monkeypatch):
    """Where the store fails in the middle, the ledger is told, and the next attempt begins anew."""
    place, create = make_candidate(tmp_path / "february", january, FEBRUARY, ["eve", "fay"]), Bucket.create

    def fail(bucket, name, file):
        if name.endswith("members.parquet"):
            raise MurmurError("the object store does not answer")
        create(bucket, name, file)

    monkeypatch.setattr(Bucket, "create", fail)
    with pytest.raises(MurmurError, match="does not answer"):
        publish_candidate(place, january, FEBRUARY)
    monkeypatch.setattr(Bucket, "create", create)
    require_agreement(address, JANUARY)
    publish_candidate(place, january, FEBRUARY)
    require_agreement(address, JANUARY, FEBRUARY)


@pytest.mark.parametrize("point", [None, "entered", "tombstone", "moved a file"])
def test_withdrawal(address, january, monkeypatch, point):
    """A tombstone takes the place of a release, and its files move to the owner; a crash is completed."""

    def withdraw_and_die() -> None:
        def die(name: str) -> None:
            if name == point:
                os.kill(os.getpid(), signal.SIGKILL)

        from tasks.series import withdrawal

        tombstones.crash_point = withdrawal.crash_point = die
        withdraw(Store(address), POPULATION, "films", JANUARY, "wrong source")

    assert in_child(withdraw_and_die) == (0 if point is None else -signal.SIGKILL)
    recover(Store(address), POPULATION)
    names = set(Bucket(address).entries())
    assert {name for name in names if name.startswith("published/")} == {
        f"published/films/{JANUARY}/tombstone.json"
    }
    assert f"private/films/{JANUARY}/withdrawn/groups.parquet" in names
    store = Store(address)
    with Ledger.open(store, POPULATION) as ledger:
        assert ledger.problems(store) == []


class RemoteSeries(SmallSeries):
    """Hold a series whose store is in an object store."""

    def __init__(self, address, directory) -> None:
        self.store = Store(address)
        make_private(self.store.root / "private", below=self.store.root)
        self.key = OwnerKey.load(self.store.root)
        self.scratch = directory / "scratch"


def test_erasure(address, tmp_path):
    """No object has the id of an erased person; results of steps go unread; a repaired release is there."""
    series = RemoteSeries(address, tmp_path)
    series.publish(JANUARY, people(0, 9))
    victim = people(0, 9)[4]
    other = Store(address)
    work = other.root / "private" / NAME / JANUARY / "work/ingest"
    work.mkdir(parents=True)
    (work / "users.txt").write_text(victim)
    other.storage.save(work)
    assert any("/work/" in name for name in Bucket(address).entries())
    fresh = Store(address)
    certificate = erase(fresh, POPULATION, NAME, series.maker(), ids=[victim])
    assert certificate["released"] == 1
    bucket, copy = Bucket(address), tmp_path / "object"
    names = bucket.entries()
    assert f"published/{NAME}/{JANUARY}-r1/manifest.json" in names
    assert not any("/work/" in name or name.endswith("pending.json") for name in names)
    for name in names:
        bucket.get(name, copy)
        assert victim.encode() not in copy.read_bytes(), name
    with Ledger.open(fresh, POPULATION) as ledger:
        assert ledger.problems(fresh) == []
