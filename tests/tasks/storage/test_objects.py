"""Test a store in an object store: two processes, private copies, conditional writes, locks in PostgreSQL."""

import os
import stat
import time
from pathlib import Path

import psycopg2
import pytest

from tasks.errors import MurmurError, UsageError
from tasks.keys import OwnerKey
from tasks.stack import Stack
from tasks.storage.bucket import Bucket
from tasks.storage.cache import make_cache
from tasks.storage.objects import ObjectStorage
from tasks.store import Store, addressed, remove, write_json
from tests.contracts.storages import CLOSING, RELEASE, StorageContract, arrive, write

pytestmark = [pytest.mark.stack]


@pytest.fixture
def address(s3, use_postgres):
    """Return the address of an empty store with an empty ledger."""
    use_postgres()
    return s3()


class TestObjectStorage(StorageContract):
    """An object store keeps what is asked of a storage."""

    @pytest.fixture
    def storage(self, address):
        return ObjectStorage(address)

    @pytest.fixture
    def another(self, address, storage):
        return ObjectStorage(address)

    def test_the_copy_is_private(self, storage):
        """Nobody else of this machine reads the copy; it is removed with the process that made it."""
        storage.save(write(storage.root / "private/films", membership="ann"))
        assert stat.S_IMODE(storage.root.stat().st_mode) == 0o700
        reader = ObjectStorage(storage.address)
        reader.refresh()
        modes = {stat.S_IMODE(one.stat().st_mode) for one in reader.root.rglob("*")}
        assert modes == {0o700, 0o600}

    def test_published_bytes_are_never_replaced(self, storage, another):
        """Two publishers who both believe to hold the lock: one publishes, the other changes nothing."""
        storage.reveal(arrive(storage, "one"), storage.root / RELEASE)
        with pytest.raises(MurmurError, match="another process is publishing"):
            another.reveal(arrive(another, "two"), another.root / RELEASE)
        fresh = ObjectStorage(storage.address)
        fresh.refresh()
        assert (fresh.root / RELEASE / "items.csv").read_text() == "one"
        assert (fresh.root / RELEASE / "manifest.json").read_text() == "one"

    @pytest.mark.parametrize("first", ["items.csv", "manifest.json"])
    def test_a_race_without_a_lock(self, storage, another, monkeypatch, first):
        """The second publisher begins while the first is at any file: create-only writes let one win at most."""
        mine, theirs = arrive(storage, "one"), arrive(another, "two")
        create, began = Bucket.create, []

        def interrupted(bucket: Bucket, name: str, file: Path) -> None:
            if name.endswith(first) and not began:
                began.append(name)
                if first == "items.csv":  # the other one is as far as we are, and the first to write
                    create(bucket, name, theirs / first)
                else:
                    with pytest.raises(MurmurError, match="another process"):
                        another.reveal(theirs, another.root / RELEASE)
            create(bucket, name, file)

        monkeypatch.setattr(Bucket, "create", interrupted)
        if first == "items.csv":
            with pytest.raises(MurmurError, match="another process"):
                storage.reveal(mine, storage.root / RELEASE)
            assert set(Bucket(storage.address).entries()) == {
                f"{RELEASE}/items.csv"
            }  # the other's, untouched
            assert not storage.has(storage.root / RELEASE / "manifest.json")
        else:
            storage.reveal(mine, storage.root / RELEASE)
            another.refresh()
            assert (another.root / RELEASE / "items.csv").read_text() == "one"

    def test_a_lost_lock_stops_the_manifest(self, storage, postgres):
        """Who lost the connection that held the lock does not complete a release."""
        (storage.root / "private").mkdir()
        with storage.lock(storage.root / "private/lock", 0):
            with psycopg2.connect(postgres.replace("+psycopg2", "")) as db, db.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
            with pytest.raises(MurmurError, match="was lost"):
                storage.reveal(arrive(storage, "one"), storage.root / RELEASE)
        assert Bucket(storage.address).entries() == {}

    def test_a_result_is_taken_back_where_a_lock_was_lost(self, storage, postgres, monkeypatch):
        """A run whose lock is lost while it stores a result leaves nothing: an erasure may have passed meanwhile."""
        (storage.root / "private").mkdir()
        result = write(
            storage.root / "private/films/2026-01-01/work/ingest", ratings_npy="r", step_json=CLOSING
        )
        put = Bucket.put

        def cut_off(bucket: Bucket, name: str, file: Path) -> None:
            put(bucket, name, file)
            with psycopg2.connect(postgres.replace("+psycopg2", "")) as db, db.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")

        with storage.share(storage.root / "private/lock"):
            storage.save(result)
            (result / "ratings.npy").write_text("r2")
            monkeypatch.setattr(Bucket, "put", cut_off)
            with pytest.raises(MurmurError, match="was lost"):
                storage.save(result)
        assert Bucket(storage.address).entries().keys() == {"private/films/2026-01-01/work/ingest/step.json"}

    def test_an_unfinished_release_is_not_there(self, storage, another):
        """Files without a manifest are no release, and nobody copies them."""
        Bucket(storage.address).put(f"{RELEASE}/items.csv", arrive(storage, "one") / "items.csv")
        another.refresh()
        assert not (another.root / RELEASE).exists()
        another.discard(another.root / RELEASE)
        assert Bucket(storage.address).entries() == {}

    def test_damaged_objects(self, storage, another, tmp_path):
        """Content that is not what was written is refused."""
        storage.save(write(storage.root / "private/films", verdict_json="1"))
        (tmp_path / "other").write_text("2")
        Bucket(storage.address).put("private/films/verdict.json", tmp_path / "other", known_digest="0" * 64)
        with pytest.raises(MurmurError, match="not what was written"):
            another.refresh()

    def test_a_result_that_is_being_replaced(self, storage, another):
        """Files of two runs of a step are never mixed: step.json says which belong together."""
        result = write(
            storage.root / "private/films/2026-01-01/work/ingest", ratings_npy="r", step_json=CLOSING
        )
        storage.save(result)
        (result / "ratings.npy").write_text("other")
        Bucket(storage.address).put(
            "private/films/2026-01-01/work/ingest/ratings.npy", result / "ratings.npy"
        )
        with pytest.raises(MurmurError, match="not what was written"):
            another.fetch(another.root / result.relative_to(storage.root))

    def test_old_results_have_their_age(self, storage, another):
        """Retention removes results some days after they were made, although nobody copied them."""
        storage.save(write(storage.root / "private/films/2026-01-01/work/ingest", step_json=CLOSING))
        before = time.time()
        time.sleep(1.1)
        another.refresh()
        [work] = (another.root / "private/films").glob("*/work")
        assert before - 60 < work.stat().st_mtime < before + 1

    def test_hidden_files_stay_here(self, storage):
        """Temporary files and locks are this process's own."""
        storage.save(write(storage.root / "private/films/.arriving", a="1"))
        storage.save(write(storage.root / "private/films", _tmp="1"))
        assert Bucket(storage.address).entries() == {}


