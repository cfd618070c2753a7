"""Hold what a method declares about itself: one `METHOD = Method(…)` in each file of tasks/methods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.config import ReleaseConfig

Graph = dict[str, tuple[str, ...]]  # step → the steps it reads from, in order

# Settings that a method refuses unless it declares otherwise, with the reason.
NEEDS_PREDICTIONS = {
    "padding.neutral": "publishes or groups by what people rated, which reveals the attribute in spite of neutral "
    "predictions; use a method that publishes predictions alone, such as 'predictive-padded', or remove neutral",
    "privacy.support": "publishes item lists, means of real ratings or records of single people, from which the counts "
    "that support withholds can be inferred; use 'predictive-padded', or remove support",
}
# What helps when the gate refuses a release; a method may have a better answer.
RAISE_K = (
    "raise privacy.k or privacy.min_contributors, keep the defaults of [padding] and privacy.clip_groups, or choose "
    "another method"
)
PUBLISH_GROUPS = "choose a method that publishes groups, such as predictive-padded"


@dataclass(frozen=True, kw_only=True)
class Words:
    """Describe a method to people who read a release (report.html and README.md).

    `publishes` is one or two sentences for every method. The others describe records of single persons: what a record
    holds, what protects its owner, what a user of the records must know, why several releases together are a risk, and
    whether every item of a record was certainly rated by its owner. None: the report's own words.
    """

    publishes: str
    record_holds: str | None = None
    protection: str | None = None
    caution: str | None = None
    together: str | None = None
    only_rated_items: bool | None = None

    def given(self) -> dict[str, Any]:
        """Return what this method says in its own words."""
        return {name: value for name, value in vars(self).items() if value is not None}


def _accept(config: ReleaseConfig) -> None:
    """Refuse nothing."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """Declare a method of release: everything that other code asks about it.

    name: the file's stem with '-' for '_', as in privacy.method.
    summary: one line for the starter file that `murmur init` writes.
    unit: what a published record stands for, a group of at least k people, one person, or nobody (a synthetic row).
    steps: the graph of the steps that make the profiles, from "ingest" on, for a configuration.
    grouping, profiler: files of tasks/groupings and tasks/profilers; None: the graph has neither `clustering` nor
        `homogenization`.
    words: what report.html and README.md say about the method.
    remedy: what the owner can do when the gate refuses the release.
    tables: the tables of the release file that it reads beside [privacy]; `murmur compare` accepts their keys.
    incompatible: settings ("table" or "table.key") that are refused with this method, each with the reason;
        `murmur compare` leaves them out of the method's entries.
    removal_step: the step that removes items from the ratings before all other steps; the shadow run that measures
        utility removes the same items.
    check: raises ValueError for a configuration that the method cannot work with.
    reach: says for (config, users, items) how far the method reaches, or raises UsageError beyond that
        (`murmur check`).
    every_item: whether each group has a predicted value of every item of its cohort, rated by a member or not.
    plot_marker, plot_label: the method's Matplotlib marker and its name in the legend of `murmur compare`; methods
        with the same label share an entry.
    """

    name: str
    summary: str
    unit: Literal["group", "person", "synthetic"]
    steps: Callable[[ReleaseConfig], Graph]
    words: Words
    remedy: str
    grouping: str | None = None
    profiler: str | None = None
    tables: tuple[str, ...] = ()
    incompatible: Mapping[str, str] = field(default_factory=lambda: NEEDS_PREDICTIONS)
    removal_step: str | None = None
    check: Callable[[ReleaseConfig], None] = _accept
    reach: Callable[[ReleaseConfig, int, int], str] | None = None
    every_item: bool = False
    plot_marker: str = "D"
    plot_label: str | None = None

    @property
    def publishes_persons(self) -> bool:
        """Return whether every record is one person's."""
        return self.unit == "person"

    @property
    def publishes_groups(self) -> bool:
        """Return whether every record is shared by a group of people; only then may people be followed in a series."""
        return self.unit == "group"


def single_person_steps(config: ReleaseConfig) -> Graph:
    """Return the steps of a method that groups nobody."""
    return {
        "ingest": (),
        "clustering": ("ingest",),
        "homogenization": ("ingest", "clustering"),
    }
