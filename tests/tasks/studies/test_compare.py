"""Test `murmur compare`: which entries it accepts, what it measures, and that no files remain."""

import json
import os
import re
import shutil
import stat
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tasks import pipeline, recommenders
from tasks.config import parse
from tasks.config.gate import check_names
from tasks.data.ratings import write_ids, write_matrix
from tasks.engine import Engine, engine
from tasks.errors import UsageError
from tasks.keys import OwnerKey
from tasks.progress import StepProgress
from tasks.store import Store, read_json, write_json
from tasks.studies.compare import utility
from tasks.studies.compare.comparison import PREFIX, _place, compare
from tasks.studies.compare.entries import parse_entries
from tasks.studies.compare.page import verdict, write_page
from tasks.studies.compare.plot import draw, label
from tests.conftest import SNAPSHOT

KEY = OwnerKey(b"k" * 32)
SCALE = (1.0, 5.0)


@pytest.fixture
def base(config):
    return config(privacy={"k": 4})


# What can be asked for


def test_entries_are_methods_with_settings(base):
    one, other = parse_entries(
        "predictive-padded, predictive-simple:k=20:padding.iterations=3:keep_observed=true", base
    )
    assert (one.method, one.settings, one.config.privacy.k) == ("predictive-padded", {}, 4)
    assert other.settings == {"k": 20, "padding.iterations": 3, "keep_observed": True}
    assert other.config.privacy.method == "predictive-simple"
    assert (other.config.privacy.k, other.config.padding.iterations) == (20, 3)
    assert other.config.padding.keep_observed
    assert other.config.source == base.source


def test_an_entry_sets_keys_of_the_methods_tables(base):
    [entry] = parse_entries("perturbation:amount=0.5:entries=all", base)
    assert (entry.config.perturbation.amount, entry.config.perturbation.entries) == (0.5, "all")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("", "nothing to compare"),
        (" , ", "nothing to compare"),
        ("magic", "there is no method 'magic'"),
        ("suppression:share=1", "suppression.share"),
        ("predictive-padded:colour=red", "no setting 'colour'"),
        ("predictive-padded:perturbation.amount=1", "no setting 'perturbation.amount'"),
        ("predictive-padded:method=predictive-simple", "no setting 'method'"),
        ("predictive-padded:k", "'k' is not a setting"),
        ("predictive-padded:k=3:k=4", "'privacy.k' is set twice"),
        ("predictive-padded:privacy.k=5:k=6", "'privacy.k' is set twice"),
        ("predictive-padded:k=5:privacy.k=5", "'privacy.k' is set twice"),
        ("predictive-padded:iterations=3", "padding.iterations or clustering.iterations"),
        ("predictive-padded:k=1", "privacy.k"),
        ("predictive-padded:k=many", "privacy.k"),
        ("predictive-padded,predictive-padded:k=4", "the same settings"),
    ],
)
def test_what_cannot_be_compared_is_said(base, asked, says):
    with pytest.raises(UsageError, match=says) as refusal:
        parse_entries(asked, base)
    assert "--methods" in refusal.value.where
    assert refusal.value.remedy


def test_groups_of_obfuscated_ratings_can_be_asked_for(base):
    plain, mixed = parse_entries("predictive-padded, predictive-padded:attribute=gender:share=0.1", base)
    assert plain.config.obfuscation.attribute is None
    assert (mixed.config.obfuscation.attribute, mixed.config.obfuscation.share) == ("gender", 0.1)
    alone, less = parse_entries("obfuscation:attribute=gender, suppression:share=0.5", base)
    assert (alone.config.privacy.method, less.config.suppression.share) == ("obfuscation", 0.5)
    with pytest.raises(UsageError, match="name a user attribute"):
        parse_entries("obfuscation", base)


# What is measured


