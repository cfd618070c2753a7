"""Name every reader of files from strangers, with seeds, a mutator and the call that must end well.

A reader ends well when it returns or raises an error of tasks.errors whose message holds no user id and no control
character. Everything else (a traceback, a crashed check, JSON with NaN) is raised as `Finding`; hangs and memory are
limited from outside (tests/hostile/campaign.py).
"""

import datetime
import functools
import gzip
import hashlib
import io
import json
import random
import shutil
import sqlite3
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks import formats
from tasks.config import Source, load, parse
from tasks.errors import MurmurError
from tests.hostile import made_json, made_parquet
from tests.hostile.made_parquet import bytes_changed, written

SNAPSHOT = datetime.date(2026, 1, 1)
PERSON = "Zq7"  # the beginning of every user id in the seeds: no message may hold it
LINES = 12


class Finding(AssertionError):
    """Report that a reader did not end well although it raised no foreign exception."""


@dataclass(frozen=True)
class Reader:
    """Hold what it takes to attack one reader: `run` gets the hostile bytes and an empty directory."""

    seeds: Callable[[], list[bytes]]
    mutate: Callable[[bytes, random.Random], bytes]
    run: Callable[[bytes, Path], object]


def attack(reader: Reader, data: bytes, scratch: Path) -> str:
    """Let a reader read; return how it ended, and raise what must not happen."""
    place = Path(tempfile.mkdtemp(dir=scratch))
    try:
        reader.run(data, place)
        return "read"
    except MurmurError as problem:
        require_clean(problem, str(place))
        return type(problem).__name__
    finally:
        shutil.rmtree(place, ignore_errors=True)


def require_clean(problem: MurmurError, place: str = "") -> None:
    """Refuse a message with a user id, with what a terminal would obey, or without a remedy or a place."""
    for text in (problem.what, problem.where, problem.remedy):
        if PERSON in text:
            raise Finding("a message quotes a user id")
        if any(not sign.isprintable() and sign not in "\n " for sign in text):
            raise Finding("a message holds control characters")
        if len(text) > 5000:
            raise Finding("a message is longer than 5,000 characters")
    if problem.exit_code not in (2, 3):
        raise Finding(f"the exit code is {problem.exit_code}")


# --- rating files ---------------------------------------------------------------------------------------------


def _read_source(source: Source) -> None:
    source = source.model_copy(update={"block_bytes": 300})  # many blocks and pieces of few rows
    formats.require_readable(source, SNAPSHOT)
    for block in formats.read_all(source, SNAPSHOT):
        assert len(block.users) == len(block.items) == len(block.ratings)
        for offender in block.offenders:
            if PERSON in str(offender):
                raise Finding("an offender quotes a user id")
    formats.attributes(source, SNAPSHOT)


def _csv(data: bytes, place: Path) -> None:
    (place / "r.csv").write_bytes(data[1:])
    way = data[0] if data else 0
    _read_source(
        Source(
            format="csv",
            path=str(place / "r.csv"),
            scale=(1, 5),
            delimiter=",;\t|"[way & 3],
            encoding=("utf-8", "utf-8", "latin-1", "utf-16", "cp1252", "utf-7", "gb18030", "utf-32")[
                way >> 2 & 7
            ],
        )
    )


def _csv_seeds() -> list[bytes]:
    rows = [f"{PERSON}{n},i{n % 4},{1 + n % 5},{10**9 + n}" for n in range(LINES)]
    text = "user,item,rating,timestamp\n" + "\n".join(rows) + "\n"
    quoted = 'user,item,rating\n"Zq7 ""a""","two\nlines",3\nZq7b,"x,y",4\n'
    return [
        b"\0" + text.encode(),
        b"\0" + quoted.encode(),
        b"\1" + text.replace(",", ";").encode(),
        b"\x0c" + text.encode("utf-16"),
        b"\0\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        b"\0" + text.replace("1000000001", "2026-01-01T00:00:00Z").encode(),
    ]


