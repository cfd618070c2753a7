"""Test `murmur plan --releases`: what it finds in ledger, private files and source, and that its table is narrow."""

import datetime
import json

import pytest

from tasks.cli import main
from tasks.store import Store, write_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate

CONFIG = """
[release]
name = "films"
schedule = "0 3 1 * *"
[source]
format = "csv"
scale = [1.0, 5.0]
path = "{path}"
{columns}
[privacy]
k = 2
[series]
population = "{population}"
min_cohort = 4
{more}
"""
DAY = 86_400
MONTH = 30.4375 * DAY
SNAPSHOT = datetime.date(2026, 2, 1)
END = datetime.datetime(2026, 2, 2, tzinfo=datetime.UTC).timestamp()


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    return Store(tmp_path / "store")


@pytest.fixture
def plan(tmp_path, store, capsys):
    """Run the command; return the exit code and the JSON object, or the table."""

    def run(*arguments: str, more: str = "", columns: str = "", table: bool = False):
        config = tmp_path / "films.toml"
        given = {"path": tmp_path / "ratings.csv", "population": POPULATION, "columns": columns, "more": more}
        config.write_text(CONFIG.format(**given))
        capsys.readouterr()
        form = [] if table else ["--json"]
        code = main(["plan", str(config), "--store", str(store.root), *arguments, *form])
        shown = capsys.readouterr().out
        return code, shown if table else json.loads(shown)

    return run


@pytest.fixture
def source(tmp_path):
    """Write a source: of each person the months before the snapshot's end at which the person rated."""

    def write(people: dict[str, list[float]]) -> None:
        rows = [
            f"{user},i{place},4,{int(END - ago * MONTH)}"
            for user, months in people.items()
            for place, ago in enumerate(months)
        ]
        (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating,timestamp", *rows]) + "\n")

    return write


def publish(store, tmp_path, snapshot, people, items, facts, loss, width=0.1):
    publish_candidate(
        make_candidate(tmp_path / snapshot, store, snapshot, people, items=items), store, snapshot
    )
    private = store.root / "private/films" / snapshot
    write_json(private / "series.json", facts)
    interval = {"ci_low": loss - width / 2, "ci_high": loss + width / 2}
    write_json(private / "verdict.json", {"checks": [{"name": "utility", "observed": loss, **interval}]})


@pytest.fixture
def series(tmp_path, store):
    """Publish two releases: of nine people four enter and one waits, then four enter and two wait."""
    facts = {"eligible": 5, "carried_people": 0, "cohort": 4, "waiting": 2, "mean_age_days": 121.75}
    publish(store, tmp_path, "2026-01-01", ["ann", "bob", "cid", "dan"], ["x"], facts, 0.1)
    facts = {"eligible": 10, "carried_people": 4, "cohort": 4, "waiting": 5, "mean_age_days": 30.4375}
    publish(store, tmp_path, "2026-02-01", ["eve", "fay", "gus", "hal"], [], facts, 0.3)


def test_from_releases(plan, series):
    """Five people came in 31 days: four entered, and one more waits than before."""
    code, answer = plan("--releases", "2")
    assert (code, answer["status"], answer["released_so_far"]) == (0, "planned", 8)
    assert answer["newcomers_per_month"] == round(5 / (31 / 30.4375), 1)
    assert "5 people came between the releases of 2026-01-01 and 2026-02-01" in answer["rate_from"]
    first, second = answer["outlook"]
    # 28 days bring 5 · 28 / 31 = 4.52 people; with two who wait, 6.52 enter; three are not eligible.
    assert (first["snapshot"], first["newcomers"], first["cohort"]) == ("2026-03-01", 5, 7)
    assert (first["released"], first["waiting"], first["share_of_eligible"]) == (15, 3, 1.0)
    entered = 2 + 5 * 28 / 31
    age = (4 * (4 + 59 / 30.4375) + 4 * (1 + 28 / 30.4375) + entered * 1) / (8 + entered)
    assert first["age_months"] == round(age, 1)
    assert first["loss"] == round((4 * 0.1 + 4 * 0.3 + entered * 0.3) / (8 + entered), 3)
    assert (second["snapshot"], second["newcomers"], second["cohort"]) == ("2026-04-01", 5, 5)
    assert "2 of 2 cohorts" in answer["loss_from"]


def test_backfill_says_nothing_about_newcomers(plan, series, store, tmp_path):
    facts = {"eligible": 9, "carried_people": 8, "cohort": 1, "waiting": 0}
    publish(store, tmp_path, "2025-12-01", ["ida", "jan"], [], facts, 0.2, width=0.6)
    code, answer = plan("--releases", "1")
    assert (code, answer["newcomers_per_month"]) == (0, 4.9)
    assert answer["outlook"][0]["snapshot"] == "2026-03-01"
    assert answer["released_so_far"] == 10
    assert "2 of 3 cohorts" in answer["loss_from"]  # the third one's interval is too wide


def test_before_the_first_release(plan, source, store):
    """Two people came in each of the last three months, one long ago; one has too few ratings."""
    ages = {f"p{n}": [n // 2 + 0.5, n // 2 + 0.3] for n in range(6)}
    source(ages | {"old": [3.9, 3.8], "short": [0.2]})
    code, answer = plan("--releases", "2", "--snapshot", "2026-02-01", more="min_ratings = 2")
    assert (code, answer["released_so_far"]) == (0, 0)
    assert answer["newcomers_per_month"] == 2.0  # the median of 3, 2 and 2
    assert "last 3 months" in answer["rate_from"]
    first, second = answer["outlook"]
    assert (first["snapshot"], first["newcomers"], first["cohort"], first["waiting"]) == (
        "2026-02-01",
        7,
        7,
        1,
    )
    assert first["age_months"] == pytest.approx((0.4 * 2 + 1.4 * 2 + 2.4 * 2 + 3.85) / 7, abs=0.06)
    assert second["forms_cohort"] is False
    assert first["loss"] is None
    assert not store.root.exists()


def test_after_one_release(plan, source, store, tmp_path):
    """People of the source who were released before are not counted again."""
    publish(store, tmp_path, "2026-01-01", ["ann", "bob", "cid", "dan"], ["x"], {}, 0.25)
    source({name: [2.5] for name in ("ann", "bob", "cid", "dan")} | {f"p{n}": [0.5] for n in range(5)})
    code, answer = plan("--releases", "1", "--snapshot", "2026-02-01")
    (one,) = answer["outlook"]
    assert (code, one["snapshot"], one["cohort"], one["released"]) == (0, "2026-02-01", 5, 9)
    assert one["loss"] == 0.25


def test_no_times(plan, tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\na,x,4\nb,x,3\n")
    code, answer = plan("--releases", "1")
    assert code == 2
    assert "no times" in answer["error"]["what"]


@pytest.mark.parametrize(
    ("arguments", "more", "what"),
    [
        (("--releases", "0"), "", "at least one release"),
        (("--releases", "1"), 'mode = "independent"', "has no successor"),
    ],
)
def test_refused(plan, arguments, more, what):
    code, answer = plan(*arguments, more=more)
    assert code == 2
    assert what in answer["error"]["what"]


def test_table_is_narrow(plan, series):
    code, shown = plan("--releases", "24", table=True)
    assert code == 0
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    assert shown.count("\n  202") == 24
    assert "new population: " in shown