@pytest.fixture
def shadow(tmp_path, taste_matrix):
    """The shadow release of a small world: (method) → (its directory, the ingested ratings, their matrix)."""
    matrix = taste_matrix(users=60, items=40)
    ingest = tmp_path / "given"
    ingest.mkdir()
    write_ids(ingest, "user", [f"person {n:04}" for n in range(60)])
    write_ids(ingest, "item", [f"i{n:04}" for n in range(40)])
    write_matrix(ingest, matrix)

    def make(method, **tables):
        config = parse(
            {
                "release": {"name": "t"},
                "source": {"format": "csv", "path": "-", "scale": [1, 5]},
                "privacy": {"method": method},
                **tables,
            }
        )
        opened = pipeline.open_run(config, SNAPSHOT, Store(tmp_path / method), Engine(), lambda *_: None)
        given = {"ingest": {"path": str(ingest), "digest": "given", "counts": {}}}
        evaluated = pipeline.execute("evaluate", replace(opened, key=KEY, given=given))
        return Path(evaluated["path"]) / "shadow-release", ingest, matrix

    return make


def test_what_was_held_out_and_what_was_not_are_all_ratings(shadow):
    release, ingest, matrix = shadow("predictive-padded")
    held = utility.read_held(release, ingest)
    assert 0 < len(held.truth) < 0.2 * matrix.nnz
    together = held.known.toarray()
    assert (together[held.person, held.item] == 0).all()
    together[held.person, held.item] = held.truth
    assert np.array_equal(together, matrix.toarray())
    membership = pq.read_table(release / "membership.parquet").to_pandas().sort_values("user")
    assert held.groups.tolist() == membership["group"].tolist()


def test_where_items_are_left_out_the_others_are_measured(shadow):
    release, ingest, matrix = shadow("suppression", suppression={"share": 0.5})
    held = utility.read_held(release, ingest)
    items = [int(name[1:]) for name in pq.read_table(release / "items.parquet").column("item").to_pylist()]
    together = held.known.toarray()
    together[held.person, held.item] = held.truth
    assert 0 < len(items) <= 20
    assert np.array_equal(together, matrix.toarray()[:, items])
    train, sizes, groups = utility.read_profiles(release)
    assert train.shape == held.known.shape
    assert train.nnz == held.known.nnz
    assert sizes.tolist() == [1] * 60
    assert sorted(groups) == sorted(held.groups)


def test_levels_and_spreads_by_hand():
    known = sp.csr_array(np.array([[5.0, 3.0, 0.0], [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]]))
    held = utility.Held(known, *(np.zeros(0, int) for _ in range(4)))
    rated, every = held.scales(every_item=False), held.scales(every_item=True)
    assert [part.tolist() for part in rated] == [[4, 2, 0], [1, 0, 0]]
    # The third item filled with the mean of 4: two deviations of 1 over three entries.
    assert [part.tolist() for part in every] == [[4, 2, 0], [pytest.approx(np.sqrt(2 / 3)), 0, 0]]


@pytest.mark.parametrize(("method", "dense"), [("predictive-padded", True), ("predictive-simple", False)])
def test_profiles_are_read_with_their_people(shadow, method, dense):
    release, _, _ = shadow(method)
    values, sizes, groups = utility.read_profiles(release)
    assert isinstance(values, np.ndarray) == dense
    assert values.shape == (len(sizes), 40)
    assert sizes.sum() == 60
    assert sorted(groups) == list(range(len(groups)))
    known = values.ravel() if isinstance(values, np.ndarray) else values.data
    assert (known >= 1).all()
    assert (known <= 5).all()
    assert known * 10 == pytest.approx(np.rint(known * 10), abs=1e-3)  # in steps of 0.1


def figures(release, held, tmp_path, workers):
    return utility.measure_release(
        release, held, SCALE, tmp_path, workers, StepProgress("r", lambda *_: None)
    )


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_measure_the_same(shadow, tmp_path):
    release, ingest, _ = shadow("predictive-simple")
    held = utility.read_held(release, ingest)
    alone = figures(release, held, tmp_path, Engine())
    with engine(2) as workers:
        assert figures(release, held, tmp_path, workers) == alone
    assert list(alone) == list(recommenders.compared())
    assert len(alone) >= 5
    assert not list(tmp_path.glob("*.np*"))  # what the workers read is gone


def test_the_originals_people_are_their_own_history(shadow, tmp_path):
    release, ingest, _ = shadow("predictive-padded")
    held = utility.read_held(release, ingest)
    found = utility.measure_original(held, SCALE, tmp_path, Engine(), StepProgress("o", lambda *_: None))
    means = held.known.sum(axis=0) / np.maximum((held.known > 0).sum(axis=0), 1)
    count = (held.known > 0).sum(axis=0)
    overall = held.known.sum() / held.known.nnz
    shrunk = (means * count + 5 * overall) / (count + 5)
    error = np.clip(shrunk[held.item], 1, 5) - held.truth
    assert found["popularity"]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert found["popularity"]["mae"] == pytest.approx(np.abs(error).mean())
    assert found["als"]["rmse"] < found["popularity"]["rmse"]


