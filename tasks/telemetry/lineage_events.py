"""Build and send OpenLineage events: a release's run begun, judged, published, refused or failed.

The verdict is a run of its own below the release's: its input is the candidate, with one assertion for each check that
applies. An event names the release, the snapshot, the source's place without password and the checks; it never quotes
an exception.
"""

import datetime
import logging
import os
import uuid
from pathlib import Path
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    data_quality_assertions_dataset,
    error_message_run,
    nominal_time_run,
    parent_run,
)

from tasks import formats
from tasks.config import ReleaseConfig
from tasks.store import Store, read_json

log = logging.getLogger("murmur")

NAMESPACE = "murmuration"
AIRFLOW_RUN = "AIRFLOW_CTX_DAG_RUN_ID"  # in the environment of every Airflow task
PRODUCER = "urn:murmuration"
RUNS = uuid.UUID("9d0f7a52-0c9e-5b8e-9f3c-2f1d6d1b7f10")  # the name space of our run ids, drawn once
SEVERITY = {"gate": "error", "advisory": "warn"}


class ReleaseRun:
    """Send the events of one run; the tasks of an Airflow run share its id."""

    def __init__(self, config: ReleaseConfig, snapshot: datetime.date, store: Store) -> None:
        self._config, self._snapshot, self._store = config, snapshot, store
        self._name = config.release.name
        self._job = f"release_{self._name}"
        shared = os.environ.get(AIRFLOW_RUN)
        self._id = str(uuid.uuid5(RUNS, f"{self._name}/{shared}") if shared else uuid.uuid4())

    def send(self, kind: str, why: str = "") -> None:
        """Send that the run has begun, is complete, or failed and `why`."""
        facets: dict[str, Any] = {}
        if why:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(why, programmingLanguage="python")
        outputs = [OutputDataset(NAMESPACE, self._name)] if kind == "COMPLETE" else []
        self._emit(RunState[kind], self._job, self._id, facets, [self._source()], outputs)

    def send_verdict(self) -> None:
        """Send the verdict as assertions about the candidate; nothing where the gate has not reached one."""
        path = self._store.private(self._name, self._snapshot) / "verdict.json"
        if not path.exists():
            return
        verdict = read_json(path)
        assertions = [
            data_quality_assertions_dataset.Assertion(
                assertion=line["name"], success=line["passed"], severity=SEVERITY[line["severity"]]
            )
            for line in verdict["checks"]
            if line["applicable"]
        ]
        quality = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions)
        candidate = InputDataset(NAMESPACE, self._name, inputFacets={"dataQualityAssertions": quality})
        above = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=self._id), job=parent_run.Job(namespace=NAMESPACE, name=self._job)
        )
        state = RunState.COMPLETE if verdict["passed"] else RunState.FAIL
        own_id = str(uuid.uuid5(RUNS, f"{self._id}/verdict"))
        self._emit(state, f"{self._job}.verdict", own_id, {"parent": above}, [candidate], [])

    def _source(self) -> InputDataset:
        source = self._config.source
        if source.sql is not None:
            return InputDataset(source.sql.url, source.format)  # the configuration refuses a password in it
        place = formats.expand_path(source, self._snapshot)
        if place and "://" not in place:
            return InputDataset("file", str(Path(place).absolute()))
        return InputDataset(source.format, place or source.format)

    def _emit(
        self,
        state: RunState,
        job: str,
        run_id: str,
        facets: dict[str, Any],
        inputs: list[InputDataset],
        outputs: list[OutputDataset],
    ) -> None:
        """Send an event. Monitoring must not stop a release: a failure is logged by its kind alone."""
        day = datetime.datetime.combine(self._snapshot, datetime.time(), datetime.UTC).isoformat()
        try:
            OpenLineageClient().emit(
                RunEvent(
                    eventTime=datetime.datetime.now(datetime.UTC).isoformat(),
                    eventType=state,
                    run=Run(run_id, {"nominalTime": nominal_time_run.NominalTimeRunFacet(day), **facets}),
                    job=Job(NAMESPACE, job),
                    inputs=inputs,
                    outputs=outputs,
                    producer=PRODUCER,
                )
            )
        except Exception as problem:
            log.warning("an OpenLineage event could not be sent: %s", type(problem).__name__)
