"""Randomized perturbation: every person's own record, disguised with noise (paper 001, section 3; paper 003: GNA)."""

from tasks.config import ReleaseConfig

NAMES = ("perturbation",)
GROUPING, PROFILER = "single", "perturbation"
SINGLE = True


def steps(config: ReleaseConfig) -> dict[str, tuple[str, ...]]:
    """The graph of its steps."""
    return {
        "ingest": (),
        "clustering": ("ingest",),
        "homogenization": ("ingest", "clustering"),
    }