def test_z_scores_come_back_with_the_persons_own_level_and_spread(shadow, tmp_path):
    """The same release in z-scores of a person who has mean 3 and sd 2 predicts 3 + 2·z for them."""
    release, ingest, _ = shadow("predictive-padded")
    held = utility.read_held(release, ingest)
    plain = figures(release, held, tmp_path, Engine())
    # Everybody's known ratings become 1 and 5 in equal parts: mean 3, sd 2.
    known = held.known.copy()
    known.data[:] = np.where(np.arange(known.nnz) % 2, 1.0, 5.0)
    known = sp.csr_array(known)
    held_z = replace(held, known=known)
    z_release = tmp_path / "z"
    shutil.copytree(release, z_release)
    manifest = read_json(z_release / "manifest.json") | {"unit": "z-score"}
    write_json(z_release / "manifest.json", manifest)
    found = figures(z_release, held_z, tmp_path, Engine())
    train, weights, groups = utility.read_profiles(release)
    from tasks.recommenders import bias

    row = np.argsort(groups)[held.groups]
    guess = bias.fit(train, weights).predict(row[held.person], held.item)
    # Every record has every item here, so the deviation runs over every item.
    level, spread = (part[held.person] for part in held_z.scales(every_item=True))
    error = np.clip(level + spread * guess, 1, 5) - held.truth
    assert found["bias"]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-4)
    assert found["bias"]["rmse"] != pytest.approx(plain["bias"]["rmse"], rel=0.1)


def test_the_best_and_how_alike_they_rank():
    names = recommenders.compared()
    original = {
        n: {"rmse": 1 - x / 10, "mae": 0.5, "ndcg_at_10": x, "recall_at_10": x} for x, n in enumerate(names)
    }
    reverse = {n: original[m] for n, m in zip(names, reversed(names), strict=True)}
    same = utility.summary(original, original)
    assert (same["kendall_tau"], same["kendall_tau_rmse"]) == (1, 1)
    assert (same["best_at_ratings"], same["rmse"]) == (names[-1], 0.5)
    assert (same["best_at_lists"], same["ndcg_at_10"]) == (names[-1], 5)
    assert utility.summary(reverse, original)["kendall_tau"] == -1
    constant = dict.fromkeys(names, original[names[0]])
    assert utility.summary(constant, original)["kendall_tau"] is None


# The whole of it


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A csv of tastes of people with names that nothing may show."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("source") / "ratings.csv"
    taste = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 50))
    rows = ["user,item,rating"]
    for user in range(200):
        for item in np.flatnonzero(rng.random(50) < np.linspace(0.7, 0.1, 50)):
            rating = int(np.clip(np.rint(3.3 + 0.8 * taste[user, item] + rng.standard_normal()), 1, 5))
            rows.append(f"person-{user:03},film {item},{rating}")
    path.write_text("\n".join(rows) + "\n")
    return path


FILMS = {"release": {"name": "films"}, "privacy": {"k": 4, "l": 3}}


def films(source):
    return parse(FILMS | {"source": {"format": "csv", "path": str(source), "scale": [1, 5]}})


def test_too_few_people_for_an_entry(source, tmp_path):
    with pytest.raises(UsageError, match=r"200 users form fewer than privacy.l = 3") as refusal:
        compare(films(source), SNAPSHOT, Store(tmp_path), "predictive-padded,predictive-padded:k=99", key=KEY)
    assert "k=99" in refusal.value.where
    assert list((tmp_path / "private").iterdir()) == []


def test_a_plot_that_cannot_be_written_is_said_first(source, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "plot.svg"):
        with pytest.raises(UsageError, match="no plot") as refusal:
            compare(films(source), SNAPSHOT, Store(tmp_path / "s"), "predictive-padded", plot=place, key=KEY)
        assert "--plot" in refusal.value.where
    assert not (tmp_path / "s").exists()


