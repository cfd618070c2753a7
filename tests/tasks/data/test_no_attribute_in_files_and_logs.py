"""What is known about people never leaves private/: a whole release of people with unmistakable ids and attributes."""

import json
import logging
import shutil
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tasks import formats, pipeline
from tasks.cli import main
from tasks.config import Source, load
from tasks.engine import engine
from tasks.store import Store
from tests.conftest import SNAPSHOT

SIGN = "zq-"  # begins every id and every class here, and nothing else anywhere
CONFIG = """
[release]
name = "films"
[source]
format = "csv"
path = "{place}/ratings.csv"
scale = [1, 5]
[source.attributes]
path = "{place}/users.csv"
columns = ["side", "age"]
groups = {{ age = {{ zq-young = ["zq-18", "zq-25"] }} }}
"""


def write_source(place: Path) -> None:
    """The synthetic people as two csv files: what they are called, and what is known of them, is unmistakable."""
    source = Source(format="synthetic", synthetic={"users": 400, "items": 90, "ratings_per_user": 30.0})
    people = formats.attributes(source, SNAPSHOT)
    renamed = pc.binary_join_element_wise("zq-person", people["user"], "-")
    side = pc.if_else(pc.equal(people["gender"], "F"), "zq-left", "zq-right")
    ages = pc.binary_join_element_wise("zq", people["age"], "-")
    rows = zip(*(column.to_pylist() for column in (renamed, side, ages)), strict=True)
    (place / "users.csv").write_text("user,side,age\n" + "".join(f"{u},{s},{a}\n" for u, s, a in rows))
    lines = ["user,item,rating,timestamp"]
    for block in formats.read_all(source, SNAPSHOT):
        columns = (block.users.to_pylist(), block.items.to_pylist(), block.ratings, block.timestamps)
        lines += [f"zq-person-{u},{i},{r},{t}" for u, i, r, t in zip(*columns, strict=True)]
    (place / "ratings.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release that was published: its configuration, its store, all that was logged and all that was handed on."""
    place = tmp_path_factory.mktemp("private attributes")
    write_source(place)
    config, store, lines = place / "films.toml", Store(place / "store"), []
    config.write_text(CONFIG.format(place=place))
    (place / "key").write_bytes(b"k" * 32)
    (place / "key").chmod(0o600)
    listening = logging.Handler(logging.DEBUG)
    listening.emit = lambda record: lines.append(logging.Formatter().format(record))
    root = logging.getLogger()
    before = root.level
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MURMUR_SECRET_FILE", str(place / "key"))
        root.addHandler(listening)
        root.setLevel(logging.DEBUG)
        try:
            pipeline.run(load(config), SNAPSHOT, store, progress=lambda *report: lines.append(str(report)))
            # What Airflow passes between tasks: the references of all steps, which are there already.
            with engine() as here:
                release = pipeline.open_run(load(config), SNAPSHOT, store, here, lambda *_: None)
                lines.append(
                    json.dumps([pipeline.execute(s, release) for s in ("ingest", "evaluate", "validate")])
                )
        finally:
            root.removeHandler(listening)
            root.setLevel(before)
        yield config, store, lines


def texts(file: Path) -> str:
    """All that can be read in a file: its bytes, and of Parquet the values, names and notes behind the compression."""
    found = file.read_bytes().decode("latin-1")
    if file.suffix == ".parquet":
        table = pq.read_table(file)
        found += str(table.schema) + str(pq.read_metadata(file).metadata)
        kinds = [column for column in table.columns if pa.types.is_string(column.type)]
        found += " ".join(value for column in kinds for value in column.to_pylist() if value)
    return found


def holding(place: Path) -> set[str]:
    """Files below a place in which a sign of somebody can be read."""
    return {file.name for file in place.rglob("*") if file.is_file() and SIGN in texts(file)}


def test_no_attribute_or_id_in_public_or_logs(made):
    _, store, lines = made
    assert len(list(store.published("films", SNAPSHOT).iterdir())) == 8
    assert holding(store.root / "published") == set()
    assert any("ingest" in line for line in lines)
    assert any("attributes" in line for line in lines)  # the figures are handed on
    assert [line for line in lines if SIGN in line] == []


def test_attributes_are_private_intermediates(made):
    _, store, _ = made
    # The test can see what it looks for: here it must be found.
    found = {"attributes.parquet", "users.parquet", "membership.parquet"}
    assert holding(store.root) & found == found
    for file in store.root.rglob("attributes.parquet"):
        assert file.relative_to(store.root).parts[:4] == ("private", "films", SNAPSHOT.isoformat(), "work")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    stored = pq.read_table(store.private("films", SNAPSHOT) / "work" / "ingest" / "attributes.parquet")
    assert stored.num_rows == 400
    assert set(stored["side"].to_pylist()) == {"zq-left", "zq-right"}
    assert set(stored["age"].to_pylist()) == {"zq-young", "other"}


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_no_command_shows_an_attribute(made, how, capsys):
    config, store, _ = made
    private = store.private("films", SNAPSHOT)
    for command in (
        ("check", str(config)),
        (
            "audit",
            str(store.published("films", SNAPSHOT)),
            "--private",
            str(private),
            "--config",
            str(config),
        ),
    ):
        assert main([*command, *how]) == 0
        out, err = capsys.readouterr()
        assert SIGN not in out + err
        assert (
            command[0] != "check"
            or "--json" not in how
            or ("side" in out and "classes" in out and "400" in out)
        )


def test_attributes_are_removed_with_intermediates(made, tmp_path, capsys):
    """Nothing of what was known is left, there or anywhere in the store."""
    store = Store(shutil.copytree(made[1].root, tmp_path / "store"))
    assert main(["clean", "films", "--store", str(store.root)]) == 0
    assert SIGN not in capsys.readouterr().out
    assert not (store.private("films", SNAPSHOT) / "work").exists()
    classes = ("zq-left", "zq-right", "zq-young")
    left = [file for file in store.root.rglob("*") if file.is_file()]
    assert (store.private("films", SNAPSHOT) / "membership.parquet") in left
    assert [file for file in left if any(name in texts(file) for name in classes)] == []
    arrays = [np.load(file, allow_pickle=False) for file in left if file.suffix == ".npy"]
    assert all(array.dtype.kind in "iufb" for array in arrays)
