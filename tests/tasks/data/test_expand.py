"""Test `murmur expand`: every member of a group with its profile, as rows that other programs read."""

import csv
import errno
import io
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks import formats
from tasks.cli import main
from tasks.config import parse
from tasks.data import expand as expansion
from tasks.data import profiles
from tasks.errors import MurmurError
from tasks.store import digest, write_json
from tests.conftest import SNAPSHOT

ITEMS = ["film 0", "a, b", 'say "no"', "two\nlines", "5"]
PLAIN = [f"film {position}" for position in range(5)]


def release(
    place: Path,
    codes,
    *,
    kind="uint8",
    held=None,
    items=PLAIN,
    scale=(1.0, 5.0),
    step=0.1,
    sizes=None,
    padded=False,
):
    """Publish codes (groups × items) in the published form, members called by hex numbers; returns its directory."""
    place.mkdir()
    codes = np.asarray(codes, expansion.ENCODINGS[kind])
    sizes = np.asarray(sizes if sizes is not None else np.full(len(codes), 3))
    middle = len(codes) // 2  # in two row groups
    parts = []
    for start, stop in ((0, middle), (middle, len(codes))):
        if start == stop:
            continue
        parts.append(place / f"{start}.arrow")
        if held is None:
            profiles.write_dense(parts[-1], start, sizes[start:stop], codes[start:stop])
        else:
            rows, columns = np.nonzero(held[start:stop])
            indptr = np.concatenate([[0], np.cumsum(held[start:stop].sum(axis=1))])
            some = sp.csr_array(
                (codes[start:stop][rows, columns], columns, indptr), shape=(stop - start, len(items))
            )
            profiles.write_sparse(parts[-1], start, sizes[start:stop], some)
    profiles.join(parts, place / "groups.parquet")
    group = np.random.default_rng(0).permutation(np.repeat(np.arange(len(codes)), sizes))
    users = [f"{number:08x}" for number in range(len(group))]
    pq.write_table(pa.table({"user": users, "group": pa.array(group, pa.int32())}), place / "members.parquet")
    pq.write_table(pa.table({"item": pa.array(items, pa.string())}), place / "items.parquet")
    files = {name: digest(place / name) for name in ("groups.parquet", "members.parquet", "items.parquet")}
    unit = "z-score" if kind == "float32" else "rating"
    described = {
        "release": "films",
        "method": "predictive-padded" if held is None or padded else "predictive-simple",
        "rating_scale": list(scale),
        "rating_step": step,
        "rating_encoding": kind,
    }
    write_json(place / "manifest.json", {**described, "unit": unit, "files": files})
    return place


def expected_rows(place: Path, codes, *, held=None, items=PLAIN, scale=(1.0, 5.0), step=0.1, kind="uint8"):
    """What the rows must say, from the definition."""
    members = pq.read_table(place / "members.parquet").to_pylist()
    return {
        (member["user"], item): float(code) if kind == "float32" else scale[0] + int(code) * step
        for member in members
        for position, (item, code) in enumerate(zip(items, np.asarray(codes)[member["group"]], strict=True))
        if held is None or held[member["group"]][position]
    }


def run(capsys, *arguments):
    capsys.readouterr()
    code = main(["expand", *map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def read_csv(text, delimiter=","):
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    return rows[0], {(user, item): float(rating) for user, item, rating, *_ in rows[1:]}


CODES = np.random.default_rng(1).integers(0, 41, (4, 5))
HELD = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 1]], bool)
KINDS = {
    "padded": {"codes": CODES},
    "simple": {"codes": CODES, "held": HELD},
    "two bytes": {"codes": CODES * 40, "kind": "uint16", "scale": (-10.0, 10.0), "step": 0.01},
    "floats": {
        "codes": np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32),
        "kind": "float32",
        "held": HELD,
    },
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("to", ["csv", "movielens", "recbole"])
def test_every_member_gets_the_groups_profile(tmp_path, capsys, name, to):
    given_release = KINDS[name]
    place = release(tmp_path / "release", **given_release)
    code, answer, _ = run(capsys, place, "--to", to, tmp_path / "out")
    assert code == 0
    file = {"csv": "out", "movielens": "out/ratings.csv", "recbole": "out/out.inter"}[to]
    assert answer["file"] == str(tmp_path / file)
    text = (tmp_path / file).read_bytes().decode()
    header, rows = read_csv(text, "\t" if to == "recbole" else ",")
    assert (
        header
        == {
            "csv": ["user", "item", "rating"],
            "movielens": ["userId", "movieId", "rating", "timestamp"],
            "recbole": ["user_id:token", "item_id:token", "rating:float"],
        }[to]
    )
    expected = expected_rows(place, **given_release)
    if name == "floats":  # to the last bit, as float32
        assert {key: np.float32(value) for key, value in rows.items()} == expected
    else:
        assert rows == pytest.approx(expected, abs=1e-9)
    assert answer["counts"] == {"users": 12, "items": 5, "rows": len(rows), "bytes": len(text.encode())}
    assert answer["unit"] == ("z-score" if name == "floats" else "rating")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "release"]


