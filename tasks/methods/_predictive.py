"""Hold what the three methods of Predictive Anonymization share ([Chang2009], Algorithm 1).

Pad the ratings with predictions, group similar users, publish one profile for each group.
"""

from tasks.config import ReleaseConfig
from tasks.methods._base import Graph

GROUPING, PROFILER = "bounded_tmeans", "predictive"
TABLES = ("padding", "clustering", "obfuscation")
PLOT_MARKER, PLOT_LABEL = "o", "predictive"
SHARED_PROFILE = (
    "Every person belongs to a group of similar people. All members of a group are published with the "
    "same profile: "
)


def steps(config: ReleaseConfig) -> Graph:
    """Return the graph of the steps."""
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
