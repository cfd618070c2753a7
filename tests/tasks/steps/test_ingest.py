"""Test ingest: the arrays on disk, duplicates, bad rows by line, and the same bytes however it is run."""

import datetime
import filecmp
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.config import parse
from tasks.data.ratings import Ratings
from tasks.engine import engine
from tasks.errors import UsageError
from tasks.steps import ingest

ROOT = Path(__file__).parents[3]
SNAPSHOT = datetime.date(2026, 1, 1)

# All ratings of the source, as they are: which people a series keeps is tested in tests/tasks/series.
ALONE = {"release": {"name": "x"}, "series": {"mode": "independent"}}


@pytest.fixture
def job(tmp_path):
    """A job over a csv text or any source; k = 2 and l = 1 so that three people are enough."""
    numbers = iter(range(1000))

    def make(text="", *, workers=None, block_bytes=2**25, privacy=None, **source):
        number = next(numbers)
        if not source.get("format"):
            path = tmp_path / f"ratings-{number}.csv"
            path.write_text(text, newline="")
            source = {"format": "csv", "path": str(path), "scale": [1, 5], **source}
        config = parse({**ALONE, "source": source, "privacy": privacy or {"k": 2, "l": 1}})
        config = config.model_copy(
            update={"source": config.source.model_copy(update={"block_bytes": block_bytes})}
        )
        out = tmp_path / f"out-{number}"
        out.mkdir()
        return SimpleNamespace(
            params=ingest.params(config),
            config=config,
            snapshot=SNAPSHOT,
            out=out,
            engine=workers or _here(),
            progress=lambda done, total: None,
        )

    return make


def _here():
    from tasks.engine import Engine

    return Engine()


@pytest.fixture
def run(monkeypatch):
    """Run ingest without Great Expectations, whose import takes ten seconds; one test runs it with them."""
    monkeypatch.setattr(ingest, "_validate", lambda job, written: {"expectations": 0})
    return ingest.run


TEXT = """user,item,rating,timestamp
b,z,1,10
a,10,2,11
a,9,3,12
é,z,4,13
b,9,5,14
"""


def test_layout_by_hand(job, run):
    given_job = job(TEXT)
    counts = run(given_job)
    ratings = Ratings(given_job.out)
    assert list(map(str, ratings.user_ids())) == ["a", "b", "é"]
    assert ratings.item_ids() == ["10", "9", "z"]
    assert ratings.by_user.whole().toarray().tolist() == [[2, 3, 0], [0, 5, 1], [0, 0, 4]]
    assert ratings.by_item.whole().toarray().tolist() == [[2, 0, 0], [3, 5, 0], [0, 1, 4]]
    assert ratings.by_user.indptr.tolist() == [0, 2, 4, 5]
    assert ratings.by_user.indices.tolist() == [0, 1, 1, 2, 2]
    assert ratings.timestamps.tolist() == [11, 12, 14, 10, 13]
    sides = (ratings.by_user, ratings.by_item)
    assert all(side.values.dtype == np.float32 and side.indices.dtype == np.int32 for side in sides)
    assert all(side.indptr.dtype == np.int64 for side in sides)
    assert counts == {
        "rows_read": 5,
        "accepted": 5,
        "rejected": 0,
        "rejected_by_reason": {},
        "first_rejected": [],
        "duplicates": 0,
        "users": 3,
        "items": 3,
        "ratings": 5,
        "attributes": {},
        "expectations": 0,
    }
    assert sorted(f.name for f in given_job.out.iterdir()) == [
        "by_item",
        "by_user",
        "items.parquet",
        "users.parquet",
    ]


@pytest.fixture
def users(tmp_path):
    """[source.attributes] of a table with this text."""

    def make(text, **keys):
        path = tmp_path / "users.csv"
        path.write_text("user,side,more\n" + text)
        return {"attributes": {"path": str(path), "columns": ["side", "more"], **keys}}

    return make


