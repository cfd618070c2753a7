"""Predictive Anonymization, boosted: publish rated items and the most confident predictions ([Chang2009])."""

from tasks.methods import _predictive as shared
from tasks.methods._base import RAISE_K, Method, Words

METHOD = Method(
    name="predictive-boosted",
    summary="groups of similar people; rated items and, up to privacy.density, confidently predicted ones",
    unit="group",
    steps=shared.steps,
    grouping=shared.GROUPING,
    profiler=shared.PROFILER,
    words=Words(
        publishes=f"{shared.SHARED_PROFILE}the items that a member of the group rated and further ones that a model "
        "predicts with confidence."
    ),
    remedy=RAISE_K,
    tables=shared.TABLES,
    plot_marker=shared.PLOT_MARKER,
    plot_label=shared.PLOT_LABEL,
)