def test_what_another_comparison_is_working_in_stays(tmp_path):
    store = Store(tmp_path)
    with _place(store) as mine:
        os.utime(mine, (time.time() - 3600,) * 2)
        young = mine.with_name(f"{PREFIX}young")
        young.mkdir()
        with _place(store) as other:
            assert mine.exists()
            assert young.exists()
            assert stat.S_IMODE(other.stat().st_mode) == 0o700
        assert not other.exists()
    assert not mine.exists()


def test_an_entry_that_cannot_be_made_is_named(source, tmp_path, monkeypatch):
    def unable(name, run):
        if name == "validate":
            raise UsageError("too wide", where="microaggregation", remedy="use bins")
        return made(name, run)

    made = pipeline.execute
    monkeypatch.setattr("tasks.studies.compare.comparison.pipeline.execute", unable)
    with pytest.raises(UsageError, match="too wide") as refusal:
        compare(films(source), SNAPSHOT, Store(tmp_path), "predictive-padded:k=7", key=KEY)
    assert "predictive-padded:k=7" in refusal.value.where


def test_one_entry_that_fails_does_not_lose_the_others(source, tmp_path, monkeypatch):
    """And a second run with the same notes makes what is missing only."""

    def row(study, entry):
        made.append(entry.text)
        if entry.method in broken:
            raise KeyError("person-007")
        study.originals["split"] = {}
        return {"method": entry.method, "status": "passed", "utility": {}}

    monkeypatch.setattr("tasks.studies.compare.comparison.Study.row", row)
    monkeypatch.setattr(
        "tasks.studies.compare.comparison.Study.original_row", lambda study, rows: dict(study.originals)
    )
    asked, notes = "predictive-padded,predictive-simple,predictive-boosted", tmp_path / "notes.json"
    made, broken = [], {"predictive-simple"}

    def answer(methods=asked):
        return compare(films(source), SNAPSHOT, Store(tmp_path / "s"), methods, key=KEY, notes=notes)

    found = answer()
    assert [one["status"] for one in found["rows"]] == ["passed", "failed", "passed"]
    failed = found["rows"][1]
    assert failed["why"].startswith("unexpected KeyError in test_compare.py, line ")
    assert (failed["worst_risk"], failed["risk"], failed["utility"]) == (None, {}, {})
    assert "person-" not in json.dumps(found)
    assert made == asked.split(",")
    made.clear()
    broken.clear()
    found = answer()
    assert [one["status"] for one in found["rows"]] == ["passed"] * 3
    assert made == ["predictive-simple"]
    made.clear()
    answer("predictive-padded:k=5")  # not what was made
    assert made == ["predictive-padded:k=5"]
    monkeypatch.setattr("tasks.studies.compare.comparison.pipeline.code_version", lambda: "other")
    made.clear()
    assert answer()["original"] == {"split": {}}
    assert made == asked.split(",")
    broken.add("predictive-padded")
    with pytest.raises(KeyError):  # nothing is left to be compared
        answer("predictive-padded:k=6")


@pytest.fixture(scope="module")
def compared(source, tmp_path_factory):
    """One comparison of a release that is published, one in other groups, one that is refused; and its store."""
    place = tmp_path_factory.mktemp("compared")
    store = Store(place / "store")
    left = place / "store" / "private" / f"{PREFIX}killed"  # what one that was killed left an hour ago
    left.mkdir(parents=True)
    (left / "membership.parquet").write_text("person-001")
    os.utime(left, (time.time() - 3600,) * 2)
    reported = []
    asked = "predictive-padded,predictive-simple:k=8,predictive-padded:keep_observed=true:min_contributors=1"
    answer = compare(
        films(source),
        SNAPSHOT,
        store,
        asked,
        plot=place / "plots" / "compare.svg",
        key=KEY,
        progress=lambda *step: reported.append(step),
    )
    return answer, place, reported


