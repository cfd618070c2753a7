"""The shadow run of a release whose ratings a step changes: what it begins with, and what it is compared with.

Evaluate holds ratings out and runs the method on the rest (tasks/steps/evaluate.py). What a release leaves out its
shadow leaves out, too, whatever it would choose by itself: the judge compares the two item by item. What is lost by a
change of the ratings is a loss: it is measured against the model of the ratings as they were.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks import methods
from tasks.pipeline import Job
from tasks.progress import StepProgress
from tasks.ratings import Ratings, places
from tasks.steps import padding
from tasks.store import digest_of, files_below
from tasks.suppressed import write_without


@dataclass(frozen=True)
class Listed:
    """Where the people and the items of the shadow's ratings are in its release; −1: nowhere, they were left out."""

    record: np.ndarray
    item: np.ndarray

    @classmethod
    def among(cls, ratings: Ratings, changed: Ratings, labels: np.ndarray) -> "Listed":
        """Find them by their ids; `labels` are the records of the people in the changed ratings."""
        people = places(ratings.user_ids(), changed.user_ids())
        record = np.where(people >= 0, labels[people], -1)
        return cls(record, places(_items(ratings), _items(changed)))

    @property
    def columns(self) -> np.ndarray | None:
        """The items that are published, among all; None: every one."""
        return np.flatnonzero(self.item >= 0) if (self.item < 0).any() else None


def begins_with(job: Job, ingest: Path) -> dict[str, dict]:
    """What the shadow run need not make: its ratings, and, where items were left out of the release, these without."""
    given = [ingest]
    if "suppression" in job.inputs:
        there = places(_items(Ratings(ingest)), _items(Ratings(job.inputs["suppression"]))) >= 0
        given.append(ingest.with_name("suppression"))
        given[-1].mkdir()
        write_without(Ratings(ingest), there, given[-1])
    return {
        place.name: {"path": str(place), "digest": digest_of(files_below(place)), "counts": {}}
        for place in given
    }


def original_model(job: Job, ingest: Path, fitted: Path) -> Path:
    """The model of the ratings before a step changed them, and telling all it can: the run's own where it is one, else
    fitted here, as it would be in a release of these ratings."""
    if methods.inputs("padding", job.config) == ("ingest",) and not job.config.padding.neutral:
        return fitted
    place = ingest.with_name("original")
    place.mkdir()
    chosen = padding.params(job.config).model_copy(update={"neutral": ()})
    silent = StepProgress("original", lambda *_: None)
    inside = replace(
        job, name="padding", params=chosen, inputs={"ingest": ingest}, out=place, progress=silent
    )
    padding.run(inside)
    return place


def _items(ratings: Ratings) -> pa.Array:
    return pa.array(ratings.item_ids(), pa.string())
