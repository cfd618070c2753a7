"""Test that ids are found wherever a store or a database may hold them, and reported without being quoted."""

import gzip
import json
import sqlite3
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.find_ids import IdFinder, main

CANARY = "canary-0042"


def write_parquet(path):
    pq.write_table(pa.table({"user": ["a", CANARY]}), path)


def write_nested(path):
    pq.write_table(pa.table({"lists": [[{"who": CANARY}], []]}), path)


def write_dictionary(path):
    pq.write_table(pa.table({"user": pa.array(["a", CANARY]).dictionary_encode()}), path)


def write_binary(path):
    pq.write_table(pa.table({"user": pa.array([CANARY.encode()], pa.binary())}), path)


def write_metadata(path):
    pq.write_table(pa.table({"n": [1]}).replace_schema_metadata({"made for": CANARY}), path)


def write_sqlite(path):
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE xcom (value TEXT)")
        database.execute("INSERT INTO xcom VALUES (?)", (json.dumps({"people": [CANARY]}),))


def write_deleted_row(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE people (id TEXT)")
        database.executemany("INSERT INTO people VALUES (?)", [(CANARY,), ("else",)])
        database.commit()
        database.execute("PRAGMA secure_delete=OFF")
        database.execute("DELETE FROM people WHERE id = ?", (CANARY,))


def write_json(path):
    path.write_text(json.dumps({"a": [1, {CANARY: 2}]}))


def write_json_in_json(path):
    path.write_text(json.dumps({"value": json.dumps({"who": CANARY})}))


def write_log(path):
    path.write_text(f"read 7 rows\nof {CANARY}, then stopped\n")


def write_gzip(path):
    path.write_bytes(gzip.compress(f"{CANARY},i1,3\n".encode()))


def write_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner.csv", f"{CANARY},i1,3\n")


def write_npy(path):
    np.save(path.with_suffix(".npy"), np.array([CANARY]))


def write_npz(path):
    np.savez(path.with_suffix(".npz"), names=np.array([CANARY.encode()]))


def write_bytes(path):
    path.write_bytes(b"\0\1" + CANARY.encode() + b"\0")


def write_name(path):
    path.with_name(f"of {CANARY}.txt").write_text("nothing")


WRITERS = [
    *(write_parquet, write_nested, write_dictionary, write_binary, write_metadata, write_sqlite),
    *(write_deleted_row, write_json, write_json_in_json, write_log, write_gzip, write_zip),
    *(write_npy, write_npz, write_bytes, write_name),
]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_an_id_is_found(tmp_path, write):
    store = tmp_path / "store"
    store.mkdir()
    write(store / "file")
    assert len(list(IdFinder([CANARY]).below(store))) >= 1
    assert list(IdFinder(["canary-004", "canary-0043", "7777777"]).below(store)) == []


def test_short_ids_are_whole_values_or_words(tmp_path):
    (tmp_path / "a.json").write_text('{"seen": 7, "id": "17"}')
    (tmp_path / "b.log").write_text("read 77 rows\n")
    np.save(tmp_path / "c.npy", np.array([7]))
    assert list(IdFinder(["7"]).below(tmp_path)) == []
    (tmp_path / "d.json").write_text('{"id": "7"}')
    assert len(list(IdFinder(["7"]).below(tmp_path))) == 1


def test_a_database_is_read_table_by_table(tmp_path):
    write_sqlite(tmp_path / "airflow.db")
    url = f"sqlite:///{tmp_path / 'airflow.db'}"
    assert list(IdFinder([CANARY]).in_database(url)) == ["main.xcom.value"]
    assert list(IdFinder(["else"]).in_database(url)) == []


def test_the_command_prints_places_and_no_id(tmp_path, capsys):
    ids, store = tmp_path / "ids", tmp_path / "store"
    ids.write_text(f"{CANARY}\n")
    store.mkdir()
    write_parquet(store / "people.parquet")
    assert main([str(ids), str(store)]) == 1
    out = capsys.readouterr().out
    assert "people.parquet: column user" in out
    assert CANARY not in out
    (store / "people.parquet").unlink()
    assert main([str(ids), str(store)]) == 0
