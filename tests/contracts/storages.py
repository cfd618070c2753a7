"""Test what every storage must keep (tasks/storage): who may write, what others have written, how a release appears."""

import hashlib
import json
import threading
from pathlib import Path

import pytest

from tasks.store import Storage

CLOSING = json.dumps({"files": {"ratings.npy": hashlib.sha256(b"r").hexdigest()}})
RELEASE = Path("published/films/2026-01-01")


def write(place: Path, **files: str) -> Path:
    """Write files into a directory; `_` in a name stands for its dot."""
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / name.replace("_", ".")).write_text(text)
    return place


def arrive(storage: Storage, text: str) -> Path:
    """Write a complete release beside its public place."""
    place = storage.root / RELEASE
    return write(place.with_name(f".{place.name}.arriving"), items_csv=text, manifest_json=text)


class StorageContract:
    """Require the same of a directory and of an object store; `another` is the same store as another process has it."""

    @pytest.fixture
    def storage(self) -> Storage:
        """Return the storage."""
        raise NotImplementedError

    @pytest.fixture
    def another(self) -> Storage:
        """Return the storage as another process opens it."""
        raise NotImplementedError

    def test_what_was_saved_is_seen_by_others(self, storage, another):
        """After the lock changes hands, all files are there; what was removed is gone."""
        place = write(storage.root / "private/films/2026-01-01", verdict_json="1", note_txt="2")
        storage.save(storage.root / "private")
        another.refresh()
        there = another.root / "private/films/2026-01-01"
        assert {file.name: file.read_text() for file in there.iterdir()} == {
            "verdict.json": "1",
            "note.txt": "2",
        }
        (place / "note.txt").unlink()
        (place / "verdict.json").write_text("3")
        storage.save(storage.root / "private")
        another.refresh()
        assert {file.name: file.read_text() for file in there.iterdir()} == {"verdict.json": "3"}

    def test_a_result_is_fetched_as_it_was_saved(self, storage, another):
        """The result of a step travels when it is asked for."""
        result = write(
            storage.root / "private/films/2026-01-01/work/ingest", ratings_npy="r", step_json=CLOSING
        )
        storage.save(result)
        another.refresh()
        there = another.root / result.relative_to(storage.root)
        assert {"ratings.npy", "step.json"} <= another.names(there)
        another.fetch(there, whole=False)
        assert (there / "step.json").read_text() == CLOSING
        another.fetch(there)
        assert (there / "ratings.npy").read_text() == "r"

    def test_one_at_a_time(self, storage, another):
        """A lock keeps others out, for as long as it is held."""
        place, elsewhere = storage.root / "private", another.root / "private"
        place.mkdir(parents=True, exist_ok=True)
        elsewhere.mkdir(parents=True, exist_ok=True)
        with storage.lock(place / "lock", 0):
            with pytest.raises(TimeoutError), another.lock(elsewhere / "lock", 0):
                pass
            with pytest.raises(TimeoutError), another.lock(elsewhere / "lock", 0.2):
                pass
            with another.lock(elsewhere / "other lock", 0):
                pass
        with another.lock(elsewhere / "lock", 0):
            pass

    def test_several_share(self, storage, another):
        """Who shares a lock lets others share it, and keeps out who wants it alone."""
        place, elsewhere = storage.root / "private", another.root / "private"
        place.mkdir(parents=True, exist_ok=True)
        elsewhere.mkdir(parents=True, exist_ok=True)
        with storage.share(place / "lock"):
            with another.share(elsewhere / "lock"):
                pass
            with pytest.raises(TimeoutError), another.lock(elsewhere / "lock", 0):
                pass
        with another.lock(elsewhere / "lock", 0):
            pass

    def test_who_waits_enters_later(self, storage, another):
        """Without a limit of time a lock is waited for."""
        place, elsewhere = storage.root / "private", another.root / "private"
        place.mkdir(parents=True, exist_ok=True)
        elsewhere.mkdir(parents=True, exist_ok=True)
        order = []

        def wait() -> None:
            with another.lock(elsewhere / "lock"):
                order.append("second")

        with storage.lock(place / "lock", 0):
            waiting = threading.Thread(target=wait)
            waiting.start()
            waiting.join(0.3)
            order.append("first")
        waiting.join(20)
        assert order == ["first", "second"]

    def test_a_release_appears(self, storage, another):
        """A complete directory takes its public name, here and for others."""
        storage.reveal(arrive(storage, "one"), storage.root / RELEASE)
        assert storage.has(storage.root / RELEASE / "manifest.json")
        assert not (storage.root / RELEASE).with_name(".2026-01-01.arriving").exists()
        another.refresh()
        assert another.has(another.root / RELEASE / "manifest.json")
        for one in (storage, another):
            assert {file.name for file in (one.root / RELEASE).iterdir()} == {"items.csv", "manifest.json"}
            assert (one.root / RELEASE / "items.csv").read_text() == "one"

    def test_nothing_is_there_before(self, storage):
        """What was not revealed is not stored."""
        arriving = arrive(storage, "one")
        storage.save(storage.root / "published")
        assert not storage.has(storage.root / RELEASE / "manifest.json")
        assert arriving.exists()