@pytest.mark.slow
def test_the_answer_has_a_row_per_entry_and_is_json(compared):
    answer, _, _ = compared
    assert (answer["snapshot"], answer["dataset"]) == ("2026-01-01", "csv")
    assert [row["method"] for row in answer["rows"]] == [
        "predictive-padded",
        "predictive-simple",
        "predictive-padded",
    ]
    assert [row["k"] for row in answer["rows"]] == [4, 8, 4]
    fields = {"method", "settings", "status", "failed", "risk", "worst_risk", "utility", "counts", "seconds"}
    measures = {"rmse", "mae", "ndcg_at_10", "recall_at_10", "kendall_tau", "kendall_tau_rmse"}
    for row in answer["rows"]:
        assert fields <= set(row)
        assert measures | {"target_deviation_rmse"} <= set(row["utility"])
        ranking = row["utility"]["ranking"]
        assert 0 < ranking["own_history_ndcg"] < ranking["original_ndcg"] + 0.1
        assert set(row["recommenders"]) == set(recommenders.compared())
        assert row["counts"]["users"] == 200
        assert 0 < row["worst_risk"] <= 1
    assert measures <= set(answer["original"]["utility"])
    of_first = answer["rows"][0]["utility"]["ranking"]
    of_original = answer["original"]["utility"]["ranking"]
    assert {name: of_first[name] for name in of_original} == of_original
    assert "original_ndcg" in of_original
    assert "own_history_ndcg" not in of_original
    assert answer["original"]["worst_risk"] > max(row["worst_risk"] for row in answer["rows"])
    assert answer["original"]["utility"]["kendall_tau"] == 1
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


@pytest.mark.slow
def test_a_refusal_is_a_result_like_any_other(compared):
    answer, _, _ = compared
    first, second, third = answer["rows"]
    assert (first["status"], first["failed"], first["why"]) == ("passed", [], None)
    assert second["status"] == "passed"
    assert third["status"] == "refused"
    assert "recovery" in third["failed"]
    assert third["why"] is None  # the checks' names say it
    assert third["utility"]["rmse"] > 0


@pytest.mark.slow
def test_the_worst_risk_is_of_the_attacks_held_to_one_over_k(compared):
    answer, _, _ = compared
    for row in answer["rows"]:
        assert row["worst_attack"] in ("nearest-record", "scoreboard-rh", "exact-rating", "fuzzy-rating")
        assert row["risk"][row["worst_attack"]] == row["worst_risk"]
        if row["status"] == "passed":
            assert row["worst_risk"] <= 1 / row["k"]
    # The others are reported beside it: this one recovers nearly everything.
    assert answer["rows"][2]["risk"]["recovery"] > answer["rows"][2]["worst_risk"]


@pytest.mark.slow
def test_ratings_are_read_once_and_unchanged_steps_are_shared(compared):
    answer, _, reported = compared
    assert "ingest" in answer["seconds"]
    assert not any("ingest" in row["seconds"] for row in answer["rows"])
    assert "padding" in answer["rows"][0]["seconds"]
    assert "padding" not in answer["rows"][1]["seconds"]  # another k needs no other model
    bars = [step[1:] for step in reported if step[0] == "compare"]
    assert bars == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert ("recommenders", 6, 6) in reported


@pytest.mark.slow
def test_nothing_is_published_and_nothing_stays(compared):
    _, place, _ = compared
    assert [path.name for path in (place / "store").iterdir()] == ["private"]
    assert list((place / "store" / "private").iterdir()) == []
    assert stat.S_IMODE((place / "store" / "private").stat().st_mode) == 0o700


@pytest.mark.slow
def test_no_id_is_in_answer_or_plot(compared):
    answer, place, _ = compared
    plot = place / "plots" / "compare.svg"
    assert "person-" not in json.dumps(answer)
    assert "person-" not in plot.read_text()
    assert stat.S_IMODE(plot.stat().st_mode) == 0o644


@pytest.mark.slow
def test_the_page_stands_alone_and_shows_every_entry(compared, tmp_path):
    answer, _, _ = compared
    write_page(answer, "films <b>", tmp_path / "compare.html")
    text = (tmp_path / "compare.html").read_text()
    assert "films &lt;b&gt;" in text
    assert "person-" not in text
    assert "predictive-simple (k 8)" in text
    assert "original, names removed" in text
    assert not re.search(r"(src|href)=\"(?!data:)|https?://|@import|url\(", text)
    assert stat.S_IMODE((tmp_path / "compare.html").stat().st_mode) == 0o644
    write_page({**answer, "rows": []}, "none", tmp_path / "none.html")
    assert "No method that was tried passes the gate." in (tmp_path / "none.html").read_text()


