"""Test suppression end to end: what is published, withheld and left out of the shadow run; no share need pass."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.cli import main
from tasks.config import load
from tasks.store import digest, files_below, read_json
from tests.conftest import SNAPSHOT

# 520 people, of whom many gave three ratings or fewer: some rated nothing but rare items.
SOURCE = """
[release]
name = "films"
[source]
format = "synthetic"
[source.synthetic]
users = 520
items = 50
ratings_per_user = 6.0
[privacy]
method = "suppression"
"""


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "key"
    path.write_bytes(b"k" * 32)
    path.chmod(0o600)
    return path


@pytest.fixture(autouse=True)
def _one_secret(secret, monkeypatch):
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))


@pytest.fixture(scope="module")
def run(tmp_path_factory, secret):
    """`murmur run`: (more of the file) → exit code, private directory of the release."""

    def make(more=""):
        root = tmp_path_factory.mktemp("run")
        (root / "films.toml").write_text(SOURCE + more)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MURMUR_SECRET_FILE", str(secret))
            code = main(
                ["run", str(root / "films.toml"), "--snapshot", SNAPSHOT.isoformat(), "--store", str(root)]
            )
        assert load(root / "films.toml").privacy.method == "suppression"
        assert not (root / "published").exists()
        return code, root / "private" / "films" / SNAPSHOT.isoformat()

    return make


@pytest.fixture(scope="module")
def halved(run):
    code, private = run("[suppression]\nshare = 0.5\n")
    assert code == 3  # nobody hides in such records
    return private / "work"


def test_left_out_items_and_people_are_not_published_and_told_as_withheld(halved):
    candidate, source = halved / "validate" / "candidate", halved / "ingest"
    manifest = read_json(candidate / "manifest.json")
    items = pq.read_table(candidate / "items.parquet").column("item").to_pylist()
    everything = pq.read_table(source / "items.parquet").column("item").to_pylist()
    counts = dict(zip(everything, np.diff(np.load(source / "by_item" / "indptr.npy")), strict=True))
    gone = set(everything) - set(items)
    assert max(counts[item] for item in gone) < min(counts[item] for item in items)
    people = pq.read_table(source / "users.parquet").num_rows
    owner = pq.read_table(halved / "validate" / "private" / "membership.parquet").to_pandas()
    members = pq.read_table(candidate / "members.parquet").column("user").to_pylist()
    assert sorted(owner["pseudonym"]) == members
    assert (owner["group"] >= 0).all()
    assert len(members) < people  # the case is in these data
    withheld = manifest["withheld"]
    assert (withheld["users"], withheld["items"]) == (people - len(members), len(gone))
    assert withheld["why"]
    assert manifest["counts"] == {
        "users": len(members),
        "items": len(items),
        "groups": len(members),
        "ratings": sum(counts[item] for item in items),
    }


def test_the_judge_finds_files_source_and_shadow_in_order(halved):
    checks = {c["name"]: c for c in read_json(halved / "validate" / "candidate" / "checks.json")}
    for name in ("integrity", "k-anonymity", "pseudonyms", "diversity", "contributors"):
        assert checks[name]["passed"], checks[name]["detail"]
    # The shadow release could be used: there is a figure, and what absent people seem to be found by.
    assert checks["membership-inference"]["observed"] is not None
    assert checks["utility"]["observed"] is not None or "no scale" in checks["utility"]["detail"]
    verdict = read_json(halved / "validate" / "private" / "verdict.json")
    assert all(found["baseline"] is not None for found in verdict["attacks"]["scoreboard-rh"])


def test_the_shadow_leaves_out_the_same_items(halved):
    shadow, candidate = halved / "evaluate" / "shadow-release", halved / "validate" / "candidate"
    assert digest(shadow / "items.parquet") == digest(candidate / "items.parquet")
    items = pq.read_table(candidate / "items.parquet").num_rows
    held_out = pq.read_table(shadow / "held_out.parquet").to_pandas()
    assert held_out["item"].between(0, items - 1).all()
    released = set(
        pq.read_table(halved / "validate" / "private" / "membership.parquet").column("user").to_pylist()
    )
    owner = pq.read_table(shadow / "membership.parquet").to_pandas()
    assert set(owner["user"]) <= released
    assert (owner["group"] < 0).any()


def test_held_out_ratings_of_left_out_items_are_null(halved):
    table = pq.read_table(halved / "evaluate" / "heldout.parquet").to_pandas()
    shadow = pq.read_table(halved / "evaluate" / "shadow-release" / "held_out.parquet")
    assert table["target"].isna().any()
    assert len(shadow) < len(table)
    # Of an item that stays there is a figure, unless the person has no record in the shadow.
    assert table["target"].notna().sum() <= len(shadow)
    assert table["target"].notna().sum() > 0.9 * len(shadow)
    rest = table.drop(columns=["target", "similar"])
    assert rest.notna().all(axis=None)


def test_readme_and_report_say_what_is_missing(halved):
    candidate = halved / "validate" / "candidate"
    readme, report = ((candidate / name).read_text() for name in ("README.md", "report.html"))
    withheld, items = (read_json(candidate / "manifest.json")[key]["items"] for key in ("withheld", "counts"))
    share = f"{withheld / (withheld + items):.1%}"
    said = f"{share} of the items were left out (a share set by the owner), those with the fewest ratings"
    assert f"except for the items that few people rated. {said}" in " ".join(readme.split())
    assert said in report
    assert "Items that few people rated are missing, and so are people who rated nothing else." in readme
    assert "other values than the person gave" not in readme
    assert "$" not in readme
    assert "noise" not in readme


def test_the_same_bytes_again(halved, run):
    _, again = run("[suppression]\nshare = 0.5\n")
    for step in ("suppression", "evaluate", "validate/candidate"):
        assert files_below(halved / step) == files_below(again / "work" / step)


@pytest.mark.slow
def test_that_no_share_passes_is_an_answer(run, capsys):
    code, private = run()
    assert code == 3
    printed = capsys.readouterr().err
    assert "no suppression passes" in printed
    assert "choose a method that publishes groups" in printed
    curve = read_json(private / "curve.json")
    assert curve["chosen"] is None
    shares = [trial["share"] for trial in curve["trials"]]
    assert shares == sorted(shares)
    assert shares[0] == 0
    for trial in curve["trials"]:
        assert trial["refused_by"]
        risks = {c["name"]: c["ci_high"] for c in trial["checks"]}
        assert set(risks) >= {"scoreboard-rh", "exact-rating"}
        assert all(risks[name] is not None for name in ("scoreboard-rh", "exact-rating"))
    assert all(
        a["ratings"] >= b["ratings"] for a, b in zip(curve["trials"], curve["trials"][1:], strict=False)
    )
    assert not (private / "work" / "suppression" / "trial").exists()
    ids = pq.read_table(private / "work" / "ingest" / "users.parquet").column("user").to_pylist()
    assert not any(json.dumps(user) in json.dumps(curve) for user in ids)