class TestStore:
    """A store is named by MURMUR_STORE; what survives a power failure in a directory is in the object store."""

    def test_durable_writes(self, address):
        """write_json and remove reach the object store at once; results of steps wait until they are closed."""
        store = Store(address)
        assert store.is_remote
        private = store.root / "private/films/2026-01-01"
        write(private / "work/ingest", ratings="1")
        write_json(private / "attempts.json", [])
        write_json(private / "work/ingest/counts.json", [])
        bucket = Bucket(address)
        assert set(bucket.entries()) == {"private/films/2026-01-01/attempts.json"}
        store.storage.save(private / "work/ingest")
        assert len(bucket.entries()) == 3
        remove(private / "work")
        assert set(bucket.entries()) == {"private/films/2026-01-01/attempts.json"}

    def test_results_that_others_left_can_be_removed(self, address):
        """Results of steps are not copied, but what looks for them finds their directories, and removes them."""
        first = ObjectStorage(address)
        first.save(write(first.root / "private/films/2026-01-01/work/ingest", step_json="{}"))
        store = Store(address)
        [work] = (store.root / "private/films").glob("*/work")
        assert [one.name for one in work.iterdir()] == ["ingest"]
        remove(work)
        assert Bucket(address).entries() == {}

    def test_addresses_in_place_of_paths(self, address):
        """Nobody else can open a path of the private copy."""
        store = Store(address)
        assert addressed({"a": [f"see {store.root}/published"]}) == {"a": [f"see {address}/published"]}

    def test_no_secret_in_the_store(self, address, monkeypatch):
        """The secret is mounted: who reads the store must not be able to recompute pseudonyms."""
        monkeypatch.delenv("MURMUR_SECRET_FILE", raising=False)
        with pytest.raises(UsageError, match="holds no secret"):
            OwnerKey.load(Store(address).root)


@pytest.mark.parametrize("ledger", ["", "sqlite:///ledger.db"])
def test_sqlite_is_refused(monkeypatch, ledger):
    """No SQLite file can be in an object store."""
    monkeypatch.setenv("MURMUR_LEDGER", ledger)
    with pytest.raises(UsageError, match="needs a ledger in PostgreSQL") as problem:
        Store("s3://bucket/prefix")
    assert "MURMUR_LEDGER" in problem.value.remedy


@pytest.mark.parametrize("address", ["http://host/x", "s3://", "s3://key:word@bucket/x", "s3://bucket/../x"])
def test_no_address(monkeypatch, address):
    """Only s3://bucket/prefix is an address, and credentials are never part of it."""
    monkeypatch.setenv("MURMUR_LEDGER", "postgresql://somewhere/ledger")
    with pytest.raises(UsageError, match="no address of a store") as problem:
        Store(address)
    assert "word" not in str(problem.value)


def test_no_bucket(s3, use_postgres):
    """A bucket that is not there is said to be missing."""
    use_postgres()
    s3()
    with pytest.raises(UsageError, match="its bucket"):
        Store("s3://no-such-bucket/x")


def test_the_embedded_stack_names_the_address(address, tmp_path):
    """Its components have copies of their own; ours would be a store that nobody else sees."""
    state = tmp_path / "state"
    (state / "airflow").mkdir(parents=True)
    (state / "postgres").symlink_to(tmp_path)
    assert Stack(state, store=address, workers=1).environment["MURMUR_STORE"] == address


def test_copies_of_the_dead_are_removed(tmp_path, monkeypatch):
    """What a killed process left is removed by the next one; what a living one uses is not."""
    monkeypatch.setenv("MURMUR_CACHE", str(tmp_path))
    child = os.fork()
    if child == 0:
        make_cache()
        os._exit(0)
    os.waitpid(child, 0)
    [left] = tmp_path.iterdir()
    mine = make_cache()
    assert set(tmp_path.iterdir()) == {mine}
    assert mine != left
    make_cache()
    assert mine.exists()