def test_attributes_follow_the_users(job, run, users):
    table = users("é,zq-left,1\nnobody,zq-right,2\nb,zq-up,\nb,zq-right,\n")
    given_job = job(TEXT, **table)
    counts = run(given_job)
    stored = pq.read_table(given_job.out / "attributes.parquet")
    assert stored.to_pydict() == {"side": [None, "zq-right", "zq-left"], "more": [None, None, "1"]}
    opened = Ratings(given_job.out).attributes()
    assert {name: values.to_pylist() for name, values in opened.items()} == stored.to_pydict()
    assert all(isinstance(values, pa.DictionaryArray) for values in opened.values())
    assert counts["attributes"] == {"side": {"known": 2, "classes": 2}, "more": {"known": 1, "classes": 1}}
    assert "zq" not in json.dumps(counts)


def test_attributes_do_not_depend_on_the_blocks(job, run, users):
    table = users("é,left,1\nb,right,\n")
    jobs = [job(TEXT, block_bytes=block_bytes, **table) for block_bytes in (20, 2**25)]
    for given_job in jobs:
        run(given_job)
    assert _same(jobs[0].out, jobs[1].out)


@pytest.mark.parametrize(
    ("text", "protect", "what"),
    [
        ("a,left,1\nb,left,2\nnobody,right,3\n", ["side"], "do not differ in it"),
        ("a,,1\nb,,2\n", ["side"], "do not differ in it"),
        ("A,left,1\nB,right,2\n", [], "has no user who has ratings"),
        ("a,,\nb,,\n", [], "has no user who has ratings"),
    ],
)
def test_attributes_without_classes_are_refused(text, protect, what, job, run, users):
    given_job = job(TEXT, privacy={"k": 2, "l": 1, "protect": protect}, **users(text))
    with pytest.raises(UsageError, match=what):
        run(given_job)
    assert not (given_job.out / "attributes.parquet").exists()


def test_one_attribute_with_classes_is_enough(job, run, users):
    privacy = {"k": 2, "l": 1, "protect": ["more"]}
    given_job = job(TEXT, privacy=privacy, **users("a,left,1\nb,left,2\n"))
    assert run(given_job)["attributes"]["side"] == {"known": 2, "classes": 1}  # advisory: nothing to infer


def test_protecting_without_a_user_table_is_refused(job, run, tmp_path):
    """A format that has one in general; here the ratings stand alone."""
    (tmp_path / "ratings.dat").write_text("1::1::5::1\n2::1::4::1\n")
    source = {"format": "movielens-1m", "path": str(tmp_path / "ratings.dat")}
    assert run(job(**source))["attributes"] == {}
    with pytest.raises(UsageError, match="'gender' is to be hidden or protected, but there is no user table"):
        run(job(**source, privacy={"k": 2, "l": 1, "protect": ["gender"]}))


def test_a_bad_user_table_is_refused_early(job, run, users, monkeypatch):
    monkeypatch.setattr(ingest, "_ingest", lambda *_: pytest.fail("sorted"))
    with pytest.raises(UsageError, match="does not have 3 columns"):
        run(job(TEXT, **users("a,left\n")))


def test_a_changed_user_table_is_ingested_again(tmp_path, monkeypatch):
    from tasks import pipeline
    from tasks.engine import Engine
    from tasks.store import Store

    monkeypatch.setattr(ingest, "_validate", lambda job, written: {"expectations": 0})
    (tmp_path / "ml").mkdir()
    (tmp_path / "ml" / "ratings.dat").write_text("1::1::5::1\n2::1::4::1\n")
    table = tmp_path / "ml" / "users.dat"
    source = {"format": "movielens-1m", "path": str(tmp_path / "ml")}
    config = parse({**ALONE, "source": source, "privacy": {"k": 2, "l": 1}})

    def genders():
        release = pipeline.open_run(config, SNAPSHOT, Store(tmp_path / "store"), Engine(), lambda *_: None)
        place = Path(pipeline.execute("ingest", release)["path"])
        made = (place / "step.json").stat().st_mtime_ns
        return Ratings(place).attributes()["gender"].to_pylist(), made

    table.write_text("1::F::1::10::48067\n2::M::56::16::70072\n")
    first, again = genders(), genders()
    assert first == again  # not run twice
    table.write_text("1::M::1::10::48067\n2::F::56::16::70072, moved\n")
    changed = genders()
    assert (first[0], changed[0]) == (["F", "M"], ["M", "F"])
    assert changed[1] != first[1]


