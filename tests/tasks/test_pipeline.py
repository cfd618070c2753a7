"""Test a release end to end, without Airflow: published, refused, immutable, the same bytes with any workers."""

import errno
import json
import shutil
import stat
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from checks.evidence import source_matrix as matrix
from tasks import methods, pipeline
from tasks.data import profiles
from tasks.engine import engine
from tasks.errors import DiskFull, Refused, UsageError
from tasks.store import Store, digest, read_json, write_json
from tests.conftest import SNAPSHOT

KEY = b"k" * 32


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return path


@pytest.fixture(autouse=True)
def _one_secret(secret, monkeypatch):
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))


def published_bytes(directory: Path) -> dict[str, bytes]:
    """Everything public, without what may differ between two makings of the same release."""
    found = {file.name: file.read_bytes() for file in directory.iterdir()}
    manifest = json.loads(found.pop("manifest.json"))
    for key in ("created_at", "code_version"):
        manifest.pop(key)
    return {**found, "manifest.json": json.dumps(manifest, sort_keys=True).encode()}


REPORTED: list[tuple[str, int, int]] = []  # progress of all releases made here


@pytest.fixture(scope="module")
def made(tmp_path_factory, secret):
    """One published release of each method: (method) → (config, store)."""
    from tasks.config import parse

    known: dict = {}
    titles = tmp_path_factory.mktemp("titles") / "items.csv"
    rows = [f"i{number},Title {number},Drama|War" for number in range(50)]
    titles.write_text("\n".join(["item,name,kind", *rows]) + "\n")

    def make(method: str):
        if method not in known:
            config = parse(
                {
                    "release": {"name": "films"},
                    "source": {
                        "format": "synthetic",
                        "synthetic": {"users": 400, "items": 90, "ratings_per_user": 30.0},
                        "catalogue": {"path": str(titles), "title": "name", "genres": "kind"},
                    },
                    "privacy": {"method": method, "k": 5},
                }
            )
            store = Store(tmp_path_factory.mktemp(method))
            pipeline.run(config, SNAPSHOT, store, progress=lambda *step: REPORTED.append(step))
            known[method] = config, store
        return known[method]

    return make


METHODS = ("predictive-padded", "predictive-simple", "predictive-boosted")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_release_keeps_its_promises(made, method):
    _, store = made(method)
    published, private = store.published("films", SNAPSHOT), store.private("films", SNAPSHOT)
    manifest = read_json(published / "manifest.json")
    assert sorted(f.name for f in published.iterdir()) == sorted(
        [
            "manifest.json",
            "groups.parquet",
            "members.parquet",
            "items.parquet",
            "checks.json",
            "report.html",
            "README.md",
            "croissant.json",
        ]
    )
    assert manifest["series"] == "checked"
    assert all(check["passed"] or check["severity"] == "advisory" for check in manifest["checks"])
    for row in pq.read_table(published / "items.parquet").to_pylist():
        number = int(row["item"].removeprefix("i"))
        known, title = number < 50, f"Title {number}"
        assert (row["title"], row["genres"]) == ((title, "Drama|War") if known else (None, None))
    (listed,) = [
        one for one in read_json(published / "croissant.json")["recordSet"] if one["name"] == "items"
    ]
    assert [field["name"] for field in listed["field"]] == ["item", "title", "genres"]
    assert (
        "| `items.parquet` | `item`, `title`, `genres`, in position order |"
        in (published / "README.md").read_text()
    )
    members = pq.read_table(published / "members.parquet").to_pandas()
    groups = pq.read_table(published / "groups.parquet").to_pandas()
    assert members["group"].value_counts().min() >= 5
    assert members["user"].is_monotonic_increasing
    assert len(members) == manifest["counts"]["users"] == len(pq.read_table(private / "membership.parquet"))
    items = groups["items"].dropna()
    if method == "predictive-padded":
        assert len(items) == 0
        assert {len(r) for r in groups["ratings"]} == {manifest["counts"]["items"]}
    else:
        held = np.bincount(np.concatenate(items.to_list()), minlength=manifest["counts"]["items"])
        assert held.min() >= 2
        assert all(np.all(np.diff(i) > 0) for i in items)


