"""Predictive Anonymization, padded: publish a predicted rating of every item for each group ([Chang2009])."""

from tasks.config import ReleaseConfig
from tasks.methods import _predictive as shared
from tasks.methods._base import RAISE_K, Method, Words


def _check(config: ReleaseConfig) -> None:
    """Refuse counts of raters beside profiles that contain the ratings themselves."""
    if config.privacy.support and config.padding.keep_observed:
        raise ValueError(
            "privacy.support: with padding.keep_observed the profiles contain real ratings, from which the counts that "
            "support withholds can be inferred; remove one of the two"
        )


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
    check=_check,
    every_item=True,
    plot_marker=shared.PLOT_MARKER,
    plot_label=shared.PLOT_LABEL,
)
