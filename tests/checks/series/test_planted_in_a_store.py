"""Plant violations in a series that the pipeline made, with all digests mended: the gate names the right check.

The store is made once, by the real steps and the real gate with checks of structure and series; a hundred newcomers are
too few for the attacks on new groups, and those are tested elsewhere. Every test edits a copy.
"""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.gate import audit
from checks.registry import registered
from tasks import pipeline
from tasks.cli._main import main
from tasks.config import parse
from tasks.series.manifests import comparable
from tasks.steps import evaluate
from tasks.store import Store, digest, digest_of, read_json, write_json
from tests.tasks.series.made_sources import month, write_source

JOINING = [160, 90, 1]
WAITING = "p250"  # joins in the last month, alone
CONFIG = """[release]
name = "s"
[source]
format = "csv"
path = "{path}"
scale = [1.0, 5.0]
[padding]
rank = 3
iterations = 2
"""


@pytest.fixture(scope="module", autouse=True)
def structure_alone():
    """Let the cheaper checks that judge a whole release run, and `recovery`, whose line a manifest must have."""
    names = (
        "carried-over",
        "catalogue",
        "cohorts",
        "diversity",
        "integrity",
        "k-anonymity",
        "public-figures",
    )
    names += ("recovery", "series")
    whole = {name: registered()[name] for name in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("checks.gate.registered", lambda: whole)
        patch.setattr("checks.gate.check_names", lambda: list(whole))
        patch.setattr("tasks.steps.validate.validate_verdict", lambda lines: {})
        patch.setattr(evaluate, "run", lambda job: {})
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Publish three months; return the directory of source and store."""
    root = tmp_path_factory.mktemp("made")
    config = parse(settings(write_source(root / "source", JOINING)))
    for number in range(3):
        pipeline.run(config, month(number), Store(root / "store"), progress=lambda *_: None)
    return root


def settings(path):
    return {
        "release": {"name": "s"},
        "source": {"format": "csv", "path": path, "scale": [1.0, 5.0]},
        "padding": {"rank": 3, "iterations": 2},
    }


class Edited:
    """Hold a copy of the store, and the tables of one of its releases; `failed` writes them back and judges them."""

    def __init__(self, made: Path, place: Path, number: int) -> None:
        shutil.copytree(made, place)
        self.root, self.number = place, number
        self.config = parse(settings(str(place / "source" / "{snapshot}.csv")))
        self.open("s")

    def open(self, name: str) -> None:
        store = Store(self.root / "store")
        self.public, self.private = (
            store.published(name, month(self.number)),
            store.private(name, month(self.number)),
        )
        self.manifest = read_json(self.public / "manifest.json")
        self.groups = pq.read_table(self.public / "groups.parquet").to_pylist()
        self.items = pq.read_table(self.public / "items.parquet")["item"].to_pylist()
        self.people = pq.read_table(self.private / "membership.parquet").to_pandas()

    @property
    def group_of(self):
        return {row["group"]: row for row in self.groups}

    def of_person(self, person: str) -> dict:
        """Return the group of a person."""
        [number] = self.people["group"][self.people["user"] == person]
        return self.group_of[number]

    def leave_out(self, persons) -> None:
        """Remove people from the membership, without a change of their groups."""
        self.people = self.people[~self.people["user"].isin(set(persons))]

    def seal(self) -> None:
        """Write all tables, and mend sizes, counts and digests."""
        held = self.people["group"].value_counts()
        self.groups = [{**row, "size": int(held.get(row["group"], 0))} for row in self.groups]
        self.groups = [row for row in self.groups if row["size"]]
        schema = pq.read_schema(self.public / "groups.parquet").remove_metadata()
        pq.write_table(pa.Table.from_pylist(self.groups, schema=schema), self.public / "groups.parquet")
        pq.write_table(pa.table({"item": pa.array(self.items, pa.string())}), self.public / "items.parquet")
        ordered = self.people.sort_values("pseudonym")
        labels = pa.array(ordered["group"], pa.int32())
        names = pa.array(ordered["pseudonym"], pa.string())
        pq.write_table(pa.table({"user": names, "group": labels}), self.public / "members.parquet")
        owner = {"user": pa.array(ordered["user"], pa.string()), "pseudonym": names, "group": labels}
        pq.write_table(pa.table(owner), self.private / "membership.parquet")
        lengths = [len(self.items) if row["items"] is None else len(row["items"]) for row in self.groups]
        self.manifest["counts"] = {
            "users": len(ordered),
            "items": len(self.items),
            "groups": len(self.groups),
            "ratings": int(np.dot(lengths, [row["size"] for row in self.groups])),
        }
        self.manifest["files"] = {name: digest(self.public / name) for name in self.manifest["files"]}
        write_json(self.public / "manifest.json", self.manifest)

    def mend_ledger(self) -> None:
        """Let the ledger know the edited manifest, without a thought for its chain."""
        named = (digest_of(comparable(self.manifest)), str(month(self.number)))
        with (
            contextlib.closing(sqlite3.connect(self.root / "store" / "private" / "ledger" / "s.db")) as db,
            db,
        ):
            db.execute("UPDATE releases SET manifest = ? WHERE snapshot = ?", named)

    def failed(self, *, mend_ledger: bool = True) -> set[str]:
        """Return the checks of structure and series that refuse the edited release, none because it could not run."""
        self.seal()
        if mend_ledger:
            self.mend_ledger()
        verdict = audit(self.public, self.private, self.config.source, month(self.number))
        judged = [one for one in verdict.checks if one.name != "recovery"]  # it judges new groups
        assert not [one.name for one in judged if one.void]
        return {one.name for one in judged if not one.passed}


@pytest.fixture
def second(made, tmp_path):
    """The second release: 160 people are carried over, 90 are new."""
    return Edited(made, tmp_path / "copy", 1)


@pytest.fixture
def third(made, tmp_path):
    """The third release: all groups are carried over, one newcomer waits."""
    return Edited(made, tmp_path / "copy", 2)


def test_the_tables_written_back_pass(second):
    """Mending alone changes nothing: what fails below fails for what was planted."""
    assert second.failed() == set()


@pytest.mark.parametrize("edited", ["report.html", "checks", "code_version"])
def test_forged_manifest(second, edited):
    """A report, check lines or a version that the ledger does not know are refused, all digests mended."""
    if edited == "report.html":
        (second.public / edited).write_text("<p>All is well.</p>")
    elif edited == "code_version":
        second.manifest[edited] = "other"
    else:
        second.manifest["checks"][0]["detail"] = "All is well."
        write_json(second.public / "checks.json", second.manifest["checks"])
    assert second.failed(mend_ledger=False) == {"integrity"}


def test_one_newcomer_in_an_old_group(third):
    group = third.of_person("p0")
    row = pd.DataFrame([{"user": WAITING, "pseudonym": "0" * 16, "group": group["group"]}])
    row["pseudonym"] = third.people["pseudonym"].iloc[0][:-1] + "~"
    third.people = pd.concat([third.people, row], ignore_index=True)
    assert {"carried-over", "series", "cohorts"} <= third.failed()


def test_profile_refreshed_after_one_change(third):
    group = third.of_person("p0")
    codes = bytearray(group["ratings"])
    codes[3] += 1 if codes[3] < 30 else -1
    group["ratings"] = bytes(codes)
    assert "carried-over" in third.failed()


def test_one_person_leaves_a_group(third):
    third.leave_out(["p0"])
    assert {"carried-over", "series"} <= third.failed()


def test_new_item_with_one_rater(second):
    """One newcomer rated it, and one new group lists it."""
    source = second.root / "source" / f"{month(1)}.csv"
    source.write_text(source.read_text() + "p200,secret,5,1768000000\n")
    everything = list(range(len(second.items)))
    for row in second.groups:
        row["items"] = everything if row["items"] is None else row["items"]
    second.items.append("secret")
    group = second.of_person("p200")
    group["items"], group["ratings"] = [*group["items"], len(everything)], group["ratings"] + b"\x28"
    assert "catalogue" in second.failed()


def test_checked_is_forged(second):
    """Everybody is grouped anew, as an independent release would, and the manifest claims a series."""
    shuffled = np.random.default_rng(1).permutation(second.people["group"].to_numpy())
    second.people = second.people.assign(group=shuffled)
    assert second.manifest["series"] == "checked"
    assert {"series", "carried-over"} <= second.failed()


def test_the_same_people_under_another_population(second):
    """A copy under another name, grouped anew; no ledger knows it."""
    for side in ("published", "private"):
        place, day = second.root / "store" / side, str(month(1))
        shutil.copytree(place / "s" / day, place / "t" / day)
    second.open("t")
    second.manifest |= {"release": "t", "created_at": "2027-01-01T00:00:00+00:00"}
    shuffled = np.random.default_rng(1).permutation(second.people["group"].to_numpy())
    second.people = second.people.assign(group=shuffled)
    assert {"series", "carried-over"} <= second.failed()


def test_two_groups_are_merged(third):
    one, other = third.of_person("p0"), third.of_person("p1")
    other = next(row for row in third.groups if row["group"] != one["group"]) if other is one else other
    third.people.loc[third.people["group"] == other["group"], "group"] = one["group"]
    assert {"carried-over"} <= third.failed()


def test_a_small_cohort(second):
    """Ten of the ninety newcomers are published, in two whole groups of five."""
    new = second.people[second.people["user"].isin({f"p{n}" for n in range(160, 250)})]
    kept = new["group"].value_counts().index[:2]
    second.leave_out(new["user"][~new["group"].isin(kept)])
    assert second.failed() >= {"cohorts"}


@pytest.mark.parametrize(
    "claim",
    [{"as_of": "2026-12-01"}, {"as_of": "p17"}, {"withheld": {"users": 1, "items": 0, "why": ""}}],
    ids=["as_of", "an id", "waiting"],
)
def test_figures_about_people_who_wait_or_another_time(third, claim):
    third.manifest |= claim
    assert third.failed() - {"integrity"} == {"public-figures"}


def test_murmur_audit_refuses(third, capsys):
    group = third.of_person("p0")
    group["ratings"] = bytes([group["ratings"][0] ^ 1]) + group["ratings"][1:]
    third.seal()
    file = third.root / "s.toml"
    file.write_text(CONFIG.format(path=third.config.source.path))
    arguments = ["audit", str(third.public), "--private", str(third.private), "--config", str(file), "--json"]
    assert main(arguments) == 3
    answer = json.loads(capsys.readouterr().out)
    assert "carried-over" in [one["name"] for one in answer["checks"] if not one["passed"]]