def test_no_timestamps_no_array(job, run):
    given_job = job("user,item,rating\na,x,1\nb,x,2\n")
    run(given_job)
    assert Ratings(given_job.out).timestamps is None
    assert not (given_job.out / "by_user" / "timestamps.npy").exists()


@pytest.mark.parametrize(
    ("header", "rows", "kept"),
    [
        ("user,item,rating,timestamp", ["a,x,1,30", "a,x,2,10", "a,x,3,20"], 1.0),  # last by timestamp
        ("user,item,rating,timestamp", ["a,x,1,30", "a,x,2,30", "a,x,3,20"], 2.0),  # then last in the file
        ("user,item,rating", ["a,x,1", "a,x,3", "a,x,2"], 2.0),
    ],
)
def test_duplicates(header, rows, kept, job, run):
    other = "b,x,5,1" if "timestamp" in header else "b,x,5"
    for block_bytes in (2**25, 20):  # in one block, and every row in its own
        given_job = job("\n".join([header, *rows, other]), block_bytes=block_bytes)
        counts = run(given_job)
        assert (counts["duplicates"], counts["ratings"], counts["accepted"]) == (2, 2, 4)
        assert Ratings(given_job.out).by_user.values.tolist() == [kept, 5.0]


ROW = st.tuples(
    st.sampled_from(["a", "b", "10", "9", "Ω"]),
    st.sampled_from(["x", "y", "é", "11"]),
    st.integers(1, 5),
    st.integers(0, 3),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROW, min_size=1, max_size=40),
    block_bytes=st.integers(10, 300),
    range_ratings=st.integers(1, 20),
    grains=st.integers(1, 6),
)
def test_any_rows_any_blocks_any_ranges(rows, block_bytes, range_ratings, grains, job, run, monkeypatch):
    """Against the obvious way to do it in memory, with ranges so small that every merge is exercised."""
    monkeypatch.setattr(ingest, "RANGE_RATINGS", range_ratings)
    monkeypatch.setattr(ingest, "GRAINS", grains)
    rows = [("a", "x", 1, 0), ("b", "x", 1, 0), *rows]
    expected: dict = {}
    for user, item, rating, when in rows:
        if when >= expected.get((user, item), (0, 0))[1]:
            expected[user, item] = (rating, when)
    text = "user,item,rating,timestamp\n" + "".join(f"{u},{i},{r},{t}\n" for u, i, r, t in rows)
    given_job = job(text, block_bytes=block_bytes)
    counts = run(given_job)
    ratings = Ratings(given_job.out)
    users, items = list(map(str, ratings.user_ids())), ratings.item_ids()
    assert users == sorted({u for u, _ in expected}, key=str.encode)
    assert items == sorted({i for _, i in expected}, key=str.encode)
    matrix = ratings.by_user.whole().tocoo()
    found = {
        (users[u], items[i]): (int(r), int(t))
        for u, i, r, t in zip(*matrix.coords, matrix.data, ratings.timestamps, strict=True)
    }
    assert found == expected
    assert (ratings.by_item.whole() != ratings.by_user.whole().T).nnz == 0
    assert ratings.by_user.whole().has_canonical_format
    assert ratings.by_item.whole().has_canonical_format
    assert counts["duplicates"] == len(rows) - len(expected)


