"""Test a series of synthetic rows from end to end: three snapshots within a budget, the fourth refused unread."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from checks.gate import audit, verify
from checks.registry import registered
from tasks import formats
from tasks.cli import main
from tasks.config import load
from tasks.store import Store, digest, read_json

pytestmark = pytest.mark.slow

USERS, ITEMS = 7_919, 211  # numbers that nothing else has
MORE = "…"  # further digits may follow
MONTHS = ("2026-01-01", "2026-02-01", "2026-03-01")
CONFIG = f"""
[release]
name = "rows"
[source]
format = "synthetic"
[source.synthetic]
users = {USERS}
items = {ITEMS}
ratings_per_user = 30.0
[privacy]
method = "dp-synthetic"
[privacy.budget]
epsilon = 20.0
per = "year"
releases = 3
"""


class Made:
    """Hold the store, the configuration, and the answer of each run."""

    def __init__(self, place: Path) -> None:
        self.store, self.config = place / "store", place / "rows.toml"
        self.config.write_text(CONFIG)
        self.answers: dict[str, dict] = {}

    def run(self, snapshot: str, capsys) -> tuple[int, dict]:
        """Run `murmur run`."""
        capsys.readouterr()
        code = main(["run", str(self.config), "--snapshot", snapshot, "--store", str(self.store), "--json"])
        return code, json.loads(capsys.readouterr().out)

    def public(self, snapshot: str) -> Path:
        return self.store / "published" / "rows" / snapshot

    def private(self, snapshot: str) -> Path:
        return self.store / "private" / "rows" / snapshot


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Publish three snapshots, with one secret and without workers."""
    place = tmp_path_factory.mktemp("rows")
    secret = place / "secret"
    secret.write_bytes(b"s" * 32)
    secret.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MURMUR_SECRET_FILE", str(secret))
        patch.setenv("MURMUR_WORKERS", "0")
        patch.delenv("MURMUR_LEDGER", raising=False)
        found = Made(place)
        for snapshot in MONTHS:
            out = ["run", str(found.config), "--snapshot", snapshot, "--store", str(found.store)]
            assert main(out) == 0
        yield found


def test_three_snapshots_are_published(made, capsys):
    for snapshot in MONTHS:
        manifest = read_json(made.public(snapshot) / "manifest.json")
        assert manifest["method"] == "dp-synthetic"
        assert manifest["counts"]["users"] == 0
        assert manifest["counts"]["groups"] == len(pd.read_parquet(made.public(snapshot) / "groups.parquet"))
        assert verify(made.public(snapshot)).passed
        assert read_json(made.private(snapshot) / "verdict.json")["passed"]
    code, answer = made.run(MONTHS[0], capsys)
    assert (code, answer["already_published"]) == (0, True)
    assert answer["report"] == str(made.private(MONTHS[0]) / "report.html")
    assert any(check["n"] for check in answer["checks"])  # the owner sees figures
    assert answer["utility"]["ranking"]["own_history_ndcg"] > answer["utility"]["ranking"]["popularity_ndcg"]


def test_the_fourth_is_refused_before_the_source_is_opened(made, capsys, monkeypatch):
    def opened(*_, **__):
        raise AssertionError("the source was opened")

    for name in ("state", "attributes", "pieces", "read", "content"):
        monkeypatch.setattr(formats, name, opened)
    before = sorted(path for path in made.store.glob("private/rows/*") if path.is_dir())
    code, answer = made.run("2026-04-01", capsys)
    assert (code, answer["status"]) == (3, "refused")
    assert "3 release(s) of synthetic rows have spent epsilon = 20 in 2026" in answer["why"]
    assert not made.public("2026-04-01").exists()
    left = [path for path in made.private("2026-04-01").rglob("*") if path.is_file() and path.name[0] != "."]
    assert ({path.parent.name for path in left}, len(before)) == (
        {"triggers"},
        3,
    )  # who asked for it, and nothing else