def test_every_step_reports_progress(made):
    from checks.registry import registered

    config, _ = made("predictive-simple")
    last = {step: (done, total) for step, done, total in REPORTED}
    steps = methods.graph(config)
    assert set(last) == {
        "workers",
        *steps,
        *(f"shadow {step}" for step in methods.data_steps(config) if step != "ingest"),
    }
    assert all(done == total for done, total in last.values())
    assert last["validate"] == (len(registered()), len(registered()))
    assert all(0 <= done <= total for _, done, total in REPORTED)


def test_boosted_is_between_simple_and_padded(made):
    cells = {
        method: read_json(made(method)[1].published("films", SNAPSHOT) / "manifest.json")["counts"]["ratings"]
        for method in METHODS
    }
    assert cells["predictive-simple"] < cells["predictive-boosted"] < cells["predictive-padded"]


def test_source_ids_are_only_in_private(made):
    _, store = made("predictive-padded")
    ids = pq.read_table(store.private("films", SNAPSHOT) / "membership.parquet").column("user").to_pylist()
    assert len(ids) == 400 or len(ids) > 300
    for file in store.published("films", SNAPSHOT).iterdir():
        content = file.read_bytes()
        tables = pq.read_table(file).to_pydict() if file.suffix == ".parquet" else {}
        values = {str(v) for name, column in tables.items() if name == "user" for v in column}
        assert not values & set(ids)
        if file.suffix in (".json", ".html", ".md"):
            assert not any(f'"{i}"' in content.decode() for i in ids)


def test_modes_of_private_and_public_files(made):
    _, store = made("predictive-padded")
    for path in (store.root / "private").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    for path in store.published("films", SNAPSHOT).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.slow
@pytest.mark.parametrize("method", ["predictive-padded", "predictive-simple"])
@pytest.mark.usefixtures("shared_workers")
def test_two_workers_make_the_same_bytes(made, method, tmp_path, monkeypatch):
    config, store = made(method)
    # The engine's tests compare one worker with two for every kind of work; here once for a whole release.
    for workers in ("1", "2") if method == "predictive-padded" else ("2",):
        monkeypatch.setenv("MURMUR_WORKERS", workers)
        again = Store(tmp_path / workers)
        pipeline.run(config, SNAPSHOT, again)
        assert published_bytes(again.published("films", SNAPSHOT)) == published_bytes(
            store.published("films", SNAPSHOT)
        )


def test_publishing_again_changes_nothing(made):
    config, store = made("predictive-padded")
    published = store.published("films", SNAPSHOT)
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in published.iterdir()}
    pipeline.run(config, SNAPSHOT, store)
    assert {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in published.iterdir()} == before


@pytest.mark.slow
def test_a_published_snapshot_cannot_be_changed(made, config):
    first, store = made("predictive-simple")
    published, private = store.published("films", SNAPSHOT), store.private("films", SNAPSHOT)
    before = published_bytes(published), (private / "membership.parquet").read_bytes()
    other = first.model_copy(update={"clustering": first.clustering.model_copy(update={"seed": 7})})
    with pytest.raises(Refused, match="published already"):
        pipeline.run(other, SNAPSHOT, store)
    assert (published_bytes(published), (private / "membership.parquet").read_bytes()) == before


