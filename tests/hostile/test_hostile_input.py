"""Test that files from strangers end in a clear refusal: what the campaigns found, and each known attack by hand.

`make fuzz` looks for more (docs/hostile-input.md). Memory and time of bombs are limited in child processes.
"""

import contextlib
import csv
import gzip
import io
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import formats
from tasks.cli import main
from tasks.config import Source, load
from tasks.data.expand import expand
from tasks.data.spreadsheets import marked, unmarked
from tasks.errors import MurmurError, Refused, UsageError, printable
from tasks.formats import _pages, _text, netflix_prize
from tasks.store import digest, parse_json, read_json
from tasks.telemetry.logs import chosen_formatter
from tests.hostile import compact_thrift as thrift
from tests.hostile.made_parquet import DICTIONARY_PAGE, footer_of, with_footer, with_page, written
from tests.hostile.readers import (
    READERS,
    SNAPSHOT,
    attack,
    lay_out,
    rating_table,
    read_release,
    release_files,
)

ROOT = Path(__file__).parents[2]
SOME = 40  # mutated inputs of each reader: the campaign's machinery works, and nothing is found at once
FEWER = 12  # of those that are read by five commands


@pytest.mark.parametrize("name", READERS)
def test_seeds_and_some_mutations_end_well(name, tmp_path):
    reader, rng = READERS[name], random.Random(1)
    seeds = reader.seeds()
    for data in seeds:
        attack(reader, data, tmp_path)
    for _ in range(FEWER if name.startswith("release") else SOME):
        attack(reader, reader.mutate(rng.choice(seeds), rng), tmp_path)


# --- JSON and TOML ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"k": 5, "k": 2}', '{"a": {"k": 5, "k": 2}}', "NaN", "[Infinity]", "-Infinity", "1e999", "[" * 100_000,
        '{"a":' * 50_000, "9" * 100_000, '"\\ud800"', "\ufeff{}", '"\x00"', "", "{}x",
    ],
)  # fmt: skip
def test_json_that_readers_understand_differently_is_refused(text):
    with pytest.raises(ValueError):
        parse_json(text.encode())


def test_usual_json_is_read():
    assert parse_json(b'{"a": [1, 2.5, null, "\\ud83d\\ude00"]}') == {"a": [1, 2.5, None, "😀"]}


def test_a_large_file_and_a_pipe_are_no_json(tmp_path):
    (tmp_path / "a.json").write_text("[1, 2, 3]")
    with pytest.raises(ValueError, match="large"):
        read_json(tmp_path / "a.json", most=3)
    os.mkfifo(tmp_path / "pipe.json")
    for read in (read_json, digest):
        with pytest.raises(OSError, match="no ordinary file"):  # and no waiting
            read(tmp_path / "pipe.json")


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 50_000, "a = " + "9" * 5000, "a" + ".a" * 400 + " = 1", "\ufeffa = 1", "\x00"]
)
def test_odd_toml_is_refused(text, tmp_path):
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(UsageError) as problem:
        load(tmp_path / "r.toml")
    assert len(str(problem.value)) < 5000


# --- messages ----------------------------------------------------------------------------------------------------


def test_messages_hold_nothing_that_a_terminal_obeys():
    problem = MurmurError("a\x1b[2Jb\u202ec", where="x\ny\ud800", remedy="\x07")
    assert (problem.what, problem.where, problem.remedy) == ("a\\x1b[2Jb\\u202ec", "x\\ny\\ud800", "\\x07")
    assert printable("größer 😀") == "größer 😀"
    assert len(MurmurError("x" * 10**6).what) < 4000


def test_a_tombstone_cannot_command_a_terminal(tmp_path, capsys):
    stone = {"withdrawn_at": "2026-02-01T00:00:00", "reason": "wrong\x1b]0;x\x07\nMurmuration: all is well"}
    published = lay_out("tombstone.json", json.dumps(stone).encode(), tmp_path)
    for arguments in (
        ["verify", str(published)],
        ["open", str(published)],
        ["verify", str(published), "--json"],
    ):
        assert main(arguments) == 2
        said = "".join(capsys.readouterr())
        assert "was withdrawn on 2026-02-01: wrong" in said
        assert "\x1b" not in said
        assert "\nMurmuration" not in said


@pytest.mark.parametrize("stone", ["[]", "{}", '{"withdrawn_at": 5, "reason": []}', "\xff", "[" * 9999])
def test_a_tombstone_that_cannot_be_read_is_one(stone, tmp_path, capsys):
    published = lay_out("tombstone.json", stone.encode("latin-1"), tmp_path)
    assert main(["verify", str(published)]) == 2
    assert "was withdrawn\n" in capsys.readouterr().err


