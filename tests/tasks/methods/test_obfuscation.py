"""Test obfuscation end to end: published before groups, refused alone, attributes and additions never published."""

import csv
import json
import stat

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tasks.cli import main
from tasks.config import Source
from tasks.config.source import Synthetic
from tasks.data.ratings import Ratings
from tasks.formats import attributes, read_all
from tasks.store import files_below, read_json
from tests.conftest import SNAPSHOT

DAY = SNAPSHOT.isoformat()
CLASSES = ("zzwoman", "zzman")  # words that nothing else in a release has


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """800 made-up people as a csv file, and a table that says who is which (of a few it does not)."""
    root = tmp_path_factory.mktemp("world")
    source = Source(format="synthetic", synthetic=Synthetic(users=800, items=200, ratings_per_user=25.0))
    blocks = list(read_all(source, SNAPSHOT))
    columns = {"user": "users", "item": "items", "rating": "ratings"}
    ratings = {
        name: np.concatenate([np.asarray(getattr(b, of)) for b in blocks]) for name, of in columns.items()
    }
    ratings["user"] = np.char.add("person-", ratings["user"].astype(str))
    pd.DataFrame(ratings).to_csv(root / "ratings.csv", index=False)
    people = attributes(source, SNAPSHOT).to_pandas()
    words = people["gender"].map({"F": CLASSES[0], "M": CLASSES[1]})
    words[::20] = ""
    table = pd.DataFrame({"user": "person-" + people["user"], "gender": words})
    table.to_csv(root / "users.csv", index=False)
    secret = root / "secret"
    secret.write_bytes(b"k" * 32)
    secret.chmod(0o600)
    return root


