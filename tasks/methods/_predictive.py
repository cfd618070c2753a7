"""Predictive Anonymization (paper 000, Algorithm 1): pad, group similar users, make each group identical."""

from tasks.config import ReleaseConfig

NAMES = ("predictive-padded", "predictive-simple", "predictive-boosted")
GROUPING, PROFILER = "bounded_tmeans", "predictive"
SINGLE = False


def steps(config: ReleaseConfig) -> dict[str, tuple[str, ...]]:
    """The graph of its steps."""
    return {
        "ingest": (),
        "padding": ("ingest",),
        "sampling": ("ingest",),
        "centers": ("ingest", "padding", "sampling"),
        "binning": ("ingest", "padding", "centers"),
        "clustering": ("ingest", "padding", "binning"),
        "homogenization": ("ingest", "padding", "clustering"),
        "diversity": ("ingest", "padding", "clustering", "homogenization"),
    }