@settings(max_examples=50, deadline=None)
@given(keys=st.lists(st.integers(0, 9), max_size=60))
def test_order_is_a_stable_argsort(keys):
    keys = np.array(keys, np.int32)
    assert ingest._order(keys, 10).tolist() == np.argsort(keys, kind="stable").tolist()


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("block_bytes", [64, 200, 2**25])
def test_parquet_parts_are_the_same_as_one_csv(kind, block_bytes, job, run, tmp_path):
    """Ids as text, numbers or dictionaries; a rejected row leaves neither its user nor its item behind."""
    users = ["10", "9", "10", "77", "8", "9", "10"]
    items = ["5", "5", "44", "66", "44", "7", "5"]
    values = [1.0, 2.0, 3.0, 99.0, 5.0, 1.0, 4.0]
    rows = "".join(f"{u},{i},{v}\n" for u, i, v in zip(users, items, values, strict=True))
    expected = job("user,item,rating\n" + rows, max_bad_rows=0.5)
    counts = run(expected)
    assert (counts["users"], counts["items"], counts["duplicates"], counts["rejected"]) == (3, 3, 1, 1)
    place = tmp_path / "parts"
    place.mkdir()
    for number, part in enumerate([slice(0, 3), slice(3, 7)]):
        ids = {name: pa.array(them[part]) for name, them in (("user", users), ("item", items))}
        ids = {name: pc.cast(them, kind) if pa.types.is_integer(kind) else them for name, them in ids.items()}
        if pa.types.is_dictionary(kind):
            ids = {name: them.dictionary_encode() for name, them in ids.items()}
        pq.write_table(
            pa.table({**ids, "rating": values[part]}), place / f"part-{number}.parquet", row_group_size=2
        )
    parts = job(format="parquet", path=str(place), scale=[1, 5], max_bad_rows=0.5, block_bytes=block_bytes)
    found = run(parts)
    assert found["first_rejected"] == [
        {"line": 1, "reason": "the rating is off the scale [1, 5]", "file": "part-1.parquet", "column": None}
    ]
    assert found | {"first_rejected": []} == counts | {"first_rejected": []}
    assert _same(expected.out, parts.out)


def _many(lines: int, bad: dict[int, str]) -> str:
    """A csv of so many lines, some replaced."""
    rows = ["user,item,rating", *(f"user-{n % 97},item-{n},{n % 5 + 1}" for n in range(2, lines + 1))]
    for line, text in bad.items():
        rows[line - 1] = text
    return "\n".join(rows) + "\n"


BAD = {
    5: "secret-anna,item-1",
    700: "secret-bert,item-1,nan",
    1999: "secret-carl,item-2,6",
    2000: ",item-2,1",
}


@pytest.mark.parametrize("block_bytes", [100, 4096, 2**25])
def test_few_bad_rows_are_counted(block_bytes, job, run):
    given_job = job(_many(2001, BAD), block_bytes=block_bytes, max_bad_rows=0.002)
    counts = run(given_job)
    assert (counts["rows_read"], counts["accepted"], counts["rejected"]) == (2000, 1996, 4)
    assert [(row["line"], row["reason"]) for row in counts["first_rejected"]] == [
        (5, "the line does not have 3 columns"),
        (700, "the rating is not a finite number"),
        (1999, "the rating is off the scale [1, 5]"),
        (2000, "the user id is empty"),
    ]
    assert sum(counts["rejected_by_reason"].values()) == 4
    assert "secret" not in json.dumps(counts)
    assert not any("secret" in str(user) for user in Ratings(given_job.out).user_ids())


@pytest.mark.parametrize("block_bytes", [100, 4096, 2**25])
def test_many_bad_rows_stop_the_run(block_bytes, job, run):
    given_job = job(_many(2001, BAD), block_bytes=block_bytes, max_bad_rows=0.0019)
    with pytest.raises(
        UsageError, match=r"4 of 2,000 rows cannot be used, more than source\.max_bad_rows"
    ) as caught:
        run(given_job)
    for line in BAD:
        assert f"line {line}: " in caught.value.what
    assert "secret" not in str(caught.value)
    assert not list(given_job.out.rglob("*.arrow"))


