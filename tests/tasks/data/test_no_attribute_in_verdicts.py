"""What the user table says of people appears in nothing that is published, whether the gate lets it pass or not."""

import numpy as np
import pytest

from tasks import formats, pipeline
from tasks.config import parse
from tasks.errors import Refused
from tasks.store import Store, read_json
from tests.conftest import SNAPSHOT

VALUES = ("qvixen", "qstallion")  # words of no other file


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Synthetic ratings with a user table beside them."""
    place = tmp_path_factory.mktemp("source")
    made = parse(
        {
            "release": {"name": "x"},
            "source": {
                "format": "synthetic",
                "synthetic": {"users": 1500, "items": 90, "ratings_per_user": 30.0},
            },
        }
    ).source
    rows = ["user,item,rating,timestamp"]
    for block in formats.read_all(made, SNAPSHOT):
        columns = (block.users.to_pylist(), block.items.to_pylist(), block.ratings, block.timestamps)
        rows += [f"{u},{i},{r:g},{t}" for u, i, r, t in zip(*columns, strict=True)]
    (place / "ratings.csv").write_text("\n".join(rows) + "\n")
    table = formats.attributes(made, SNAPSHOT)
    names, genders = (table.column(name).to_pylist() for name in ("user", "gender"))
    lot = np.random.default_rng(0).random(len(names)) < 0.4
    rows = [
        f"{n},{VALUES[g == 'M']},{VALUES[by_lot]}"
        for n, g, by_lot in zip(names, genders, lot.astype(int), strict=True)
    ]
    (place / "users.csv").write_text("\n".join(["user,gender,lot", *rows]) + "\n")
    return {
        "format": "csv",
        "path": str(place / "ratings.csv"),
        "scale": [1, 5],
        "attributes": {"path": str(place / "users.csv"), "columns": ["gender", "lot"]},
    }


def make(source, store, protect, k):
    config = parse(
        {
            "release": {"name": "films"},
            "source": source,
            "privacy": {"method": "predictive-padded", "k": k, "protect": [protect]},
        }
    )
    pipeline.run(config, SNAPSHOT, store)


def shows(directory):
    """The values that files of a directory show."""
    text = b"".join(file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file())
    return {value for value in VALUES if value.encode() in text}


@pytest.mark.slow
def test_values_are_not_published(source, tmp_path, monkeypatch):
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(tmp_path / "key"))
    (tmp_path / "key").write_bytes(b"k" * 32)
    (tmp_path / "key").chmod(0o600)
    store = Store(tmp_path / "store")
    make(source, store, "lot", 10)
    published = store.published("films", SNAPSHOT)
    checks = {check["name"]: check for check in read_json(published / "checks.json")}
    assert checks["attribute-inference"]["passed"]
    assert checks["attribute-inference"]["detail"].count("lot:") == 1
    assert checks["unprotected-attributes"]["detail"].count("gender:") == 1
    assert {"checks.json", "report.html", "README.md", "manifest.json"} <= {
        f.name for f in published.iterdir()
    }
    assert "lot: gradient boosting, retrained" in (published / "report.html").read_text("utf-8")
    assert shows(published) == set()
    verdict = read_json(store.private("films", SNAPSHOT) / "verdict.json")
    assert {"area_under_curve", "recall_by_class"} <= set(verdict["attacks"]["attribute-inference"][0])
    assert not any(value in str(verdict) for value in VALUES)


@pytest.mark.slow
def test_values_are_not_in_a_refusal(source, tmp_path, monkeypatch):
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(tmp_path / "key"))
    (tmp_path / "key").write_bytes(b"k" * 32)
    (tmp_path / "key").chmod(0o600)
    store = Store(tmp_path / "store")
    with pytest.raises(Refused) as refusal:
        make(source, store, "gender", 3)
    assert "attribute-inference" in str(refusal.value)
    assert not any(value in str(refusal.value) for value in VALUES)
    candidate = store.private("films", SNAPSHOT) / "work" / "validate" / "candidate"
    assert (candidate / "report.html").exists()
    assert shows(candidate) == set()
