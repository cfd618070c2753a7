"""Test that attempts are counted and kept, and that trials of larger k are neither published nor counted."""

import contextlib
import datetime
import re
import stat
from pathlib import Path

import pytest

from checks.evidence.opened_cases import released_case
from checks.gate import run_check
from checks.registry import registered
from checks.result import CheckResult, Verdict
from checks.stats import attempts_so_far
from tasks import pipeline
from tasks.cli import _main
from tasks.config import load, parse
from tasks.data.attempts import HISTORY, read_history
from tasks.data.remedies import of_settings
from tasks.errors import Refused
from tasks.store import Store, read_json, remove
from tasks.studies import larger_k
from tests.conftest import SNAPSHOT

pytestmark = pytest.mark.slow


def settings(seed=0, method="predictive-simple", k=5):
    return {
        "release": {"name": "films"},
        "source": {"format": "synthetic", "synthetic": {"users": 90, "items": 30, "ratings_per_user": 8.0}},
        "privacy": {"method": method, "k": k},
        "padding": {"rank": 2, "iterations": 2},
        "clustering": {"seed": seed},
    }


@pytest.fixture
def judged(monkeypatch):
    """Replace the gate: it refuses by these checks below this k, and notes k and the number of attempts."""
    seen: list[tuple[int, int]] = []
    rule = {"below": 1000, "failed": ["homogeneity"], "methods": {"predictive-simple", "predictive-padded"}}

    def judge(release_dir, *_):
        k, attempts = read_json(release_dir / "manifest.json")["privacy"]["k"], attempts_so_far()
        seen.append((k, attempts))
        concerned = read_json(release_dir / "manifest.json")["method"] in rule["methods"]
        failed = rule["failed"] if k < rule["below"] and concerned else []
        names = ["integrity", "homogeneity", "membership-inference", "recovery"]
        lines = [
            CheckResult(name, name not in failed, 0.5, 0.4, 0.4, 0.6, 9, "gate", "by hand") for name in names
        ]
        return Verdict(lines, attempts)

    monkeypatch.setattr("tasks.steps.validate.judge", judge)
    return seen, rule


def release(store, **changes):
    try:
        return pipeline.run(parse(settings(**changes)), SNAPSHOT, store)
    except Refused as refusal:
        return refusal


def test_attempts_are_counted_and_kept(tmp_path, judged):
    seen, rule = judged
    store = Store(tmp_path)
    private = store.private("films", SNAPSHOT)
    assert "homogeneity" in release(store).what
    remove(private / "work")  # the same release, made and judged again
    release(store)
    release(store, seed=1)
    remove(private / "work")
    assert [attempts for _, attempts in seen] == [1, 1, 2]
    rule["below"] = 0
    assert release(store, seed=2)["counts"]["published"]
    assert seen[-1] == (5, 3)
    assert [entry["passed"] for entry in read_history(private)] == [False, False, True]
    assert stat.S_IMODE((private / HISTORY).stat().st_mode) == 0o600
    assert read_json(private / "verdict.json")["attempts"] == 3
    public, owners = (
        (at / "report.html").read_text() for at in (store.published("films", SNAPSHOT), private)
    )
    assert "98.33 %" in public, "readers learn how wide the intervals are"
    assert "attempt" not in public.lower(), "what was refused before is the owner's affair"
    assert "3, this release included" in owners
    assert "homogeneity" not in read_json(private / "verdict.json")["failed"]
    assert stat.S_IMODE((private / "report.html").stat().st_mode) == 0o600
    remove(private / "work")
    assert release(store, seed=2)["counts"]["published"]  # cleared steps give the same bytes
    refusal = release(store, seed=3)
    assert "published already" in refusal.what
    assert read_json(private / "verdict.json")["attempts"] == 3
    remove(private / "work")
    assert release(store, seed=2)["counts"]["published"]
    assert [attempts for _, attempts in seen] == [
        1,
        1,
        2,
        3,
        3,
        3,
    ]  # other settings are refused before the gate


def test_larger_k_is_tried_without_publishing(tmp_path, judged):
    seen, rule = judged
    rule["below"] = 20
    store, config = Store(tmp_path), parse(settings())
    refusal = release(store)
    assert "`murmur run CONFIG --snapshot 2026-01-01 --find-k` measures which larger k" in refusal.remedy
    assert "`murmur plan CONFIG --snapshot 2026-01-01` finds the cheapest setting that does" in refusal.remedy
    assert "tighter" not in refusal.remedy
    found = larger_k.find_k(config, SNAPSHOT, store, lambda *_: None)
    tried = [{"k": 10, "failed": ["homogeneity"]}, {"k": 20, "failed": []}]
    assert found == {"passes": 20, "tried": tried, "other": None}
    assert (
        larger_k.in_words(found)
        == "k = 20 would pass (tried with other draws) (refused: k = 10: homogeneity)"
    )
    assert not store.published("films", SNAPSHOT).exists()
    private = store.private("films", SNAPSHOT)
    assert [entry["attempts"] for entry in read_history(private)] == [1]
    assert read_json(private / "verdict.json")["failed"] == ["homogeneity"]  # still the release's own
    assert not list(private.glob(".find-k-*"))
    assert seen == [(5, 1), (10, 1), (20, 1)]