def test_only_the_first_ten_offenders_are_shown(job, run):
    bad = dict.fromkeys(range(10, 60), "broken")
    with pytest.raises(UsageError, match="50 of 99 rows") as caught:
        run(job(_many(100, bad), block_bytes=50))
    assert [f"line {n}:" in caught.value.what for n in (10, 19, 20)] == [True, True, False]


def test_no_line_of_jester_is_shown(job, run, tmp_path):
    """There the line is the user's id."""
    path = tmp_path / "jester-data-1.csv"
    path.write_text(("1,11" + ",99" * 99 + "\n") * 3 + "1,2\n")
    with pytest.raises(UsageError, match="4 of 4 rows") as caught:
        run(job(format="jester", path=str(path)))
    assert caught.value.what.splitlines()[1:] == [
        "    jester-data-1.csv: the line does not have 101 columns",
        "    jester-data-1.csv column 2: the rating is off the scale [-10, 10]",
    ]


@pytest.mark.parametrize("text", ["user,item,rating\n", "user,item,rating"])
def test_no_ratings(text, job, run):
    with pytest.raises(UsageError, match="the source has no ratings"):
        run(job(text))


def test_fewer_users_than_k(job, run):
    with pytest.raises(UsageError, match=r"3 users, fewer than privacy\.k = 4"):
        run(job(TEXT, privacy={"k": 4, "l": 1}))


def test_more_groups_asked_than_possible(job, run):
    with pytest.raises(UsageError, match=r"at most 1 group of privacy\.k = 2, fewer than privacy\.l = 2"):
        run(job(TEXT, privacy={"k": 2, "l": 2}))


def _same(first: Path, second: Path) -> bool:
    names = sorted(str(f.relative_to(first)) for f in first.rglob("*") if f.is_file())
    others = sorted(str(f.relative_to(second)) for f in second.rglob("*") if f.is_file())
    _, different, wrong = filecmp.cmpfiles(first, second, names, shallow=False)
    return names == others and not different and not wrong


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_and_blocks_change_no_byte(job, run, monkeypatch):
    source = {"format": "synthetic", "synthetic": {"users": 200, "items": 60, "ratings_per_user": 20.0}}
    lines = _many(3000, {})
    alone, alone_csv = job(**source), job(lines)
    counts, counts_csv = run(alone), run(alone_csv)
    with engine(2) as workers:
        together = job(**source, workers=workers, block_bytes=20_000)
        together_csv = job(lines, workers=workers, block_bytes=5000)
        assert run(together) == counts
        assert run(together_csv) == counts_csv
        broken = job(_many(3000, {2900: "broken"}), workers=workers, block_bytes=5000, max_bad_rows=0.0)
        with pytest.raises(UsageError, match="line 2900: the line does not have 3 columns"):
            run(broken)
        foreign = job(lines, workers=workers, block_bytes=5000, encoding="ascii")
        Path(foreign.params.source.path).write_text(lines + "zoë,item-1,1\n", encoding="latin-1")
        with pytest.raises(UsageError, match="the text is not ascii") as caught:
            run(foreign)
        assert caught.value.where.endswith("line 3001")
    assert _same(alone.out, together.out)
    assert _same(alone_csv.out, together_csv.out)


@pytest.mark.slow
def test_with_great_expectations_and_progress(job, monkeypatch):
    steps = []
    given_job = job(TEXT)
    given_job.progress = lambda done, total: steps.append((done, total))
    assert ingest.run(given_job)["expectations"] > 15
    assert steps == sorted(steps)
    assert steps[-1] == (400, 400)


def test_what_was_written_is_what_is_validated(job, monkeypatch):
    """A fault of ingest itself would be seen: here the values are spoilt on their way to the disk."""
    monkeypatch.setattr(ingest, "write_chunks", _spoilt(ingest.write_chunks))
    with pytest.raises(UsageError, match="outside the scale from 1 to 5: 5 ratings"):
        ingest.run(job(TEXT))


def _spoilt(save):
    def spoil(path, dtype, length, chunks):
        save(path, dtype, length, ((chunk + 10 if path.name == "values.npy" else chunk) for chunk in chunks))

    return spoil


