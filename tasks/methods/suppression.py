"""Suppression: every person's own record, without the items that few people rated (paper 002, section 5)."""

from tasks.config import ReleaseConfig

NAMES = ("suppression",)
GROUPING, PROFILER = "single", "verbatim"
SINGLE = True


def steps(config: ReleaseConfig) -> dict[str, tuple[str, ...]]:
    """The graph of its steps; what they read is what the step `suppression` left of the ratings."""
    return {
        "ingest": (),
        "clustering": ("ingest",),
        "homogenization": ("ingest", "clustering"),
    }
