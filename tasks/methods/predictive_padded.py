"""Predictive Anonymization, padded: publish a predicted rating of every item for each group ([Chang2009])."""

from tasks.methods import _predictive as shared
from tasks.methods._base import RAISE_K, Method, Words

METHOD = Method(
    name="predictive-padded",
    summary="groups of similar people; a predicted rating of every item",
    unit="group",
    steps=shared.steps,
    grouping=shared.GROUPING,
    profiler=shared.PROFILER,
    words=Words(
        publishes=f"{shared.SHARED_PROFILE}a rating of every item, predicted by a model, averaged over the group."
    ),
    remedy=RAISE_K,
    tables=shared.TABLES,
    incompatible={},  # predictions alone are published and group people, so they can be made neutral
    every_item=True,
    plot_marker=shared.PLOT_MARKER,
    plot_label=shared.PLOT_LABEL,
)