@pytest.mark.parametrize(
    ("to", "source", "name"),
    [
        ("csv", "csv", "padded"),
        ("csv", "csv", "simple"),
        ("csv", "csv", "two bytes"),
        ("movielens", "movielens-csv", "padded"),
        ("movielens", "movielens-csv", "simple"),
    ],
)
def test_formats_read_what_was_written(tmp_path, capsys, to, source, name):
    given_release = KINDS[name]
    place = release(tmp_path / "release", **given_release)
    assert run(capsys, place, "--to", to, tmp_path / "out")[0] == 0
    table = {"format": source, "path": str(tmp_path / "out")}
    if source == "csv":
        table["scale"] = list(given_release.get("scale", (1.0, 5.0)))
    config = parse({"release": {"name": "x"}, "source": table}).source
    read = {}
    for block in formats.read_all(config, SNAPSHOT):
        users, items = (side.cast(pa.string()).to_pylist() for side in (block.users, block.items))
        read |= dict(zip(zip(users, items, strict=True), block.ratings.tolist(), strict=True))
    assert read == pytest.approx(expected_rows(place, **given_release), abs=1e-5)


def test_rows_follow_groups_then_pseudonyms_then_items(tmp_path, capsys):
    place = release(tmp_path / "release", CODES[:2], sizes=[2, 1])
    assert run(capsys, place, "--to", "csv", tmp_path / "out.csv")[0] == 0
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    group_of = {m["user"]: m["group"] for m in pq.read_table(place / "members.parquet").to_pylist()}
    keys = [
        (group_of[user], user, PLAIN.index(item)) for user, item, _ in (line.split(",") for line in lines)
    ]
    assert keys == sorted(keys)


def test_csv_quotes_what_must_be_quoted(tmp_path, capsys):
    place = release(tmp_path / "release", CODES, items=ITEMS)
    assert run(capsys, place, "--to", "csv", tmp_path / "out")[0] == 0
    _, rows = read_csv((tmp_path / "out").read_bytes().decode())
    assert rows == pytest.approx(expected_rows(place, CODES, items=ITEMS), abs=1e-9)