def test_the_ledger_adds_up(made, capsys):
    capsys.readouterr()
    assert main(["ledger", str(made.config), "--store", str(made.store), "--check", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["spent"]["periods"][0]["releases"] == 3
    assert answer["spent"]["periods"][0]["epsilon"] == pytest.approx(20.0, rel=1e-6)
    assert (answer["people"]["released"], answer["classes"]["number"]) == (0, 0)
    assert main(["ledger", str(made.config), "--store", str(made.store)]) == 0
    assert "privacy budget" in capsys.readouterr().out


def test_the_whole_gate_again(made):
    config = load(made.config)
    verdict = audit(made.public(MONTHS[1]), made.private(MONTHS[1]), config.source)
    assert verdict.passed, verdict.headline
    assert "budget" not in verdict.not_applicable


def test_rows_for_other_programs(made, capsys, tmp_path):
    out = tmp_path / "rows.csv"
    assert main(["expand", str(made.public(MONTHS[0])), "--to", "csv", str(out)]) == 0
    rows = pd.read_csv(out)
    counts = read_json(made.public(MONTHS[0]) / "manifest.json")["counts"]
    assert (len(rows), rows["user"].nunique()) == (counts["ratings"], counts["groups"])
    assert rows["user"].iloc[0] == "row-0000001"
    assert rows["rating"].between(1, 5).all()
    assert not rows.duplicated(["user", "item"]).any()
    capsys.readouterr()
    earlier = [str(made.public(one)) for one in MONTHS[:2]]
    again = [
        "expand",
        str(made.public(MONTHS[2])),
        "--to",
        "csv",
        str(tmp_path / "x.csv"),
        "--earlier",
        *earlier,
    ]
    assert main(again) == 2
    assert "synthetic rows have no older cohorts" in capsys.readouterr().err


# What the public gets


def secrets_of(private: Path) -> set[str]:
    """Return everything that was measured on the data, as it would be written: exact counts, and the gate's figures."""
    ingest = read_json(private / "work" / "ingest" / "step.json")["counts"]
    held = read_json(private / "utility" / "summary.json")
    exact = {ingest[name] for name in ("users", "items", "ratings", "rows_read", "accepted")}
    exact |= {held[name] for name in ("held_out", "users", "absent_users")}
    figures = [
        check[name]
        for check in read_json(private / "verdict.json")["checks"]
        for name in ("observed", "ci_low", "ci_high", "n")
        if check[name]
    ]
    exact |= {int(one) for one in figures if one == int(one)}
    written = {form for number in exact if number >= 100 for form in (str(number), f"{number:,}")}
    parts = [abs(one) for one in figures if one != int(one)]
    rounded = {f"{one:.3f}" for one in parts} - {f"{check.threshold:.3f}" for check in registered().values()}
    return written | rounded | {f"{one:.6f}"[:6] + MORE for one in parts}


def public_texts(public: Path) -> dict[str, str]:
    """Return every public file that holds text, without the digests in it."""
    names = [path.name for path in public.iterdir()]
    assert sorted(names) == [
        *("README.md", "checks.json", "croissant.json", "groups.parquet", "items.parquet"),
        *("manifest.json", "members.parquet", "report.html"),
    ]
    texts = {name: (public / name).read_text() for name in names if not name.endswith(".parquet")}
    return {name: re.sub(r"[0-9a-f]{64}", "", text) for name, text in texts.items()}


def found_in(text: str, secrets: set[str]) -> set[str]:
    """Return which of these figures occur in a text, not as a part of a longer number."""
    patterns = {one: re.escape(one.removesuffix(MORE)) + (r"\d*" if MORE in one else "") for one in secrets}
    return {one for one, pattern in patterns.items() if re.search(rf"(?<![\d,.]){pattern}(?!\d)", text)}


def test_nothing_measured_is_public(made):
    for snapshot in MONTHS:
        secrets = secrets_of(made.private(snapshot))
        # The number of drawn items and rows may be an exact number by chance; it is the mechanism's output.
        counts = read_json(made.public(snapshot) / "manifest.json")["counts"]
        secrets -= {form for number in counts.values() for form in (str(number), f"{number:,}")}
        assert len(secrets) > 8
        for name, text in public_texts(made.public(snapshot)).items():
            assert found_in(text, secrets) == set(), name


@pytest.mark.parametrize("name", ["README.md", "report.html", "checks.json", "manifest.json"])
def test_a_planted_figure_is_found(made, name):
    """Positive control of the test above."""
    secrets = secrets_of(made.private(MONTHS[0]))
    text, figure = public_texts(made.public(MONTHS[0]))[name], min(one for one in secrets if MORE in one)
    told = f"{text} {USERS:,} people, nDCG {figure.removesuffix(MORE)}17"
    assert found_in(told, secrets) - found_in(text, secrets) == {f"{USERS:,}", figure}


def test_the_owner_has_the_figures(made):
    private = made.private(MONTHS[0])
    report = (private / "report.html").read_text()
    assert "For the owner of the data alone" in report
    assert found_in(report, secrets_of(private))
    assert len(pd.read_parquet(private / "membership.parquet")) == 0
    assert digest(private / "spent.json") == digest(private / "work" / "statistics" / "spent.json")
    assert Store(made.store).root == made.store


def test_an_erased_person_is_in_no_later_release(made, capsys):
    """The last test: it changes the store. What is public stays; what the owner has of the person goes."""
    before = {one: digest(made.public(one) / "groups.parquet") for one in MONTHS}
    membership = pd.read_parquet(made.private(MONTHS[0]) / "utility" / "shadow-release" / "people.parquet")
    person = membership["user"].iloc[5]
    arguments = ["--user", person, "--store", str(made.store), "--json"]
    capsys.readouterr()
    assert main(["erase", str(made.config), *arguments]) == 0
    assert "synthetic rows" in json.loads(capsys.readouterr().out)["residual"]
    assert main(["erase", str(made.config), *arguments, "--apply"]) == 0
    capsys.readouterr()
    people = [pd.read_parquet(file) for file in made.store.glob("private/rows/*/utility/**/*.parquet")]
    assert not any(person in set(table["user"]) for table in people if "user" in table)
    for one in MONTHS:
        assert digest(made.public(one) / "groups.parquet") == before[one]
        assert verify(made.public(one)).passed
    code, answer = made.run("2027-01-01", capsys)
    assert (code, answer["status"]) == (0, "published")
    ingest = made.private("2027-01-01") / "work" / "ingest"
    users = pd.read_parquet(ingest / "users.parquet")["user"]
    assert person not in set(users)
    assert len(users) == read_json(ingest / "step.json")["counts"]["users"]
    capsys.readouterr()
    assert main(["ledger", str(made.config), "--store", str(made.store), "--check", "--json"]) == 0