def test_answers_and_log_lines_hold_nothing_that_a_terminal_obeys(tmp_path, capsys):
    """Item ids are in some answers: those of the ratings that `murmur check` shows, for one."""
    place = tmp_path / "r.csv"
    place.write_text(
        "user,item,rating\n" + "".join(f"u{n},\x1b[2Ji{n % 3}[red],{1 + n % 5}\n" for n in range(60))
    )
    text = '[release]\nname = "a"\nschedule = "@daily"\nstart_date = 2026-01-01\n[source]\nformat = "csv"\n'
    (tmp_path / "a.toml").write_text(text + f'path = "{place}"\nscale = [1, 5]\n')
    assert main(["check", str(tmp_path / "a.toml"), "--verbose"]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\\x1b[2Ji0[red]" in said
    record = logging.LogRecord("murmur", logging.INFO, "x", 1, "a\x1b[2J\nforged", None, None)
    assert chosen_formatter("%(message)s").format(record) == "a\\x1b[2J\\nforged"


# --- rating files -------------------------------------------------------------------------------------------------


def read(format_: str, path: Path, **settings) -> int:
    source = Source(format=format_, path=str(path), scale=(1, 5), **settings)
    return sum(len(block.ratings) for block in formats.read_all(source, SNAPSHOT))


def test_ids_of_a_megabyte_are_set_aside(tmp_path):
    """At k of a thousand rows they would be sorted, hashed and published."""
    (tmp_path / "r.csv").write_text(
        "user,item,rating\na,x,3\na," + "y" * 10**6 + ",4\n" + "z" * 3000 + ",x,4\n"
    )
    source = Source(format="csv", path=str(tmp_path / "r.csv"), scale=(1, 5))
    blocks = list(formats.read_all(source, SNAPSHOT))
    assert sum(len(block.ratings) for block in blocks) == 1
    rejected = [reason for block in blocks for reason in block.rejected]
    assert rejected == ["the user id is longer than 2,048 bytes", "the item id is longer than 2,048 bytes"]


def test_a_header_of_very_many_columns_is_refused(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating" + ",x" * 20_000 + "\n")
    with pytest.raises(UsageError, match="20,003 columns"):
        read("csv", tmp_path / "r.csv")


def test_misshapen_rows_are_not_kept_whole(tmp_path, monkeypatch):
    (tmp_path / "r.csv").write_text("user,item,rating\n" + ("a," + "b" * 5000 + "\n") * 3)
    kept = []
    monkeypatch.setattr(_text, "_Aside", lambda *parts: kept.append(parts[1]) or _Aside(*parts))
    assert read("csv", tmp_path / "r.csv", max_bad_rows=1) == 0
    assert [len(text) for text in kept] == [_text.LONGEST_KEPT] * 3


_Aside = _text._Aside


def test_a_section_without_a_movie_is_refused_not_read_back_to_the_beginning(tmp_path, monkeypatch):
    rows = b"1,3,2005-01-01\n" * 3000
    (tmp_path / "combined_data_1.txt").write_bytes(rows)
    monkeypatch.setattr(netflix_prize, "MOST_LOOK_BACK", 2**12)
    monkeypatch.setattr(netflix_prize, "_LOOK_BACK_BYTES", 2**10)
    with pytest.raises(UsageError, match="names the movie"):
        read("netflix-prize", tmp_path, block_bytes=2**13)
    (tmp_path / "combined_data_1.txt").write_bytes(b"7:\n" + rows[:4080])
    assert read("netflix-prize", tmp_path, block_bytes=2**12) == 4080 // 15


def test_a_movie_is_found_wherever_the_windows_are_cut(tmp_path, monkeypatch):
    for window in range(1, 40):
        monkeypatch.setattr(netflix_prize, "_LOOK_BACK_BYTES", window)
        stream = io.BytesIO(b"1:\n1,3,2005-01-01\n23:\n1,3,2005-01-01\n2,3,2005-01-01\n")
        assert netflix_prize._movie_before(stream, 40, "x") == "23"


@pytest.mark.parametrize("name", ["r.csv", "r.zip", "r.parquet", "r.csv.gz"])
def test_pipes_are_refused(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError, match="no ordinary file"):
        read("parquet" if "parquet" in name else "csv", tmp_path / name)


def test_a_pipe_in_a_directory_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="no ordinary file"):
        read("parquet", tmp_path)


@pytest.mark.parametrize(("at", "value"), [(6, 0x21), (6, 0x41), (6, 1), (8, 99), (28, 0xFFFF), (42, 2**31)])
@pytest.mark.parametrize("mark", [b"PK\1\2", b"PK\3\4"])
def test_archives_whose_records_lie(mark, at, value, tmp_path):
    """Flags of encryption and patches, unknown compression, lengths of names, places outside of the file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("r.csv", "user,item,rating\na,x,3\n")
    data = bytearray(out.getvalue())
    place = data.index(mark) + at + (2 if mark == b"PK\1\2" and at < 28 else 0)
    width = 4 if at == 42 else 2
    data[place : place + width] = value.to_bytes(width, "little")
    (tmp_path / "r.zip").write_bytes(data)
    with contextlib.suppress(UsageError):
        assert read("csv", tmp_path / "r.zip") <= 1  # some of these fields are read by nobody


def test_an_archive_with_a_name_that_is_no_text(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("rätings.csv", "user,item,rating\na,x,3\n")
    (tmp_path / "r.zip").write_bytes(out.getvalue().replace("ä".encode(), b"\xff\xff"))
    with pytest.raises(UsageError, match="damaged"):
        read("csv", tmp_path / "r.zip")


# --- Parquet --------------------------------------------------------------------------------------------------------


def refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(UsageError) as problem:
        read("parquet", path)
    return problem.value.what


def test_a_page_that_states_two_gibibytes_is_refused(tmp_path):
    """Arrow would allocate them; the footer says nothing of it."""
    data = written(rating_table(), use_dictionary=False, compression="gzip")

    def lie(header: list, content: bytes) -> bytes:
        thrift.put(header, 2**31 - 1, 2)
        return content

    assert "2,147,483,647 bytes" in refused(tmp_path / "r.parquet", with_page(data, 0, lie, honest=False))
    with pytest.raises(Refused, match="cannot be read"):
        formats.read_published(tmp_path / "r.parquet")


def test_pages_larger_than_the_footer_states_are_refused(tmp_path, monkeypatch):
    """A megabyte of zeros in a page that the footer says has a few bytes."""
    monkeypatch.setattr("tasks.formats.parquet.HARMLESS_BYTES", 1000)
    table = rating_table(user=pa.array(["x" * 10**5] * 12))
    data = written(table, use_dictionary=False, compression="gzip")

    def lie(footer: list) -> None:
        thrift.put(footer, 500, 4, 0, 2)

    assert "contradict" in refused(tmp_path / "r.parquet", with_footer(data, lie))


def test_a_long_text_in_every_rating_is_no_bomb(tmp_path):
    """One text of a megabyte, stored once, in each of 20,000 rows: as texts they would be 20 GB."""
    count = 20_000
    long = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["9" * 2**20]))
    one = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["a"]))
    table = pa.table({"user": one, "item": one, "rating": long, "timestamp": long})
    pq.write_table(table, tmp_path / "r.parquet")
    assert (tmp_path / "r.parquet").stat().st_size < 10**6
    code = f"""
import resource; resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2)
from tests.hostile.test_hostile_input import read, formats
from pathlib import Path
print(read("parquet", Path({str(tmp_path / "r.parquet")!r}), max_bad_rows=1))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "0", done.stderr[-2000:]


def test_a_footer_that_would_end_the_process_is_refused(tmp_path):
    """pyarrow has no error for it: the process aborts."""
    data = written(rating_table())

    def lengthen(footer: list) -> None:
        histogram = thrift.field(footer, 4, 0, 1, 0, 3, 16, 3)
        histogram[1].append(1)

    def retype(footer: list) -> None:
        thrift.put(footer, 0, 4, 0, 1, 2, 3, 1)

    for change in (lengthen, retype):
        assert "contradict" in refused(tmp_path / "r.parquet", with_footer(data, change))


def test_a_long_footer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_pages, "FOOTER_BYTES", 500)
    assert "footer" in refused(tmp_path / "r.parquet", written(rating_table()))


