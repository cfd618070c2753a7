"""Microaggregation (paper 003, section 3): fill, standardise, group the k nearest, publish each group's centroid."""

from tasks.config import ReleaseConfig

NAMES = ("microaggregation",)
GROUPING, PROFILER = "mdav", "microaggregation"
SINGLE = False


def steps(config: ReleaseConfig) -> dict[str, tuple[str, ...]]:
    """The graph of its steps: a model where it fills or bins, bins where groups are formed inside them. No top-up:
    every group holds every item."""
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