def test_find_k_on_the_command_line(tmp_path, judged, capsys, monkeypatch):
    _, rule = judged
    file = tmp_path / "films.toml"
    file.write_text(
        "[release]\nname = 'films'\n[source]\nformat = 'synthetic'\n[source.synthetic]\nusers = 90\nitems = 30\n"
        "ratings_per_user = 8.0\n[privacy]\nmethod = 'predictive-simple'\n[padding]\nrank = 2\niterations = 2\n"
    )
    arguments = ["run", str(file), "--snapshot", "2026-01-01", "--store", str(tmp_path / "s"), "--find-k"]
    assert _main.main(arguments) == 3
    words = (
        "no k that was tried would pass (refused: k = 10: homogeneity; k = 20: homogeneity); method predictive-padded "
        "at the same k would"
    )
    assert f"{words} not either: homogeneity" in capsys.readouterr().err
    rule["methods"] = {"predictive-simple"}
    assert _main.main(arguments) == 3
    assert f"{words}\n" in capsys.readouterr().err
    rule["failed"] = ["integrity"]
    remove(Path(tmp_path, "s", "private", "films", "2026-01-01", "work", "validate"))
    assert _main.main(arguments) == 3
    printed = capsys.readouterr().err
    assert "no larger k was tried" in printed
    assert "--find-k" not in printed
    rule["failed"] = ["membership-inference"]
    remove(Path(tmp_path, "s", "private", "films", "2026-01-01", "work", "validate"))
    assert _main.main(arguments[:-1]) == 3
    assert "raise privacy.k" in " ".join(capsys.readouterr().err.split())
    assert "tighter for larger k" in of_settings(
        load(file), ["membership-inference"], datetime.date(2026, 1, 1)
    )


def test_trials_on_sparse_data_run_the_whole_gate(tmp_path):
    """Few ratings per person, as the real gate judges them; which k passes is the gate's affair."""
    sparse = settings() | {
        "source": {"format": "synthetic", "synthetic": {"users": 400, "items": 300, "ratings_per_user": 4.0}}
    }
    found = larger_k.find_k(parse(sparse), SNAPSHOT, Store(tmp_path), lambda *_: None)
    ks = [one["k"] for one in found["tried"]]
    assert ks == larger_k.possible_ks(parse(sparse), 400)[: len(ks)]
    assert all(set(one["failed"]) <= set(registered()) for one in found["tried"])
    assert [one["k"] for one in found["tried"] if not one["failed"]] == (
        [] if found["passes"] is None else [found["passes"]]
    )


def test_the_k_that_a_refusal_names_passes(tmp_path, monkeypatch):
    """Sparse data with more items than people: homogeneity refuses small groups and says which k is enough."""

    def judge(release, private, source, snapshot, gate, engine, *_):
        check = registered()["homogeneity"]
        with contextlib.closing(released_case(release, private, source, snapshot, engine, ())) as case:
            return Verdict([run_check(check, case, check.threshold)])

    monkeypatch.setattr("tasks.steps.validate.judge", judge)
    world = {"users": 1200, "items": 3000, "ratings_per_user": 6.0, "seed": 1}
    sparse = {"source": {"format": "synthetic", "synthetic": world}}
    with pytest.raises(Refused, match="homogeneity") as refused:
        pipeline.run(parse(settings(k=3) | sparse), SNAPSHOT, Store(tmp_path))
    [named] = re.findall(r"k = (\d+) is enough for this check", refused.value.what)
    made = pipeline.run(parse(settings(k=int(named)) | sparse), SNAPSHOT, Store(tmp_path))
    assert made["counts"]["published"]


def test_ks_that_people_suffice_for():
    config = parse(settings())
    assert larger_k.possible_ks(config, 90) == [10, 20]
    assert larger_k.possible_ks(config, 1000) == [10, 20, 50, 100, 200]
    assert larger_k.possible_ks(parse(settings(k=20)), 1000) == [50, 100, 200]
    assert (
        larger_k.in_words({"passes": None, "tried": [], "other": None})
        == "no larger k was tried: there are too few people"
    )
