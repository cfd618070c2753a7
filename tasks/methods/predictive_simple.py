"""Predictive Anonymization, simple: publish only items that a member of the group rated ([Chang2009])."""

from tasks.methods import _predictive as shared
from tasks.methods._base import RAISE_K, Method, Words

METHOD = Method(
    name="predictive-simple",
    summary="groups of similar people; only items that a member of the group rated",
    unit="group",
    steps=shared.steps,
    grouping=shared.GROUPING,
    profiler=shared.PROFILER,
    words=Words(
        publishes=f"{shared.SHARED_PROFILE}the items that a member of the group rated, with one rating for all members."
    ),
    remedy=RAISE_K,
    tables=shared.TABLES,
    plot_marker=shared.PLOT_MARKER,
    plot_label=shared.PLOT_LABEL,
)