@pytest.mark.parametrize("rows", [-1, 0, 1, 10**12, 2**62])
def test_row_counts_that_lie(rows, tmp_path):
    data = with_footer(written(rating_table()), lambda footer: thrift.put(footer, rows, 4, 0, 3))
    assert refused(tmp_path / "r.parquet", data)


def test_a_text_that_is_no_utf8_and_nested_columns(tmp_path):
    data = written(rating_table(), compression="none", use_dictionary=False)
    assert "cannot be read" in refused(tmp_path / "r.parquet", data.replace(b"Zq71", b"\xff\xfe71"))
    nested = written(rating_table(item=pa.array([["a"]] * 12)))
    assert "cannot be read" in refused(tmp_path / "r.parquet", nested)


def test_the_thrift_codec_is_exact():
    data = written(rating_table())
    begin, footer = footer_of(data)
    assert thrift.encode(footer) == data[begin:-8]


# --- releases ---------------------------------------------------------------------------------------------------


def test_an_honest_release_is_read(tmp_path):
    published = lay_out("checks.json", release_files()["checks.json"], tmp_path)
    out = expand(published, "csv", tmp_path / "out.csv", lambda done, total: None)
    assert out["counts"]["users"] == 24


def test_a_bomb_in_members(tmp_path):
    """Ten million members in a megabyte."""
    count = 10**7
    one = pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int32()).take(pa.array([0] * 1)), pa.array(["p" * 1000])
    )
    users = pa.chunked_array([one] * 1).combine_chunks().take(pa.nulls(count, pa.int32()).fill_null(0))
    table = pa.table({"user": users, "group": pa.nulls(count, pa.int32()).fill_null(0)})
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False)
    assert len(out.getvalue()) < 1_200_000
    published = lay_out("members.parquet", out.getvalue(), tmp_path)
    with pytest.raises(Refused, match="no release is so well compressed"):
        read_release(published)