def test_the_verdict_names_the_best_of_those_that_pass():
    def row(method, status, rmse, own):
        ranking = {"own_history_ndcg": own}
        return {
            "method": method,
            "settings": {},
            "status": status,
            "utility": {"rmse": rmse, "ranking": ranking},
        }

    rows = [row("a", "passed", 0.9, 0.1), row("b", "passed", 1.0, 0.2), row("c", "refused", 0.1, 0.9)]
    said = verdict(rows)
    assert said.startswith("2 of 3 pass the gate: a, b.")
    assert "history of their own: b." in said
    assert "accurate ratings: a." in said
    assert "accurate" not in verdict(rows[1:])  # one alone is compared with nothing


@pytest.mark.slow
def test_the_plot_tells_published_from_refused_and_shows_one_over_k(compared, tmp_path):
    answer, place, _ = compared
    drawn = (place / "plots" / "compare.svg").read_text()
    assert "predictive-simple (k 8): passed" in drawn
    assert "predictive-padded (keep_observed true, min_contributors 1): refused" in drawn
    assert "1/4" in drawn
    assert "1/8" in drawn
    assert "http" not in drawn.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    draw(answer, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == drawn
    draw(answer | {"rows": []}, tmp_path / "none.svg")
    assert (tmp_path / "none.svg").exists()
    assert label({"method": "m", "settings": {"amount": 0.5, "clip": False}}) == "m (amount 0.5, clip false)"


@pytest.mark.slow
def test_groups_and_disguised_people_in_one_comparison(source, tmp_path):
    """Microaggregation and every kind of perturbation, from ratings to figures."""
    asked = "microaggregation,perturbation,perturbation:entries=all,perturbation:scheme=gna:amount=2.0"
    answer = compare(films(source), SNAPSHOT, Store(tmp_path), asked, key=KEY)
    grouped, *single = answer["rows"]
    assert grouped["method"] == "microaggregation"
    assert [row["settings"] for row in single] == [{}, {"entries": "all"}, {"scheme": "gna", "amount": 2.0}]
    for row in answer["rows"]:
        assert row["status"] in ("passed", "refused")
        assert set(row["risk"]) == set(check_names(("attacks",)))
        assert row["risk"]["link-existence"] is not None
        assert row["counts"]["users"] == 200
        # Ratings, not z-scores: nobody is a whole scale off.
        assert 0.5 < row["utility"]["rmse"] < 2
    assert (grouped["status"], grouped["worst_risk"] <= 1 / 4) == ("passed", True)
    # What was rated stays visible there, and people are found by it.
    assert (single[0]["status"], single[0]["worst_risk"] > 1 / 4) == ("refused", True)
    assert not answer["original"]["worst_attack"].endswith("-reconstruction")


@pytest.mark.slow
def test_records_with_less_and_with_more_in_one_comparison(source, tmp_path):
    """Suppression first: what it is compared with is not the whole original."""
    table = tmp_path / "users.csv"
    table.write_text("user,side\n" + "".join(f"person-{n:03},{'ab'[n % 2]}\n" for n in range(200)))
    about = {"path": str(table), "columns": ["side"]}
    where = {"format": "csv", "path": str(source), "scale": [1, 5], "attributes": about}
    asked = "suppression:share=0.5,suppression,obfuscation:attribute=side:strategy=random"
    asked += ",predictive-padded:attribute=side"
    answer = compare(parse(FILMS | {"source": where}), SNAPSHOT, Store(tmp_path / "s"), asked, key=KEY)
    less, searched, more, grouped = answer["rows"]
    assert [row["status"] for row in answer["rows"]] == ["refused", "refused", "refused", "passed"]
    assert less["counts"]["items"] == 25
    assert "no suppression passes" in searched["why"]
    assert searched["utility"] == {}
    assert more["counts"]["ratings"] == round(1.0389 * answer["original"]["counts"]["ratings"])
    assert grouped["counts"]["items"] == 50
    # Of all items, as for the groups: the same people and the same held-out ratings.
    assert answer["original"]["utility"]["rmse"] != less["utility"]["rmse"]
    assert answer["original"]["recommenders"]["popularity"]["rmse"] > 0
    assert grouped["utility"]["original_rmse"] == more["utility"]["original_rmse"]