def _in_a_process(code: str, *arguments: object) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.strip()


RUN = """
import datetime, resource, sys
from pathlib import Path
from types import SimpleNamespace
from tasks.config import parse
from tasks.engine import Engine
from tasks.errors import MurmurError, room_in
from tasks.steps import ingest
ingest._validate = lambda job, written: {"expectations": 0}
def run(path, out):
    out.mkdir()
    source = {"format": "csv", "path": str(path), "scale": [1, 5], "block_bytes": 2**18}
    config = parse({"release": {"name": "x"}, "source": source, "series": {"mode": "independent"}})
    ingest.run(SimpleNamespace(params=ingest.params(config), snapshot=datetime.date(2026, 1, 1), out=out,
                               engine=Engine(), progress=lambda done, total: None))
"""

DISK_FULL = (
    RUN
    + """
place = Path(sys.argv[1])
for limit in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    out = place / f"out-{limit}"
    try:
        with room_in(out):  # as the pipeline does
            run(place / "ratings.csv", out)
    except MurmurError as error:
        print(type(error).__name__, error.exit_code, error.what, (out / "parts").exists())
"""
)


@pytest.mark.slow
def test_full_disk_is_reported_and_leaves_no_parts(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(_many(20_000, {}))
    limits = (0, 1000, 50_000, 79_000)  # nothing, the ids, a part, the arrays cannot be written
    said = _in_a_process(DISK_FULL, tmp_path, *limits).splitlines()
    assert said == ["DiskFull 1 no space left False"] * 4


MEMORY = (
    RUN
    + """
ingest.RANGE_RATINGS = 100_000
for path in map(Path, sys.argv[1:]):
    run(path, path.with_suffix(".out"))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
)


@pytest.mark.slow
def test_memory_follows_block_size(tmp_path):
    """Eight times the ratings in a compressed file: hardly more memory."""
    rng = np.random.default_rng(0)
    paths = []
    for rows in (200_000, 1_600_000):
        paths.append(tmp_path / f"{rows}.csv.gz")
        frame = pd.DataFrame(
            {
                "user": rng.integers(10**9, 10**9 + 5000, rows),
                "item": rng.integers(10**9, 10**9 + 20_000, rows),
                "rating": rng.integers(1, 6, rows),
            }
        )
        text = io.BytesIO()
        frame.to_csv(text, index=False)
        paths[-1].write_bytes(gzip.compress(text.getvalue(), 1))
    small, large = map(int, _in_a_process(MEMORY, *paths).splitlines())
    assert large - small < 30  # MiB; the text is 38 and the same as arrays and strings some 100


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "directory", "users", "items", "ratings"),
    [("movielens-100k", "ml-100k", 943, 1682, 100_000), ("movielens-1m", "ml-1m", 6040, 3706, 1_000_209)],
)
def test_real_data(name, directory, users, items, ratings, real_data, job, run):
    given_job = job(format=name, path=str(real_data(directory)), block_bytes=2**21)
    counts = run(given_job)
    assert (counts["users"], counts["items"], counts["ratings"]) == (users, items, ratings)
    assert counts["rejected"] == counts["duplicates"] == 0
    file, separator = ("u.data", "\t") if name == "movielens-100k" else ("ratings.dat", "::")
    frame = pd.read_csv(
        real_data(directory) / file,
        sep=separator,
        names=["user", "item", "rating", "time"],
        dtype={"user": str, "item": str},
        engine="python" if len(separator) > 1 else "c",
        nrows=100_000,
    )
    stored = Ratings(given_job.out)
    user = pd.Index(list(map(str, stored.user_ids()))).get_indexer(frame["user"])
    item = pd.Index(stored.item_ids()).get_indexer(frame["item"])
    assert stored.by_user.whole()[user, item].tolist() == frame["rating"].tolist()
    assert stored.by_item.whole()[item, user].tolist() == frame["rating"].tolist()
