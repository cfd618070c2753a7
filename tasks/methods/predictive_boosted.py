"""Predictive Anonymization, boosted: predict rated items and those of which a model is sure ([Chang2009])."""

from tasks.methods import _predictive as shared
from tasks.methods._base import RAISE_K, Method, Words

METHOD = Method(
    name="predictive-boosted",
    summary="groups of similar people; predicted ratings of rated items and, up to privacy.density, of others",
    unit="group",
    steps=shared.steps,
    grouping=shared.GROUPING,
    profiler=shared.PROFILER,
    words=Words(
        publishes=f"{shared.SHARED_PROFILE}the items that a member of the group rated and further ones of which a "
        "model is sure, with ratings predicted by that model, averaged over the group."
    ),
    remedy=RAISE_K,
    tables=shared.TABLES,
    plot_marker=shared.PLOT_MARKER,
    plot_label=shared.PLOT_LABEL,
)
