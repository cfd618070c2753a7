"""Test predictions that do not reveal an attribute, in a whole release."""

import contextlib
import datetime

import numpy as np
import pytest

from tasks import pipeline
from tasks.data.factors import open_model
from tasks.data.ratings import Ratings, class_numbers
from tasks.errors import Refused
from tasks.store import Store, read_json

SNAPSHOT = datetime.date(2026, 1, 1)
PEOPLE = {"synthetic": {"users": 1500, "items": 120, "ratings_per_user": 30.0}}


def auc(scores, labels):
    order = np.argsort(np.argsort(scores)) + 1
    positive = labels == 1
    return (order[positive].sum() - positive.sum() * (positive.sum() + 1) / 2) / (
        positive.sum() * (~positive).sum()
    )


def best_direction(users, labels):
    """Return the AUC of the direction that best separates the classes, fitted on half of the users, on the others."""
    known = np.arange(len(labels)) % 2 == 0
    points = users - users.mean(axis=0)
    means = [points[known & (labels == number)].mean(axis=0) for number in (0, 1)]
    covariance = np.cov(points[known].T) + 1e-6 * np.eye(points.shape[1])
    return auc(points[~known] @ np.linalg.solve(covariance, means[1] - means[0]), labels[~known])


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    from tasks.config import parse

    secret = tmp_path_factory.mktemp("secret") / "key"
    secret.write_bytes(b"k" * 32)
    secret.chmod(0o600)

    def make(name, **padding):
        table = {
            "release": {"name": "same"},  # and the same secret: what is held out is the same, too
            "source": {"format": "synthetic", **PEOPLE},
            "privacy": {"protect": ["gender"]},
            "padding": padding,
        }
        store = Store(tmp_path_factory.mktemp(name))
        with contextlib.suppress(Refused), pytest.MonkeyPatch.context() as environment:
            environment.setenv("MURMUR_SECRET_FILE", str(secret))
            pipeline.run(parse(table), SNAPSHOT, store)
        return store.private("same", SNAPSHOT)

    return {"plain": make("plain"), "neutral": make("neutral", neutral=["gender"])}


def verdict_checks(private):
    return {check["name"]: check for check in read_json(private / "verdict.json")["checks"]}


@pytest.mark.slow
def test_neutral_factors_do_not_reveal_attribute(releases):
    found = {}
    for name, private in releases.items():
        labels = class_numbers(Ratings(private / "work" / "ingest").attributes()["gender"])
        users = np.asarray(open_model(private / "work" / "padding").users, np.float64)
        found[name] = best_direction(users, labels)
    assert found["plain"] > 0.65
    assert 0.42 < found["neutral"] < 0.58


@pytest.mark.slow
def test_gate_detects_the_difference(releases):
    plain, neutral = (verdict_checks(releases[name])["attribute-inference"] for name in ("plain", "neutral"))
    assert plain["observed"] > neutral["observed"] + 0.05
    assert not plain["passed"]
    assert neutral["passed"], neutral["detail"]


@pytest.mark.slow
def test_baseline_model_is_not_neutral(releases):
    import pyarrow.parquet as pq

    columns = {
        name: pq.read_table(private / "work" / "evaluate" / "heldout.parquet").to_pydict()
        for name, private in releases.items()
    }
    errors = {
        name: np.sqrt(np.mean((np.array(c["original"]) - np.array(c["truth"])) ** 2))
        for name, c in columns.items()
    }
    assert errors["plain"] == pytest.approx(errors["neutral"])
    assert columns["plain"]["target"] != columns["neutral"]["target"]