def _movielens(data: bytes, place: Path) -> None:
    way = data[0] % 3 if data else 0
    ratings, _, users = data[1:].partition(b"\n--\n")
    name = ("movielens-100k", "movielens-1m", "movielens-csv")[way]
    (place / ("u.data", "ratings.dat", "ratings.csv")[way]).write_bytes(ratings)
    (place / ("u.user", "users.dat", "no")[way]).write_bytes(users)
    _read_source(Source(format=name, path=str(place)))


def _movielens_seeds() -> list[bytes]:
    rows = [(f"{PERSON}{n}", f"{n % 4}", 1 + n % 5, 10**9 + n) for n in range(LINES)]
    users = [(f"{PERSON}{n}", 20 + n, "MF"[n % 2], "student", "12345") for n in range(LINES)]
    big = "::".join
    return [
        b"\0" + "".join("\t".join(map(str, r)) + "\n" for r in rows).encode()
        + b"\n--\n" + "".join("|".join(map(str, u)) + "\n" for u in users).encode(),
        b"\1" + "".join(big(map(str, r)) + "\n" for r in rows).encode()
        + b"\n--\n" + "".join(f"{u[0]}::{u[2]}::25::4::{u[4]}\n" for u in users).encode(),
        b"\2userId,movieId,rating,timestamp\n" + "".join(",".join(map(str, r)) + "\n" for r in rows).encode(),
    ]  # fmt: skip


def _netflix(data: bytes, place: Path) -> None:
    (place / "combined_data_1.txt").write_bytes(data)
    _read_source(Source(format="netflix-prize", path=str(place)))


def _netflix_seeds() -> list[bytes]:
    part = "".join(f"{PERSON}{n},{1 + n % 5},2005-09-{1 + n:02}\n" for n in range(LINES))
    return [f"1:\n{part}2:\n{part}".encode(), f"7:\r\n{part}8: \n9:\n{part}".encode()]


def _jester(data: bytes, place: Path) -> None:
    (place / "jester-data-1.csv").write_bytes(data)
    _read_source(Source(format="jester", path=str(place)))


def _jester_seeds() -> list[bytes]:
    rows = [[4, *(99 if j % 25 else n - 2.5 for j in range(100))] for n in range(4)]
    return ["".join(",".join(map(str, row)) + "\n" for row in rows).encode()]


def _text(data: bytes, rng: random.Random) -> bytes:
    return bytes_changed(data, rng)


def rating_table(**columns: pa.Array) -> pa.Table:
    """Return a small table of ratings; given columns replace its own."""
    own = {
        "user": pa.array([f"{PERSON}{n}" for n in range(LINES)]),
        "item": pa.array([f"i{n % 4}" for n in range(LINES)]),
        "rating": pa.array([1.0 + n % 5 for n in range(LINES)]),
        "timestamp": pa.array([10**9 + n for n in range(LINES)]),
    }
    return pa.table({**own, **columns})


def _parquet(data: bytes, place: Path) -> None:
    (place / "r.parquet").write_bytes(data)
    source = Source(
        format="parquet",
        path=str(place / "r.parquet"),
        scale=(1, 5),
        attributes={"path": str(place / "r.parquet"), "columns": ["item"]},  # type: ignore[arg-type]
    )
    _read_source(source)


