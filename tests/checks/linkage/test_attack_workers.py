"""Test attacks on workers: the same figures on any number of them, when one is killed, and no files left behind."""

import gc
import os
import signal
import stat
import time
from pathlib import Path

import made_releases as made
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from checks.attacks import scoreboard_rh, scoring, tf_idf
from checks.evidence.case import Case
from checks.evidence.membership import Membership
from checks.evidence.truth import Truth
from checks.evidence.views.raw import RawRelease
from checks.linkage import ranking
from checks.linkage.attack import trial
from checks.linkage.drawn_knowledge import draw_knowledge
from checks.linkage.knowledge import Model
from checks.linkage.postings import postings_of
from checks.linkage.ranking import rank
from checks.linkage.rules import world_of
from checks.registry import registered
from tasks.engine import Engine, engine
from tasks.errors import Refused
from tests.conftest import OneOfThem

pytestmark = pytest.mark.slow

RULES = {"scoring": scoring.rule, "scoreboard-rh": scoreboard_rh.rule, "tf-idf": tf_idf.rule}


@pytest.fixture(scope="module")
def workers():
    with engine(2) as two:
        yield two


@pytest.fixture(scope="module")
def truth():
    """Forty thousand people, so that a block of targets takes a while."""
    matrix = sp.random_array(
        (40_000, 200), density=0.06, format="csr", dtype=np.float32, rng=np.random.default_rng(0)
    )
    matrix.data[:] = 1 + np.floor(5 * matrix.data)
    matrix = sp.csr_array((matrix.data, matrix.indices.astype(np.int32), matrix.indptr), shape=matrix.shape)
    matrix.sort_indices()
    people = matrix.shape[0]
    names = pa.array([f"person {number}" for number in range(people)])
    rows = np.arange(people, dtype=np.int32)
    raters = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return Truth(Membership(names, names, rows), matrix, rows, raters, np.ones(people, bool), 0, 0)


def attacked(truth, private, on, *, rule="scoreboard-rh", targets=600):
    """The ranks of some people in the raw data, as bytes."""
    case = Case(RawRelease(truth, low=1.0, high=5.0), truth, private, engine=on)
    some = np.arange(targets) * 61
    knows = draw_knowledge(truth, some, Model(8, error="±1"))
    ranks = rank(
        postings_of(case), RULES[rule](world_of(case)), knows, case.record_of(some), entropic=True, engine=on
    )
    return ranks.table.tobytes()


class Killing(Engine):
    """Kills one of the workers with -9 as soon as a few blocks are back, while it is at another."""

    def __init__(self, client):
        super().__init__(client)
        self.victim, self.busy, self.done = None, 0, 0

    def map(self, function, blocks, **common):
        pids = self._client.run(os.getpid)

        def watch(done, total):
            if self.victim is None and done >= 3:
                doing = {address: len(keys) for address, keys in self._client.processing().items()}
                address = max(doing, key=doing.get)
                self.victim, self.busy, self.done = pids[address], doing[address], done
                os.kill(self.victim, signal.SIGKILL)

        return super().map(function, blocks, progress=watch, **common)


def test_killed_worker_changes_no_figure(truth, tmp_path, monkeypatch, workers):
    monkeypatch.setattr(ranking, "BLOCK_TARGETS", 5)  # 120 blocks, some ten milliseconds each
    here = attacked(truth, tmp_path, Engine())
    killing = Killing(workers._client)
    assert attacked(truth, tmp_path, killing) == here
    assert killing.done == 3  # of 120
    assert killing.busy > 0  # it died over its work
    with pytest.raises(ProcessLookupError):
        os.kill(killing.victim, 0)
    assert attacked(truth, tmp_path, workers) == here  # and its replacement counts alike


def test_any_number_of_workers_and_any_blocks_give_the_same_ranks(truth, tmp_path, monkeypatch, workers):
    one = Engine(OneOfThem(workers._client))
    for rule in RULES:
        here = attacked(truth, tmp_path, None, rule=rule, targets=100)
        monkeypatch.setattr(ranking, "BLOCK_TARGETS", 17)
        for somewhere in (None, one, workers):
            assert attacked(truth, tmp_path, somewhere, rule=rule, targets=100) == here
        monkeypatch.undo()


def test_findings_are_the_same_on_workers(releases, tmp_path, workers):
    published, private = made.write(releases["simple"], tmp_path)
    here = made.reopen(releases["simple"], published, private)
    there = Case(here.release, here.truth, private, made.SNAPSHOT, workers)
    for name in ("scoring", "tf-idf", "label-based"):
        run = registered()[name].run
        assert run(here, 1.0) == run(there, 1.0)


def _scratch(private: Path) -> list[Path]:
    return list(private.glob(".attack-*"))


def test_working_files_are_private_without_ids_and_removed(truth, tmp_path, workers):
    case = Case(RawRelease(truth, low=1.0, high=5.0), truth, tmp_path, engine=workers)
    trial(case, tf_idf.rule, Model(8))
    (place,) = _scratch(tmp_path)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    files = [file for file in place.rglob("*") if file.is_file()]
    assert {file.name.partition("-")[0] for file in files} == {"arrays.bin", "facts.json", "norms"}
    assert not any(b"person" in file.read_bytes() for file in files)
    del case
    gc.collect()
    assert _scratch(tmp_path) == []


def _break(block, **common):
    raise Refused("this block cannot be ranked")


def _failing(truth, private, on):
    """As the gate does: what is wrong is kept, the exception is not."""
    case = Case(RawRelease(truth, low=1.0, high=5.0), truth, private, engine=on)
    try:
        trial(case, scoring.rule, Model(8))
    except Refused as problem:
        assert len(_scratch(private)) == 1
        return problem.what
    return ""


@pytest.mark.parametrize("where", ["here", "workers"])
def test_working_files_are_removed_after_a_failed_attack(truth, tmp_path, monkeypatch, workers, where):
    monkeypatch.setattr(ranking, "_rank", _break)
    assert _failing(truth, tmp_path, workers if where == "workers" else None) == "this block cannot be ranked"
    for _ in range(50):  # the client's own thread forgets the failed block a little later
        gc.collect()
        if not _scratch(tmp_path):
            break
        time.sleep(0.1)
    assert _scratch(tmp_path) == []