@pytest.mark.slow
def test_crash_while_publishing_can_be_repeated(made, tmp_path, monkeypatch):
    from tasks.series import publication

    config, _ = made("predictive-padded")
    store = Store(tmp_path)
    real = publication.write_json

    def full(path, value):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publication, "write_json", full)
    with pytest.raises(DiskFull, match="no space left") as error:
        pipeline.run(config, SNAPSHOT, store)
    assert error.value.where == str(store.published("films", SNAPSHOT).parent)
    assert list(store.published("films", SNAPSHOT).parent.iterdir()) == []  # nor what was arriving
    monkeypatch.setattr(publication, "write_json", real)
    pipeline.run(config, SNAPSHOT, store)
    assert (store.published("films", SNAPSHOT) / "manifest.json").exists()
    assert [p.name for p in store.published("films", SNAPSHOT).parent.iterdir()] == [SNAPSHOT.isoformat()]


@pytest.mark.parametrize(
    "problem",
    [OSError(errno.EDQUOT, "Disk quota exceeded"), OSError("80000 requested and 4064 written")],
)
def test_full_disk_in_a_step_leaves_nothing_of_it(made, tmp_path, monkeypatch, problem):
    config, _ = made("predictive-padded")
    store = Store(tmp_path)

    def full(*_):
        raise problem

    monkeypatch.setattr(profiles, "write_dense_blocks", full)
    with pytest.raises(DiskFull, match="no space left") as error:
        pipeline.run(config, SNAPSHOT, store)
    step = store.private("films", SNAPSHOT) / "work" / "homogenization"
    assert (error.value.where, error.value.exit_code, step.exists()) == (str(step), 1, False)
    assert (step.parent / "clustering" / "step.json").exists()