@pytest.fixture(scope="module")
def run(world):
    """`murmur run`: (store, method, share) → exit code, the store."""

    def make(store, method, share=0.05, workers="0"):
        file = world / f"{store}.toml"
        file.write_text(
            f"[release]\nname = 'films'\n[privacy]\nmethod = '{method}'\nk = 5\n"
            f"[source]\nformat = 'csv'\npath = '{world / 'ratings.csv'}'\nscale = [1, 5]\n"
            "columns = {user = 'user', item = 'item', rating = 'rating'}\n"
            f"[source.attributes]\npath = '{world / 'users.csv'}'\ncolumns = ['gender']\n"
            f"[obfuscation]\nattribute = 'gender'\nshare = {share}\nstrategy = 'rfpp'\n"
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MURMUR_SECRET_FILE", str(world / "secret"))
            patch.setenv("MURMUR_WORKERS", workers)
            arguments = ["run", str(file), "--snapshot", DAY, "--store", str(world / store)]
            code = main(arguments)
        return code, world / store

    return make


@pytest.fixture(scope="module")
def combined(run):
    """Obfuscation before groups, published."""
    code, store = run("combined", "predictive-padded")
    assert code == 0
    return store


def published_of(store):
    found = files_below(store / "published" / "films" / DAY)
    manifest = read_json(store / "published" / "films" / DAY / "manifest.json")
    return {name: digest for name, digest in found.items() if name != "manifest.json"}, {
        key: value for key, value in manifest.items() if key not in ("created_at", "code_version")
    }


def test_no_attribute_and_no_addition_is_published(combined):
    place = combined / "published" / "films" / DAY
    expected = {
        "groups.parquet",
        "members.parquet",
        "items.parquet",
        "manifest.json",
        "checks.json",
        "report.html",
    }
    assert {file.name for file in place.iterdir()} == expected | {"README.md", "croissant.json"}
    for file in place.iterdir():
        content = file.read_bytes().lower()
        if file.suffix == ".parquet":
            content += pq.read_table(file).to_pandas().to_csv().lower().encode()
            assert not pq.read_schema(file).metadata
        assert not any(word.encode() in content for word in CLASSES), file.name
        assert b"person-" not in content, file.name
        assert b"added" not in content or file.suffix != ".parquet"
    assert set(pq.read_schema(place / "groups.parquet").names) == {"group", "size", "items", "ratings"}
    manifest = read_json(place / "manifest.json")
    assert [manifest["withheld"][name] for name in ("users", "items")] == [0, 0]
    assert "gender" not in json.dumps({k: v for k, v in manifest.items() if k != "checks"})


def test_readers_are_told_that_ratings_were_made_up(combined):
    place = combined / "published" / "films" / DAY
    for name in ("README.md", "report.html"):
        assert "made-up ratings were added, 5.00% of the number of real ones" in (place / name).read_text()


def test_the_owner_has_what_was_added_and_nobody_else_may_read_it(combined):
    private = combined / "private" / "films" / DAY
    path = private / "added.parquet"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    added = pq.read_table(path).to_pandas()
    assert list(added.columns) == ["user", "pseudonym", "item", "rating"]
    real = Ratings(private / "work" / "ingest")
    assert len(added) == round(0.05 * len(real.by_user.values))
    owner = pq.read_table(private / "membership.parquet").to_pandas()
    assert added.merge(owner, on=["user", "pseudonym"])["item"].size == len(added)
    users, items = real.user_ids().to_pylist(), real.item_ids()
    rated, whole = (r.by_user.whole().toarray() for r in (real, Ratings(private / "work" / "obfuscation")))
    for row in added.itertuples():
        cell = users.index(row.user), items.index(row.item)
        assert rated[cell] == 0
        assert whole[cell] == row.rating
    assert set(added["rating"]) <= {1, 2, 3, 4, 5}
    assert not (private / "curve.json").exists()


def test_a_recommenders_lists_get_it_back(combined, tmp_path, capsys):
    private = combined / "private" / "films" / DAY
    names = pq.read_table(private / "membership.parquet").column("pseudonym").to_pylist()
    lists = tmp_path / "lists.csv"
    lists.write_text("user,item,score\n" + "".join(f"{name},something,3.5\n" for name in names))
    command = ["restore", str(lists), "--private", str(private), "--out", str(tmp_path / "out.csv"), "--json"]
    assert main(command) == 0
    answer = json.loads(capsys.readouterr().out)
    added = pq.read_table(private / "added.parquet").to_pandas()
    assert answer["put_back"] == len(added)
    with (tmp_path / "out.csv").open() as file:
        rows = {(row["user"], row["item"]): float(row["score"]) for row in csv.DictReader(file)}
    assert all(rows[row.pseudonym, row.item] == row.rating for row in added.itertuples())


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_two_workers_publish_the_same_bytes(combined, run):
    code, store = run("again", "predictive-padded", workers="2")
    assert code == 0
    assert published_of(store) == published_of(combined)


def test_what_is_judged_is_the_source(combined):
    """The judge knows nothing of additions: he counts people, items and ratings of the source, and nothing breaks."""
    checks = {c["name"]: c for c in read_json(combined / "published" / "films" / DAY / "checks.json")}
    for name in ("integrity", "contributors", "recovery", "link-existence", "own-ratings", "utility"):
        assert checks[name]["passed"], checks[name]["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["predictive-simple", "microaggregation"])
def test_other_groups_can_be_made_of_obfuscated_ratings(run, method):
    code, store = run(method, method)
    verdict = read_json(store / "private" / "films" / DAY / "verdict.json")
    assert code == 0, verdict["failed"]
    assert read_json(store / "published" / "films" / DAY / "manifest.json")["method"] == method


@pytest.mark.slow
def test_predictions_around_real_means_give_these_away(run):
    """So many additions that more than one published cell of ten is none of a real rating: as in boosted releases."""
    code, store = run("many", "predictive-simple", share=0.3)
    verdict = read_json(store / "private" / "films" / DAY / "verdict.json")
    assert code == 3
    assert "recovery" in verdict["failed"]


@pytest.mark.slow
def test_by_itself_it_is_refused_because_people_are_found(run, capsys):
    code, store = run("alone", "obfuscation")
    assert code == 3
    assert "choose a method that publishes groups" in capsys.readouterr().err
    private = store / "private" / "films" / DAY
    failed = read_json(private / "verdict.json")["failed"]
    assert {"scoreboard-rh", "exact-rating"} <= set(failed)
    assert not {"integrity", "k-anonymity", "pseudonyms", "attribute-inference"} & set(failed)
    answer = {c["name"]: c for c in read_json(private / "verdict.json")["checks"]}
    assert "no attribute is protected" in answer["attribute-inference"]["detail"]  # hidden is not promised
    assert answer["unprotected-attributes"]["observed"] is not None  # but looked at
    assert not (store / "published").exists()
    candidate = private / "work" / "validate" / "candidate"
    readme = (candidate / "README.md").read_text()
    assert "Some ratings are made up" in readme
    assert "$" not in readme
    manifest = read_json(candidate / "manifest.json")
    assert manifest["counts"]["ratings"] == Ratings(private / "work" / "obfuscation").by_user.whole().nnz
    assert (private / "work" / "validate" / "private" / "added.parquet").exists()
