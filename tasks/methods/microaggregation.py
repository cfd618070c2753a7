"""Microaggregation: fill, standardise, group the k nearest records, publish their mean ([Casino2015], section 3)."""

from tasks.config import ReleaseConfig
from tasks.methods._base import RAISE_K, Graph, Method, Words


def _steps(config: ReleaseConfig) -> Graph:
    """Return the graph of the steps: with a model where it fills or bins, with bins where groups are formed inside
    them. There is no top-up: every group holds every item."""
    chosen = config.microaggregation
    needs_model = chosen.imputation == "model" or chosen.within_bins
    model = ("padding",) if needs_model else ()
    binned = {
        "sampling": ("ingest",),
        "centers": ("ingest", "padding", "sampling"),
        "binning": ("ingest", "padding", "centers"),
    }
    return {
        "ingest": (),
        **({"padding": ("ingest",)} if needs_model else {}),
        **(binned if chosen.within_bins else {}),
        "clustering": ("ingest", *model, *(("binning",) if chosen.within_bins else ())),
        "homogenization": ("ingest", *model, "clustering"),
    }


def _check(config: ReleaseConfig) -> None:
    """Refuse settings with which no real rating would enter any published value."""
    privacy, imputation = config.privacy, config.microaggregation.imputation
    if imputation != "model" and privacy.min_contributors > privacy.k:
        raise ValueError(
            f"privacy.min_contributors {privacy.min_contributors} exceeds privacy.k {privacy.k}: with "
            f"microaggregation.imputation '{imputation}' groups of {privacy.k} would publish imputed values "
            "only; raise k, lower min_contributors or use imputation 'model'"
        )


def _reach(config: ReleaseConfig, users: int, items: int) -> str:
    """Refuse more people and items than MDAV can group at once; the size of bins is not known before the run."""
    if config.microaggregation.within_bins:
        return "decided when the bins are known: each bin is grouped by itself"
    from tasks.groupings import mdav

    mdav.reach(users, items, mdav.params(config))
    return f"the {users:,} users × {items:,} items read here can be grouped at once"


METHOD = Method(
    name="microaggregation",
    summary="groups of the k nearest records, published as their mean",
    unit="group",
    steps=_steps,
    grouping="mdav",
    profiler="microaggregation",
    words=Words(
        publishes="Every person belongs to a group of similar people. All members of a group are published with the "
        "same profile: the mean of their records, in which missing ratings were filled in."
    ),
    remedy=RAISE_K,
    tables=("microaggregation", "padding", "clustering", "obfuscation"),
    check=_check,
    reach=_reach,
    plot_marker="s",
)