def _parquet_seeds() -> list[bytes]:
    texts = rating_table(rating=pa.array(["3", "4.5", "nan", "1e9"] * (LINES // 4)))
    odd = {
        "rating": pa.array([1, 2, 3, 4] * (LINES // 4), pa.decimal128(30, 2)),
        "timestamp": pa.array([10**9] * LINES, pa.timestamp("ns", "Europe/Paris")),
        "user": pa.array(range(LINES), pa.uint64()),
    }
    nested = {"item": pa.array([["a"]] * LINES), "rating": pa.array([{"a": 1.0}] * LINES)}
    return [
        written(rating_table(), row_group_size=5),
        written(rating_table(), use_dictionary=False, compression="zstd"),
        written(rating_table(), data_page_version="2.0", compression="gzip"),
        written(texts, use_dictionary=False, column_encoding={"user": "DELTA_BYTE_ARRAY", "rating": "PLAIN"}),
        written(rating_table(**odd)),
        written(rating_table(**nested)),
    ]


def _archive(data: bytes, place: Path) -> None:
    name = "r.csv.gz" if data[:2] == b"\x1f\x8b" else "r.zip"
    (place / name).write_bytes(data)
    _read_source(Source(format="csv", path=str(place / name), scale=(1, 5)))


def _archive_seeds() -> list[bytes]:
    rows = _csv_seeds()[0][1:]
    found = [gzip.compress(rows), gzip.compress(rows[:40]) + gzip.compress(rows[40:])]
    for kind, name in ((zipfile.ZIP_DEFLATED, "ratings.csv"), (zipfile.ZIP_STORED, "../a/ü.csv")):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", kind) as archive:
            archive.writestr(name, rows)
        found.append(out.getvalue())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        link = zipfile.ZipInfo("ratings.csv")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return [*found, out.getvalue()]


def _archive_changed(data: bytes, rng: random.Random) -> bytes:
    """Change the records that say what is in an archive more often than the packed bytes."""
    marks = [at for mark in (b"PK\1\2", b"PK\3\4", b"PK\5\6") for at in _all_places(data, mark)]
    if not marks or rng.random() < 0.3:
        return bytes_changed(data, rng)
    at = rng.choice(marks) + 4 + rng.randrange(44)
    return data[:at] + rng.randbytes(rng.choice((1, 2, 4))) + data[at + 1 :]


def _all_places(data: bytes, mark: bytes) -> Iterator[int]:
    at = -1
    while (at := data.find(mark, at + 1)) >= 0:
        yield at


def _user_table(data: bytes, place: Path) -> None:
    kind = "parquet" if data[:4] == b"PAR1" else "csv"
    (place / "r.csv").write_bytes(_csv_seeds()[0][1:])
    (place / f"users.{kind}").write_bytes(data)
    about = {
        "path": str(place / f"users.{kind}"),
        "columns": ["gender", "age"],
        "edges": {"age": [18, 36]},
        "groups": {"gender": {"f": ["F"], "m": ["M", "1"]}},
    }
    source = Source(format="csv", path=str(place / "r.csv"), scale=(1, 5), attributes=about)  # type: ignore[arg-type]
    formats.attributes(source, SNAPSHOT)


def _user_table_seeds() -> list[bytes]:
    table = pa.table(
        {
            "user": [f"{PERSON}{n}" for n in range(LINES)],
            "gender": ["F", "M", None] * (LINES // 3),
            "age": pa.array(range(10, 10 + LINES), pa.int8()),
        }
    )
    text = "user,gender,age\n" + "".join(f"{PERSON}{n},{'FM'[n % 2]},{15 + 3 * n}\n" for n in range(LINES))
    return [text.encode(), written(table), written(table, use_dictionary=False, compression="zstd")]


def _table_changed(data: bytes, rng: random.Random) -> bytes:
    return made_parquet.mutated(data, rng) if data[:4] == b"PAR1" else bytes_changed(data, rng)


def _sql(data: bytes, place: Path) -> None:
    if data[:6] == b"SQLite":
        (place / "r.db").write_bytes(data)
    else:
        with sqlite3.connect(place / "r.db") as db:
            db.execute("CREATE TABLE ratings (user, item, rating, timestamp)")
            db.executemany("INSERT INTO ratings VALUES (?, ?, ?, ?)", _sql_rows(data))
        db.close()
    about = {"url": f"sqlite:///{place / 'r.db'}", "query": "SELECT * FROM ratings"}
    source = Source(format="sql", scale=(1, 5), sql=about)  # type: ignore[arg-type]
    _read_source(source)
    formats.state(source, SNAPSHOT)


def _sql_rows(data: bytes) -> list[tuple]:
    """Cut bytes into values of all kinds that a cell of SQLite can hold."""
    cells: list[Any] = []
    for part in data.split(b"\n")[:200]:
        text, kind = part[1:].decode("utf-8", "replace"), part[:1]
        if kind == b"b":
            cells.append(part[1:])
        elif kind == b"i":
            cells.append(max(-(2**63), min(2**63 - 1, int.from_bytes(part[1:9], "big", signed=True))))
        elif kind == b"f":
            cells.append(float(np.frombuffer(part[1:9].ljust(8, b"\0"))[0]))
        else:
            cells.append(None if kind == b"n" else text)
    cells += [None] * (-len(cells) % 4)
    return [tuple(cells[at : at + 4]) for at in range(0, len(cells), 4)]


def _sql_seeds() -> list[bytes]:
    rows = "".join(f"t{PERSON}{n}\nti{n}\nt{1 + n % 5}\nt{10**9 + n}\n" for n in range(LINES)).encode()
    with tempfile.TemporaryDirectory() as place:
        with sqlite3.connect(f"{place}/r.db") as db:
            db.execute("CREATE TABLE ratings (user, item, rating, timestamp)")
            db.execute("INSERT INTO ratings VALUES ('Zq7a', 'i', 3, 1)")
        db.close()
        return [rows, rows.replace(b"\nt4", b"\nf4"), Path(place, "r.db").read_bytes()]


# --- configuration ----------------------------------------------------------------------------------------------


def _config(data: bytes, place: Path) -> None:
    (place / "r.toml").write_bytes(data)
    load(place / "r.toml")


def _config_seeds() -> list[bytes]:
    files = sorted((Path(__file__).parents[2] / "dags" / "releases").glob("*.toml"))
    short = b'[release]\nname = "a"\nschedule = "@daily"\nstart_date = 2026-01-01\n[source]\nformat = "csv"\npath = "x"\n'
    return [*(one.read_bytes() for one in files), short + b"scale = [1, 5]\n[gate]\ntf-idf = 0.1\n"]


def _tables(data: bytes, place: Path) -> None:
    """Validate tables with values that TOML cannot even write."""
    try:
        tables = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(tables, dict):
        parse(tables)


def _tables_seeds() -> list[bytes]:
    found = [tomllib.loads(seed.decode()) for seed in _config_seeds()]
    return [json.dumps(one, default=str).encode() for one in found]


# --- published files --------------------------------------------------------------------------------------------


@functools.cache
def release_files(kind: str = "padded") -> dict[str, bytes]:
    """Return the files of a small release, published and private (below private/)."""
    from tests.checks import made_releases as made

    ratings = made.synthetic(24, 8, 0.5)
    release = made.grouped(ratings, k=4, shape=kind)
    with tempfile.TemporaryDirectory() as root:
        published, private = made.write(release, Path(root))
        files = {one.name: one.read_bytes() for one in published.iterdir()}
        files["private/membership.parquet"] = (private / "membership.parquet").read_bytes()
    return files | _judged(files)


def _judged(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return what publication adds to the files of a candidate: verdict, report, README, all named in the manifest."""
    from checks.privacy.integrity import NEVER_MISSING

    line = {"passed": True, "observed": 1.0, "threshold": 1.0, "ci_low": None, "ci_high": None, "n": 1}
    line |= {"severity": "gate", "detail": "as planned", "applicable": True, "void": False}
    checks = [{"name": name, **line} for name in NEVER_MISSING]
    added = {
        "checks.json": json.dumps(checks).encode(),
        "report.html": b"<p>report",
        "README.md": b"# release",
    }
    manifest = json.loads(files["manifest.json"])
    manifest["files"] |= {name: hashlib.sha256(content).hexdigest() for name, content in added.items()}
    manifest |= {"checks": checks, "created_at": "2026-01-02T00:00:00+00:00"}
    return {**added, "manifest.json": json.dumps(manifest).encode()}


ABOUT_RELEASE = ("manifest.json", "tombstone.json", "signature.json", "checks.json", "trusted-keys.json")
DATA = ("groups.parquet", "members.parquet", "items.parquet", "support.parquet")


def lay_out(name: str, data: bytes, place: Path) -> Path:
    """Put a release on disk in which one file is hostile and the manifest has the digest of that file."""
    from tasks.store import digest

    published = place / "published" / "made" / SNAPSHOT.isoformat()
    (place / "private" / "made" / SNAPSHOT.isoformat()).mkdir(parents=True)
    published.mkdir(parents=True)
    for file, content in release_files().items():
        to = place / "private" / "made" / SNAPSHOT.isoformat() if file.startswith("private/") else published
        (to / file.rpartition("/")[2]).write_bytes(content)
    (published / name).write_bytes(data)
    if name in DATA:
        manifest = json.loads((published / "manifest.json").read_text())
        manifest["files"][name] = digest(published / name)
        (published / "manifest.json").write_text(json.dumps(manifest))
    if name == "tombstone.json":
        (published / "manifest.json").unlink()
    return published


def read_release(published: Path) -> None:
    """Read a release with every command that takes one from a stranger."""
    from checks.gate import verify
    from tasks.cli._command import require_offered

    endings = []
    for command in (_expanded, _opened, _signed):
        try:
            require_offered(published)
            command(published)
        except MurmurError as problem:
            require_clean(problem)
            endings.append(problem)
    verdict = verify(published)
    lines = [check.to_json() for check in verdict.checks]
    json.dumps(lines, allow_nan=False)
    for line in lines:
        detail = str(line["detail"])
        if "crashed" in detail:
            raise Finding(f"a check crashed: {detail[:120]}")
        if any(not sign.isprintable() and sign != "\n" for sign in detail):
            raise Finding("a verdict holds control characters")
    if endings:
        raise endings[0]


def _expanded(published: Path) -> None:
    from tasks.data.expand import expand
    from tasks.data.expand_support import expand_support

    def silent(done: int, total: int) -> None:
        """Show no progress."""

    for to in ("csv", "movielens", "recbole"):
        out = published.parents[2] / f"out-{to}"
        try:
            expand(published, to, out, silent, [published] if to == "recbole" else [])
        except MurmurError as problem:
            require_clean(problem)
            if out.exists():
                raise Finding("a refused release left an output") from None
    expand_support(published, published.parents[2] / "out-support")


def _opened(published: Path) -> None:
    """Open the release as `attack --release` and `audit` do before they attack."""
    from checks.evidence.membership import Membership
    from checks.evidence.opened_cases import manifest_snapshot, refuse_unreadable
    from checks.evidence.release import Release
    from checks.evidence.file_metadata import foreign_metadata, row_group_sizes
    from tasks.cli._command import require_own_private

    private = published.parents[2] / "private" / "made" / SNAPSHOT.isoformat()
    require_own_private(published, private)
    manifest_snapshot(published)
    with refuse_unreadable("the published files", private):
        release = Release(published, private)
        Membership.read(private)
        release.profile_of_group  # noqa: B018 - reads all blocks
        foreign_metadata(release)
        row_group_sizes(release)


def _signed(published: Path) -> None:
    from tasks.signatures.trust import read_trusted, verify_signature

    keys = published / "trusted-keys.json"
    trusted = read_trusted(keys) if keys.exists() else read_trusted(_signing_key_file(published))
    verify_signature(published, trusted)


@functools.cache
def _signing_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def _signing_key_file(published: Path) -> Path:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    path = published.parents[2] / "key.pem"
    public = _signing_key().public_key()
    path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


def _about_release(data: bytes, place: Path) -> None:
    read_release(lay_out(ABOUT_RELEASE[data[0] % len(ABOUT_RELEASE) if data else 0], data[1:], place))


def _about_release_seeds() -> list[bytes]:
    import base64

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from tasks.signatures.envelope import seal

    manifest = release_files()["manifest.json"]
    stone = {"withdrawn_at": "2026-02-01T00:00:00+00:00", "reason": "wrong", "release": "made", "files": {}}
    raw = _signing_key().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    keys = {
        "keys": [
            {"public_key": base64.b64encode(raw).decode(), "valid_from": "2026-01-01", "valid_until": None}
        ]
    }
    sealed = seal({"_type": "x", "subject": [], "predicate": {"signedAt": "2026-01-01"}}, _signing_key())
    documents = [
        manifest,
        json.dumps(stone),
        json.dumps(sealed),
        release_files()["checks.json"],
        json.dumps(keys),
    ]
    return [
        bytes([number]) + (one if isinstance(one, bytes) else one.encode())
        for number, one in enumerate(documents)
    ]


def _document_changed(data: bytes, rng: random.Random) -> bytes:
    return data[:1] + made_json.mutated(data[1:], rng)


def _release_data(data: bytes, place: Path) -> None:
    read_release(lay_out(DATA[data[0] % len(DATA) if data else 0], data[1:], place))


def _release_data_seeds() -> list[bytes]:
    found = []
    for kind in ("padded", "simple"):
        files = release_files(kind)
        found += [bytes([number]) + files[name] for number, name in enumerate(DATA) if name in files]
    counts = {name: pa.array([0, 1, 2], pa.int32()) for name in ("group", "item", "raters")}
    lists = pa.table(
        {
            "group": pa.array([0, 1], pa.int32()),
            "size": pa.array([12, 12], pa.int32()),
            "items": pa.array([[0, 1, 2], None], pa.list_(pa.int32())),
            "ratings": pa.array([b"\0\1\2", bytes(8)], pa.binary()),
        }
    )
    return [*found, b"\3" + written(pa.table(counts)), b"\0" + written(lists, compression="zstd")]


def _data_changed(data: bytes, rng: random.Random) -> bytes:
    return data[:1] + made_parquet.mutated(data[1:], rng)


# --- recommendations ----------------------------------------------------------------------------------------------


def _restore(data: bytes, place: Path) -> None:
    from tasks.obfuscators._recommendation_restorer import restore

    (place / "lists.csv").write_bytes(data)
    (place / "private").mkdir()
    owner = pa.table(
        {"user": [f"{PERSON}{n}" for n in range(3)], "pseudonym": ["aa", "bb", "cc"], "group": [0, 1, 2]}
    )
    (place / "private" / "membership.parquet").write_bytes(written(owner))
    added = pa.table({"pseudonym": ["aa", "aa"], "item": ["=1+1", "i9"], "rating": [4.0, 5.0]})
    (place / "private" / "added.parquet").write_bytes(written(added))
    restore(place / "lists.csv", place / "private", place / "out.csv")
    for line in (place / "out.csv").read_text(encoding="utf-8").splitlines()[1:]:
        if any(cell.lstrip('"')[:1] in ("=", "@", "\t") for cell in line.split(",")):
            raise Finding("a cell begins like a formula")


def _restore_seeds() -> list[bytes]:
    lists = "user,item,score\naa,i1,3.5\naa,i2,3.1\nbb,i1,2\n"
    ranked = f'user,item,rating,rank\n{PERSON}0,"i,1",3.5,1\n{PERSON}1,i2,3.1,1\n'
    return [lists.encode(), ranked.encode()]


READERS: dict[str, Reader] = {
    "csv": Reader(_csv_seeds, _text, _csv),
    "movielens": Reader(_movielens_seeds, _text, _movielens),
    "netflix-prize": Reader(_netflix_seeds, _text, _netflix),
    "jester": Reader(_jester_seeds, _text, _jester),
    "parquet": Reader(_parquet_seeds, made_parquet.mutated, _parquet),
    "archives": Reader(_archive_seeds, _archive_changed, _archive),
    "user-tables": Reader(_user_table_seeds, _table_changed, _user_table),
    "sql": Reader(_sql_seeds, _text, _sql),
    "config": Reader(_config_seeds, _text, _config),
    "config-values": Reader(_tables_seeds, made_json.mutated, _tables),
    "release-documents": Reader(_about_release_seeds, _document_changed, _about_release),
    "release-data": Reader(_release_data_seeds, _data_changed, _release_data),
    "restore": Reader(_restore_seeds, _text, _restore),
}