FORMULAS = ['=HYPERLINK("http://x.invalid","y")', "+1", "-5", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1"]


def test_no_id_is_a_formula(tmp_path, capsys):
    """A spreadsheet program evaluates a cell that begins with one of a few characters; ids get a mark before them."""
    items = [*FORMULAS, "'quoted", "a=b", "Alien, 1979"]
    codes = np.arange(len(items))[None, :]
    place = release(tmp_path / "release", codes, items=items, scale=(-10.0, 10.0), step=1.0)
    assert run(capsys, place, "--to", "csv", tmp_path / "out")[0] == 0
    text = (tmp_path / "out").read_bytes().decode()
    assert ",\"'=HYPERLINK(" in text
    assert ',"\'+1",-9.0\n' in text  # the rating stays a number
    _, rows = read_csv(text)
    cells = {cell for row in rows for cell in row}
    assert not any(cell.startswith(tuple(expansion.FORMULA_MARKS)) for cell in cells)
    assert {"a=b", "Alien, 1979"} <= cells  # others are as they were
    # docs/expand.md: without one leading apostrophe every id is exact.
    exact = {(user, item.removeprefix("'")): rating for (user, item), rating in rows.items()}
    assert exact == pytest.approx(expected_rows(place, codes, items=items, scale=(-10.0, 10.0), step=1.0))


def test_ids_that_differ_stay_different(tmp_path, capsys):
    items = ["=1", "'=1", "''=1", "1", "'1"]
    place = release(tmp_path / "release", CODES, items=items)
    assert run(capsys, place, "--to", "csv", tmp_path / "out")[0] == 0
    _, rows = read_csv((tmp_path / "out").read_text())
    assert len({item for _, item in rows}) == 5


@pytest.mark.parametrize("formula", FORMULAS)
def test_movielens_files_hold_no_formula(tmp_path, capsys, formula):
    """ratings.csv opens in a spreadsheet too, and a mark would be a part of the id for every other program."""
    place = release(tmp_path / "release", CODES, items=[formula.strip(), *PLAIN[1:]])
    code, answer, _ = run(capsys, place, "--to", "movielens", tmp_path / "out")
    assert code == 2
    assert answer["error"]["remedy"] == "use --to csv, which quotes them"


@pytest.mark.parametrize("to", ["movielens", "recbole"])
def test_unrepresentable_ids_are_refused_early(tmp_path, capsys, to):
    place = release(tmp_path / "release", CODES, items=ITEMS)
    code, answer, _ = run(capsys, place, "--to", to, tmp_path / "out")
    assert code == 2
    assert f"--to {to} cannot represent" in answer["error"]["what"]
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_nothing_is_overwritten(tmp_path, capsys):
    place = release(tmp_path / "release", CODES)
    (tmp_path / "out").write_text("mine")
    code, answer, _ = run(capsys, place, "--to", "csv", tmp_path / "out")
    assert (code, answer["error"]["what"]) == (2, "the output exists already")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("name", ["groups.parquet", "members.parquet", "items.parquet"])
def test_a_changed_release_is_refused(tmp_path, capsys, name):
    place = release(tmp_path / "release", CODES)
    with (place / name).open("ab") as file:
        file.write(b" ")
    code, answer, _ = run(capsys, place, "--to", "csv", tmp_path / "out")
    assert code == 3
    assert name in answer["error"]["what"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"files": {}}', '{"files": {}, "rating_encoding": "uint8"}'])
def test_an_invalid_manifest_is_refused(tmp_path, capsys, content):
    (tmp_path / "release").mkdir()
    assert run(capsys, tmp_path / "release", "--to", "csv", tmp_path / "out")[0] == 2
    (tmp_path / "release" / "manifest.json").write_text(content)
    assert run(capsys, tmp_path / "release", "--to", "csv", tmp_path / "out")[0] == 3


@pytest.mark.parametrize("key", ["rating_step", "rating_scale", "rating_encoding", "files"])
@pytest.mark.parametrize("value", [None, [], "no", -1])
def test_a_manifest_without_coding_is_refused(tmp_path, capsys, key, value):
    place = release(tmp_path / "release", CODES)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest[key] = value
    write_json(place / "manifest.json", manifest)
    code, answer, _ = run(capsys, place, "--to", "csv", tmp_path / "out")
    assert (code, answer["error"]["what"]) == (3, "the manifest cannot be read")
    del manifest[key]
    write_json(place / "manifest.json", manifest)
    assert run(capsys, place, "--to", "csv", tmp_path / "out")[0] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_members_of_no_group_are_refused(tmp_path, capsys):
    place = release(tmp_path / "release", CODES)
    stray = pa.table({"user": ["ff"], "group": pa.array([99], pa.int32())})
    pq.write_table(
        pa.concat_tables([pq.read_table(place / "members.parquet"), stray]), place / "members.parquet"
    )
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["files"]["members.parquet"] = digest(place / "members.parquet")
    write_json(place / "manifest.json", manifest)
    assert run(capsys, place, "--to", "csv", tmp_path / "out")[0] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, number):
    def full(file, data):
        raise OSError(number, os.strerror(number))

    place = release(tmp_path / "release", CODES)
    monkeypatch.setattr(expansion, "_write_all", full)
    with pytest.raises(MurmurError, match="disk is full"):
        expansion.expand(place, "recbole", tmp_path / "out", lambda *_: None)
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


@settings(deadline=None, max_examples=25)
@given(
    st.integers(1, 9),
    st.integers(1, 300),
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from(["uint8", "float32"]),
    st.integers(0, 1000),
)
def test_text_does_not_depend_on_blocks(tmp_path_factory, groups, room, cells, sparse, kind, seed):
    rng = np.random.default_rng(seed)
    codes, held = rng.integers(0, 41, (groups, 5)), rng.random((groups, 5)) < 0.5
    place = tmp_path_factory.mktemp("made")
    profile = {"held": held if sparse else None, "kind": kind}
    made = release(place / "release", codes, sizes=rng.integers(1, 5, groups), **profile)
    done, blocks = [], []
    with pytest.MonkeyPatch.context() as patch:
        expansion.expand(made, "csv", place / "whole", lambda *step: None)
        patch.setattr(expansion, "TEXT_BYTES", room)
        patch.setattr(expansion, "CELLS_PER_BLOCK", cells)
        patch.setattr(profiles, "ROWS_PER_BLOCK", 3)
        blocks += expansion._blocks(made / "groups.parquet", expansion.ENCODINGS[kind])
        expansion.expand(made, "csv", place / "parts", lambda *step: done.append(step))
    assert (place / "whole").read_bytes() == (place / "parts").read_bytes()
    assert (done[0][0], done[-1][0]) == (0, done[-1][1])
    assert all(len(block.codes) <= cells or len(block.groups) == 1 for block in blocks)
    assert np.concatenate([block.groups for block in blocks]).tolist() == list(range(groups))
    assert read_csv((place / "whole").read_text())[1] == pytest.approx(expected_rows(made, codes, **profile))
