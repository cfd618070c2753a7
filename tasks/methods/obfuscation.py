"""Obfuscation: every person's own record, with made-up ratings that hide who they are (paper 004)."""

from tasks.config import ReleaseConfig

NAMES = ("obfuscation",)
GROUPING, PROFILER = "single", "verbatim"
SINGLE = True


def steps(config: ReleaseConfig) -> dict[str, tuple[str, ...]]:
    """The graph of its steps; what they read is what the step `obfuscation` made of the ratings."""
    return {
        "ingest": (),
        "clustering": ("ingest",),
        "homogenization": ("ingest", "clustering"),
    }
