"""Test what every method of release must keep (tasks/methods)."""

from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from checks.evidence.method_rules import rules_of
from checks.report import MethodWords
from tasks import methods, pipeline
from tasks.config import ReleaseConfig, parse
from tasks.config.gate import check_names
from tasks.errors import Refused
from tasks.store import Store, files_below, read_json
from tests.conftest import SNAPSHOT

SECRET = b"m" * 32
K = 5


class MethodContract:
    """Require that a method draws a graph, makes the same bytes twice, and makes what the gate can judge.

    Whether the gate publishes a release of the sample is the method's own matter (`published`); that every check
    answers without an error is not.
    """

    name: ClassVar[str]
    tables: ClassVar[dict[str, Any]] = {}  # further tables of the release file
    published: ClassVar[bool] = True

    people: ClassVar[int] = 200

    def config(self) -> ReleaseConfig:
        """Return a small release by this method."""
        synthetic = {"users": self.people, "items": 60, "ratings_per_user": 20.0}
        return parse(
            {
                "release": {"name": "contract"},
                "source": {"format": "synthetic", "synthetic": synthetic},
                **self.tables,
                "privacy": {"method": self.name, "k": K, **self.tables.get("privacy", {})},
            }
        )

    @pytest.fixture(scope="class")
    def _secret(self, tmp_path_factory) -> Iterator[None]:
        path = tmp_path_factory.mktemp("secret") / "key"
        path.write_bytes(SECRET)
        path.chmod(0o600)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MURMUR_SECRET_FILE", str(path))
            yield

    @pytest.fixture(scope="class")
    def judged(self, tmp_path_factory, _secret) -> tuple[Store, bool]:
        """Make the release up to the gate's verdict: its store, and whether the gate passed it."""
        store = Store(tmp_path_factory.mktemp(self.name))
        try:
            pipeline.run_step("validate", self.config(), SNAPSHOT, store)
        except Refused:
            return store, False
        return store, True

    def work(self, store: Store) -> Path:
        """Return the directory of the steps' results."""
        return store.private("contract", SNAPSHOT) / "work"

    def last_step(self) -> str:
        """Return the step that makes the profiles."""
        return next(reversed(methods.data_steps(self.config())))

    def test_registered(self):
        """The method is found by its name."""
        assert self.name in methods.registered()

    def test_declaration(self):
        """What the method declares exists: words of the report, config tables, plug-ins; the judge allows its unit."""
        declared = methods.registered()[self.name]
        assert declared.name == self.name
        assert set(declared.words.given()) <= {field.name for field in fields(MethodWords)} - {"changed"}
        assert set(declared.tables) <= set(ReleaseConfig.model_fields)
        plugins = {
            "clustering": ("groupings", declared.grouping),
            "homogenization": ("profilers", declared.profiler),
        }
        for step, (kind, stem) in plugins.items():
            assert (stem is not None) == (step in methods.data_steps(self.config()))
            assert stem is None or callable(import_module(f"tasks.{kind}.{stem}").params)
        assert rules_of(self.name).unit == declared.unit

    def test_graph(self):
        """Every step comes after the steps it reads from; the first reads the source, the last publishes."""
        graph = methods.graph(self.config())
        seen: set[str] = set()
        for step, needed in graph.items():
            assert set(needed) <= seen, f"{step} reads from a step that comes later"
            seen.add(step)
        assert next(iter(graph)) == "ingest"
        assert list(graph)[-2:] == ["validate", "publish"]

    @pytest.mark.slow
    def test_verdict(self, judged):
        """Every check judges the release, and none ends with an error."""
        store, passed = judged
        verdict = read_json(store.private("contract", SNAPSHOT) / "verdict.json")
        assert sorted(check["name"] for check in verdict["checks"]) == sorted(check_names())
        assert [check["name"] for check in verdict["checks"] if "crashed" in check["detail"]] == []
        assert {check["name"] for check in verdict["checks"] if check["void"]} <= set(verdict["failed"])
        assert not {"integrity", "k-anonymity", "pseudonyms"} & set(verdict["failed"])
        assert (passed, verdict["passed"]) == (self.published, self.published), verdict["failed"]

    @pytest.mark.slow
    def test_candidate(self, judged):
        """Every member has a profile, groups have the promised size, and no source id is in the public files; synthetic
        rows have no members."""
        store, _ = judged
        candidate = self.work(store) / "validate" / "candidate"
        members = pq.read_table(candidate / "members.parquet").to_pandas()
        groups = pq.read_table(candidate / "groups.parquet", columns=["group", "size"]).to_pandas()
        if methods.method(self.config()).unit == "synthetic":
            assert len(members) == 0
            assert set(groups["size"]) == {1}
        else:
            sizes = members["group"].value_counts()
            assert sizes.sort_index().tolist() == groups.set_index("group")["size"].sort_index().tolist()
            assert sizes.min() >= methods.least_size(self.config())
        owner = pq.read_table(candidate.with_name("private") / "membership.parquet").to_pandas()
        assert not set(owner["user"]) & set(members["user"])
        manifest = read_json(candidate / "manifest.json")
        assert manifest["method"] == self.name
        assert manifest["counts"]["users"] == len(members)

    @pytest.mark.slow
    @pytest.mark.usefixtures("_secret")
    def test_deterministic(self, judged, tmp_path):
        """The same source, settings and secret give the same bytes."""
        store, _ = judged
        again = Store(tmp_path)
        pipeline.run_step(self.last_step(), self.config(), SNAPSHOT, again)
        one, other = (files_below(self.work(place) / self.last_step()) for place in (store, again))
        assert one == other
        assert "groups.parquet" in one