def test_full_disk_while_judging_is_no_verdict(made, tmp_path, monkeypatch):
    config, _ = made("predictive-padded")
    store = Store(tmp_path)

    def full(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(matrix.shutil, "copyfileobj", full)
    with pytest.raises(DiskFull, match="working files cannot be written"):
        pipeline.run(config, SNAPSHOT, store)
    private = store.private("films", SNAPSHOT)
    assert not (private / "verdict.json").exists()
    assert not (private / "work" / "validate").exists()


@pytest.mark.slow
@pytest.mark.parametrize("mended", [False, True], ids=["file alone", "file and manifest"])
def test_candidate_changed_after_the_gate_is_refused(made, tmp_path, mended):
    config, _ = made("predictive-padded")
    store = Store(tmp_path)
    with engine() as here:
        run = pipeline.open_run(config, SNAPSHOT, store, here, lambda *_: None)
        candidate = Path(pipeline.execute("validate", run)["path"]) / "candidate"
        (candidate / "README.md").write_text("something else")
        if mended:
            manifest = read_json(candidate / "manifest.json")
            manifest["files"]["README.md"] = digest(candidate / "README.md")
            write_json(candidate / "manifest.json", manifest)
        with pytest.raises(Refused, match="not what the gate examined"):
            pipeline.execute("publish", run)
    assert not store.published("films", SNAPSHOT).exists()


@pytest.mark.slow
def test_verdict_of_other_code_is_not_reused(made, tmp_path, monkeypatch):
    config, _ = made("predictive-padded")
    with engine() as here:
        pipeline.execute(
            "validate", pipeline.open_run(config, SNAPSHOT, Store(tmp_path), here, lambda *_: None)
        )
        monkeypatch.setattr(pipeline, "code_version", lambda: "another version")
        monkeypatch.setattr("tasks.steps.validate.judge", lambda *_: pytest.fail("judged again"))
        with pytest.raises(pytest.fail.Exception, match="judged again"):
            pipeline.execute(
                "validate", pipeline.open_run(config, SNAPSHOT, Store(tmp_path), here, lambda *_: None)
            )


def test_code_version_covers_every_file_of_both_packages(tmp_path):
    here = Path(pipeline.__file__).parent
    packages = [shutil.copytree(here.with_name(name), tmp_path / name) for name in ("tasks", "checks")]
    before = pipeline.code_digest(*packages)
    assert pipeline.code_version().endswith(before)
    changed = {}
    for package in packages:
        kinds = {
            file.suffix: file
            for file in package.rglob("*")
            if "__pycache__" not in file.parts and file.suffix
        }
        for file in kinds.values():
            content = file.read_bytes()
            file.write_bytes(content + b"\n")
            changed[f"{package.name} {file.suffix}"] = pipeline.code_digest(*packages) != before
            file.write_bytes(content)
    assert changed.keys() >= {"tasks .py", "tasks .toml", "checks .py", "checks .j2", "checks .css"}
    assert all(changed.values()), changed
    assert pipeline.code_digest(*packages) == before


@pytest.mark.slow
def test_refused_rerun_keeps_the_published_verdict(made):
    config, store = made("predictive-boosted")
    verdict = store.private("films", SNAPSHOT) / "verdict.json"
    before = verdict.read_bytes()
    other = config.model_copy(update={"clustering": config.clustering.model_copy(update={"seed": 9})})
    with pytest.raises(Refused):
        pipeline.run(other, SNAPSHOT, store)
    assert verdict.read_bytes() == before


def test_second_run_of_a_snapshot_is_refused(made, tmp_path):
    config, _ = made("predictive-padded")
    store = Store(tmp_path)
    with (
        FileLock(store.private("films", SNAPSHOT) / ".run.lock"),
        pytest.raises(UsageError, match="under way"),
    ):
        pipeline.run(config, SNAPSHOT, store)


@pytest.mark.slow
def test_observed_ratings_in_the_means_are_refused(made, tmp_path):
    config, _ = made("predictive-padded")
    kept = config.model_copy(
        update={
            "padding": config.padding.model_copy(update={"keep_observed": True}),
            "privacy": config.privacy.model_copy(update={"min_contributors": 1}),
        }
    )
    store = Store(tmp_path)
    with pytest.raises(Refused, match="recovery"):
        pipeline.run(kept, SNAPSHOT, store)
    assert not store.published("films", SNAPSHOT).exists()
    verdict = read_json(store.private("films", SNAPSHOT) / "verdict.json")
    assert not verdict["passed"]


def test_unreachable_diversity_is_refused_with_numbers(made, tmp_path):
    config, _ = made("predictive-simple")
    harder = config.model_copy(
        update={"privacy": config.privacy.model_copy(update={"b": 2, "l": 30, "max_growth": 0.01})}
    )
    with pytest.raises(Refused, match=r"\(2,30\)-diversity cannot be reached.*sets of 2 items"):
        pipeline.run(harder, SNAPSHOT, Store(tmp_path))


@pytest.mark.slow
def test_pairs_are_topped_up_where_it_is_cheap(made, tmp_path):
    config, _ = made("predictive-simple")
    pairs = config.model_copy(
        update={"privacy": config.privacy.model_copy(update={"b": 2, "l": 2, "max_growth": 2.0})}
    )
    store = Store(tmp_path)
    pipeline.run(pairs, SNAPSHOT, store)
    checks = read_json(store.published("films", SNAPSHOT) / "checks.json")
    assert next(check for check in checks if check["name"] == "diversity")["passed"]


SETTINGS = [
    {},
    {"obfuscation": {"attribute": "gender"}},
    {"privacy": {"method": "predictive-simple"}},
    {"privacy": {"method": "microaggregation"}},
    {"privacy": {"method": "microaggregation"}, "microaggregation": {"imputation": "central"}},
    {"privacy": {"method": "microaggregation"}, "microaggregation": {"within_bins": True}},
    {"privacy": {"method": "perturbation"}},
    {"privacy": {"method": "obfuscation"}, "obfuscation": {"attribute": "gender"}},
    {"privacy": {"method": "suppression"}},
]


@pytest.mark.parametrize("tables", SETTINGS)
def test_graph_gives_every_step_its_inputs(config, tables):
    for step, needed in methods.graph(config(**tables)).items():
        places = {name: Path(name) for name in needed}
        opened = pipeline._open_inputs(pipeline.step_module(step).Inputs, places)
        assert {place for place in vars(opened).values() if place} == set(places.values())