@pytest.mark.parametrize(
    "name", ["../../../private/made/x", "/proc/kcore", "a" * 300, "a/b", "", "..", "groups.parquet\0"]
)
def test_files_elsewhere_are_not_read(name, tmp_path):
    manifest = json.loads(release_files()["manifest.json"])
    manifest["files"][name] = "0" * 64
    published = lay_out("manifest.json", json.dumps(manifest).encode(), tmp_path)
    with pytest.raises(Refused):
        read_release(published)


@pytest.mark.parametrize("name", ["groups.parquet", "manifest.json", "checks.json", "extra"])
def test_pipes_in_a_release_make_nobody_wait(name, tmp_path):
    published = lay_out("extra", b"", tmp_path)
    (published / name).unlink()
    os.mkfifo(published / name)
    with pytest.raises(MurmurError):
        read_release(published)


def test_links_in_a_release_are_counted(tmp_path):
    from checks.gate import verify

    published = lay_out("README.md", b"", tmp_path)
    (published / "README.md").unlink()
    (published / "README.md").symlink_to("/etc/passwd")
    (published / "loop").symlink_to(published)
    details = " ".join(check.detail for check in verify(published).checks)
    assert "files that are links to somewhere else: 2" in details


def test_positions_that_are_there_twice_make_no_rows(tmp_path):
    groups = pa.table(
        {
            "group": pa.array([0], pa.int32()),
            "size": pa.array([24], pa.int32()),
            "items": pa.array([[0, 0, 0]], pa.list_(pa.int32())),
            "ratings": pa.array([b"\0\0\0"], pa.binary()),
        }
    )
    published = lay_out("groups.parquet", written(groups), tmp_path)
    members = pa.table({"user": ["aa"], "group": pa.array([0], pa.int32())})
    (published / "members.parquet").write_bytes(written(members))
    manifest = json.loads((published / "manifest.json").read_text())
    manifest["files"]["members.parquet"] = digest(published / "members.parquet")
    (published / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(Refused, match="do not belong together"):
        expand(published, "csv", tmp_path / "out.csv", lambda done, total: None)
    assert not (tmp_path / "out.csv").exists()


# --- spreadsheets ---------------------------------------------------------------------------------------------------


def test_marks_of_text_come_off_again():
    ids = pa.array(["=1+1", "+a", "-1", "@x", "\tx", "\nx", "\uff1dx", "'=x", "''", "plain", "a=b", "", "1"])
    assert unmarked(marked(ids)) == ids
    assert marked(ids).to_pylist()[:2] == ["'=1+1", "'+a"]
    assert marked(ids).to_pylist()[9:] == ["plain", "a=b", "", "1"]


def test_restored_recommendations_hold_no_formula(tmp_path):
    reader = READERS["restore"]
    lists = "user,item,score\naa,=cmd(),3.5\naa,'=1+1,3.1\n"
    reader.run(lists.encode(), tmp_path)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = [",".join(row) for row in csv.reader(file)]
    # The item that was added is recognised under its mark, and not put back a second time.
    assert sorted(rows[1:]) == sorted(["aa,i9,5", "aa,'=cmd(),3.5", "aa,'=1+1,3.1"])


def test_gzip_in_gzip_and_zip_in_zip_are_opened_once(tmp_path):
    inner = gzip.compress(b"user,item,rating\na,x,3\n")
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(inner))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("r.zip", inner)
    (tmp_path / "r.zip").write_bytes(out.getvalue())
    for name in ("r.csv.gz", "r.zip"):
        with pytest.raises(UsageError):
            read("csv", tmp_path / name)


def test_the_dictionary_page_counts_too(tmp_path):
    data = written(rating_table(), compression="gzip")

    def lie(header: list, content: bytes) -> bytes:
        thrift.put(header, 2**30, 2)
        return content

    changed = with_page(data, 0, lie, which=DICTIONARY_PAGE, honest=False)
    assert "1,073,741,824 bytes" in refused(tmp_path / "r.parquet", changed)


def test_the_scratch_directory_is_left_empty(tmp_path):
    attack(READERS["csv"], b"\0x", tmp_path)
    assert not list(tmp_path.iterdir())
    assert tempfile.gettempdir()
